// The schedules.

import type { ReactNode } from 'react'
import { useSchedules } from '../../api/answers.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Page } from '../../shell/page.js'
import { ScheduleCard } from './schedule-card.js'

const CARDS_MAX = 200

const EXAMPLE = `await holdfast.schedule('nightly-report', {
  cron: '0 3 * * *', zone: 'Europe/Berlin',
  job: 'report', payload: { kind: 'daily' },
})`

export function SchedulesPage(): ReactNode {
  const schedules = useSchedules(5_000)
  const { value } = schedules
  return (
    <Page
      title="Schedules"
      beside={value === null ? null : <span className="page-count">{value.schedules.length}</span>}
    >
      {value === null ? (
        <Pending of={schedules} />
      ) : value.schedules.length === 0 ? (
        <Empty icon="schedules" title="No schedules yet">
          <p>A schedule enqueues a job at the times of a cron expression. Set one in your code:</p>
          <pre className="block">{EXAMPLE}</pre>
        </Empty>
      ) : (
        <div className="schedule-list">
          {value.schedules.slice(0, CARDS_MAX).map((schedule) => (
            <ScheduleCard key={schedule.name} schedule={schedule} />
          ))}
        </div>
      )}
    </Page>
  )
}

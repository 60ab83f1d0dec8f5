// The state of the whole system: warnings, numbers, charts, queues.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useOverview } from '../../api/answers.js'
import { ChartPanel, RangeSwitch } from '../../charts/panel.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Page } from '../../shell/page.js'
import { chooseQueues } from '../queues/choose-queues.js'
import { QueueTable } from '../queues/queue-table.js'
import { OutboxPanel } from './outbox.js'
import { Tiles } from './tiles.js'
import { Warnings } from './warnings.js'

const QUEUES_SHOWN = 12

export function OverviewPage(): ReactNode {
  const overview = useOverview()
  return (
    <Page title="Overview">
      <Warnings />
      {overview.value === null ? (
        <Pending of={overview} rows={8} />
      ) : overview.value.queues.length === 0 ? (
        <>
          <Empty
            icon="queues"
            title="No job has been enqueued yet"
            command={`npx holdfast enqueue hello '{"name":"world"}'`}
          >
            Enqueue one from the shell, from your code, or with a POST to <code>/v1/jobs</code>. It appears here
            immediately.
          </Empty>
          <OutboxPanel />
        </>
      ) : (
        <>
          <Tiles overview={overview.value} />
          <OutboxPanel />
          <div className="beside section-head">
            <h2>Activity</h2>
            <RangeSwitch />
          </div>
          <ChartPanel queue={null} />
          <div className="beside section-head">
            <h2>Queues</h2>
            {overview.value.queues.length > QUEUES_SHOWN ? (
              <Link href="/queues" className="more-link">
                All {overview.value.queues.length} queues
              </Link>
            ) : null}
          </div>
          <QueueTable queues={chooseQueues(overview.value.queues, QUEUES_SHOWN)} isExact={overview.value.exact} />
        </>
      )}
    </Page>
  )
}

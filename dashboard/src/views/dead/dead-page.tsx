// Dead letters, grouped by what went wrong.

import { type ReactNode, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useOverview } from '../../api/answers.js'
import { useResource } from '../../api/resource.js'
import type { BulkAction, DeadGroup } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { deadPath, jobsPath, withQuery } from '../../links.js'
import { countOf, wholeText } from '../../numbers.js'
import { useParameters } from '../../parameters.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Page } from '../../shell/page.js'
import { totalsOf } from '../../totals.js'
import { BulkDialog } from '../bulk/bulk-dialog.js'
import { GroupCard } from './group-card.js'
import { groupFilter } from './group-filter.js'

export function DeadPage(): ReactNode {
  const [, go] = useLocation()
  const queue = useParameters().get('queue')
  const groups = useResource<{ readonly groups: readonly DeadGroup[] }>(withQuery('v1/dlq/groups', { queue }), {
    everyMs: 5_000,
  })
  const { value } = groups
  const overview = useOverview().value
  const total =
    overview === null ? null : totalsOf(overview.queues.filter(({ name }) => queue === null || name === queue)).dead
  const [asked, setAsked] = useState<{ readonly action: BulkAction; readonly group: DeadGroup } | null>(null)
  return (
    <Page title="Dead letters" beside={total === null ? null : <span className="page-count">{wholeText(total)}</span>}>
      <QueueChoice queue={queue} onChoose={(name) => go(deadPath(name))} />
      {value === null ? (
        <Pending of={groups} />
      ) : value.groups.length === 0 ? (
        <Empty icon="check" title="No dead letters">
          A job becomes a dead letter when it has no attempts left, its handler drops it, it exceeds its maximum age, or
          it crashes its worker too often. It stays here until you requeue or discard it.
        </Empty>
      ) : (
        <>
          <p className="page-note">
            {countOf(value.groups.length, 'group')} of dead jobs with the same error, the largest first. Errors that
            differ only in numbers, ids or quoted text are in one group.
          </p>
          <div className="stack-list">
            {value.groups.map((group) => (
              <GroupCard
                key={group.fingerprint}
                group={group}
                queue={queue}
                onAsk={(action) => setAsked({ action, group })}
              />
            ))}
          </div>
        </>
      )}
      {asked === null ? null : (
        <BulkDialog
          action={asked.action}
          target={{ kind: 'matching', filter: groupFilter(asked.group, queue) }}
          onClose={() => setAsked(null)}
        />
      )}
    </Page>
  )
}

const QUEUES_MAX = 200

function QueueChoice({
  queue,
  onChoose,
}: {
  readonly queue: string | null
  readonly onChoose: (name: string) => void
}): ReactNode {
  const queues = useOverview().value?.queues.filter(({ dead, name }) => dead > 0 || name === queue) ?? []
  if (queues.length < 2 && queue === null) return null
  return (
    <div className="flow toolbar">
      <label className="inline-field">
        Queue
        <select value={queue ?? ''} onChange={(event) => onChoose(event.target.value)}>
          <option value="">all</option>
          {queues.slice(0, QUEUES_MAX).map(({ name, dead }) => (
            <option key={name} value={name}>
              {name} ({wholeText(dead)})
            </option>
          ))}
        </select>
      </label>
      <Link href={jobsPath(queue === null ? 'state:dead' : `state:dead queue:${quote(queue)}`)} className="more-link">
        Show as a list
      </Link>
    </div>
  )
}

// Bulk actions in progress and in the past.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useRights } from '../../api/answers.js'
import { useResource } from '../../api/resource.js'
import type { Bulk } from '../../api/types.js'
import { jobsPath } from '../../links.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { BulkFigures, CancelBulk, isGoing } from './bulk-progress.js'

export function BulkPage(): ReactNode {
  const bulks = useResource<{ readonly bulks: readonly Bulk[] }>('v1/bulk', { everyMs: 2_000 })
  const { value } = bulks
  return (
    <Page title="Bulk actions">
      {value === null ? (
        <Pending of={bulks} />
      ) : value.bulks.length === 0 ? (
        <Empty
          icon="bulk"
          title="No bulk actions yet"
          command="npx holdfast dlq requeue --filter 'error:timeout' --dry-run"
        >
          Filter the jobs, select all that match, and requeue, cancel or discard them. Progress and history appear here.
        </Empty>
      ) : (
        <div className="stack-list">
          {value.bulks.slice(0, 100).map((bulk) => (
            <BulkRow key={bulk.id} bulk={bulk} />
          ))}
        </div>
      )}
    </Page>
  )
}

function BulkRow({ bulk }: { readonly bulk: Bulk }): ReactNode {
  const { operate } = useRights()
  return (
    <article className="below surface card" data-row tabIndex={-1}>
      <header className="flow card-head">
        <h2>{bulk.action}</h2>
        <span className="tag" data-bulk={bulk.state}>
          {bulk.state}
        </span>
        <span className="card-note">
          by {bulk.by}, <Time at={bulk.createdAt} />
        </span>
        {operate && isGoing(bulk) ? <CancelBulk bulk={bulk} /> : null}
      </header>
      <Link href={jobsPath(bulk.filter)} className="filter-link" data-open>
        <code>{bulk.filter === '' ? 'every job' : bulk.filter}</code>
      </Link>
      <BulkFigures bulk={bulk} />
    </article>
  )
}

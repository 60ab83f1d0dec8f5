// One group of dead letters: the error, how many, which types, and what to do with all of them.

import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import { useRights } from '../../api/answers.js'
import { useResource } from '../../api/resource.js'
import type { BulkAction, DeadGroup, Job } from '../../api/types.js'
import { jobPath, jobsPath, segment } from '../../links.js'
import { countText } from '../../numbers.js'
import { Button, ExpandButton } from '../../parts/button.js'
import { Waiting } from '../../parts/empty.js'
import { Time } from '../../parts/time.js'
import { ErrorBox } from '../job/error-box.js'
import { groupFilter } from './group-filter.js'

export function GroupCard({
  group,
  queue,
  onAsk,
}: {
  readonly group: DeadGroup
  readonly queue: string | null
  readonly onAsk: (action: BulkAction) => void
}): ReactNode {
  const { operate } = useRights()
  const [isOpen, setOpen] = useState(false)
  const { error, count, exact, types, queues, firstAt, lastAt } = group
  return (
    <article className="below surface card group" data-row tabIndex={-1}>
      <div className="group-count" title="jobs in this group">
        {countText(count, exact)}
      </div>
      <div className="group-body">
        <h2 className="group-error">
          <span className="error-name">{error?.name ?? 'No error'}</span>{' '}
          <span className="group-message">{error?.message ?? 'These jobs died without an error'}</span>
        </h2>
        <p className="flow group-facts">
          {types.map((type) => (
            <span key={type} className="tag">
              {type}
            </span>
          ))}
          <span className="faint">
            in {queues.join(', ')} · last <Time at={lastAt} /> · first <Time at={firstAt} />
          </span>
        </p>
        <ExpandButton isOpen={isOpen} onToggle={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide the newest job' : 'Show the newest job'}
        </ExpandButton>
      </div>
      <div className="flow group-actions">
        {operate ? (
          <>
            <Button icon="again" onClick={() => onAsk('requeue')}>
              Requeue…
            </Button>
            <Button kind="quiet" icon="trash" onClick={() => onAsk('discard')}>
              Discard…
            </Button>
          </>
        ) : null}
        <Link href={jobsPath(groupFilter(group, queue))} className="button button-quiet" data-open>
          Show jobs
        </Link>
      </div>
      {isOpen ? <Newest id={group.newestId} /> : null}
    </article>
  )
}

function Newest({ id }: { readonly id: string }): ReactNode {
  const { value, error } = useResource<Job>(`v1/jobs/${segment(id)}`)
  if (value === null) return error === null ? <Waiting rows={3} /> : <p className="faint">This job no longer exists.</p>
  return (
    <div className="newest">
      {value.error === null ? null : <ErrorBox error={value.error} isOpen />}
      <p>
        <Link href={jobPath(id)}>Open {value.type}</Link>
        <span className="faint">
          {' '}
          attempt {value.attempt} of {value.maxAttempts}, died <Time at={value.finishedAt} />
        </span>
      </p>
    </div>
  )
}

// One job in the list.

import type { MouseEvent, ReactNode } from 'react'
import { Link } from 'wouter'
import type { JobSummary } from '../../api/types.js'
import { jobPath, queuePath } from '../../links.js'
import { Icon } from '../../parts/icons.js'
import { StateBadge } from '../../parts/state.js'
import { Time } from '../../parts/time.js'
import { momentOf } from './row-moment.js'

interface RowProps {
  readonly job: JobSummary
  readonly isGone: boolean
  readonly isSelected: boolean
  readonly isExpanded: boolean
  readonly onExpand: () => void
  readonly onSelect: ((event: MouseEvent<HTMLInputElement>) => void) | null
}

export function JobRow({ job, isGone, isSelected, isExpanded, onExpand, onSelect }: RowProps): ReactNode {
  const moment = momentOf(job)
  return (
    <tr data-row tabIndex={-1} data-gone={isGone || undefined} data-selected={isSelected || undefined}>
      {onSelect === null ? null : (
        <td className="cell-check">
          <input
            type="checkbox"
            data-select
            aria-label={`Select ${job.type} ${job.id}`}
            checked={isSelected}
            onClick={onSelect}
            onChange={() => undefined}
          />
        </td>
      )}
      <td className="cell-state">
        <StateBadge
          state={job.state}
          note={job.state === 'dead' ? job.reason : job.cancelRequested ? 'cancelling' : null}
        />
      </td>
      <td className="cell-job">
        <JobCell job={job} isGone={isGone} />
      </td>
      <td className="wide">
        <Link href={queuePath(job.queue)} className="quiet-link clip">
          {job.queue}
        </Link>
      </td>
      <td className="number wide">
        {job.attempt}
        <span className="faint">/{job.maxAttempts}</span>
      </td>
      <td className="wide cell-when">
        <span className="faint">{moment.word} </span>
        <Time at={moment.at} />
      </td>
      <td className="number">
        <Time at={job.createdAt} />
      </td>
      <td className="cell-expand">
        <button
          type="button"
          className="icon-button"
          data-expand
          aria-expanded={isExpanded}
          aria-label={`${isExpanded ? 'Collapse' : 'Expand'} ${job.type} ${shortId(job.id)}`}
          onClick={onExpand}
        >
          <Icon name={isExpanded ? 'down' : 'right'} />
        </button>
      </td>
    </tr>
  )
}

function JobCell({ job, isGone }: Pick<RowProps, 'job' | 'isGone'>): ReactNode {
  const failure = job.state === 'dead' || job.state === 'retrying' ? job.error : null
  return (
    <>
      <span className="job-line">
        <Link href={jobPath(job.id)} className="name" data-open>
          {job.type}
        </Link>
        <span className="job-id">{shortId(job.id)}</span>
        {job.priority === 0 ? null : <span className="tag">p{job.priority}</span>}
        {job.tags.slice(0, 3).map((tag) => (
          <span key={tag} className="tag">
            {tag}
          </span>
        ))}
        {isGone ? <span className="tag">no longer matches</span> : null}
      </span>
      {failure === null ? null : (
        <span className="cut job-error">
          {failure.name}: {failure.message}
        </span>
      )}
      <span className="phone-line">
        {job.queue} · {job.attempt}/{job.maxAttempts}
      </span>
    </>
  )
}

/** The end of an id: its beginning is the time and the same for neighbours. */
function shortId(id: string): string {
  return id.length > 12 ? `…${id.slice(-8)}` : id
}

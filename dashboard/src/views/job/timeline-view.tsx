// The history of a job as a line with its attempts.

import type { ReactNode } from 'react'
import type { Job } from '../../api/types.js'
import { countOf } from '../../numbers.js'
import { StateShape } from '../../parts/state.js'
import { Time } from '../../parts/time.js'
import { nowMs, useNow } from '../../time/clock.js'
import { durationText } from '../../time/format.js'
import { ErrorBox } from './error-box.js'
import { type TimelineEvent, timelineOf } from './timeline.js'

/** A job that is tried thousands of times shows its first and its latest attempts. */
const HEAD = 3
const TAIL = 20

export function Timeline({ job }: { readonly job: Job }): ReactNode {
  const events = timelineOf(job)
  const hidden = events.length > HEAD + TAIL + 1 ? events.length - HEAD - TAIL : 0
  const shown = hidden === 0 ? events : [...events.slice(0, HEAD), ...events.slice(-TAIL)]
  const lastFailed = events.findLast(({ error }) => error !== null)?.key
  return (
    <ol className="timeline">
      {shown.map((event, index) => (
        <li key={event.key} className="below timeline-event" data-kind={event.kind} data-state={shapeOf(event)}>
          {hidden > 0 && index === HEAD ? <p className="timeline-gap">{countOf(hidden, 'step')} in between</p> : null}
          <EventLine
            event={event}
            before={shown[index - 1] ?? null}
            isStackOpen={event.key === lastFailed && job.state === 'dead'}
          />
        </li>
      ))}
    </ol>
  )
}

function shapeOf({ kind, state }: TimelineEvent): TimelineEvent['state'] {
  return kind === 'failed' ? 'retrying' : state
}

function EventLine({
  event,
  before,
  isStackOpen,
}: {
  readonly event: TimelineEvent
  readonly before: TimelineEvent | null
  readonly isStackOpen: boolean
}): ReactNode {
  useNow()
  const at = Number.isNaN(event.atMs) ? null : new Date(event.atMs).toISOString()
  const ranMs = event.kind === 'running' ? nowMs() - event.atMs : event.ranMs
  const waitedMs =
    before === null ? null : event.atMs - (ranMs !== null && event.kind !== 'running' ? ranMs : 0) - before.atMs
  return (
    <>
      <div className="flow timeline-line">
        <StateShape state={shapeOf(event)} size={16} />
        <span className="timeline-title">{event.title}</span>
        <span className="timeline-at">
          <Time at={at} />
        </span>
      </div>
      <p className="timeline-facts">
        {ranMs === null ? null : (
          <span>
            {event.kind === 'running' ? 'for' : 'ran'} {durationText(ranMs)}
          </span>
        )}
        {waitedMs !== null && waitedMs >= 1_000 && event.kind !== 'waiting' ? (
          <span>after {durationText(waitedMs)}</span>
        ) : null}
        {event.worker === null ? null : <span>on {event.worker}</span>}
      </p>
      {event.error === null ? null : <ErrorBox error={event.error} isOpen={isStackOpen} />}
    </>
  )
}

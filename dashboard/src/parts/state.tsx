// A job's state as a shape, a colour and a word, so that it never depends on colour alone.

import type { ReactNode } from 'react'
import type { JobState } from '../api/types.js'

const SHAPES: Readonly<Record<JobState, ReactNode>> = {
  blocked: <path d="M5.2 5v4M8.8 5v4" />,
  scheduled: <path d="M7 4.2V7l1.8 1.2" />,
  ready: null,
  running: <path className="state-fill" d="M7 3.2a3.8 3.8 0 0 1 0 7.6z" />,
  retrying: <path d="M4.7 7a2.3 2.3 0 1 0 .8-1.75M5.2 3.9v1.5h1.5" />,
  succeeded: <path d="M4.5 7.2l1.8 1.8 3.3-3.8" />,
  dead: <path d="M5 5l4 4M9 5l-4 4" />,
  cancelled: <path d="M4.5 7h5" />,
}

/** The shape alone; give the word beside it. */
export function StateShape({ state, size = 14 }: { readonly state: JobState; readonly size?: number }): ReactNode {
  return (
    <svg
      className="state-shape"
      data-state={state}
      width={size}
      height={size}
      viewBox="0 0 14 14"
      aria-hidden="true"
      focusable="false"
    >
      <circle cx="7" cy="7" r="5.6" />
      {SHAPES[state] ?? null}
    </svg>
  )
}

/** Shape and word. */
export function StateBadge({ state, note }: { readonly state: JobState; readonly note?: string | null }): ReactNode {
  return (
    <span className="state" data-state={state}>
      <StateShape state={state} />
      {state}
      {note ? <span className="state-note">{note}</span> : null}
    </span>
  )
}

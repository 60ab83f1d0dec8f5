// What the writers of jobs with keys, times and parents share. ◄── enqueue-full.ts, replace.ts

import { HoldfastError, show } from '../../core/errors.js'
import type { FlowRefusal } from '../../core/flow/views.js'
import type { NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import type { TickOrigin } from './options-column.js'

/** A job to write, and the tick that made it if one did. Ticks stand before the untimed backlog. */
export interface NewRow {
  readonly job: NewJob
  readonly schedule: TickOrigin | null
}

/** What became of a row: written under its own id, kept away by the holder of its key, which may have taken its payload, or not written. */
export type Outcome =
  | { readonly holder: string; readonly state: JobState | null; readonly isReplaced?: boolean }
  | { readonly unknownParent: string }
  | { readonly refused: FlowRefusal }

/** How jobs are written. */
export interface WriteScope {
  readonly db: Database
  readonly send: Send
  /** True when each statement commits by itself; false inside a transaction. */
  readonly isAlone: boolean
  /** How long a key that somebody else is writing is waited for; null leaves that to the connection, as in a caller's transaction. */
  readonly patience: string | null
}

/** Each further try for a key means that it changed hands within the moment the last one took. */
export const KEY_TRIES_MAX = 10

/** The error for a key that was never the same at two looks. */
export function keyUnsettled(rows: readonly NewRow[]): HoldfastError {
  const { queue, idempotencyKey } = rows.find(({ job }) => job.idempotencyKey !== null)!.job
  return new HoldfastError(
    'store_unavailable',
    `enqueue: idempotency key ${show(idempotencyKey?.key)} in queue "${queue}" changed hands ${KEY_TRIES_MAX} times while it was asked for; nothing was written, the call is safe to repeat`,
    { retryable: true },
  )
}

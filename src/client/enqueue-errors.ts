// What the caller of an enqueue gets when there is no answer of the store.

import { showMs } from '../core/duration.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { NewJob } from '../core/job.js'

/** Whether a job reached the store: `unknown` once it was sent and no answer came. */
export type Written = 'no' | 'unknown'

/** `store_unavailable`: the store could not be reached in time. */
export function gaveUp(jobs: readonly NewJob[], written: Written, timeoutMs: number, cause: unknown): HoldfastError {
  const advice =
    written === 'no'
      ? 'nothing was written, enqueue again'
      : 'it may or may not have been written; enqueueing again with an idempotency key is safe'
  const why = isHoldfastError(cause) ? ` (${cause.message})` : ''
  return new HoldfastError(
    'store_unavailable',
    `the store did not confirm ${name(jobs)} within ${showMs(timeoutMs)}${why}: ${advice}`,
    { retryable: true, details: { ids: ids(jobs), written }, ...(cause == null ? {} : { cause }) },
  )
}

/** `aborted`: the caller fired its signal. */
export function aborted(jobs: readonly NewJob[], written: Written): HoldfastError {
  const result = written === 'no' ? 'nothing was written' : 'it may or may not have been written'
  return new HoldfastError('aborted', `the enqueue of ${name(jobs)} was aborted by its caller: ${result}`, {
    details: { ids: ids(jobs), written },
  })
}

function name(jobs: readonly NewJob[]): string {
  return jobs.length === 1 ? `job ${jobs[0]!.id}` : `${jobs.length} jobs`
}

const IDS_SHOWN_MAX = 100

function ids(jobs: readonly NewJob[]): readonly string[] {
  return jobs.slice(0, IDS_SHOWN_MAX).map((job) => job.id)
}

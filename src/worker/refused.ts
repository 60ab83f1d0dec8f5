// A settlement that the store refuses, because of what is in it and not because of the store. ◄── settler.ts

import { type ErrorCode, isHoldfastError } from '../core/errors.js'
import type { SettledJob } from '../core/job.js'

// These are about the store, not about what it was sent, and pass.
const PASSING: readonly ErrorCode[] = [
  'store_unavailable',
  'store_read_only',
  'store_stale',
  'access_denied',
  'schema_missing',
  'schema_too_new',
  'closed',
]

/** Whether a failure of the store is about what it was sent. */
export function isRefusal(error: unknown): boolean {
  return !isHoldfastError(error) || !(error.retryable || PASSING.includes(error.code))
}

/** The settlement without what the store may have refused: its result and its error. */
export function strip(settled: SettledJob, error: unknown): SettledJob {
  const why = isHoldfastError(error) ? error.message : 'the store could not take it'
  return {
    ...settled,
    result: settled.result === null ? null : JSON.stringify({ unserializable: true, why: 'the store refused it' }),
    error:
      settled.error === null
        ? null
        : {
            name: 'HoldfastError',
            code: 'store_refused',
            message: `the error was lost on its way: ${why}`.slice(0, 500),
          },
  }
}

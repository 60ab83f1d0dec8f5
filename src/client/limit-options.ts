// The bounds of a job as users write them: on a definition, on one enqueue, on a queue, on a schedule.

import { checkWhole } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { ATTEMPTS_MAX, type JobLimits } from '../core/limits.js'
import { type RetryOptions, resolveRetry } from '../core/retry.js'

/** What bounds a job. What is left out is inherited: the enqueue's bounds win over the definition's, those over the
 *  queue's, those over the defaults. */
export interface LimitOptions {
  /** How often the job is tried before it is dead, from 1 to 10,000. Default 25. */
  readonly maxAttempts?: number
  /** How failed attempts are spaced. Default exponential from 1 s to 1 h with full jitter. */
  readonly retry?: RetryOptions
  /** How long one attempt may run; null lets it run for ever. Default '1h'. Shorter frees a stuck slot sooner and cuts
   *  slow work off. */
  readonly timeout?: Duration | null
  /** How old the job may be before it is dead instead of run; null for no bound, which is the default. */
  readonly maxAge?: Duration | null
}

/** The names of these options, for those that take them together with their own. */
export const LIMIT_OPTIONS = ['maxAttempts', 'retry', 'timeout', 'maxAge'] as const

/** Checks the bounds among `options` and gives them in the form stores keep: absent ones stay absent. */
export function resolveLimitOptions(options: LimitOptions): JobLimits {
  const { maxAttempts, retry, timeout, maxAge } = options
  return {
    ...(maxAttempts === undefined ? {} : { maxAttempts: checkWhole('maxAttempts', maxAttempts, 1, ATTEMPTS_MAX) }),
    ...(retry === undefined ? {} : { retry: resolveRetry('retry', retry) }),
    ...(timeout === undefined ? {} : { timeoutMs: boundMs('timeout', timeout) }),
    ...(maxAge === undefined ? {} : { maxAgeMs: boundMs('maxAge', maxAge) }),
  }
}

function boundMs(name: string, value: Duration | null): number | null {
  return value === null ? null : durationMs(value, { name, minMs: 1 })
}

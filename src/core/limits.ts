// What bounds a job: attempts, time, age. A job may carry its own; what it leaves open its definition, then its queue,
// then the defaults fill in.

import { RETRY_DEFAULTS, type RetryPolicy } from './retry.js'

/** Bounds as they are stored: a field that is absent is inherited, null means no bound. */
export interface JobLimits {
  readonly maxAttempts?: number
  readonly retry?: RetryPolicy
  /** How long one attempt may run. */
  readonly timeoutMs?: number | null
  /** How old a job may be, from its enqueue, before it is dead: expired. */
  readonly maxAgeMs?: number | null
}

export const LIMIT_DEFAULTS: Required<JobLimits> = {
  maxAttempts: 25,
  retry: RETRY_DEFAULTS,
  timeoutMs: 3_600_000,
  maxAgeMs: null,
}

/** A job may take its worker down this often before it is dead: crashed. */
export const CRASHES_MAX = 3
export const ATTEMPTS_MAX = 10_000

/** The bounds that hold, the first source that has one winning. */
export function resolveLimits(...sources: readonly (JobLimits | null | undefined)[]): Required<JobLimits> {
  return {
    maxAttempts: first(sources, 'maxAttempts'),
    retry: first(sources, 'retry'),
    timeoutMs: first(sources, 'timeoutMs'),
    maxAgeMs: first(sources, 'maxAgeMs'),
  }
}

function first<K extends keyof JobLimits>(
  sources: readonly (JobLimits | null | undefined)[],
  key: K,
): Required<JobLimits>[K] {
  for (const source of sources) {
    const value = source?.[key]
    if (value !== undefined) return value as Required<JobLimits>[K]
  }
  return LIMIT_DEFAULTS[key]
}

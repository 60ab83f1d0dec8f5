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
  /** After this time of the store its first attempt does not begin any more: it is dead, expired. Only a job's own. */
  readonly startByMs?: number
}

/** Bounds with nothing left open. */
export type ResolvedLimits = Required<Omit<JobLimits, 'startByMs'>> & Pick<JobLimits, 'startByMs'>

export const LIMIT_DEFAULTS: Required<Omit<JobLimits, 'startByMs'>> = {
  maxAttempts: 25,
  retry: RETRY_DEFAULTS,
  timeoutMs: 3_600_000,
  maxAgeMs: null,
}

/** A job may take its worker down this often before it is dead: crashed. */
export const CRASHES_MAX = 3
export const ATTEMPTS_MAX = 10_000

/** The bounds that hold, the first source that has one winning. */
export function resolveLimits(...sources: readonly (JobLimits | null | undefined)[]): ResolvedLimits {
  const startByMs = sources[0]?.startByMs
  const resolved = {
    maxAttempts: first(sources, 'maxAttempts'),
    retry: first(sources, 'retry'),
    timeoutMs: first(sources, 'timeoutMs'),
    maxAgeMs: first(sources, 'maxAgeMs'),
  }
  return startByMs === undefined ? resolved : { ...resolved, startByMs }
}

function first<K extends keyof typeof LIMIT_DEFAULTS>(
  sources: readonly (JobLimits | null | undefined)[],
  key: K,
): (typeof LIMIT_DEFAULTS)[K] {
  for (const source of sources) {
    const value = source?.[key]
    if (value !== undefined) return value as (typeof LIMIT_DEFAULTS)[K]
  }
  return LIMIT_DEFAULTS[key]
}

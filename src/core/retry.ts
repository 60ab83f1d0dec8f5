// How long a failed job waits. Policies are data, stored with the job, so that any process can apply them.

import { checkBoolean, checkChoice, checkKeys } from './check.js'
import { type Duration, durationMs } from './duration.js'
import { invalidOption } from './errors.js'

/** How the wait grows from one attempt to the next; a list gives each wait by itself, its last one repeating. */
export type Backoff = 'exponential' | 'linear' | 'fixed' | readonly Duration[]

/** How failed attempts are spaced. */
export interface RetryOptions {
  /** Default 'exponential'. */
  readonly backoff?: Backoff
  /** The wait after the first failure, before jitter. Default '1s'. Not used with a list. */
  readonly base?: Duration
  /** No wait is longer. Default '1h', or the longest wait that is written down. */
  readonly cap?: Duration
  /** Full jitter: each wait is drawn evenly from 0 to its length, so that jobs that failed together do not come back
   *  together. Default true. */
  readonly jitter?: boolean
}

/** Retry options, complete and in milliseconds: the form stores keep. */
export interface RetryPolicy {
  readonly backoff: 'exponential' | 'linear' | 'fixed' | readonly number[]
  readonly baseMs: number
  readonly capMs: number
  readonly jitter: boolean
}

export const RETRY_DEFAULTS: RetryPolicy = { backoff: 'exponential', baseMs: 1_000, capMs: 3_600_000, jitter: true }

const STEPS_MAX = 100

/** Checks retry options and fills in what is left out. */
export function resolveRetry(what: string, options: RetryOptions): RetryPolicy {
  checkKeys(what, options, ['backoff', 'base', 'cap', 'jitter'])
  const baseMs = options.base === undefined ? RETRY_DEFAULTS.baseMs : durationMs(options.base, { name: `${what}.base` })
  const backoff = resolveBackoff(what, options.backoff ?? RETRY_DEFAULTS.backoff)
  // The default cap is for waits that grow by themselves: one that was written down is never cut by it.
  const writtenMs = Array.isArray(backoff) ? Math.max(...backoff) : baseMs
  const capMs =
    options.cap === undefined
      ? Math.max(RETRY_DEFAULTS.capMs, writtenMs)
      : durationMs(options.cap, { name: `${what}.cap`, minMs: baseMs })
  return {
    backoff,
    baseMs,
    capMs,
    jitter: options.jitter === undefined ? RETRY_DEFAULTS.jitter : checkBoolean(`${what}.jitter`, options.jitter),
  }
}

function resolveBackoff(what: string, backoff: unknown): RetryPolicy['backoff'] {
  if (!Array.isArray(backoff)) return checkChoice(`${what}.backoff`, backoff, ['exponential', 'linear', 'fixed'])
  if (backoff.length === 0 || backoff.length > STEPS_MAX) {
    throw invalidOption(`${what}.backoff as a list must hold 1 to ${STEPS_MAX} durations`, backoff)
  }
  return backoff.map((step, index) => durationMs(step, { name: `${what}.backoff[${index}]` }))
}

/** The wait in milliseconds after attempt number `attempt` (1 is the first) failed. `random` gives 0 up to 1. */
export function backoffMs(policy: RetryPolicy, attempt: number, random: () => number): number {
  const full = Math.min(policy.capMs, fullMs(policy, Math.max(1, attempt)))
  return policy.jitter ? Math.floor(random() * full) : Math.floor(full)
}

function fullMs(policy: RetryPolicy, attempt: number): number {
  if (policy.backoff === 'fixed') return policy.baseMs
  if (policy.backoff === 'linear') return policy.baseMs * attempt
  // 2 ** 1023 is the largest power a number holds; the cap cuts it anyway.
  if (policy.backoff === 'exponential') return policy.baseMs * 2 ** Math.min(attempt - 1, 1_000)
  return policy.backoff[Math.min(attempt, policy.backoff.length) - 1] ?? policy.capMs
}

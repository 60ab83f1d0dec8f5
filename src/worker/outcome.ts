// What a thrown value means for its job. Whatever was thrown, by whichever copy of this package, there is an answer.

import { checkChoice, checkKeys } from '../core/check.js'
import type { Outcome } from '../core/decide.js'
import type { JobDefinition, RateLimitScope, RetryJob } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { isHoldfastError } from '../core/errors.js'
import { holdOffOf } from '../core/flow/hold-off.js'
import { checkLimitName } from '../core/flow/resolve.js'
import { isOverload, retryAfterMs, statusOf, WAIT_MS_MAX } from '../core/flow/retry-after.js'
import type { HoldOff } from '../core/flow/views.js'
import type { ClaimedJob } from '../core/job.js'
import { encodeError, type StoredError } from '../core/json.js'
import type { ParkedFor, ParkedOn } from '../core/kept/kept.js'
import type { HeldJob } from './held-job.js'
import { RemoteEnd } from './isolation.js'

/** What an attempt that ended by throwing came to. */
export interface Verdict {
  readonly outcome: Outcome
  /** Kept as a failed attempt, or null when the throw was no failure. */
  readonly error: StoredError | null
  /** Of a job that was told to wait: what the handler said about others; null leaves it to the job's limits and group. */
  readonly scope?: RateLimitScope | null
  /** What waits together with the job. */
  readonly holdOff?: HoldOff | null
  /** What it called refused it for load, failed, or took too long. */
  readonly isOverload?: boolean
}

/** Thrown by `snooze()` to leave the handler. */
export class SnoozeJob extends Error {
  override readonly name = 'SnoozeJob'
  readonly delayMs: number

  constructor(delayMs: number) {
    super('the handler asked to be run later')
    this.delayMs = delayMs
  }
}

/** Thrown by `waitFor()` and `waitForChildren()` to leave the handler until that has come. */
export class ParkedJob extends Error {
  override readonly name = 'ParkedJob'
  /** How long it waits at most; null for children, which end by themselves. */
  readonly delayMs: number | null
  /** What its settlement carries. */
  readonly until: { readonly wait: ParkedFor } | { readonly children: ParkedOn }

  constructor(until: ParkedJob['until'], delayMs: number | null) {
    super(
      'wait' in until ? `the handler waits for the signal "${until.wait.name}"` : 'the handler waits for its children',
    )
    this.until = until
    this.delayMs = delayMs
  }
}

/** Thrown by `rateLimited()` to leave the handler. */
class RateLimitedJob extends Error {
  override readonly name = 'RateLimitedJob'
  readonly delayMs: number
  readonly scope: RateLimitScope | null

  constructor(delayMs: number, scope: RateLimitScope | null) {
    super('what the handler called told it to wait')
    this.delayMs = delayMs
    this.scope = scope
  }
}

/** `ctx.rateLimited`. */
export function rateLimited(after: Duration, scope?: RateLimitScope): never {
  const delayMs = durationMs(after, { name: 'after', maxMs: WAIT_MS_MAX })
  throw new RateLimitedJob(delayMs, scope === undefined ? null : checkScope(scope))
}

function checkScope(scope: RateLimitScope): RateLimitScope {
  if (typeof scope === 'string') return checkChoice('scope', scope, ['queue', 'group', 'job'])
  checkKeys('scope', scope, ['limit'])
  return { limit: checkLimitName('scope.limit', scope.limit) }
}

/** What became of an attempt that ended by throwing. A job that was told to stop threw because of that. */
export function readThrown(held: HeldJob, thrown: unknown, isIsolated: boolean): Verdict {
  // Nothing that a handler in this thread threw is touched here: it may throw at every touch.
  const remote = isIsolated && thrown instanceof RemoteEnd ? thrown.verdict : null
  const read = remote ?? classifyThrown(thrown, held.handler.definition as JobDefinition)
  const verdict = withHoldOff(read, held.job)
  switch (held.abortCause) {
    case 'cancelled':
      return { outcome: { kind: 'cancelled' }, error: null }
    case 'timed_out':
      return {
        outcome: { kind: 'failed', retryable: true, delayMs: null },
        error: encodeError(held.abortReason),
        isOverload: true,
      }
    case 'shutdown':
      // That is not the job's fault.
      return verdict.isControl ? verdict : { outcome: { kind: 'released', delayMs: 0 }, error: null }
    default:
      return verdict
  }
}

/** Adds what waits together with a job that was told to wait. */
function withHoldOff<T extends Verdict>(verdict: T, job: ClaimedJob): T {
  const { outcome, scope = null } = verdict
  if (outcome.kind !== 'rate_limited') return verdict
  const holdOff = holdOffOf(scope, outcome.delayMs, job.flow)
  return { ...verdict, holdOff, outcome: { ...outcome, isShared: holdOff !== null } }
}

/** How long a thrown value says to wait: by `ctx.rateLimited`, or as the error of a 429 that says so. */
function waitOf(thrown: unknown): { readonly delayMs: number; readonly scope: RateLimitScope | null } | null {
  return quietly(() => {
    if (!(thrown instanceof Error)) return null
    // By name and not by class: the handler may use another copy of this package than the worker.
    if (thrown.name === 'RateLimitedJob') return thrown as RateLimitedJob
    const delayMs = statusOf(thrown) === 429 ? retryAfterMs(thrown) : null
    return delayMs === null ? null : { delayMs, scope: null }
  })
}

/** Reads what a handler threw. `isControl` is true when the handler itself said what should become of the job. */
export function classifyThrown(
  thrown: unknown,
  definition: Pick<JobDefinition, 'retryable'>,
): Verdict & { readonly isControl: boolean } {
  const told = waitOf(thrown)
  if (told !== null) {
    const { delayMs, scope } = told
    return {
      outcome: { kind: 'rate_limited', delayMs, isShared: false },
      error: null,
      scope,
      isOverload: true,
      isControl: true,
    }
  }
  const control = readControl(thrown)
  if (control !== null) {
    const error = control.kind === 'snoozed' || control.kind === 'parked' ? null : encodeError(thrown)
    return { outcome: control, error, isControl: true }
  }
  const retryable = isWorthAnotherAttempt(thrown, definition)
  return {
    outcome: { kind: 'failed', retryable, delayMs: quietly(() => retryAfterMs(thrown)) },
    error: encodeError(thrown),
    isControl: false,
    isOverload: quietly(() => isOverload(thrown)) === true,
  }
}

/** What is read from a thrown value, which may throw at every touch. */
function quietly<T>(read: () => T): T | null {
  try {
    return read()
  } catch {
    return null
  }
}

function readControl(thrown: unknown): Outcome | null {
  try {
    // By name and not by class: the handler may use another copy of this package than the worker.
    if (!(thrown instanceof Error)) return null
    if (thrown.name === 'DropJob') return { kind: 'dropped' }
    // Another attempt would find the same.
    if (isHoldfastError(thrown, 'child_failed')) return { kind: 'dropped' }
    if (thrown.name === 'ParkedJob') return { kind: 'parked', delayMs: (thrown as ParkedJob).delayMs }
    if (thrown.name === 'SnoozeJob') return { kind: 'snoozed', delayMs: (thrown as SnoozeJob).delayMs }
    if (thrown.name !== 'RetryJob') return null
    return { kind: 'failed', retryable: true, delayMs: readDelay((thrown as RetryJob).delay) }
  } catch {
    return null
  }
}

function readDelay(delay: Duration | null): number | null {
  if (delay === null) return null
  try {
    return durationMs(delay, { name: 'delay' })
  } catch {
    // A delay that is none must not turn a retry into something else: the policy chooses.
    return null
  }
}

function isWorthAnotherAttempt(thrown: unknown, definition: Pick<JobDefinition, 'retryable'>): boolean {
  if (definition.retryable === null) return true
  try {
    return definition.retryable(thrown) !== false
  } catch {
    // A classifier that fails has not said no, and a retry loses nothing.
    return true
  }
}

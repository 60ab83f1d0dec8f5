// What a thrown value means for its job. Whatever was thrown, by whichever copy of this package, there is an answer.

import type { Outcome } from '../core/decide.js'
import type { JobDefinition, RetryJob } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { encodeError, type StoredError } from '../core/json.js'

/** What an attempt that ended by throwing came to. */
export interface Verdict {
  readonly outcome: Outcome
  /** Kept as a failed attempt, or null when the throw was no failure. */
  readonly error: StoredError | null
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

/** Reads what a handler threw. `isControl` is true when the handler itself said what should become of the job. */
export function classifyThrown(
  thrown: unknown,
  definition: Pick<JobDefinition, 'retryable'>,
): Verdict & { readonly isControl: boolean } {
  const control = readControl(thrown)
  if (control !== null) {
    const error = control.kind === 'snoozed' ? null : encodeError(thrown)
    return { outcome: control, error, isControl: true }
  }
  const retryable = isWorthAnotherAttempt(thrown, definition)
  return { outcome: { kind: 'failed', retryable, delayMs: null }, error: encodeError(thrown), isControl: false }
}

function readControl(thrown: unknown): Outcome | null {
  try {
    // By name and not by class: the handler may use another copy of this package than the worker.
    if (!(thrown instanceof Error)) return null
    if (thrown.name === 'DropJob') return { kind: 'dropped' }
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

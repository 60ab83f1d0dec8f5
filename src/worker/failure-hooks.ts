// onRetry and onDead of a definition: called when the store has confirmed what became of a failed attempt.

import type { JobDefinition, JobFailure } from '../core/definition.js'
import { asError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { JobState } from '../core/states.js'
import type { HeldJob } from './held-job.js'
import { RemoteEnd } from './isolation.js'

/** What an attempt failed with: what its handler threw, or what is kept of that when it ran elsewhere; null when it did not fail. */
export function errorOf({ thrown, settled }: HeldJob): Error | null {
  const stored = settled?.error ?? null
  if (stored === null) return null
  if (thrown !== undefined && !(thrown instanceof RemoteEnd)) return asErrorQuietly(thrown, stored.message)
  const { name, message, code, stack } = stored
  return Object.assign(new Error(message), {
    name,
    ...(code === undefined ? {} : { code }),
    ...(stack === undefined ? {} : { stack }),
  })
}

// What was thrown may throw again at every touch.
function asErrorQuietly(thrown: unknown, message: string): Error {
  try {
    return asError(thrown)
  } catch {
    return new Error(message)
  }
}

/** Calls the hook of the job's definition for this end, if it has one. What a hook throws is reported and changes nothing. */
export function callFailureHook(held: HeldJob, state: JobState, emit: Emit): void {
  const { onRetry, onDead } = held.handler.definition as JobDefinition
  const hook = state === 'dead' ? onDead : state === 'retrying' ? onRetry : null
  if (hook === null) return
  const report = (error: unknown) => {
    const { id, type } = held.job
    emit({
      name: 'hook.failed',
      hook: state === 'dead' ? 'onDead' : 'onRetry',
      jobId: id,
      jobType: type,
      error: asErrorQuietly(error, 'unreadable'),
    })
  }
  try {
    Promise.resolve(hook(failureOf(held))).catch(report)
  } catch (error) {
    report(error)
  }
}

function failureOf(held: HeldJob): JobFailure {
  const { id, type, queue, payload } = held.job
  const { settlement } = held.settled!
  return {
    ...{ id, type, queue, attempt: held.attempt, maxAttempts: held.limits.maxAttempts },
    error: errorOf(held),
    reason: 'reason' in settlement ? settlement.reason : null,
    retryInMs: 'delayMs' in settlement ? settlement.delayMs : null,
    get payload() {
      return JSON.parse(payload)
    },
  }
}

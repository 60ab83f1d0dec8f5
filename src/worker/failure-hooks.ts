// onRetry and onDead of a definition and of a worker: called when the store has confirmed what became of a failed attempt.

import type { JobDefinition, JobFailure } from '../core/definition.js'
import { asError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { JobState } from '../core/states.js'
import type { HeldJob } from './held-job.js'
import { RemoteEnd } from './isolation.js'
import type { FailureHook } from './options.js'

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

interface FailureHooks {
  readonly onRetry: FailureHook | null
  readonly onDead: FailureHook | null
}

/** Calls the hooks for this end: that of the job's definition, then that of its worker. What a hook throws is reported and changes nothing. */
export function callFailureHooks(held: HeldJob, state: JobState, worker: FailureHooks, emit: Emit): void {
  const name = state === 'dead' ? 'onDead' : state === 'retrying' ? 'onRetry' : null
  if (name === null) return
  for (const hook of [(held.handler.definition as JobDefinition)[name], worker[name]]) {
    if (hook === null) continue
    const report = (error: unknown) => {
      const { id, type } = held.job
      emit({ name: 'hook.failed', hook: name, jobId: id, jobType: type, error: asErrorQuietly(error, 'unreadable') })
    }
    try {
      Promise.resolve(hook(failureOf(held))).catch(report)
    } catch (error) {
      report(error)
    }
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

// The answer to an enqueue: which job it is, and a way to wait for it.

import type { JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import { enqueueRefused } from '../core/flow/refusals.js'
import type { Enqueued } from '../core/job.js'
import type { JobState } from '../core/states.js'
import type { JobTarget } from './prepare.js'
import type { WaitOptions } from './wait.js'

/** The result of an enqueue, as data. */
export interface EnqueueResult {
  /** Of the new job, or of the one that has the idempotency key. */
  readonly id: string
  /** False when the key was taken: nothing was written, or, with `replaced`, the job that has it took this payload. */
  readonly created: boolean
  /** The state of that job. */
  readonly state: JobState
  readonly replaced?: true
}

/** Waits for a job; `Client.wait`. */
export type Wait = (id: string, options?: WaitOptions) => Promise<unknown>

/** The job of an enqueue. */
export class JobHandle<Result = unknown> implements EnqueueResult {
  readonly id: string
  readonly created: boolean
  readonly state: JobState
  declare readonly replaced?: true
  readonly #wait: Wait

  /** Made by the client. */
  constructor(answer: EnqueueResult, wait: Wait) {
    this.id = answer.id
    this.created = answer.created
    this.state = answer.state
    if (answer.replaced === true) this.replaced = true
    this.#wait = wait
  }

  /** Resolves with what the job's handler returned, as `wait` of the client does. */
  wait(options?: WaitOptions): Promise<Result> {
    return this.#wait(this.id, options) as Promise<Result>
  }

  /** The same job, whose result is read by the output schema of its definition. */
  reading(job: JobDefinition): JobHandle<Result> {
    const wait = this.#wait
    return new JobHandle(this, (id, options) => wait(id, { ...options, job }))
  }
}

/** The promise of a job whose result is read by the output schema of its definition, if that has one. */
export function withOutput(target: JobTarget, sent: Promise<JobHandle>): Promise<JobHandle> {
  // Before it is known whether this is a definition at all: the call itself raises for what is none.
  const job = typeof target === 'object' && target?.output ? target : null
  return job === null ? sent : sent.then((handle) => handle.reading(job))
}

/** The answer for one job; raises `unknown_parent` and what flow control refuses. */
export function acceptOne(answer: Enqueued, wait: Wait): JobHandle {
  if ('created' in answer) return new JobHandle(answer, wait)
  if ('refused' in answer) throw enqueueRefused(answer.id, answer.refused)
  throw new HoldfastError(
    'unknown_parent',
    `job ${answer.id} was not enqueued: it comes after job ${answer.unknownParent}, which does not exist`,
    { details: { id: answer.id, parent: answer.unknownParent } },
  )
}

// Code of the user's around every enqueue and every run of a connection: for reporting, for what every payload should carry, for
// what every handler should run in. Those who use none pay nothing. What is around runs: ../worker/middleware.ts

import type { JobContext } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { EnqueueOptions } from './enqueue-options.js'
import type { JobHandle } from './job-handle.js'
import type { JobTarget } from './prepare.js'

/** One job of an enqueue, before anything is checked. */
export interface EnqueueCallJob {
  readonly job: JobTarget
  readonly payload: unknown
  readonly options: EnqueueOptions
}

/** A call of enqueue, with one job, or of enqueueMany. */
export interface EnqueueCall {
  readonly jobs: readonly EnqueueCallJob[]
}

/** What is put around enqueues and runs. */
export interface Middleware {
  /** Around enqueue and enqueueMany. Calls `next` with the call, or a changed one of as many jobs, and gives what that gives. */
  readonly enqueue?: (
    call: EnqueueCall,
    next: (call: EnqueueCall) => Promise<readonly JobHandle[]>,
  ) => Promise<readonly JobHandle[]>
  /** Around handlers. Gives what `next` gives, or another result; what it throws fails the attempt. Handlers in children run in what their
   *  module exports as `middleware`. */
  readonly run?: (ctx: JobContext, next: () => Promise<unknown>, payload: unknown) => unknown
}

/** Sends a call through every middleware, the first one outermost. */
export async function enqueueThrough(
  middlewares: readonly Middleware[],
  call: EnqueueCall,
  send: (call: EnqueueCall) => Promise<readonly JobHandle[]>,
): Promise<readonly JobHandle[]> {
  const { length } = call.jobs
  const around = middlewares.flatMap(({ enqueue }) => (enqueue === undefined ? [] : [enqueue]))
  const step = async (index: number, given: EnqueueCall): Promise<readonly JobHandle[]> => {
    const next = around[index]
    if (next !== undefined) return next(given, (changed) => step(index + 1, changed))
    if (Array.isArray(given?.jobs) && given.jobs.length === length) return send(given)
    throw new HoldfastError(
      'invalid_option',
      `a middleware of enqueue must pass on a call of as many jobs, ${length}, got ${show(given?.jobs)}`,
    )
  }
  const handles = await step(0, call)
  if (Array.isArray(handles) && handles.length === length) return handles
  throw new HoldfastError('invalid_option', `a middleware of enqueue must give what next() gave, got ${show(handles)}`)
}

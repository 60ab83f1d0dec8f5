// Code of the user's around every enqueue and every run of a connection: for reporting, for what every payload should carry, for
// what every handler should run in. Those who use none pay nothing.

import { checkKeys } from '../core/check.js'
import type { Handler, HandlerFunction, JobContext } from '../core/definition.js'
import { HoldfastError, invalidOption, show } from '../core/errors.js'
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
  /** Around handlers of this process. Gives what `next` gives, or another result; what it throws fails the attempt. */
  readonly run?: (ctx: JobContext, next: () => Promise<unknown>, payload: unknown) => unknown
}

/** Raises `invalid_option` for what is none. */
export function checkMiddleware(middleware: Middleware): Middleware {
  checkKeys('use', middleware, ['enqueue', 'run'])
  for (const name of ['enqueue', 'run'] as const) {
    const given: unknown = middleware[name]
    if (given !== undefined && typeof given !== 'function')
      throw invalidOption(`use: ${name} must be a function`, given)
  }
  if (middleware.enqueue !== undefined || middleware.run !== undefined) return middleware
  throw invalidOption('use takes an object with enqueue, run or both')
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

/** A handler with every middleware around it, the first one outermost. Batch handlers are left as they are. */
export function runThrough(middlewares: readonly Middleware[], handler: Handler): Handler {
  const around = middlewares.flatMap(({ run }) => (run === undefined ? [] : [run]))
  if (around.length === 0 || handler.batch !== undefined) return handler
  const run: HandlerFunction<unknown> = (payload, ctx) => {
    const step = async (index: number): Promise<unknown> => {
      const next = around[index]
      return next === undefined ? handler.run(payload as never, ctx) : next(ctx, () => step(index + 1), payload)
    }
    return step(0)
  }
  return { ...handler, run: run as HandlerFunction<never> }
}

// Which job the running code belongs to, also after any number of awaits, timers and callbacks. It costs about a quarter
// of a microsecond for each job, measured on Node 20.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { HandlerFunction, JobContext } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'

/** What this library knows of a context beside what its handler does. */
export interface FailableContext extends JobContext {
  /** W3C trace context of the job's enqueue. */
  readonly trace: string | null
  /** Tells it that its handler failed outside of its promise. */
  failUncaught(error: unknown): void
  /** True while its handler runs, and what it shares with others of its worker is this. */
  runsIn(scope: unknown): boolean
}

const storage = new AsyncLocalStorage<FailableContext>()

/** The context of the job whose handler the calling code runs under, or null outside of handlers. */
export function currentJob(): FailableContext | null {
  return storage.getStore() ?? null
}

/**
 * The `wrong_state` to raise in the code of a handler that runs in this scope, or null elsewhere: what waits for running jobs can't be waited for by one. Such
 * a job would take its worker along, be given back with its attempt as at any shutdown, and take the next worker.
 */
export function ownHandlerError(scope: unknown, call: string): HoldfastError | null {
  const ctx = storage.getStore()
  if (ctx === undefined || !ctx.runsIn(scope)) return null
  return new HoldfastError(
    'wrong_state',
    `${call} was called by the handler of job ${ctx.id} ("${ctx.type}"), which it would wait for: a handler cannot stop its own worker; let it return, and stop from outside, as on the signal of process.kill(process.pid, 'SIGTERM')`,
    { details: { id: ctx.id } },
  )
}

/** Calls a handler so that everything it starts knows its job. */
export function callWithJob(run: HandlerFunction<never>, payload: unknown, ctx: FailableContext): unknown {
  return storage.run(ctx, run, payload as never, ctx)
}

/**
 * Fails the job whose code threw `error` where nothing caught it. To be called from a listener for `uncaughtException` or
 * `unhandledRejection`, which this library never installs by itself. Returns false when the error belongs to no job.
 */
export function attributeUncaught(error: unknown): boolean {
  const ctx = storage.getStore()
  if (ctx === undefined) return false
  ctx.failUncaught(error)
  return true
}

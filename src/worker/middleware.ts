// Code of the user's around every run of a handler: in the worker's own process what `use` was given, in a child what its module exports.

import { checkKeys } from '../core/check.js'
import type { Handler, HandlerFunction, JobContext } from '../core/definition.js'
import { invalidOption } from '../core/errors.js'

/** Around one run. Gives what `next` gives, or another result; what it throws fails the attempt. */
type RunMiddleware = (ctx: JobContext, next: () => Promise<unknown>, payload: unknown) => unknown

interface Around {
  readonly enqueue?: unknown
  readonly run?: RunMiddleware
}

/** Gives back what is a middleware. Raises `invalid_option` for what is none; `where` says who gave it. */
export function checkMiddleware<Given extends Around>(middleware: Given, where = 'use'): Given {
  checkKeys(where, middleware, ['enqueue', 'run'])
  for (const name of ['enqueue', 'run'] as const) {
    const given: unknown = middleware[name]
    if (given !== undefined && typeof given !== 'function')
      throw invalidOption(`${where}: ${name} must be a function`, given)
  }
  if (middleware.enqueue !== undefined || middleware.run !== undefined) return middleware
  throw invalidOption(`${where} takes an object with enqueue, run or both`)
}

/** A handler with every middleware around it, the first one outermost. Batch handlers are left as they are. */
export function runThrough(middlewares: readonly Around[], handler: Handler): Handler {
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

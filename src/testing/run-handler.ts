// One call of a handler, without a queue: its payload read and checked as before every run, its result as it would be stored.

import type { Completed, EffectCall, Handler, JobContext, JobDefinition } from '../core/definition.js'
import { durationMs } from '../core/duration.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { encodePayload, encodeResult, PAYLOAD_BYTES_MAX } from '../core/json.js'
import { checkPayload } from '../core/payload.js'
import { checkResult } from '../core/result.js'
import { rateLimited, SnoozeJob } from '../worker/outcome.js'

/** What one call of a handler did. */
export interface HandlerRun<Result = unknown> {
  /** What it returned, as it would be stored; null for nothing. */
  readonly result: Result | null
  /** What it gave to `ctx.progress`, in order. */
  readonly progress: readonly unknown[]
  readonly logs: readonly string[]
  /** What it gave to `ctx.write`, in order. */
  readonly output: readonly string[]
  /** What it enqueued by `ctx.enqueue`: the type, the payload and the options. Nothing is enqueued anywhere. */
  readonly enqueued: readonly { readonly type: string; readonly payload: unknown; readonly options: object }[]
  /** True when it called `ctx.complete`. */
  readonly completed: boolean
}

/** The id of the job that `runHandler` makes up. */
const ID = '01900000-0000-7000-8000-000000000001'

/**
 * Calls a handler once with this payload and resolves with what it did. Rejects with what it throws, or with `invalid_payload` when the payload does
 * not fit. Fields of `ctx` replace those of the made-up job; what the handler uses beyond that must be given.
 *
 * @example
 * const { result, logs } = await runHandler(handler, { to: 'ann@example.com' }, { attempt: 2 })
 */
export async function runHandler(
  handler: Handler,
  payload: unknown,
  ctx: Partial<JobContext> = {},
): Promise<HandlerRun> {
  if (typeof handler?.run !== 'function') {
    throw invalidOption('runHandler takes what definition.handle(…) gives', handler)
  }
  const definition = handler.definition as JobDefinition
  const stored: unknown = JSON.parse(encodePayload(definition.type, payload, PAYLOAD_BYTES_MAX))
  const checked = await checkPayload(definition, stored)
  if ('problem' in checked) {
    throw new HoldfastError(
      'invalid_payload',
      `the payload of "${definition.type}" does not fit its schema: ${checked.problem}`,
    )
  }
  const seen: Seen = { progress: [], logs: [], output: [], enqueued: [], completed: null }
  const context = Object.create(null, {
    ...Object.getOwnPropertyDescriptors(madeUp(definition, seen)),
    ...Object.getOwnPropertyDescriptors(ctx),
  }) as JobContext
  const returned: unknown = await handler.run(checked.value as never, context)
  const result = seen.completed === null ? returned : seen.completed.result
  const { progress, logs, output, enqueued } = seen
  return {
    result: JSON.parse(encodeResult(result) ?? 'null'),
    ...{ progress, logs, output, enqueued, completed: seen.completed !== null },
  }
}

interface Seen {
  readonly progress: unknown[]
  readonly logs: string[]
  readonly output: string[]
  readonly enqueued: { type: string; payload: unknown; options: object }[]
  completed: { readonly result: unknown } | null
}

function madeUp(definition: JobDefinition, seen: Seen): object {
  const { type, queue, tags, limits } = definition
  const facts = { id: ID, type, queue, tags, attempt: 1, maxAttempts: limits.maxAttempts ?? 25, fence: 1 }
  const origin = { group: null, schedule: null, parents: [], enqueuedBy: null, trace: null }
  return {
    ...facts,
    ...origin,
    createdAt: new Date(0),
    signal: new AbortController().signal,
    progress: (value: unknown) => void seen.progress.push(value),
    log: (text: unknown) => void seen.logs.push(String(text)),
    lastProgress: async () => null,
    parentResults: async () => [],
    parentEnds: async () => [],
    spent: () => {},
    write: async (chunk: string) => void seen.output.push(chunk),
    waitFor: async (name: string) => {
      throw noQueue(`ctx.waitFor(${JSON.stringify(name)})`)
    },
    waitForChildren: async () => {
      throw noQueue('ctx.waitForChildren()')
    },
    step: async (_name: string, run: () => unknown) => run(),
    once: async (key: string, run: (key: string, call: EffectCall) => unknown) =>
      run(`${ID}:${key}`, { begun: 1, isDoubtful: false }),
    snooze: (delay: never) => {
      throw new SnoozeJob(durationMs(delay, { name: 'delay' }))
    },
    rateLimited,
    async complete(_tx: unknown, result: unknown): Promise<Completed> {
      seen.completed = { result: await checkResult(definition, result) }
      return undefined as unknown as Completed
    },
    async enqueue(job: JobDefinition | string, payload: unknown, options: object = {}) {
      const target = typeof job === 'string' ? job : job.type
      if (typeof job !== 'string') {
        const fits = await checkPayload(job, JSON.parse(encodePayload(target, payload, PAYLOAD_BYTES_MAX)))
        if ('problem' in fits) throw new HoldfastError('invalid_payload', `the payload of "${target}": ${fits.problem}`)
      }
      seen.enqueued.push({ type: target, payload, options })
      return { id: ID, created: true, state: 'ready', wait: () => Promise.reject(noQueue('wait()')) }
    },
    get holdfast(): never {
      throw noQueue('ctx.holdfast')
    },
  }
}

function noQueue(what: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `${what} needs a queue: give it in the third argument of runHandler, or use testHoldfast()`,
  )
}

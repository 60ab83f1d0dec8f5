// ctx.holdfast of a handler in a child. Its calls are made by the worker. Payloads are checked here, where their schemas are, and results read here.
// ◄── child-context.ts · the worker's side: answers.ts

import type { JobContext, JobDefinition } from '../core/definition.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { costOf, groupOf } from '../core/flow/of-payload.js'
import type { Queryable } from '../core/job-store.js'
import { encodeFor } from '../core/payload.js'
import { readResult } from '../core/result.js'
import { noConnection } from '../worker/lookup.js'
import type { AskWorker } from './asks.js'
import { FORWARDED, type SentChanges, type SentEntry, type SentHandle, type SentTarget } from './protocol.js'

type Connection = JobContext['holdfast']
type Target = JobDefinition | string
type Options = Record<string, unknown> & { readonly tx?: Queryable; readonly signal?: AbortSignal }
type WaitOptions = Parameters<Connection['wait']>[1]

const IN_A_CHILD = 'in a child process or thread'

/** The connection as a handler in a child has it. */
export function childHoldfast(ask: AskWorker, trace: string | null): Connection {
  const calls: Record<string, unknown> = {
    enqueue: async (target: Target, payload: unknown, options: Options = {}) => {
      const { tx, signal, ...others } = checked('enqueue', options)
      const entry = await sentEntry(target, payload, { ...traced(trace), ...others })
      return new ChildHandle(ask, target, (await until(signal, ask({ kind: 'enqueue', entry }, tx))) as SentHandle)
    },
    enqueueMany: (first: unknown, second: unknown, third: Options = {}) =>
      enqueueMany(ask, trace, [first, second, third]),
    wait: (id: string, options?: WaitOptions) => wait(ask, id, options),
    update: async (id: string, changes: Record<string, unknown> = {}, options: object = {}) => {
      return ask({ kind: 'update', id, changes: await sentChanges(changes), options })
    },
    // A hint, as there.
    wake: (...args: unknown[]) => void ask({ kind: 'call', method: 'wake', args }).catch(() => {}),
  }
  for (const method of FORWARDED) calls[method] ??= (...args: unknown[]) => ask({ kind: 'call', method, args })
  return new Proxy(calls, {
    get(known, name) {
      if (typeof name === 'symbol' || name in known || name === 'then' || name === 'toJSON')
        return Reflect.get(known, name)
      throw noConnection(`holdfast.${name}`, IN_A_CHILD)
    },
  }) as unknown as Connection
}

/** The job of an enqueue, as a handler in a child has it. */
class ChildHandle implements SentHandle {
  readonly id: string
  readonly created: boolean
  readonly state: SentHandle['state']
  declare readonly replaced?: true
  readonly #wait: (options: WaitOptions) => Promise<unknown>

  constructor(ask: AskWorker, target: Target, { id, created, state, replaced }: SentHandle) {
    this.id = id
    this.created = created
    this.state = state
    if (replaced === true) this.replaced = true
    const job = typeof target === 'string' ? {} : { job: target }
    this.#wait = (options) => wait(ask, id, { ...job, ...options })
  }

  wait(options?: WaitOptions): Promise<unknown> {
    return this.#wait(options)
  }
}

type ManyArguments = readonly [first: unknown, second: unknown, third: Options]

async function enqueueMany(ask: AskWorker, trace: string | null, args: ManyArguments): Promise<ChildHandle[]> {
  const [first, second, third] = args
  const isMixed = Array.isArray(first)
  const list: unknown = isMixed ? first : second
  if (!Array.isArray(list)) throw invalidOption('enqueueMany takes an array', list)
  const { tx, signal, ...same } = checked('enqueueMany', isMixed ? ((second ?? {}) as Options) : third)
  const entries: SentEntry[] = []
  const targets: Target[] = []
  // One after the other: thousands of schemas that answer later would all be open.
  for (const entry of list) {
    if (isMixed && !Array.isArray(entry)) throw invalidOption('it must be [definition, payload, options?]', entry)
    const [target, payload, own = {}] = isMixed ? (entry as [Target, unknown, object?]) : [first as Target, entry, same]
    entries.push(await sentEntry(target, payload, { ...traced(trace), ...own }))
    targets.push(target)
  }
  const handles = (await until(signal, ask({ kind: 'enqueueMany', entries }, tx))) as SentHandle[]
  return handles.map((handle, index) => new ChildHandle(ask, targets[index]!, handle))
}

async function wait(ask: AskWorker, id: string, options: WaitOptions = {}): Promise<unknown> {
  const { signal, job, ...others } = options
  if (job !== undefined && typeof job?.handle !== 'function') {
    throw invalidOption('wait: job must be what defineJob(…) gives', job)
  }
  const stored = await until(signal, ask({ kind: 'wait', id, options: others }))
  return job === undefined ? stored : readResult(job, stored)
}

/** Checked as the client checks them; what can be sent is checked there. */
function checked(call: string, options: Options): Options {
  if (typeof options !== 'object' || options === null)
    throw invalidOption(`${call}: options must be an object`, options)
  const { tx } = options
  if (tx !== undefined && typeof tx?.query !== 'function') {
    throw invalidOption('tx must have a query(text, values) method, such as a pg client inside a transaction', tx)
  }
  return options
}

/** What is enqueued belongs to the trace of the job that enqueues it. */
function traced(trace: string | null): object {
  return trace === null ? {} : { traceparent: trace }
}

async function sentEntry(target: Target, payload: unknown, options: object): Promise<SentEntry> {
  const definition = definitionOf(target)
  if (definition === null) {
    return { target: target as string, payload: await encodeFor(null, target as string, payload, BYTES_MAX), options }
  }
  const text = await encodeFor(definition, definition.type, payload, BYTES_MAX)
  const { flow } = definition
  if (flow === null) return { target: sentDefinition(definition), payload: text, options }
  const found = { group: groupOf(definition, payload), cost: costOf(definition, payload) }
  return { target: { ...sentDefinition(definition), flow: { ...flow, ...found } }, payload: text, options }
}

/** The worker knows how large a payload may be. */
const BYTES_MAX = Number.MAX_SAFE_INTEGER

async function sentChanges({ job, payload, ...others }: Record<string, unknown>): Promise<SentChanges> {
  const definition = job === undefined ? null : definitionOf(job as Target)
  if (payload === undefined) return { ...others, ...(definition && { job: sentDefinition(definition) }) }
  const text = await encodeFor(definition, definition?.type ?? 'update', payload, BYTES_MAX)
  return { ...others, ...(definition && { job: sentDefinition(definition) }), payload: text }
}

function definitionOf(target: Target): JobDefinition | null {
  if (typeof target === 'string') return null
  if (typeof target === 'object' && target !== null && typeof target.handle === 'function') return target
  throw invalidOption('a job must be given by defineJob(…) or by its type', target)
}

function sentDefinition({ type, queue, priority, limits, tags, version }: JobDefinition): Exclude<SentTarget, string> {
  return { type, queue, priority, limits, tags, version, flow: null }
}

/** The answer, unless the caller gives up before. */
async function until<T>(signal: AbortSignal | undefined, answer: Promise<T>): Promise<T> {
  if (signal === undefined) return answer
  let giveUp = () => {}
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(gaveUp(signal))
    if (signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
  return Promise.race([answer, aborted]).finally(() => signal.removeEventListener('abort', giveUp))
}

function gaveUp({ reason }: AbortSignal): HoldfastError {
  const message = 'the call was given up by its signal: it may or may not have taken effect'
  return new HoldfastError('aborted', message, { cause: reason })
}

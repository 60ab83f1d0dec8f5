// What a handler in a child asks its worker for: done here, on the worker's connection and under the lease of the job. ◄── child.ts

import type { JobContext, JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { Queryable } from '../core/job-store.js'
import type { RemoteContext } from '../worker/isolation.js'
import { type Ask, FORWARDED, type SentEntry, type SentHandle, type SentTarget } from './protocol.js'

type Connection = JobContext['holdfast']

interface AskScope {
  readonly context: RemoteContext
  /** The transaction that came with the call; its statements go to the child. */
  readonly tx: Queryable | undefined
  /** Fires when the child has ended: nothing waits for its sake any longer. */
  readonly gone: AbortSignal
}

/** Raises what the call raises in a handler that runs in this process. */
export async function answer(ask: Ask, { context, tx, gone }: AskScope): Promise<unknown> {
  const { keeping } = context
  switch (ask.kind) {
    case 'complete':
      await context.complete(tx!, ask.result === null ? undefined : JSON.parse(ask.result))
      return null
    case 'recall':
      return { recalled: await keeping.recall(), storeNowMs: keeping.storeNowMs() }
    case 'keep':
      return keeping.keep(ask.entry)
    case 'write':
      return keeping.write(ask.offset, ask.text)
    case 'endings':
      return keeping.endings(ask.ids)
    case 'exists':
      return keeping.exists(ask.id)
    case 'cancelChildren':
      return keeping.cancel(ask.ids)
    case 'lastProgress':
      return context.lastProgress()
    case 'enqueue': {
      const [target, payload, options] = entryOf(ask.entry)
      return handleOf(await context.holdfast.enqueue(target, payload, { ...options, ...(tx && { tx }) }))
    }
    case 'enqueueMany': {
      const handles = await context.holdfast.enqueueMany(ask.entries.map(entryOf), tx === undefined ? {} : { tx })
      return handles.map(handleOf)
    }
    case 'update': {
      const { job, payload, ...changes } = ask.changes
      const sent = {
        ...(job && { job: definitionOf(job) }),
        ...(payload !== undefined && { payload: JSON.parse(payload) }),
      }
      return context.holdfast.update(ask.id, { ...changes, ...sent }, ask.options)
    }
    case 'wait':
      return context.holdfast.wait(ask.id, { ...ask.options, signal: gone })
    case 'call':
      return callOf(context.holdfast, ask)
  }
}

/** Only what is listed, whatever a handler sends. */
async function callOf(holdfast: Connection, { method, args }: Extract<Ask, { kind: 'call' }>): Promise<unknown> {
  if (!FORWARDED.includes(method)) {
    throw new HoldfastError('unsupported', `ctx.holdfast.${method} cannot be called from a child`)
  }
  const call = holdfast[method] as (...args: readonly unknown[]) => Promise<unknown>
  const result = await call.apply(holdfast, [...args])
  return method === 'runAgain' ? handleOf(result as SentHandle) : result
}

function entryOf({ target, payload, options }: SentEntry): [JobDefinition, unknown, object] {
  return [targetOf(target), JSON.parse(payload), options as object]
}

function targetOf(target: SentTarget): JobDefinition {
  // A type alone is taken as well; one signature is enough here.
  return typeof target === 'string' ? (target as unknown as JobDefinition) : definitionOf(target)
}

/** A definition as its producer sent it. Its schemas and its code stay there: the payload was checked by them. */
function definitionOf(sent: Exclude<SentTarget, string>): JobDefinition {
  const none = { schema: null, output: null, retryable: null, onRetry: null, onDead: null, isolate: null }
  return { ...sent, ...none, upgrades: new Map(), handle: noHandler, handleBatch: noHandler }
}

function noHandler(): never {
  throw new HoldfastError('unsupported', 'a definition that came from a child has no code')
}

function handleOf({ id, created, state, replaced }: SentHandle): SentHandle {
  return { id, created, state, ...(replaced === undefined ? {} : { replaced }) }
}

// The handlers of a run. Each does what its job's payload says and records its start, its end and the start of an effect.

import { defineJob } from '../../src/client/define-job.js'
import { DropJob, type Handler, type JobContext, type JobDefinition, RetryJob } from '../../src/core/definition.js'
import { sleep } from '../../src/core/ports.js'
import type { Link, Transaction } from './link.js'
import type { Kind, Payload } from './plan-jobs.js'
import type { ProcessRun } from './process-run.js'

/** What handlers can do to their process. */
export interface HandlerWorld {
  readonly processRun: ProcessRun
  readonly link: Link
  /** Kills the whole process. */
  crash(job: string): void
  /** Blocks the process for this long. */
  block(ms: number): void
  /** The slots of its worker. */
  readonly concurrency: number
}

/** Handlers for every kind of job, in one process. */
export function handlersOf(world: HandlerWorld): Handler[] {
  return [...DEFINITIONS].map(([kind, definition]) => {
    if (kind === 'batched') return batchHandler(world, definition)
    return definition.handle((payload, ctx) => (kind === 'instant' ? null : work(world, kind, { payload, ctx })))
  })
}

const BATCH_MAX = 3

/** Runs several jobs in one call; each of them works, and each has an end of its own. */
function batchHandler(world: HandlerWorld, definition: JobDefinition<Payload, Payload>): Handler {
  const options = { max: Math.min(BATCH_MAX, world.concurrency), linger: 20 }
  return definition.handleBatch(options, async (jobs) => {
    const ends = await Promise.allSettled(jobs.map(({ payload, ctx }) => work(world, 'batched', { payload, ctx })))
    return ends.map((end) => (end.status === 'fulfilled' ? end.value : end.reason))
  })
}

interface Work {
  readonly payload: Payload
  readonly ctx: JobContext
}

async function work(world: HandlerWorld, kind: Kind, { payload, ctx }: Work): Promise<unknown> {
  const { processRun } = world
  const about = { job: ctx.id, fence: ctx.fence, attempt: ctx.attempt }
  processRun.record({ ev: 'started', ...about })
  // A handler that settles in its own transaction ends its lease itself, and one that is given up loses it before it ends. Neither
  // counts as a lost lease.
  const lease = { id: ctx.id, fence: ctx.fence, queue: ctx.queue, attempt: ctx.attempt }
  if (kind !== 'transactional' && kind !== 'stuck') processRun.runs(lease, true)
  try {
    return await BEHAVIOURS[kind](world, { payload, ctx })
  } finally {
    processRun.runs(lease, false)
    processRun.record({ ev: 'ended', ...about })
  }
}

const TOLD_SCOPES = ['job', 'group', 'queue', { limit: 'api' }] as const

/** By then an expired lease has been rescued and its handler notified. */
const OUTLIVE_MS = 15_000

type Behaviour = (world: HandlerWorld, work: Work) => Promise<unknown>

const worked: Behaviour = async (world, { payload, ctx }) => {
  await pass(world, ctx, payload.ms)
  if (payload.effect !== 'none') await affect(world, ctx)
  return { done: payload.key }
}

const BEHAVIOURS: Readonly<Record<Kind, Behaviour>> = {
  instant: worked,
  quick: worked,
  slow: worked,
  long: worked,
  tick: worked,
  flaky: async (world, { payload, ctx }) => {
    if (ctx.attempt > payload.times) return worked(world, { payload, ctx })
    await pass(world, ctx, payload.ms)
    throw new Error('the other side is busy')
  },
  failing: async (world, { payload, ctx }) => {
    await pass(world, ctx, payload.ms)
    throw new Error('it never works')
  },
  dropping: async (world, { payload, ctx }) => {
    await pass(world, ctx, payload.ms)
    throw new DropJob('it makes no sense any more')
  },
  snoozing: async (world, { payload, ctx }) => {
    // Attempts that were given back cannot be counted, so a random draw by the fence decides instead.
    if (ctx.fence % 3 !== 0) ctx.snooze(200 * payload.times)
    return worked(world, { payload, ctx })
  },
  // What it calls refuses it for load, as it does a while for all that share a limit, a group or a queue with it.
  told: async (world, { payload, ctx }) => {
    if (ctx.fence % 3 !== 0) ctx.rateLimited(150 * payload.times, TOLD_SCOPES[ctx.fence % TOLD_SCOPES.length])
    return worked(world, { payload, ctx })
  },
  batched: async (world, { payload, ctx }) => {
    if (payload.times === 3 && ctx.attempt === 1) throw new Error('one of many failed')
    return worked(world, { payload, ctx })
  },
  later: async (world, { payload, ctx }) => {
    if (ctx.attempt <= payload.times) throw new RetryJob('come back later', { delay: 150 * payload.times })
    return worked(world, { payload, ctx })
  },
  transactional: async (world, { payload, ctx }) => {
    await pass(world, ctx, payload.ms)
    const tx = begin(ctx)
    await ctx.complete(tx, { done: payload.key })
    await world.link.commit(tx)
    return null
  },
  // Its transaction stays open longer than the lease and is rolled back. Then the handler continues until its signal fires.
  outliving: async (world, { payload, ctx }) => {
    if (ctx.attempt > 1) return worked(world, { payload, ctx })
    const tx = begin(ctx)
    await ctx.complete(tx, { done: payload.key })
    await sleep(world.processRun.ports.timers, payload.ms)
    await world.link.rollback(tx).catch(() => {})
    await pass(world, ctx, OUTLIVE_MS)
    await affect(world, ctx)
    return { done: payload.key }
  },
  stuck: () => new Promise(() => {}),
  poison: async (world, { ctx }) => {
    world.crash(ctx.id)
    return new Promise(() => {})
  },
  blocking: async (world, { payload, ctx }) => {
    world.block(payload.ms)
    return worked(world, { payload, ctx })
  },
}

/** The definition of each kind of job. */
export const DEFINITIONS: ReadonlyMap<Kind, JobDefinition<Payload, Payload>> = new Map(
  (Object.keys(BEHAVIOURS) as Kind[]).map((kind) => [kind, defineJob<Payload>(kind)]),
)

/** Works for a while, unless its signal fires. */
async function pass({ processRun }: HandlerWorld, ctx: JobContext, ms: number): Promise<void> {
  await sleep(processRun.ports.timers, ms, ctx.signal)
  if (ctx.signal.aborted) throw ctx.signal.reason
}

/** Applies the job's effect outside any transaction and repeats the call until the store confirms it. */
async function affect({ processRun, link }: HandlerWorld, ctx: JobContext): Promise<void> {
  const { id, fence, queue, attempt } = ctx
  for (;;) {
    processRun.record({ ev: 'effect.begin', job: id, fence })
    try {
      await link.applyEffect({ id, fence, queue, attempt })
      return
    } catch {
      await sleep(processRun.ports.timers, 100, ctx.signal)
      if (ctx.signal.aborted) throw ctx.signal.reason
    }
  }
}

function begin({ id, fence, attempt }: JobContext): Transaction {
  return { id: `${id} ${fence}`, attempt, query: () => Promise.reject(new Error('the simulated store has no SQL')) }
}

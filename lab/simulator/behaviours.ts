// The handlers of a run: each does what its job's payload says, and tells when it starts, ends, and begins an effect.

import { defineJob } from '../../src/client/define-job.js'
import { DropJob, type Handler, type JobContext, type JobDefinition, RetryJob } from '../../src/core/definition.js'
import { sleep } from '../../src/core/ports.js'
import type { Incarnation } from './incarnation.js'
import type { Link, Transaction } from './link.js'
import type { Kind, Payload } from './plan-jobs.js'

/** What handlers can do to the world around them. */
export interface HandlerWorld {
  readonly incarnation: Incarnation
  readonly link: Link
  /** The job takes the whole process down. */
  crash(job: string): void
  /** The job keeps its process from everything else for so long. */
  block(ms: number): void
}

/** Handlers for every kind of job, in one process. */
export function handlersOf(world: HandlerWorld): Handler[] {
  return [...DEFINITIONS].map(([kind, definition]) =>
    definition.handle((payload, ctx) => (kind === 'instant' ? null : work(world, kind, { payload, ctx }))),
  )
}

interface Work {
  readonly payload: Payload
  readonly ctx: JobContext
}

async function work(world: HandlerWorld, kind: Kind, { payload, ctx }: Work): Promise<unknown> {
  const { incarnation } = world
  const about = { job: ctx.id, fence: ctx.fence, attempt: ctx.attempt }
  incarnation.tell({ ev: 'started', ...about })
  // One that settles in its own transaction ends its lease by that, and one that is given up loses it before it ends: hearing
  // of it is no loss.
  const lease = { id: ctx.id, fence: ctx.fence, queue: ctx.queue, attempt: ctx.attempt }
  if (kind !== 'transactional' && kind !== 'stuck') incarnation.runs(lease, true)
  try {
    return await BEHAVIOURS[kind](world, { payload, ctx })
  } finally {
    incarnation.runs(lease, false)
    incarnation.tell({ ev: 'ended', ...about })
  }
}

/** By then a lease that ran out was taken back, and its handler told. */
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
    // An attempt that was given back is no way to count, so chance by the fence stands in for a state of its own.
    if (ctx.fence % 3 !== 0) ctx.snooze(200 * payload.times)
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
  // Its transaction is open for longer than the lease and is rolled back; then it goes on for as long as nobody tells it to stop.
  outliving: async (world, { payload, ctx }) => {
    if (ctx.attempt > 1) return worked(world, { payload, ctx })
    const tx = begin(ctx)
    await ctx.complete(tx, { done: payload.key })
    await sleep(world.incarnation.ports.timers, payload.ms)
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

/** Works for a while, unless it is told to stop. */
async function pass({ incarnation }: HandlerWorld, ctx: JobContext, ms: number): Promise<void> {
  await sleep(incarnation.ports.timers, ms, ctx.signal)
  if (ctx.signal.aborted) throw ctx.signal.reason
}

/** Applies the job's effect outside of any transaction, asking again until the store has said that it is there. */
async function affect({ incarnation, link }: HandlerWorld, ctx: JobContext): Promise<void> {
  const { id, fence, queue, attempt } = ctx
  for (;;) {
    incarnation.tell({ ev: 'effect.begin', job: id, fence })
    try {
      await link.applyEffect({ id, fence, queue, attempt })
      return
    } catch {
      await sleep(incarnation.ports.timers, 100, ctx.signal)
      if (ctx.signal.aborted) throw ctx.signal.reason
    }
  }
}

function begin({ id, fence, attempt }: JobContext): Transaction {
  return { id: `${id} ${fence}`, attempt, query: () => Promise.reject(new Error('the simulated store has no SQL')) }
}

// The handlers of a chaos run: the generated load with effects in two tables, and jobs with a purpose of their own. A module, so that children load
// it too.

import type { Handler, JobContext } from '../../src/core/definition.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { type GeneratedHooks, generatedHandlers, wait } from '../gen/handlers.js'
import type { GeneratedPayload } from '../gen/mix.js'
import { Recorder } from '../gen/recorder.js'
import { openEffects } from './effects.js'
import { FLOW_JOBS, GENERATED, SPECIAL, type WorkerSetup } from './work.js'

const setup = JSON.parse(process.env.HOLDFAST_CHAOS_SETUP!) as WorkerSetup
// Each process has a file of its own.
export const recorder: Recorder = new Recorder(setup.record.replace(/jsonl$/, `${process.pid}.jsonl`), {
  process: setup.name,
  processRun: setup.processRun,
})
const effects = openEffects(setup)

/** Long enough after a rollback for every handler to be notified of a lost lease. */
const OUTLIVE_MS = 15_000

/** How often what a job calls tells it to wait, and who waits with it. */
const TOLD_SHARE = 0.25
const TOLD = ['group', { limit: 'rated' }] as const

/** What the run has ordered this process to do. */
export const orders: { isDown: boolean; diesAfterEffect: boolean } = { isDown: false, diesAfterEffect: false }

const hooks: GeneratedHooks = {
  started(_, ctx) {
    const { id: job, fence, attempt, signal } = ctx
    recorder.write({ ev: 'started', job, fence, attempt })
    const note = () => {
      if (isHoldfastError(signal.reason, 'lease_lost')) recorder.write({ ev: 'lost_lease', job, fence, attempt })
    }
    if (signal.aborted) note()
    else signal.addEventListener('abort', note, { once: true })
  },
  apply: (payload, ctx) => (payload.effect === 'outside' ? applyOutside(ctx) : applyInside(ctx)),
  ended: (_, { id: job, fence, attempt }) => recorder.write({ ev: 'ended', job, fence, attempt }),
  isDown: () => orders.isDown,
}

async function applyOutside(ctx: JobContext): Promise<void> {
  ctx.signal.throwIfAborted()
  recorder.write({ ev: 'effect.begin', job: ctx.id, fence: ctx.fence })
  await effects.outside(ctx)
  dieIfOrdered()
}

async function applyInside(ctx: JobContext): Promise<void> {
  await effects.inside(ctx)
  dieIfOrdered()
}

/** Completes the job in a transaction that stays open for longer than the lease and is then rolled back; then goes on for as long as
 *  nobody tells it to stop. */
async function outlive(ctx: JobContext): Promise<void> {
  await effects.rollBack(ctx, 2.5 * setup.leaseMs)
  await wait(OUTLIVE_MS, ctx.signal)
}

function dieIfOrdered(): void {
  if (orders.diesAfterEffect) process.kill(process.pid, 'SIGKILL')
}

export const handlers: readonly Handler[] = [
  ...generatedHandlers(GENERATED, hooks),
  SPECIAL.killer.handle(async (payload, ctx) => {
    await hooks.started?.(payload, ctx)
    process.kill(process.pid, 'SIGKILL')
  }),
  SPECIAL.exiting.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    if (ctx.attempt <= 2) process.exit(1)
  }),
  SPECIAL.spinning.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    // Beside what runs already, not before it.
    await wait(20, ctx.signal)
    while (ctx.attempt === 1);
  }),
  SPECIAL.leaking.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    const kept: Buffer[] = []
    while (ctx.attempt <= 2) {
      kept.push(Buffer.alloc(4 * 1024 * 1024, 1))
      await wait(1, ctx.signal)
    }
  }),
  SPECIAL.stuck.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    await new Promise(() => {})
  }),
  SPECIAL.outliving.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    if (ctx.attempt === 1) await outlive(ctx)
    await applyOutside(ctx)
  }),
  FLOW_JOBS.calling.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    await wait(payload.ms, ctx.signal)
    if (orders.isDown) throw new Error('the dependency is away')
  }),
  FLOW_JOBS.told.handle(async (payload: GeneratedPayload, ctx) => {
    await hooks.started?.(payload, ctx)
    const scope = TOLD[Math.floor(Math.random() * TOLD.length)]!
    if (Math.random() < TOLD_SHARE) ctx.rateLimited(20 + Math.random() * 100, scope)
  }),
  FLOW_JOBS.pushing.handleBatch({ max: 10, linger: '10ms', sameGroup: true }, async (jobs) => {
    for (const { payload, ctx } of jobs) await hooks.started?.(payload as GeneratedPayload, ctx)
    return jobs.map(({ ctx }) => (ctx.attempt === 1 && ctx.fence % 20 === 0 ? new Error('refused as planned') : 'sent'))
  }),
  SPECIAL.tick.handle((_, { id: job, fence, attempt }) => recorder.write({ ev: 'started', job, fence, attempt })),
]

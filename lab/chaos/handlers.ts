// The handlers of a chaos run: the generated load with effects in two tables, and jobs with a purpose of their own. A module, so that children load
// it too.

import pg from 'pg'
import type { Handler, JobContext } from '../../src/core/definition.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { type GeneratedHooks, generatedHandlers, wait } from '../gen/handlers.js'
import type { GeneratedPayload } from '../gen/mix.js'
import { Recorder } from '../gen/recorder.js'
import { WITNESS } from './watch.js'
import { FLOW_JOBS, GENERATED, SPECIAL, type WorkerSetup } from './work.js'

const setup = JSON.parse(process.env.HOLDFAST_CHAOS_SETUP!) as WorkerSetup
// Each process has a file of its own.
export const recorder: Recorder = new Recorder(setup.record.replace(/jsonl$/, `${process.pid}.jsonl`), {
  process: setup.name,
  processRun: setup.processRun,
})
const pool = new pg.Pool({
  ...{ connectionString: setup.url, max: 8, application_name: 'chaos effects' },
  ...{ connectionTimeoutMillis: 3_000, query_timeout: 3_000, idleTimeoutMillis: 5_000 },
})
pool.on('error', () => {})
// Also for a connection that is leaving the pool: if the server ends it then, only this listener receives the error.
pool.on('connect', (client) => client.on('error', () => {}))

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

async function applyOutside({ id, fence, attempt, signal }: JobContext): Promise<void> {
  signal.throwIfAborted()
  recorder.write({ ev: 'effect.begin', job: id, fence })
  await pool.query(`INSERT INTO ${WITNESS}.effects_outside VALUES ($1, $2, $3)`, [id, fence, attempt])
  dieIfOrdered()
}

async function applyInside(ctx: JobContext): Promise<void> {
  const client = await pool.connect()
  let failed: Error | undefined
  const note = (error: Error) => {
    failed = error
  }
  client.on('error', note)
  try {
    await client.query('BEGIN')
    await client.query(`INSERT INTO ${WITNESS}.effects_inside VALUES ($1, $2, $3)`, [ctx.id, ctx.fence, ctx.attempt])
    await ctx.complete(client)
    await client.query('COMMIT')
    dieIfOrdered()
  } catch (error) {
    failed = error instanceof Error ? error : new Error(String(error))
    throw error
  } finally {
    client.off('error', note)
    // A connection whose transaction failed is not used again: whatever was open on it is rolled back with its end.
    client.release(failed)
  }
}

/** Completes the job in a transaction that stays open for longer than the lease and is then rolled back; then goes on for as long as
 *  nobody tells it to stop. */
async function outlive(ctx: JobContext): Promise<void> {
  const client = await pool.connect()
  let failed: Error | true = true
  try {
    await client.query('BEGIN')
    await ctx.complete(client)
    await new Promise((resolve) => setTimeout(resolve, 2.5 * setup.leaseMs))
    await client.query('ROLLBACK')
  } catch (error) {
    failed = error instanceof Error ? error : new Error(String(error))
  } finally {
    client.release(failed)
  }
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

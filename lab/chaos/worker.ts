// A worker process of a chaos run: the handlers of the generated load with effects in two tables, and faults it takes on command.

import pg from 'pg'
import type { Handler, JobContext } from '../../src/core/definition.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { type GeneratedHooks, generatedHandlers, wait } from '../gen/handlers.js'
import type { GeneratedPayload } from '../gen/mix.js'
import { Recorder } from '../gen/recorder.js'
import { WITNESS } from './watch.js'
import { GENERATED, QUEUES, SPECIAL, type WorkerOrder, type WorkerReady, type WorkerSetup } from './work.js'

const setup = JSON.parse(process.argv[2]!) as WorkerSetup
const recorder = new Recorder(setup.record, { process: setup.name, processRun: setup.processRun })
const pool = new pg.Pool({
  ...{ connectionString: setup.url, max: 8, application_name: 'chaos effects' },
  ...{ connectionTimeoutMillis: 3_000, query_timeout: 3_000, idleTimeoutMillis: 5_000 },
})
pool.on('error', () => {})
// Also for a connection that is leaving the pool: if the server ends it then, only this listener receives the error.
pool.on('connect', (client) => client.on('error', () => {}))

/** Long enough after a rollback for every handler to be notified of a lost lease. */
const OUTLIVE_MS = 15_000

let isDown = false
let diesAfterEffect = false

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
  isDown: () => isDown,
}

async function applyOutside({ id, fence, attempt, signal }: JobContext): Promise<void> {
  signal.throwIfAborted()
  recorder.write({ ev: 'effect.begin', job: id, fence })
  await pool.query(`INSERT INTO ${WITNESS}.effects_outside VALUES ($1, $2, $3)`, [id, fence, attempt])
  dieIfTold()
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
    dieIfTold()
  } catch (error) {
    failed = error instanceof Error ? error : new Error(String(error))
    throw error
  } finally {
    client.off('error', note)
    // A connection whose transaction failed is not used again. Its open transaction is rolled back when it closes.
    client.release(failed)
  }
}

/** Completes the job in a transaction that stays open longer than the lease and is then rolled back. Then it continues until its
 *  signal fires. */
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

function dieIfTold(): void {
  if (diesAfterEffect) process.kill(process.pid, 'SIGKILL')
}

const special: Handler[] = [
  SPECIAL.killer.handle(async (payload, ctx) => {
    await hooks.started?.(payload, ctx)
    process.kill(process.pid, 'SIGKILL')
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
  SPECIAL.tick.handle((_, { id: job, fence, attempt }) => recorder.write({ ev: 'started', job, fence, attempt })),
]

process.on('message', (order: WorkerOrder) => {
  if (order.order === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms)
  if (order.order === 'die after effect') diesAfterEffect = true
  if (order.order === 'dependency') isDown = order.isDown
})
// The run is over when its parent ends.
process.on('disconnect', () => process.exit(1))

const holdfast = await connectWhenUp()
const worker = holdfast.worker({
  ...{ handlers: [...generatedHandlers(GENERATED, hooks), ...special], queues: [...QUEUES] },
  ...{ concurrency: setup.concurrency, prefetch: setup.prefetch, lease: setup.leaseMs, drain: '1500ms', pollMax: '1s' },
})
let signals = 0
process.on('SIGTERM', () => {
  signals++
  if (signals > 1) process.exit(143)
  void holdfast.close().then(() => process.exit(0))
})
await worker.start()
process.send?.({ worker: worker.id } satisfies WorkerReady)

/** A process may be started while the server is away or not yet the primary. A supervisor would start it again and again. */
async function connectWhenUp(): Promise<Holdfast> {
  for (;;) {
    try {
      const store = await postgresStore(setup.url, { schema: setup.schema, deadlineMs: 3_000, connectMs: 3_000 })
      return await openHoldfast(store, { name: setup.name, upkeep: { hold: '3s' } })
    } catch (error) {
      if (!isHoldfastError(error, 'store_unavailable') && !isHoldfastError(error, 'store_read_only')) throw error
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}

// One process of the outbox experiment: it commits and rolls back transactions that enqueue, or it sends, works and completes jobs in
// transactions, and dies at the step that it was given.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openHoldfast } from '../../src/holdfast.js'
import { defineJob, type Holdfast } from '../../src/index.js'
import { outboxStore } from '../../src/stores/outbox/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { readAssignment, sendToParent } from '../bench/parent.js'
import { type Step, withSteps } from './outbox-steps.js'

export interface OutboxAssignment {
  readonly redis: string
  readonly postgres: string
  readonly role: 'produce' | 'work'
  /** Of one that works: where it dies, and null for nowhere. */
  readonly diesAt: Step | null
  /** The number of the last transaction of a producer. All producers count together, and an odd one is rolled back. */
  readonly until: number
  /** Transactions of a producer in a second. */
  readonly rate: number
  /** Transactions, or jobs, that it has open concurrently. */
  readonly open: number
}

const DAY_MS = 86_400_000
const order = defineJob<{ seq: number }>('order', {
  maxAttempts: 1_000,
  retry: { backoff: 'fixed', base: '100ms' },
})

async function main(assignment: OutboxAssignment): Promise<void> {
  const { role, redis, postgres, diesAt } = assignment
  let isArmed = false
  const reach = (step: Step) => {
    if (isArmed && step === diesAt) process.kill(process.pid, 'SIGKILL')
  }
  const plain = await redisStore(redis)
  const store = role === 'work' ? withSteps(plain, reach) : plain
  const holdfast = await openHoldfast(await outboxStore(store, postgres, { retentionMs: DAY_MS }), {
    retention: DAY_MS,
    upkeep: role === 'work',
  })
  const pool = new pg.Pool({ connectionString: postgres, max: assignment.open })
  pool.on('error', () => {})
  if (role === 'produce') {
    sendToParent({ kind: 'begun' })
    await produce(holdfast, pool, assignment)
    sendToParent({ kind: 'done' })
    return
  }
  holdfast.worker({ concurrency: assignment.open, lease: '3s', handlers: [handle(pool)] }).start()
  await sleep(300)
  isArmed = true
}

function handle(pool: pg.Pool) {
  return order.handle(async ({ seq }, ctx) => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('INSERT INTO outbox_run.effects (seq, id) VALUES ($1, $2)', [seq, ctx.id])
      const done = await ctx.complete(client)
      await client.query('COMMIT')
      return done
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {})
      throw error
    } finally {
      client.release()
    }
  })
}

/** Each transaction has a row of its own beside the job: what is there afterwards is what committed. */
async function produce(holdfast: Holdfast, pool: pg.Pool, { until, rate, open }: OutboxAssignment): Promise<void> {
  const one = async () => {
    for (;;) {
      await sleep((1_000 * open) / rate)
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        // A sequence counts those that are rolled back as well.
        const { rows } = await client.query("SELECT nextval('outbox_run.begun')::integer AS seq")
        const { seq } = rows[0] as { seq: number }
        if (seq > until) {
          await client.query('ROLLBACK')
          return
        }
        const { id } = await holdfast.enqueue(order, { seq }, { tx: client })
        await client.query('INSERT INTO outbox_run.orders (seq, id) VALUES ($1, $2)', [seq, id])
        await client.query(seq % 2 === 1 ? 'ROLLBACK' : 'COMMIT')
      } finally {
        client.release()
      }
    }
  }
  await Promise.all(Array.from({ length: open }, one))
}

await main(readAssignment<OutboxAssignment>())

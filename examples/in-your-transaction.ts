// Enqueue in your own transaction: the job exists if and only if your rows do. HOLDFAST_URL must name a PostgreSQL server.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect, defineJob } from 'holdfast'
import pg from 'pg'

const shipOrder = defineJob<{ order: string }>('ship_order')

const pool = new pg.Pool({ connectionString: process.env.HOLDFAST_URL })
await pool.query('CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY)')
const holdfast = await connect(process.env.HOLDFAST_URL)

async function placeOrder(order: string, end: 'COMMIT' | 'ROLLBACK'): Promise<string> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('INSERT INTO orders (id) VALUES ($1)', [order])
    const { id } = await holdfast.enqueue(shipOrder, { order }, { tx: client })
    await client.query(end)
    return id
  } finally {
    client.release()
  }
}

const rolledBack = await placeOrder(randomUUID(), 'ROLLBACK')
assert.equal(await holdfast.get(rolledBack), null)
console.log('rolled back: no order, no job')

const committed = await placeOrder(randomUUID(), 'COMMIT')
assert.equal((await holdfast.get(committed))?.state, 'ready')
console.log('committed: one order, one job')

const worker = holdfast.worker({ handlers: [shipOrder.handle(({ order }) => `shipped ${order}`)] })
await worker.start()
assert.match(await holdfast.wait<string>(committed, { timeout: '10s' }), /^shipped /)
console.log('the job ran')

await holdfast.close()
await pool.end()

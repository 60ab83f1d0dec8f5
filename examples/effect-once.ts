// An effect applied once: complete(tx) settles the job in the transaction of its effect, so both commit or neither does.
// HOLDFAST_URL must name a PostgreSQL server.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect, defineJob } from 'holdfast'
import pg from 'pg'

const credit = defineJob<{ account: string; cents: number }>('credit', { retry: { backoff: 'fixed', base: '20ms' } })

const pool = new pg.Pool({ connectionString: process.env.HOLDFAST_URL })
await pool.query('CREATE TABLE IF NOT EXISTS entries (account uuid, cents integer)')
const holdfast = await connect(process.env.HOLDFAST_URL)

const handler = credit.handle(async ({ account, cents }, ctx) => {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('INSERT INTO entries (account, cents) VALUES ($1, $2)', [account, cents])
    await ctx.complete(client, { credited: cents })
    // If something fails before the commit, or the process dies here, there is neither an entry nor a finished job.
    if (ctx.attempt === 1) throw new Error('the power went out')
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
})

const worker = holdfast.worker({ handlers: [handler] })
await worker.start()

const account = randomUUID()
const { id } = await holdfast.enqueue(credit, { account, cents: 500 })
assert.deepEqual(await holdfast.wait(id, { timeout: '10s' }), { credited: 500 })

const { rows } = await pool.query('SELECT cents FROM entries WHERE account = $1', [account])
const job = await holdfast.get(id)
console.log(`${job?.attempt} attempts, ${rows.length} entry of ${rows[0]?.cents} cents`)
assert.equal(job?.attempt, 2)
assert.deepEqual(rows, [{ cents: 500 }])

await holdfast.close()
await pool.end()

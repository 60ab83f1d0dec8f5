// Enqueueing inside the caller's own transaction, on a real PostgreSQL.

import { Client as PgClient } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { failure } from './support.js'

const SCHEMA = `client_tx_${process.pid}`
const charge = defineJob<{ order: number }>('charge', { queue: 'money' })

let holdfast: Holdfast
let db: PgClient

beforeAll(async () => {
  const url = process.env.HOLDFAST_TEST_URL!
  holdfast = await connect(url, { schema: SCHEMA })
  db = new PgClient({ connectionString: url })
  await db.connect()
})

afterAll(async () => {
  await holdfast.close()
  await db.query(`DROP SCHEMA ${SCHEMA} CASCADE`)
  await db.end()
})

describe('tx', () => {
  test('a transaction that commits leaves one job', async () => {
    await db.query('BEGIN')
    const { id, created } = await holdfast.enqueue(charge, { order: 1 }, { tx: db })
    const before = await holdfast.get(id)
    await db.query('COMMIT')
    holdfast.wake('money')

    expect(created).toBe(true)
    expect(before).toBeNull()
    expect(await holdfast.get(id)).toMatchObject({ state: 'ready', payload: { order: 1 } })
  })

  test('a transaction that is rolled back leaves none', async () => {
    await db.query('BEGIN')
    const { id } = await holdfast.enqueue(charge, { order: 2 }, { tx: db })
    await db.query('ROLLBACK')

    expect(await holdfast.get(id)).toBeNull()
  })

  test('many jobs share the transaction', async () => {
    await db.query('BEGIN')
    const gone = await holdfast.enqueueMany(charge, [{ order: 3 }, { order: 4 }], { tx: db })
    await db.query('ROLLBACK')
    await db.query('BEGIN')
    const kept = await holdfast.enqueueMany(
      [
        [charge, { order: 5 }],
        ['note', 'x'],
      ],
      { tx: db },
    )
    await db.query('COMMIT')

    const found = await Promise.all([...gone, ...kept].map(({ id }) => holdfast.get(id)))
    expect(found.map((job) => job?.type ?? null)).toEqual([null, null, 'charge', 'note'])
  })

  test('one line makes any other client a transaction', async () => {
    await db.query('BEGIN')
    const tx = { query: (text: string, values: unknown[]) => db.query(text, values) }
    const { id } = await holdfast.enqueue(charge, { order: 6 }, { tx })
    await db.query('COMMIT')

    expect((await holdfast.get(id))?.state).toBe('ready')
  })

  test('a signal that has fired keeps the transaction untouched', async () => {
    await db.query('BEGIN')
    const error = await failure(holdfast.enqueue(charge, { order: 7 }, { tx: db, signal: AbortSignal.abort() }))
    await db.query('COMMIT')

    expect(error).toMatchObject({ code: 'aborted', details: { written: 'no' } })
    expect((await holdfast.list({ queue: 'money', type: 'charge' })).jobs).toHaveLength(3)
  })
})

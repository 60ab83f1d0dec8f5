// Enqueueing inside the caller's own transaction, on a real PostgreSQL.

import { Client as PgClient, Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, defineJob, type Holdfast, type Queryable } from '../../src/index.js'
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

describe('what is in no transaction', () => {
  const count = async () => (await holdfast.list({ queue: 'refused' })).jobs.length
  const enqueue = (tx: Queryable) => holdfast.enqueue('charge', { order: 8 }, { tx, queue: 'refused' })
  /** What an adapter for another library is: nothing but query(text, values). */
  const adapter = { query: (text: string, values: unknown[]) => db.query(text, values) }
  const wrapping = {
    query: (text: string, values: unknown[]) =>
      db.query(text, values).catch((cause: unknown) => {
        throw new Error('query failed', { cause: new Error('in the driver', { cause }) })
      }),
  }

  test.each([
    { what: 'a client', tx: () => db },
    { what: 'an adapter', tx: () => adapter },
    { what: 'an adapter that wraps errors', tx: () => wrapping },
  ])('$what is refused, and nothing is written', async ({ tx }) => {
    const error = await failure(enqueue(tx()))

    expect(error).toMatchObject({ code: 'invalid_option', message: expect.stringContaining('is in no transaction') })
    expect(await count()).toBe(0)
  })

  test('a pool is refused, and says what to give instead', async () => {
    const pool = new Pool({ connectionString: process.env.HOLDFAST_TEST_URL! })

    const error = await failure(enqueue(pool))
    await pool.end()

    expect(error).toMatchObject({ code: 'invalid_option', message: expect.stringContaining('pool.connect()') })
    expect(await count()).toBe(0)
  })

  test('a client is refused again after its transaction ended', async () => {
    await db.query('BEGIN')
    await enqueue(db)
    await db.query('ROLLBACK')

    expect(await failure(enqueue(db))).toMatchObject({ code: 'invalid_option' })
    expect(await count()).toBe(0)
  })

  test('complete(tx) is refused too, and the job fails with what to do', async () => {
    const handler = defineJob('settle', { queue: 'refused-complete', maxAttempts: 1 }).handle((_, ctx) =>
      ctx.complete(db),
    )
    const worker = holdfast.worker({ queues: ['refused-complete'], handlers: [handler] })
    await worker.start()
    const { id } = await holdfast.enqueue('settle', null, { queue: 'refused-complete', maxAttempts: 1 })

    const error = await failure(holdfast.wait(id))
    await worker.stop()

    expect(error).toMatchObject({ code: 'job_dead' })
    expect((await holdfast.get(id))?.attempts.at(-1)?.error?.message).toContain('is in no transaction')
  })
})

describe('what is in a transaction', () => {
  test.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
    'is taken at %s, by an adapter too',
    async (level) => {
      const adapter = { query: (text: string, values: unknown[]) => db.query(text, values) }
      await db.query(`BEGIN ISOLATION LEVEL ${level}`)
      const jobs = [await holdfast.enqueue('taken', 1, { tx: db }), await holdfast.enqueue('taken', 2, { tx: adapter })]
      await db.query('COMMIT')

      const found = await Promise.all(jobs.map(({ id }) => holdfast.get(id)))
      expect(found.map((job) => job?.payload)).toEqual([1, 2])
    },
  )

  test('whether it is one can be asked by a role without any rights', async () => {
    const role = `client_tx_nobody_${process.pid}`
    const adapter = { query: (text: string, values: unknown[]) => db.query(text, values) }
    await db.query(`CREATE ROLE ${role}`)
    await db.query('BEGIN')
    await db.query(`SET LOCAL ROLE ${role}`)

    const error = await failure(holdfast.enqueue('taken', 6, { tx: adapter }))
    await db.query('ROLLBACK')
    await db.query(`DROP ROLE ${role}`)

    expect(error).toMatchObject({ code: '42501', message: expect.stringContaining(SCHEMA) })
  })

  test('a BEGIN that is still on its way counts', async () => {
    const begun = db.query('BEGIN')
    const { id } = await holdfast.enqueue('taken', 3, { tx: db })
    await begun
    await db.query('ROLLBACK')

    expect(await holdfast.get(id)).toBeNull()
  })

  test('one that has failed gives the database’s own error', async () => {
    await db.query('BEGIN')
    await failure(db.query('SELECT 1 / 0'))

    const error = await failure(holdfast.enqueue('taken', 4, { tx: db }))
    await db.query('ROLLBACK')

    expect(error).toMatchObject({ code: '25P02' })
  })

  test('a pg client costs one statement more the first time, and none after that', async () => {
    const sent: string[] = []
    const client = new PgClient({ connectionString: process.env.HOLDFAST_TEST_URL! })
    await client.connect()
    const query = client.query.bind(client)
    Object.assign(client, {
      query: (text: string, values: unknown[]) => {
        sent.push(text)
        return query(text, values)
      },
    })
    await client.query('BEGIN')
    await holdfast.enqueue('taken', 5, { tx: client })
    const first = sent.splice(0).length
    await holdfast.enqueue('taken', 6, { tx: client })
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    await holdfast.enqueue('taken', 7, { tx: client })
    await client.query('ROLLBACK')
    await client.end()

    expect(first).toBe(3)
    expect(sent).toHaveLength(5)
  })
})

describe('a transaction in another database', () => {
  const name = `client_tx_other_${process.pid}`
  const url = process.env.HOLDFAST_TEST_URL!
  const otherUrl = () => Object.assign(new URL(url), { pathname: `/${name}` }).href
  let other: PgClient
  beforeAll(async () => {
    await db.query(`CREATE DATABASE ${name}`)
    other = new PgClient({ connectionString: otherUrl() })
    await other.connect()
  })
  afterAll(async () => {
    await other.end()
    await db.query(`DROP DATABASE ${name} WITH (FORCE)`)
  })

  const refused = async (client: PgClient) => {
    await client.query('BEGIN')
    const viaAdapter = { query: (text: string, values: unknown[]) => client.query(text, values) }
    const errors = [
      await failure(holdfast.enqueue(charge, { order: 1 }, { tx: client })),
      await failure(holdfast.enqueueMany(charge, [{ order: 1 }], { tx: client })),
      await failure(holdfast.enqueue(charge, { order: 1 }, { tx: viaAdapter })),
    ]
    await client.query('COMMIT')
    return errors
  }

  test('that has no such schema is refused', async () => {
    for (const error of await refused(other)) {
      expect(error).toMatchObject({ code: 'invalid_option' })
      expect(error.message).toContain(`tx is connected to database "${name}", which has no schema "${SCHEMA}"`)
    }
  })

  test('that has the schema too is refused, and nothing is written there', async () => {
    const there = await connect(otherUrl(), { schema: SCHEMA, upkeep: false })

    for (const error of await refused(other)) {
      expect(error).toMatchObject({ code: 'invalid_option' })
      expect(error.message).toContain(`tx is connected to database "${name}", and the queue is in "postgres"`)
    }
    expect((await there.list({})).jobs).toEqual([])
    await there.close()
  })

  test('is no place to complete a job in: it fails with the reason, and keeps its lease till then', async () => {
    const there = await connect(otherUrl(), { schema: SCHEMA, upkeep: false })
    const handler = defineJob('elsewhere', { queue: 'elsewhere' }).handle(async (_, ctx) => {
      await other.query('BEGIN')
      try {
        await ctx.complete(other)
      } finally {
        await other.query('ROLLBACK')
      }
    })
    const worker = holdfast.worker({ queues: ['elsewhere'], handlers: [handler] })
    await worker.start()
    const { id } = await holdfast.enqueue('elsewhere', null, { queue: 'elsewhere', maxAttempts: 1 })

    const error = await failure(holdfast.wait(id))
    await worker.stop()
    await there.close()

    expect(error).toMatchObject({ code: 'job_dead' })
    expect((await holdfast.get(id))?.attempts.at(-1)?.error?.message).toContain(`database "${name}"`)
  })

  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  test.skipIf(process.env.HOLDFAST_TEST_URL_15 === undefined)(
    'of the same name on another server is refused',
    async () => {
      const url15 = process.env.HOLDFAST_TEST_URL_15!
      const there = await connect(url15, { schema: SCHEMA, upkeep: false })
      const client = new PgClient({ connectionString: url15 })
      await client.connect()

      for (const error of await refused(client)) {
        expect(error).toMatchObject({ code: 'invalid_option' })
        expect(error.message).toContain('of another server')
      }
      await there.close()
      await client.query(`DROP SCHEMA ${SCHEMA} CASCADE`)
      await client.end()
    },
  )

  test('is distinguished from a schema that was made anew', async () => {
    const schema = `${SCHEMA}_anew`
    const first = await connect(url, { schema, upkeep: false })
    await db.query('BEGIN')
    await first.enqueue('a', 1, { tx: db })
    await db.query('ROLLBACK')
    await first.close()
    await db.query(`DROP SCHEMA ${schema} CASCADE`)
    const second = await connect(url, { schema, upkeep: false })

    await db.query('BEGIN')
    const { id } = await second.enqueue('a', 1, { tx: db })
    await db.query('COMMIT')

    expect(await second.get(id)).toMatchObject({ state: 'ready' })
    await second.close()
    await db.query(`DROP SCHEMA ${schema} CASCADE`)
  })
})

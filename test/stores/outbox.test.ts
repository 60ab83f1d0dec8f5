// The outbox between PostgreSQL and Redis: a job is there if and only if the transaction that enqueued it commits, and stays there when Redis
// loses its last writes.

import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { type ConnectOptions, connect, defineJob, type Holdfast, type HoldfastEvent } from '../../src/index.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'

const email = defineJob('email', { queue: 'email' })

let server: RedisServer
let pool: pg.Pool
let schema: string
let count = 0
const open: Holdfast[] = []

beforeAll(async () => {
  server = await openRedis()
  pool = new pg.Pool({ connectionString: testServerUrl() })
})
afterAll(async () => {
  await pool.end()
  await server.close()
})
beforeEach(() => {
  schema = `outbox_${process.pid}_${++count}`
  server.empty()
})
afterEach(async () => {
  await Promise.all(open.splice(0).map((holdfast) => holdfast.close()))
  await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
})

/** A connection that sends by itself. */
async function connectHere(options: ConnectOptions = {}): Promise<Holdfast> {
  const holdfast = await connect(server.url, { outbox: testServerUrl(), schema, ...options })
  open.push(holdfast)
  return holdfast
}

/** Runs work in a transaction, which is committed unless it throws. */
async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const result = await work(client)
    await client.query('COMMIT')
    return result
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  await expect.poll(isTrue, { timeout: 10_000, interval: 20 }).toBe(true)
}

const isInStore = async (holdfast: Holdfast, id: string) => {
  const job = await holdfast.get(id)
  return job !== null && job.outbox === undefined
}

function eventsOf(holdfast: Holdfast): HoldfastEvent[] {
  const seen: HoldfastEvent[] = []
  holdfast.on((event) => seen.push(event))
  return seen
}

describe('a job of a transaction', () => {
  test('is sent to Redis after the commit, and runs once', async () => {
    const holdfast = await connectHere()
    const runs: string[] = []
    const worker = holdfast.worker({ handlers: [email.handle(async (_, ctx) => void runs.push(ctx.id))] })
    worker.start()

    const job = await inTransaction((tx) => holdfast.enqueue(email, { to: 'ada' }, { tx }))

    await holdfast.wait(job.id, { timeout: '10s' })
    expect(runs).toEqual([job.id])
    // The job may end before the transaction that sent its row.
    await expect
      .poll(async () => (await holdfast.health()).outbox)
      .toMatchObject({ waiting: 0, oldestMs: 0, isReachable: true })
  })

  test('is never there when the transaction is rolled back', async () => {
    const holdfast = await connectHere()
    let id = ''

    await inTransaction(async (tx) => {
      id = (await holdfast.enqueue(email, {}, { tx })).id
      throw new Error('changed my mind')
    }).catch(() => {})
    const later = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))

    await until(() => isInStore(holdfast, later.id))
    expect(await holdfast.get(id)).toBeNull()
  })

  test('is ready in the outbox until it is sent, and says so', async () => {
    const holdfast = await connectHere({ upkeep: false })

    const job = await inTransaction((tx) => holdfast.enqueue(email, { to: 'ada' }, { tx }))

    expect(await holdfast.get(job.id)).toMatchObject({
      state: 'ready',
      payload: { to: 'ada' },
      outbox: { outcome: 'waiting', why: null },
    })
    expect((await holdfast.health()).outbox?.waiting).toBe(1)
  })

  test('can be many, in order, and with wake() they are sent at once', async () => {
    const holdfast = await connectHere()

    const jobs = await inTransaction((tx) => holdfast.enqueueMany(email, [1, 2, 3], { tx }))
    holdfast.wake('email')

    await until(() => isInStore(holdfast, jobs[2]!.id))
    const page = await holdfast.list({ filter: { queues: ['email'] } })
    expect(page.jobs.map(({ id }) => id).sort()).toEqual(jobs.map(({ id }) => id).sort())
  })
})

describe('a transaction', () => {
  test('that is no transaction is refused, and so is a pool', async () => {
    const holdfast = await connectHere()
    const client = await pool.connect()

    await expect(holdfast.enqueue(email, {}, { tx: client })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(holdfast.enqueue(email, {}, { tx: pool })).rejects.toMatchObject({ code: 'invalid_option' })
    client.release()
  })

  test('through an adapter of another library is the same, and refused outside of one', async () => {
    const holdfast = await connectHere()
    // It gives rows as arrays, and does not tell whether it is in a transaction.
    const adapt = (client: pg.ClientBase) => ({
      query: (text: string, values: unknown[]) => client.query({ text, values, rowMode: 'array' }),
    })

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx: adapt(tx) }))
    const client = await pool.connect()
    const refused = holdfast.enqueue(email, {}, { tx: adapt(client) })

    await expect(refused).rejects.toMatchObject({ code: 'invalid_option' })
    client.release()
    await until(() => isInStore(holdfast, job.id))
  })

  test('without an outbox is refused with the words that name one', async () => {
    const holdfast = await connect(server.url)
    open.push(holdfast)

    const refused = inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))

    await expect(refused).rejects.toMatchObject({ code: 'unsupported', message: expect.stringContaining('outbox') })
  })
})

describe('an outbox', () => {
  test('must keep its rows for less than retention', async () => {
    const made = connectHere({ retention: '10m' })

    await expect(made).rejects.toMatchObject({ code: 'invalid_option', message: expect.stringContaining('outboxKeep') })
  })

  test('is refused for a store that needs none', async () => {
    await expect(connect('memory:', { outbox: testServerUrl() })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(connect(testServerUrl(), { outbox: testServerUrl() })).rejects.toMatchObject({
      code: 'invalid_option',
    })
  })

  test('is made by any number of processes that connect at the same moment', async () => {
    const opened = await Promise.all(Array.from({ length: 4 }, () => connectHere()))

    expect((await opened[3]!.health()).outbox?.isReachable).toBe(true)
  })

  test('can share a schema with a store in PostgreSQL', async () => {
    const store = await connect(testServerUrl(), { schema })
    open.push(store)
    const holdfast = await connectHere()

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))

    await until(() => isInStore(holdfast, job.id))
    expect(await store.get(job.id)).toBeNull()
  })

  test('drops rows some time after they were sent', async () => {
    const holdfast = await connectHere({ outboxKeep: '1s' })

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))

    await until(() => isInStore(holdfast, job.id))
    await until(async () => (await pool.query(`SELECT FROM "${schema}".outbox`)).rowCount === 0)
  })
})

describe('what Redis says to a row', () => {
  test('a held key: the job is not created, its row and an event say so, and waiting for it waits for the holder', async () => {
    const holdfast = await connectHere()
    const events = eventsOf(holdfast)
    const holder = await holdfast.enqueue(email, {}, { idempotencyKey: 'one' })

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx, idempotencyKey: 'one' }))

    await until(async () => events.some(({ name }) => name === 'outbox.deduplicated'))
    expect(await holdfast.get(job.id)).toMatchObject({
      state: 'cancelled',
      outbox: { outcome: 'deduplicated', holder: holder.id },
    })
    const waiting = holdfast.wait(job.id, { timeout: '10s' })
    holdfast.worker({ handlers: [email.handle(async () => 'done')] }).start()
    expect(await waiting).toBe('done')
  })

  test('a parent that does not exist: the job is refused, with an event and a line in the audit log', async () => {
    const holdfast = await connectHere()
    const events = eventsOf(holdfast)
    const nobody = '01900000-0000-7000-8000-000000000000'

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx, after: nobody }))

    await until(async () => events.some(({ name }) => name === 'outbox.refused'))
    expect((await holdfast.get(job.id))?.outbox).toMatchObject({
      outcome: 'refused',
      why: expect.stringContaining(nobody),
    })
    await until(async () => (await holdfast.audit({ action: 'outbox_refused' })).entries.length === 1)
    await expect(holdfast.wait(job.id, { timeout: '5s' })).rejects.toMatchObject({ code: 'job_cancelled' })
    expect((await holdfast.health()).outbox?.refused).toBe(1)
  })

  test('a job comes after another of the same transaction, and after the holder of a key that one did not get', async () => {
    const holdfast = await connectHere()
    const holder = await holdfast.enqueue(email, {}, { idempotencyKey: 'one' })

    const [parent, child] = await inTransaction(async (tx) => {
      const first = await holdfast.enqueue(email, {}, { tx, idempotencyKey: 'one' })
      return [first, await holdfast.enqueue(email, {}, { tx, after: first.id })] as const
    })

    await until(() => isInStore(holdfast, child.id))
    expect(parent.id).not.toBe(holder.id)
    expect(await holdfast.get(child.id)).toMatchObject({ state: 'blocked', after: [holder.id] })
  })

  test('a delay counts from the enqueue, not from the moment of sending', async () => {
    const holdfast = await connectHere({ upkeep: false })
    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx, delay: '1h' }))
    await pool.query(`UPDATE "${schema}".outbox SET created_at = created_at - interval '59 minutes'`)

    const sender = await connectHere()

    await until(() => isInStore(sender, job.id))
    const { runAt } = (await sender.get(job.id))!
    expect(runAt!.getTime() - Date.now()).toBeLessThan(70_000)
  })

  test('a job that waits in the outbox can be cancelled', async () => {
    const holdfast = await connectHere({ upkeep: false })
    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))

    await holdfast.cancel(job.id)

    expect(await holdfast.get(job.id)).toMatchObject({ state: 'cancelled', outbox: { outcome: 'cancelled' } })
    const sender = await connectHere()
    const later = await inTransaction((tx) => sender.enqueue(email, {}, { tx }))
    await until(() => isInStore(sender, later.id))
    expect((await sender.get(job.id))?.state).toBe('cancelled')
  })
})

describe('when Redis', () => {
  test('restarts without its last writes, jobs of the outbox are sent again', async () => {
    const lossy = await openRedis()
    const holdfast = await connect(lossy.url, { outbox: testServerUrl(), schema })
    open.push(holdfast)
    const events = eventsOf(holdfast)
    lossy.snapshot()
    const jobs = await inTransaction((tx) => holdfast.enqueueMany(email, [1, 2, 3], { tx }))
    await until(() => isInStore(holdfast, jobs[2]!.id))
    const direct = await holdfast.enqueue(email, 4)

    await lossy.kill()
    await lossy.start()

    await until(() => isInStore(holdfast, jobs[2]!.id).catch(() => false))
    expect(await isInStore(holdfast, jobs[0]!.id)).toBe(true)
    expect(await holdfast.get(direct.id)).toBeNull()
    await until(async () => events.some((event) => event.name === 'outbox.sent' && event.repeated === 3))
    await holdfast.close()
    await lossy.close()
  })

  test('is away, transactions commit, and their jobs are sent when it is back', async () => {
    const away = await openRedis({ appendonly: 'yes' })
    const holdfast = await connect(away.url, { outbox: testServerUrl(), schema })
    open.push(holdfast)
    await away.kill()

    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))
    await away.start()

    await until(() => isInStore(holdfast, job.id).catch(() => false))
    await holdfast.close()
    await away.close()
  })
})

describe('a deleted job', () => {
  const rowsOf = async (table: string, id: string) =>
    (await pool.query(`SELECT FROM "${schema}".${table} WHERE id = $1`, [id])).rowCount

  test('that is in the outbox alone is gone with its row, and is never sent', async () => {
    const holdfast = await connectHere({ upkeep: false })
    const job = await inTransaction((tx) => holdfast.enqueue(email, { to: 'ada' }, { tx }))

    const answer = await holdfast.delete(job.id)

    expect(answer).toEqual({ id: job.id, result: 'deleted' })
    expect(await rowsOf('outbox', job.id)).toBe(0)
    expect(await holdfast.get(job.id)).toBeNull()
    const sender = await connectHere()
    const later = await inTransaction((tx) => sender.enqueue(email, {}, { tx }))
    await until(() => isInStore(sender, later.id))
    expect(await sender.get(job.id)).toBeNull()
    expect(await sender.delete(job.id)).toMatchObject({ result: 'missing' })
  })

  test('that is being sent is deleted after that, from Redis and from the outbox', async () => {
    const holdfast = await connectHere({ upkeep: false })
    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))
    const isWaiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"${schema}".outbox %'`
    let deleting: Promise<unknown> = Promise.resolve()

    await inTransaction(async (sender) => {
      await sender.query(`SELECT FROM "${schema}".outbox WHERE id = $1 FOR UPDATE`, [job.id])
      deleting = holdfast.delete(job.id)
      await until(async () => (await pool.query(isWaiting)).rowCount === 1)
    })

    expect(await deleting).toMatchObject({ result: 'deleted' })
    expect(await rowsOf('outbox', job.id)).toBe(0)
  })

  test('keeps its row when it runs, because then it is not deleted', async () => {
    const holdfast = await connectHere()
    const job = await inTransaction((tx) => holdfast.enqueue(email, {}, { tx }))
    let end = () => {}
    const over = new Promise<void>((resolve) => {
      end = resolve
    })
    holdfast.worker({ handlers: [email.handle(() => over)] }).start()
    await until(async () => (await holdfast.get(job.id))?.state === 'running')

    await expect(holdfast.delete(job.id)).rejects.toMatchObject({ code: 'wrong_state' })

    expect(await rowsOf('outbox', job.id)).toBe(1)
    end()
    await holdfast.wait(job.id, { timeout: '10s' })
    await holdfast.delete(job.id)
    expect(await rowsOf('outbox', job.id)).toBe(0)
  })

  test('does not come back when Redis restarts without its last writes, which were the job and the delete', async () => {
    const lossy = await openRedis()
    const holdfast = await connect(lossy.url, { outbox: testServerUrl(), schema })
    open.push(holdfast)
    const old = await inTransaction((tx) => holdfast.enqueue(email, 'old', { tx }))
    const direct = await holdfast.enqueue(email, 'direct')
    await until(() => isInStore(holdfast, old.id))
    lossy.snapshot()
    const [young, kept] = await inTransaction((tx) => holdfast.enqueueMany(email, ['young', 'kept'], { tx }))
    await until(() => isInStore(holdfast, kept!.id))
    const gone = [old.id, direct.id, young!.id]
    for (const id of gone) expect(await holdfast.delete(id)).toMatchObject({ result: 'deleted' })

    await lossy.kill()
    await lossy.start()

    await until(() => isInStore(holdfast, kept!.id).catch(() => false))
    for (const id of gone) await until(async () => (await holdfast.get(id)) === null)
    expect((await holdfast.list()).jobs.map(({ id }) => id)).toEqual([kept!.id])
    await holdfast.close()
    await lossy.close()
  })

  test('of a bulk action is gone from the outbox too', async () => {
    const holdfast = await connectHere()
    const jobs = await inTransaction((tx) => holdfast.enqueueMany(email, [1, 2, 3], { tx }))
    await until(() => isInStore(holdfast, jobs[2]!.id))

    const { id } = await holdfast.bulk({ action: 'delete', filter: 'queue:email', expected: 3 })

    await until(async () => (await holdfast.getBulk(id))?.state === 'done')
    await until(async () => (await pool.query(`SELECT FROM "${schema}".outbox`)).rowCount === 0)
    expect(await holdfast.get(jobs[0]!.id)).toBeNull()
  })
})

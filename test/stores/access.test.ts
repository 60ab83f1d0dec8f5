// How a store gets its connections: TLS, passwords that change, a cap, and a pool of the user's.

import { readFileSync } from 'node:fs'
import { chown, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { type ConnectOptions, connect, defineJob, type Holdfast } from '../../src/index.js'
import { failure } from '../client/support.js'
import { testServerUrl } from '../support/postgres.js'

const pem = (name: string) => readFileSync(new URL(`../fixtures/tls/${name}`, import.meta.url), 'utf8')
const add = defineJob<{ a: number; b: number }, number>('add')
const handler = () => add.handle(({ a, b }) => a + b)

let server: PostgresServer
let sql: pg.Client
let plainUrl: string

beforeAll(async () => {
  server = await PostgresServer.open({ password: 'first', settings: { fsync: 'off' } })
  await server.stop('SIGINT')
  const { uid, gid } = await stat(server.data)
  for (const name of ['server.pem', 'server.key']) {
    const file = join(server.data, name)
    await writeFile(file, pem(name), { mode: 0o600 })
    await chown(file, uid, gid)
  }
  server.change({ ssl: 'on', ssl_cert_file: 'server.pem', ssl_key_file: 'server.key' })
  await server.start()
  plainUrl = `postgres://holdfast@127.0.0.1:${server.port}/postgres`
  sql = new pg.Client({ connectionString: plainUrl.replace('@', ':first@') })
  await sql.connect()
}, 60_000)

afterAll(async () => {
  await sql.end()
  await server.close()
}, 60_000)

async function open(options: ConnectOptions, url = plainUrl): Promise<Holdfast> {
  return connect(url, { upkeep: false, ...options })
}

async function connections(): Promise<{ ssl: boolean; name: string }[]> {
  const { rows } = await sql.query(
    `SELECT ssl, application_name AS name FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
      WHERE application_name LIKE 'holdfast%'`,
  )
  return rows
}

describe('TLS', () => {
  test('a server whose certificate the given authority signed is connected to with TLS', async () => {
    const holdfast = await open({ password: 'first', ssl: { ca: pem('ca.pem') } })

    await holdfast.enqueue(add, { a: 1, b: 2 })

    expect((await connections()).map(({ ssl }) => ssl)).not.toContain(false)
    await holdfast.close()
  })

  test('a server whose certificate another authority signed is refused', async () => {
    const error = await failure(open({ password: 'first', ssl: { ca: pem('other-ca.pem') } }))

    expect(error.message).toMatch(/certificate/)
  })

  const cases: [name: string, options: unknown, message: RegExp][] = [
    ['TLS that is a word', { ssl: 'yes' }, /ssl must be an object, got "yes"/],
    ['TLS with an unknown part', { ssl: { caFile: 'ca.pem' } }, /ssl has no option "caFile"/],
    ['the name of a file in place of a certificate', { ssl: { ca: '/etc/ca.pem' } }, /not the name of its file/],
    ['a certificate without its key', { ssl: { cert: pem('ca.pem') } }, /both cert and key/],
    ['a check of certificates that is no boolean', { ssl: { rejectUnauthorized: 0 } }, /must be true or false/],
    ['an empty password', { password: '' }, /password must be text of 1 to/],
    ['a password that is a number', { password: 42 }, /password must be text.* got number/],
    ['a cap without room for what a process needs', { connections: 2 }, /connections must be a whole number from 3/],
    ['a cap that is text', { connections: '5' }, /connections must be a whole number/],
    ['a cap with the memory for failovers', { connections: 5, failoverMemory: true }, /leave out connections/],
    ['a pool that is a number', { pool: 5 }, /takes a URL or a pool, got both/],
  ]
  test.each(cases)('refuses %s', async (_, options, message) => {
    const error = await failure(open(options as ConnectOptions))

    expect(error.code).toMatch(/invalid_option|unsupported/)
    expect(error.message).toMatch(message)
  })

  test('what the URL says already is not given again', async () => {
    const twice = failure(connect('postgres://a:s3cret@127.0.0.1:1/x', { password: 'other' }))
    const tls = failure(connect('postgres://a@127.0.0.1:1/x?sslmode=require', { ssl: true }))

    expect((await twice).message).toMatch(/a password is in the URL and in the option password/)
    expect((await twice).message).not.toContain('s3cret')
    expect((await tls).message).toMatch(/the URL has sslmode= and the option ssl is given/)
  })

  test('stores that are no PostgreSQL say that these options are not for them', async () => {
    for (const url of ['memory:', 'redis://127.0.0.1:1']) {
      expect((await failure(connect(url, { ssl: true }))).message).toMatch(/ssl is for a URL of postgres:/)
      expect((await failure(connect(url, { password: 'x' }))).message).toMatch(/password is for a URL of postgres:/)
    }
    expect((await failure(connect('embedded:x', { password: 'x' }))).message).toMatch(
      /an embedded store has one server/,
    )
  })
})

describe('a password function', () => {
  test('is asked at each new connection, so that a token that has changed is used', async () => {
    let token = 'first'
    let asked = 0
    const holdfast = await open({
      password: async () => {
        asked++
        return token
      },
    })
    await holdfast.enqueue(add, { a: 1, b: 2 })
    const before = asked

    await sql.query("ALTER ROLE holdfast PASSWORD 'second'")
    token = 'second'
    await sql.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'")
    const { id } = await holdfast.enqueue(add, { a: 3, b: 4 })

    expect(asked).toBeGreaterThan(before)
    expect((await holdfast.get(id))?.state).toBe('ready')
    await holdfast.close()
    await sql.query("ALTER ROLE holdfast PASSWORD 'first'")
  })

  test('may give text with any characters', async () => {
    const odd = 'a b/c?d#e@f%41:ü'
    await sql.query(`ALTER ROLE holdfast PASSWORD '${odd}'`)
    const holdfast = await open({ password: odd })

    expect(await holdfast.stats()).toBeDefined()
    await holdfast.close()
    await sql.query("ALTER ROLE holdfast PASSWORD 'first'")
  })

  const failures: [name: string, password: () => never | string | Promise<string>, message: RegExp][] = [
    ['raises', () => Promise.reject(new Error('no credentials')), /has no password.*it raised: no credentials/],
    ['gives nothing', () => undefined as unknown as string, /it gave no text but undefined/],
    ['gives empty text', () => '', /it gave text of 0 characters/],
  ]
  test.each(failures)('that %s is a clear error', async (_, password, message) => {
    const error = await failure(open({ password }))

    expect(error).toMatchObject({ code: 'access_denied', retryable: true })
    expect(error.message).toMatch(message)
  })

  test('is asked by the heartbeat thread too', async () => {
    // A thread needs a file to start from, which only the built package has.
    const built: typeof import('../../src/index.js') = await import(
      new URL('../../dist/src/index.js', import.meta.url).href
    )
    const slow = built.defineJob<null, string>('slow')
    const failed: unknown[] = []
    const holdfast = await built.connect(plainUrl, { password: async () => 'first', ssl: { ca: pem('ca.pem') } })
    holdfast.on((event) => {
      if (event.name === 'store.failed') failed.push(event.error)
    })
    // Without its thread, a handler that blocks the main thread for longer than the lease loses it.
    const block = slow.handle(() => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_800)
      return 'kept'
    })
    await holdfast.worker({ handlers: [block], lease: 1_000, heartbeat: 200 }).start()

    const { id } = await holdfast.enqueue(slow, null)

    expect(await holdfast.wait(id)).toBe('kept')
    expect((await holdfast.get(id))?.attempt).toBe(1)
    expect(failed).toEqual([])
    await holdfast.close()
  })
})

describe('a cap on connections', () => {
  test('is never passed, and everything works within it', async () => {
    const schema = `cap_${process.pid}`
    const holdfast = await connect(testServerUrl(), { schema, connections: 3 })
    const look = new pg.Client({ connectionString: testServerUrl() })
    await look.connect()
    const worker = holdfast.worker({ handlers: [handler()], concurrency: 8 })
    await worker.start()

    const handles = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        holdfast.enqueue(add, { a: index, b: 1 }, index % 3 === 0 ? { idempotencyKey: `key ${index}` } : {}),
      ),
    )
    const results = await Promise.all(handles.map((handle) => handle.wait()))
    await Promise.all([holdfast.list({ type: 'add' }), holdfast.stats(), holdfast.queues(), holdfast.groups('default')])
    const { rows } = await look.query(
      `SELECT count(*)::integer AS open FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' AND query LIKE '%${schema}%'`,
    )

    expect(results).toEqual(handles.map((_, index) => index + 1))
    expect(rows[0].open).toBeGreaterThan(0)
    expect(rows[0].open).toBeLessThanOrEqual(3)
    await holdfast.close()
    await look.query(`DROP SCHEMA ${schema} CASCADE`)
    await look.end()
  })
})

describe('a pool of the user’s', () => {
  const schema = `pool_${process.pid}`
  let pool: pg.Pool

  beforeAll(() => {
    pool = new pg.Pool({ connectionString: testServerUrl(), max: 4 })
  })

  afterAll(async () => {
    await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await pool.end()
  })

  test('carries everything from enqueue to result, and stays open when the queue is closed', async () => {
    const holdfast = await connect({ pool, schema, upkeep: { hold: 0 } })
    await holdfast.worker({ handlers: [handler()], concurrency: 4 }).start()

    const { id } = await holdfast.enqueue(add, { a: 1, b: 2 }, { idempotencyKey: 'once' })
    const later = await holdfast.enqueue(add, { a: 2, b: 2 }, { delay: 50 })
    const many = await holdfast.enqueueMany(add, [{ a: 3, b: 3 }])
    const results = [await holdfast.wait(id), await later.wait(), await many[0]!.wait()]
    const { jobs } = await holdfast.list({ type: 'add' })
    await holdfast.close()

    expect(results).toEqual([3, 4, 6])
    expect(jobs).toHaveLength(3)
    expect(pool.totalCount).toBeLessThanOrEqual(4)
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  test('is given back as it was, with the settings of its user', async () => {
    const single = new pg.Pool({ connectionString: testServerUrl(), max: 1 })
    await single.query("SET lock_timeout = '7s'; SET search_path = public; SET enable_seqscan = on")
    const holdfast = await connect({ pool: single, schema, upkeep: false })
    await holdfast.enqueue(add, { a: 1, b: 2 })
    await holdfast.stats()

    const { rows } = await single.query(
      "SELECT current_setting('lock_timeout') AS l, current_setting('search_path') AS s, current_setting('enable_seqscan') AS e",
    )

    expect(rows).toEqual([{ l: '7s', s: 'public', e: 'on' }])
    await holdfast.close()
    await single.end()
  })

  test('a transaction of the same pool is a tx', async () => {
    const holdfast = await connect({ pool, schema, upkeep: false })
    const client = await pool.connect()
    await client.query('BEGIN')
    const { id } = await holdfast.enqueue(add, { a: 1, b: 2 }, { tx: client })
    await client.query('ROLLBACK')
    client.release()

    expect(await holdfast.get(id)).toBeNull()
    await holdfast.close()
  })

  test('with no connection to give is a clear error, and a later call succeeds', async () => {
    const { postgresStore } = await import('../../src/stores/postgres/index.js')
    const single = new pg.Pool({ connectionString: testServerUrl(), max: 1 })
    const store = await postgresStore(single, { schema, connectMs: 100 })
    const taken = await single.connect()

    const error = await failure(store.queues())
    taken.release()

    expect(error.code).toBe('store_unavailable')
    expect(error.message).toMatch(/the pool gave no connection within 100 ms.*1 are open and 1 callers wait/)
    expect(await store.queues()).toBeInstanceOf(Array)
    await store.close()
    await single.end()
  })

  const cases: [name: string, options: () => unknown, message: RegExp][] = [
    ['a number', () => ({ pool: 5 }), /pool must be a pg.Pool/],
    ['a client', () => ({ pool: new pg.Client({}) }), /must be a pg.Pool, got a client/],
    ['no pool', () => ({ schema }), /or an object with a pool/],
    ['a pool and TLS', () => ({ pool, ssl: true }), /ssl has no meaning with a pool/],
    ['a pool and a cap', () => ({ pool, connections: 5 }), /connections has no meaning with a pool/],
    ['a pool and hosts', () => ({ pool, hosts: ['a'] }), /hosts has no meaning with a pool/],
    ['a pool and the memory for failovers', () => ({ pool, failoverMemory: true }), /failoverMemory has no meaning/],
    ['a pool that should sleep', () => ({ pool, idle: 'sleep' }), /needs wake-ups, which do not arrive over a pool/],
  ]
  test.each(cases)('refuses %s', async (_, options, message) => {
    const error = await failure(connect(options() as never))

    expect(error.code).toBe('invalid_option')
    expect(error.message).toMatch(message)
  })

  test('a schema that is missing or old is refused with migrate: false', async () => {
    const error = await failure(connect({ pool, schema: `${schema}_missing`, migrate: false }))

    expect(error.code).toBe('schema_missing')
  })
})

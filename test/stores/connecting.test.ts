// Connecting to PostgreSQL: what goes wrong is said in words, with a code, without the password, and leaves nothing behind.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort, PostgresServer } from '../../lab/servers/postgres.js'
import { connect } from '../../src/index.js'
import { meaningOf } from '../../src/stores/postgres/errors.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Lane } from '../../src/stores/postgres/lane.js'
import { MIGRATIONS } from '../../src/stores/postgres/migrations/index.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `connecting_${process.pid}`

async function failure(attempt: Promise<unknown>): Promise<{ code: string; message: string; retryable: boolean }> {
  return attempt.then(
    () => Promise.reject(new Error('it succeeded')),
    (error) => error,
  )
}

describe('connecting to PostgreSQL', () => {
  let sql: pg.Client
  beforeAll(async () => {
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
  })
  afterAll(async () => {
    await sql.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await sql.end()
  })

  test('a server that cannot be reached is named, with what to do', async () => {
    const port = await freePort()

    const error = await failure(connect(`postgres://app:s3cret@127.0.0.1:${port}/shop`))

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(error.message).toContain(`127.0.0.1:${port}/shop`)
    expect(error.message).toContain('start the server, or check host, port and network')
    expect(error.message).not.toContain('s3cret')
  })

  test('a host name that does not exist is named', async () => {
    const error = await failure(connect('postgres://app:s3cret@no-such-host.invalid/shop'))

    expect(error).toMatchObject({ code: 'store_unavailable' })
    expect(error.message).toContain('no-such-host.invalid:5432/shop')
  })

  test('a wrong password is access_denied, and is not shown', async () => {
    const server = await PostgresServer.open({ password: 'right' })
    const url = server.url.replace('holdfast@', 'holdfast:wr0ng@')

    const error = await failure(connect(url))
    await server.close()

    expect(error).toMatchObject({ code: 'access_denied', retryable: false })
    expect(error.message).toContain('check user and password')
    expect(error.message).not.toContain('wr0ng')
  }, 30_000)

  test('a database that does not exist is store_refused', async () => {
    const error = await failure(connect(testServerUrl().replace('/postgres', '/nowhere')))

    expect(error).toMatchObject({ code: 'store_refused' })
    expect(error.message).toContain('the database does not exist: create it or change the URL')
  })

  test('a server that takes no writes is store_read_only, and nothing is written', async () => {
    await sql.query('CREATE ROLE reader LOGIN')
    await sql.query('ALTER ROLE reader SET default_transaction_read_only = on')

    const error = await failure(connect(testServerUrl().replace('holdfast@', 'reader@'), { schema: 'never' }))
    await sql.query('DROP ROLE reader')

    expect(error).toMatchObject({ code: 'store_read_only' })
    expect(error.message).toContain('connect to the primary')
    expect((await sql.query("SELECT to_regnamespace('never') AS made")).rows[0].made).toBeNull()
  })

  test('a server that turns read-only later refuses the enqueue, and takes it again when it is writable', async () => {
    const server = await PostgresServer.open({ settings: { fsync: 'off' } })
    const holdfast = await connect(server.url, { upkeep: false, enqueueTimeout: '500ms' })
    const admin = new pg.Client({ connectionString: server.url })
    await admin.connect()
    await admin.query('ALTER SYSTEM SET default_transaction_read_only = on')
    await admin.query('SELECT pg_reload_conf()')
    await expect
      .poll(async () => (await admin.query('SHOW default_transaction_read_only')).rows[0])
      .toMatchObject({
        default_transaction_read_only: 'on',
      })

    const error = await failure(holdfast.enqueue('work', {}))
    await admin.query('SET default_transaction_read_only = off')
    await admin.query('ALTER SYSTEM SET default_transaction_read_only = off')
    await admin.query('SELECT pg_reload_conf()')
    await expect.poll(() => holdfast.enqueue('work', {}).then(() => 'accepted', String)).toBe('accepted')
    const { jobs } = await holdfast.list({})
    await holdfast.close()
    await admin.end()
    await server.close()

    expect(['store_read_only', 'store_unavailable']).toContain(error.code)
    expect(error.message).toMatch(/read-only|primary/)
    expect(jobs.length).toBeGreaterThanOrEqual(1)
  }, 30_000)

  test('a schema that is newer than the package is refused with what to do', async () => {
    await (await postgresStore(testServerUrl(), { schema })).close()
    await sql.query(`INSERT INTO ${schema}.migrations (number, name, checksum) VALUES (9999, 'future', '')`)

    const error = await failure(connect(testServerUrl(), { schema }))
    await sql.query(`DELETE FROM ${schema}.migrations WHERE number = 9999`)

    expect(error).toMatchObject({ code: 'schema_too_new' })
    expect(error.message).toMatch(/schema "connecting_\d+" is at migration 9999, this version knows up to \d+: upgrade/)
  })

  test('twelve processes that start concurrently migrate once', async () => {
    const name = `${schema}_race`

    const stores = await Promise.all(Array.from({ length: 12 }, () => postgresStore(testServerUrl(), { schema: name })))

    const { rows } = await sql.query(`SELECT number FROM ${name}.migrations ORDER BY number`)
    expect(rows.map(({ number }) => number)).toEqual(MIGRATIONS.map(({ number }) => number))
    await Promise.all(stores.map((store) => store.close()))
    await sql.query(`DROP SCHEMA ${name} CASCADE`)
  })

  test.each(['', 'Upper', 'a b', 'a"; DROP TABLE x; --', 'pg_mine', 'x'.repeat(49), '1st', 'naïve', null])(
    'a schema named %j is refused',
    async (name) => {
      const error = await failure(postgresStore(testServerUrl(), { schema: name as string }))

      expect(error).toMatchObject({ code: 'invalid_option' })
      expect(error.message).toMatch(/^schema must be/)
    },
  )

  test.each(['mysql://h/db', 'postgres//h', 'not a url', 'embedded:', 'http://h'])(
    'the URL %j is refused before anything is opened',
    async (url) => {
      expect(await failure(connect(url))).toMatchObject({ code: expect.stringMatching(/^(invalid_url|unsupported)$/) })
    },
  )
})

describe('a SQLSTATE', () => {
  test.each([
    ['08006', 'store_unavailable', true],
    ['57P01', 'store_unavailable', true],
    ['57P03', 'store_unavailable', true],
    ['53300', 'store_unavailable', true],
    ['53100', 'store_unavailable', true],
    ['25P02', 'store_unavailable', true],
    ['25P03', 'store_unavailable', true],
    ['25P04', 'store_unavailable', true],
    ['40001', 'store_unavailable', true],
    ['40P01', 'store_unavailable', true],
    ['55P03', 'store_unavailable', true],
    ['57014', 'store_unavailable', true],
    ['58030', 'store_unavailable', true],
    ['25006', 'store_read_only', true],
    ['28P01', 'access_denied', false],
    ['28000', 'access_denied', false],
    ['42501', 'access_denied', false],
    ['3D000', 'store_refused', false],
    ['3F000', 'schema_missing', false],
    ['42P01', 'schema_missing', false],
    ['22P02', 'store_refused', false],
    ['23505', 'store_refused', false],
    ['XX000', 'store_refused', false],
  ])('%s means %s', (state, code, retryable) => {
    expect(meaningOf(state)).toMatchObject({ code, retryable })
  })

  test('that is missing means that the connection broke', () => {
    expect(meaningOf(null)).toMatchObject({ code: 'store_unavailable', retryable: true })
  })
})

describe('a connection', () => {
  test('commits durably although its role is set otherwise', async () => {
    const admin = new pg.Client({ connectionString: testServerUrl() })
    await admin.connect()
    await admin.query('CREATE ROLE hasty LOGIN SUPERUSER')
    await admin.query('ALTER ROLE hasty SET synchronous_commit = off')
    const name = `${schema}_hasty`
    const holdfast = await connect(testServerUrl().replace('holdfast@', 'hasty@'), { schema: name, upkeep: false })
    await admin.query(
      `ALTER TABLE ${name}.ready ADD COLUMN durability text DEFAULT current_setting('synchronous_commit')`,
    )

    await holdfast.enqueue('work', {})

    const { rows } = await admin.query(`SELECT durability FROM ${name}.ready`)
    await holdfast.close()
    await admin.query(`DROP SCHEMA ${name} CASCADE`)
    await admin.query('DROP ROLE hasty')
    await admin.end()
    expect(rows).toEqual([{ durability: 'on' }])
  })

  test('whose server forgets what was prepared sends whole statements from then on', async () => {
    const lane = new Lane({
      settings: async () => ({ connectionString: testServerUrl() }),
      purpose: 'test',
      connectMs: 5_000,
    })
    const ask = (name: string) => lane.query({ name, text: 'SELECT $1::text', values: [name] }, 5_000)
    await Promise.all(['a', 'b', 'c'].map(ask))

    // What a pooler does when it hands out another server connection.
    await lane.query({ name: '', text: 'DEALLOCATE ALL', values: [] }, 5_000)
    const answers = await Promise.all(['a', 'b', 'c'].map(ask))
    await lane.close()

    expect(answers).toEqual([[['a']], [['b']], [['c']]])
  })

  test('that waits for a key in an open transaction does not hold up jobs without one', async () => {
    const name = `${schema}_keys`
    const holdfast = await connect(testServerUrl(), { schema: name, upkeep: false })
    const client = new pg.Client({ connectionString: testServerUrl() })
    await client.connect()
    await client.query('BEGIN')
    const first = await holdfast.enqueue('work', {}, { idempotencyKey: 'k', tx: client })

    const second = holdfast.enqueue('work', {}, { idempotencyKey: 'k' })
    const plain = await holdfast.enqueue('work', {})
    await client.query('COMMIT')

    expect(plain.created).toBe(true)
    expect(await second).toMatchObject({ id: first.id, created: false })
    await holdfast.close()
    await client.query(`DROP SCHEMA ${name} CASCADE`)
    await client.end()
  })
})

// Errors with which the server ends the connection: about the moment, whatever their code, and never about what was sent.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { Lane } from '../../src/stores/postgres/lane.js'

let server: PostgresServer
let sql: pg.Client

beforeAll(async () => {
  server = await PostgresServer.open({ settings: { fsync: 'off' } })
  sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
}, 60_000)

afterAll(async () => {
  await sql.end()
  await server.close()
}, 60_000)

const query = (text: string) => ({ name: '', text, values: [] })

describe('a query whose connection the server ends', () => {
  let lane: Lane
  beforeEach(() => {
    lane = new Lane({ settings: async () => ({ connectionString: server.url }), purpose: 'test', connectMs: 5_000 })
  })
  afterEach(() => lane.close())

  test.each([
    ['transaction_timeout', '25P04', 'SELECT pg_sleep(5)'],
    ['a terminated backend', '57P01', 'SELECT pg_terminate_backend(pg_backend_pid())'],
  ])('for %s (%s) is retryable, and the next one has a new connection', async (_why, state, text) => {
    if (state === '25P04') await lane.query(query("SET transaction_timeout = '50ms'"), 5_000)

    const error = await lane.query(query(text), 5_000).catch((thrown) => thrown)
    const next = await lane.query(query('SELECT 1'), 5_000)

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true, details: { sqlState: state } })
    expect(next).toEqual([['1']])
  })

  test('with a code that has nothing to do with connections is retryable all the same', async () => {
    // The server reports it in its own words, and ends the session: FATAL with the code of a syntax error.
    await lane.query(query('SET exit_on_error = on'), 5_000)

    const error = await lane.query(query('SELEKT'), 5_000).catch((thrown) => thrown)

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true, details: { sqlState: '42601' } })
    expect(await lane.query(query('SELECT 1'), 5_000)).toEqual([['1']])
  })

  test('while its transaction is idle is retryable, and nothing of it is there', async () => {
    await sql.query('CREATE TABLE left_over (n int)')

    const error = await lane
      .transaction(async (send) => {
        await send(query("SET idle_in_transaction_session_timeout = '50ms'"))
        await send(query('INSERT INTO public.left_over VALUES (1)'))
        await sleep(300)
        return send(query('SELECT 1'))
      }, 5_000)
      .catch((thrown) => thrown)

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect((await sql.query('SELECT * FROM left_over')).rows).toEqual([])
    await sql.query('DROP TABLE left_over')
  })
})

// F46 of docs/findings/chaos.md.
describe('a role with limits', () => {
  const role = 'limited'
  let holdfast: Holdfast
  beforeAll(async () => {
    await sql.query(`CREATE ROLE ${role} LOGIN SUPERUSER`)
    for (const name of ['transaction_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']) {
      await sql.query(`ALTER ROLE ${role} SET ${name} = '100ms'`)
    }
  })
  beforeEach(async () => {
    holdfast = await connect(server.url.replace('holdfast@', `${role}@`), { schema: role })
    await sql.query(`CREATE SEQUENCE ${role}.times`)
  })
  afterEach(async () => {
    await holdfast.close()
    await sql.query(`DROP SCHEMA ${role} CASCADE`)
  })

  /** Has the first statement that writes to a table do something first. */
  async function atFirst(event: string, table: string, act: string): Promise<void> {
    await sql.query(`
      CREATE FUNCTION ${role}.act() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('${role}.times') = 1 THEN ${act}; END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER act AFTER ${event} ON ${role}.${table} FOR EACH STATEMENT EXECUTE FUNCTION ${role}.act()`)
  }

  // A limit that counts is not replaced by another, so it is ended first.
  const END_IT =
    "SET LOCAL transaction_timeout = 0; SET LOCAL transaction_timeout = '20ms'; PERFORM pg_catalog.pg_sleep(5)"

  test.each(['direct', 'behind a pooler'])('does not cut statements of ours short: %s', async (way) => {
    const settings = { ignore_startup_parameters: 'options' }
    const pooler = await PgBouncer.open({ target: server.port, users: [role], settings })
    const port = way === 'direct' ? server.port : pooler.port
    const producer = await connect(`postgres://${role}@127.0.0.1:${port}/postgres`, { schema: role, upkeep: false })
    const failures: string[] = []
    producer.on((event) => event.name === 'store.failed' && failures.push(event.error.message))
    await atFirst('INSERT', 'keys', 'PERFORM pg_catalog.pg_sleep(0.5)')

    const { created } = await producer.enqueue('work', {}, { idempotencyKey: 'slow' })
    await producer.close()
    await pooler.close()

    expect(created).toBe(true)
    expect(failures).toEqual([])
    expect((await sql.query(`SELECT last_value FROM ${role}.times`)).rows).toEqual([{ last_value: '1' }])
  })

  test('that ends the connection of an enqueue has it sent again', async () => {
    await atFirst('INSERT', 'ready', END_IT)

    const { id } = await holdfast.enqueue('work', {})

    expect((await holdfast.get(id))?.state).toBe('ready')
    expect((await sql.query(`SELECT count(*)::int AS n FROM ${role}.jobs`)).rows).toEqual([{ n: 1 }])
  })

  test('that ends the connection of a settlement does not cost the handler’s result', async () => {
    await atFirst('INSERT', 'finished', END_IT)
    let runs = 0
    const work = defineJob('work')
    const worker = holdfast.worker({
      handlers: [
        work.handle(async () => {
          runs++
          return { sum: 42 }
        }),
      ],
    })
    await worker.start()

    const { id } = await holdfast.enqueue(work, {})
    const result = await holdfast.wait(id, { timeout: '20s' })

    expect(result).toEqual({ sum: 42 })
    expect(runs).toBe(1)
    expect((await sql.query(`SELECT last_value FROM ${role}.times`)).rows[0].last_value).not.toBe('1')
  })
})

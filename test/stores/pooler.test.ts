// A real PgBouncer in front, which hands out another server connection for each transaction and knows nothing of what was prepared.

import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { Database } from '../../src/stores/postgres/database.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Lane } from '../../src/stores/postgres/lane.js'
import { statement } from '../../src/stores/postgres/statement.js'
import { systemPorts } from '../../src/system-ports.js'
import { watchDurability } from '../../src/upkeep/durability.js'

let server: PostgresServer
let sql: pg.Client
const poolers: PgBouncer[] = []

beforeAll(async () => {
  server = await PostgresServer.open({ password: 'right' })
  sql = new pg.Client({ connectionString: urlAt(server.port, 'holdfast') })
  await sql.connect()
}, 60_000)

afterAll(async () => {
  await sql.end()
  await server.close()
}, 60_000)

afterEach(async () => {
  await Promise.all(poolers.splice(0).map((pooler) => pooler.close()))
})

function urlAt(port: number, user: string): string {
  return `postgres://${user}:right@127.0.0.1:${port}/postgres`
}

/** A pooler that refuses start-up options, as it does by default, or drops them. */
async function openPooler(options: 'refuses options' | 'drops options', user = 'holdfast'): Promise<string> {
  const settings = options === 'drops options' ? { ignore_startup_parameters: 'options' } : {}
  const pooler = await PgBouncer.open({ target: server.port, poolSize: 3, users: [user], password: 'right', settings })
  poolers.push(pooler)
  return urlAt(pooler.port, user)
}

const WAYS = ['refuses options', 'drops options'] as const
const SCHEMAS = ['first', 'second'] as const

// F45 of docs/findings/chaos.md.
describe.each(WAYS)('behind a pooler that %s', (way) => {
  test('two schemas in one database never get each other’s jobs, and each job runs once', async () => {
    const url = await openPooler(way)
    const runs: Record<string, string[]> = { first: [], second: [] }
    const clients: Holdfast[] = []
    const work = defineJob<{ schema: string; number: number }>('work')
    for (const schema of [...SCHEMAS, ...SCHEMAS]) {
      const holdfast = await connect(url, { schema })
      clients.push(holdfast)
      const handlers = [
        work.handle(async (payload) => {
          runs[schema]!.push(`${payload.schema} ${payload.number}`)
        }),
      ]
      await holdfast.worker({ concurrency: 8, handlers }).start()
    }

    const ids = await Promise.all(
      clients.flatMap((holdfast, index) =>
        Array.from({ length: 50 }, async (_, number) => {
          const schema = SCHEMAS[index % 2]!
          const { id } = await holdfast.enqueue(work, { schema, number: index * 1_000 + number })
          return { holdfast, id }
        }),
      ),
    )
    await Promise.all(ids.map(({ holdfast, id }) => holdfast.wait(id, { timeout: '30s' })))
    await Promise.all(clients.map((holdfast) => holdfast.close()))

    for (const schema of SCHEMAS) {
      expect(runs[schema]).toHaveLength(100)
      expect(new Set(runs[schema]).size).toBe(100)
      expect(runs[schema]!.filter((run) => !run.startsWith(schema))).toEqual([])
      await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    }
  }, 60_000)

  test('a key in somebody’s open transaction keeps only those waiting who ask for it', async () => {
    const url = await openPooler(way)
    const holdfast = await connect(url, { schema: 'held', upkeep: false, enqueueTimeout: '10s' })
    const tx = new pg.Client({ connectionString: url })
    await tx.connect()
    const keyed = (key: string) => holdfast.enqueue('a', null, { idempotencyKey: key })
    const key = `held ${way}`
    await tx.query('BEGIN')
    const held = await holdfast.enqueue('a', null, { idempotencyKey: key, tx })
    const waiting = keyed(key)

    const others = []
    for (let n = 0; n < 5; n++) others.push(await keyed(`${way} ${n}`))
    await tx.query('COMMIT')

    expect(others.every(({ created }) => created)).toBe(true)
    expect(await waiting).toMatchObject({ id: held.id, created: false })
    // Nothing of that stays behind on the pooler's connections.
    for (let n = 0; n < 10; n++) expect((await tx.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '0' }])
    await tx.end()
    await holdfast.close()
  })

  // PgBouncer looks at what it was sent piece by piece. It gives a server connection to the next client as soon as an answer ends,
  // also when the first half of this client's next query is on it already. That half then stays open on the server, with its locks.
  test('queries of one lane that overlap are all answered', async () => {
    const url = await openPooler(way)
    const lanes = Array.from({ length: 4 }, () => {
      return new Lane({ settings: async () => ({ connectionString: url }), purpose: 'overlap', connectMs: 10_000 })
    })
    const long = 'x'.repeat(20_000)
    const ask = async (lane: Lane, name: string) => {
      const query = { name: '', text: 'SELECT $1::text, length($2::text)::text', values: [name, long] }
      const [row] = await lane.query(query, 5_000)
      return `${row?.[0]}: ${row?.[1]}`
    }
    const callers = lanes.flatMap((lane, at) =>
      Array.from({ length: 8 }, (_, number) => ({ lane, name: `${at} ${number}` })),
    )

    const answers = await Promise.all(
      callers.map(async ({ lane, name }) => {
        const seen = new Set<string>()
        for (let count = 0; count < 50; count++) seen.add(await ask(lane, name).catch(String))
        return [...seen]
      }),
    )
    await Promise.all(lanes.map((lane) => lane.close()))

    expect(answers).toEqual(callers.map(({ name }) => [`${name}: 20000`]))
  }, 120_000)

  test('two versions of a statement with one name each give their own answer', async () => {
    const settings = { connectionString: await openPooler(way) }
    const versions = ['old', 'new'].map((word) => ({
      word,
      db: new Database({
        settings: async () => settings,
        schema: 'same',
        clock: null,
        connectMs: 5_000,
        deadlineMs: 5_000,
      }),
      sql: statement('answer', `SELECT $1::text || ' ${word}'`),
    }))

    const answers = await Promise.all(
      versions.flatMap(({ word, db, sql: question }) =>
        Array.from({ length: 40 }, async (_, index) => {
          const purpose = (['claim', 'settle', 'enqueue', 'operate'] as const)[index % 4]!
          const alone = await db.send(purpose, question, ['x'])
          const inside = await db.transaction(purpose, (send) => send(question, ['x']))
          return [word, alone[0]![0], inside[0]![0]]
        }),
      ),
    )
    await Promise.all(versions.map(({ db }) => db.close()))

    for (const [word, alone, inside] of answers) expect([alone, inside]).toEqual([`x ${word}`, `x ${word}`])
  }, 30_000)

  test('commits are durable and at read committed, whatever the role is set to, and doctor’s facts show both', async () => {
    await sql.query("CREATE ROLE hasty LOGIN SUPERUSER PASSWORD 'right'")
    await sql.query('ALTER ROLE hasty SET synchronous_commit = off')
    await sql.query("ALTER ROLE hasty SET default_transaction_isolation = 'repeatable read'")
    const url = await openPooler(way, 'hasty')
    const store = await postgresStore(url, { schema: 'hasty' })
    const holdfast = await connect(url, { schema: 'hasty', upkeep: false })
    const said: string[] = []
    const column = (name: string) => `DEFAULT current_setting('${name}')`
    await sql.query(`ALTER TABLE hasty.ready ADD COLUMN commits text ${column('synchronous_commit')}`)
    await sql.query(`ALTER TABLE hasty.ready ADD COLUMN level text ${column('transaction_isolation')}`)
    await sql.query(`ALTER TABLE hasty.ready ADD COLUMN path text ${column('search_path')}`)

    await holdfast.enqueue('work', {})
    await holdfast.enqueue('work', {}, { idempotencyKey: 'key' })
    const { rows } = await sql.query('SELECT DISTINCT commits, level, path FROM hasty.ready')
    const { postgres } = await store.health()
    await watchDurability({ store, ports: systemPorts, emit: (event) => 'text' in event && said.push(event.text) })
    await Promise.all([holdfast.close(), store.close()])
    await Promise.all(poolers.splice(0).map((pooler) => pooler.close()))
    await sql.query('DROP SCHEMA hasty CASCADE')
    await sql.query('DROP ROLE hasty')

    expect(rows).toEqual([{ commits: 'on', level: 'read committed', path: 'pg_catalog,pg_temp' }])
    expect(postgres!.settings).toMatchObject({ synchronousCommit: 'on', synchronousCommitOfRole: 'off' })
    expect(said).toEqual([expect.stringMatching(/^synchronous_commit is off for this role: jobs enqueued in your own/)])
  }, 30_000)
})

describe('a pooler that cannot serve us', () => {
  test.each(['a schema to be made', 'a schema that is there'])(
    'in statement mode is refused at the start with what to set: %s',
    async (schema) => {
      const name = schema.replaceAll(' ', '_')
      if (schema.endsWith('there'))
        await (await postgresStore(urlAt(server.port, 'holdfast'), { schema: name })).close()
      const pooler = await PgBouncer.open({ target: server.port, mode: 'statement', password: 'right' })
      poolers.push(pooler)

      const refused = await connect(urlAt(pooler.port, 'holdfast'), { schema: name }).catch((error) => error)

      expect(refused).toMatchObject({ code: 'store_refused', retryable: false })
      expect(refused.message).toContain('set pool_mode = transaction (or session)')
    },
    30_000,
  )

  test('in session mode without a server connection left is named as the likely cause, with the number it takes', async () => {
    const settings = { ignore_startup_parameters: 'options', query_wait_timeout: '2' }
    const pooler = await PgBouncer.open({
      target: server.port,
      mode: 'session',
      poolSize: 1,
      password: 'right',
      settings,
    })
    poolers.push(pooler)
    const url = urlAt(pooler.port, 'holdfast')
    const holder = new pg.Client({ connectionString: url })
    await holder.connect()
    await holder.query('SELECT 1')

    const late = await postgresStore(url, { schema: 'waits', connectMs: 500 }).catch((error) => error)
    const ended = await postgresStore(url, { schema: 'waits', connectMs: 8_000 }).catch((error) => error)
    await holder.end()

    expect(late).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(late.message).toContain('did not answer its first statement within 500 ms')
    expect(late.message).toContain('its pool is likely too small')
    expect(late.message).toContain('up to 13 for a process with one worker')
    expect(ended).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(ended.message).toContain('the pooler had no server connection free; its pool is likely too small')
  }, 30_000)
})

describe('start-up options', () => {
  test('are not given up because a role’s name contains the word', async () => {
    await sql.query("CREATE ROLE options_desk LOGIN SUPERUSER PASSWORD 'right'")
    const url = new URL(urlAt(server.port, 'options_desk'))
    url.password = 'wrong'
    const lane = new Lane({
      settings: async () => ({ connectionString: url.href }),
      purpose: 'test',
      connectMs: 5_000,
    })
    const show = () => lane.query({ name: '', text: 'SHOW enable_seqscan', values: [] }, 5_000)

    const refused = await show().catch((error) => error)
    url.password = 'right'
    const answer = await show()
    await lane.close()
    await sql.query('DROP ROLE options_desk')

    expect(refused).toMatchObject({ code: 'access_denied', retryable: false })
    expect(refused.message).toContain('check user and password')
    expect(answer).toEqual([['off']])
  })

  test('of a URL go beside ours', async () => {
    const connectionString = `${urlAt(server.port, 'holdfast')}?options=-c%20work_mem%3D7MB`
    const lane = new Lane({ settings: async () => ({ connectionString }), purpose: 'test', connectMs: 5_000 })
    const show = (name: string) => lane.query({ name: '', text: `SHOW ${name}`, values: [] }, 5_000)

    const answers = [await show('work_mem'), await show('enable_seqscan')]
    await lane.close()

    expect(answers).toEqual([[['7MB']], [['off']]])
  })
})

describe('a server that forgets what was prepared', () => {
  const open = () =>
    new Lane({
      settings: async () => ({ connectionString: urlAt(server.port, 'holdfast') }),
      purpose: 'test',
      connectMs: 5_000,
    })
  const text = 'SELECT $1::text'
  const forget = { name: '', text: 'DEALLOCATE ALL', values: [] }

  test('has a transaction of ours run again as a whole', async () => {
    const lane = open()
    const ask = (name: string) => ({ name, text, values: [name] })
    await lane.query(ask('a'), 5_000)
    let runs = 0

    const answers = await lane.transaction(async (send) => {
      runs++
      // As a pooler does that hands out another connection when the transaction begins.
      if (runs === 1) await send(forget)
      return Promise.all([send(ask('a')), send(ask('b')), send(ask('a'))])
    }, 5_000)
    await lane.close()

    expect(answers).toEqual([[['a']], [['b']], [['a']]])
    expect(runs).toBe(2)
  })

  test.each(['26000', '42P05'])('is sent whole statements after %s, several of them under way', async (state) => {
    const lane = open()
    const ask = (name: string, value: number) => ({ name, text, values: [value] })
    if (state === '26000') await lane.query(ask('a', 0), 5_000)
    const away = { name: '', text: state === '26000' ? 'DEALLOCATE ALL' : `PREPARE a AS ${text}`, values: [] }

    const [, ...answers] = await Promise.all([
      lane.query(away, 5_000),
      ...[1, 2, 3, 4].map((value) => lane.query(ask('a', value), 5_000)),
    ])
    await lane.close()

    expect(answers).toEqual([[['1']], [['2']], [['3']], [['4']]])
  })
})

describe('a transaction of ours', () => {
  test('that failed is not taken for committed, and its first failure is reported, not what came of it', async () => {
    const connectionString = urlAt(server.port, 'holdfast')
    const lane = new Lane({ settings: async () => ({ connectionString }), purpose: 'test', connectMs: 5_000 })
    const query = (text: string) => ({ name: '', text, values: [] })

    const swallowed = await lane
      .transaction((send) => send(query("SELECT 'x'::uuid")).catch(() => []), 5_000)
      .catch((error) => error)
    const later = await lane
      .transaction(async (send) => {
        await send(query('SELECT 1/0')).catch(() => [])
        return send(query('SELECT 1'))
      }, 5_000)
      .catch((error) => error)
    await lane.close()

    expect(swallowed).toMatchObject({ details: { sqlState: '22P02' } })
    expect(later).toMatchObject({ details: { sqlState: '22012' } })
  })
})

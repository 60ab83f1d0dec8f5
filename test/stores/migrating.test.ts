// Migrations beside running jobs: they wait for nobody's locks for long, and nobody waits for theirs. F52 of docs/findings/chaos.md.

import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Lane } from '../../src/stores/postgres/lane.js'
import { type MigrateOptions, migrate, statementsOf } from '../../src/stores/postgres/migrate.js'
import { MIGRATIONS } from '../../src/stores/postgres/migrations/index.js'
import { succeeded } from '../../src/testing/store-suite/samples.js'
import { enqueueJob, jobIn, startJob, stateOf } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
let count = 0
let schema: string
let store: Store
let lane: Lane
let dump: pg.Client
let sql: pg.Client

beforeEach(async () => {
  schema = `migrating_${process.pid}_${++count}`
  store = await postgresStore(url, { schema })
  lane = new Lane({
    settings: async () => ({ connectionString: url }),
    purpose: 'prepare the schema',
    connectMs: 10_000,
  })
  dump = new pg.Client({ connectionString: url, application_name: 'a dump' })
  sql = new pg.Client({ connectionString: url })
  await Promise.all([dump.connect(), sql.connect()])
})

afterEach(async () => {
  await dump.end()
  await Promise.all([store.close(), lane.close()])
  await sql.query(`DROP SCHEMA ${schema} CASCADE`)
  await sql.end()
})

const LATER = {
  number: 9999,
  name: 'later',
  sql: `ALTER TABLE :schema.dead ADD COLUMN later integer;
ALTER TABLE :schema.jobs ADD COLUMN later integer;
`,
}

function migrateTo(migration: typeof LATER, options: MigrateOptions = {}): Promise<void> {
  return migrate(lane, schema, { migrations: [...MIGRATIONS, migration], ...options })
}

/** A dump reads every table, and holds its locks until it ends. */
async function beginDump(): Promise<void> {
  const { rows } = await sql.query(
    `SELECT relname FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'p')`,
  )
  const tables = rows.map(({ relname }) => `${schema}.${relname}`).join(', ')
  await dump.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await dump.query(`LOCK TABLE ${tables} IN ACCESS SHARE MODE`)
}

async function columns(): Promise<string[]> {
  const { rows } = await sql.query(
    `SELECT table_name FROM information_schema.columns WHERE table_schema = $1 AND column_name = 'later'
        AND table_name IN ('dead', 'jobs') ORDER BY 1`,
    [schema],
  )
  return rows.map(({ table_name }) => table_name)
}

test('jobs go on while a dump keeps a migration from its locks, and it is applied when the dump has ended', async () => {
  await beginDump()
  const waits: string[] = []
  let isOver = false
  const migrating = migrateTo(LATER, { onWait: (text) => waits.push(text) }).then(() => {
    isOver = true
  })

  // Each of these takes a lock that would queue behind the waiting migration.
  for (let round = 0; round < 20 || waits.length < 3; round++) {
    await store.settle([succeeded(await startJob(store))])
    const id = await jobIn(store, 'dead')
    expect(await stateOf(store, id)).toBe('dead')
  }
  expect([isOver, await columns()]).toEqual([false, []])
  expect(waits[0]).toMatch(/^migration 9999 \(later\) of schema ".*" waits, and jobs go on meanwhile: .*a dump/)
  await dump.query('COMMIT')
  await migrating

  expect(await columns()).toEqual(['dead', 'jobs'])
  expect(await stateOf(store, await enqueueJob(store))).toBe('ready')
}, 60_000)

test('a migration that cannot get its locks in time changes nothing and names who holds them', async () => {
  await beginDump()

  await expect(migrateTo(LATER, { patienceMs: 500 })).rejects.toMatchObject({
    code: 'store_unavailable',
    retryable: true,
    message: expect.stringMatching(
      /migration 9999 \(later\).*in use by a transaction that is \d+ s old \(pid \d+, .*a dump/,
    ),
  })
  expect(await columns()).toEqual([])
})

test('a stranger who takes a lock that goes by name keeps no migration waiting', async () => {
  await dump.query(`SELECT pg_advisory_lock(hashtextextended('holdfast migrate ${schema}', 0))`)

  await migrateTo(LATER, { patienceMs: 2_000 })

  expect(await columns()).toEqual(['dead', 'jobs'])
})

test('a migration that another process is at for too long names it', async () => {
  await dump.query(`BEGIN; LOCK TABLE ${schema}.migrations IN SHARE ROW EXCLUSIVE MODE`)

  await expect(migrateTo(LATER, { patienceMs: 500 })).rejects.toMatchObject({
    code: 'store_unavailable',
    retryable: true,
    message: expect.stringMatching(/migration 9999 \(later\).*in use by a transaction .*a dump/),
  })
  expect(await columns()).toEqual([])
})

test.each(['the schema is there', 'there is no schema'])(
  'processes that start at the same moment make the tables once, where %s',
  async (where) => {
    const made = `${schema}_made`
    if (where === 'the schema is there') await sql.query(`CREATE SCHEMA ${made}`)

    const stores = await Promise.all(Array.from({ length: 6 }, () => postgresStore(url, { schema: made })))

    expect(await stateOf(stores[5]!, await enqueueJob(stores[0]!))).toBe('ready')
    await Promise.all(stores.map((each) => each.close()))
    await sql.query(`DROP SCHEMA ${made} CASCADE`)
  },
  60_000,
)

// A commit between PostgreSQL's two look-ups, of the table and of its type, can't be timed. A type without a table gets the same answer.
test('a process whose tables another makes between two look-ups of the server waits and goes on', async () => {
  const made = `${schema}_made`
  await sql.query(`CREATE SCHEMA ${made}; CREATE TYPE ${made}.migrations AS ENUM ()`)
  const waits: string[] = []
  let dropping: Promise<unknown> | null = null

  await migrate(lane, made, {
    onWait: (text) => {
      waits.push(text)
      dropping ??= sql.query(`DROP TYPE ${made}.migrations`)
    },
  })

  expect(waits[0]).toContain('another process is migrating it')
  await dropping
  await sql.query(`DROP SCHEMA ${made} CASCADE`)
})

test('a migration that would lock others out for long is rolled back', async () => {
  const slow = { ...LATER, sql: `${LATER.sql}SELECT pg_sleep(20);\n` }

  await expect(migrateTo(slow, { patienceMs: 500 })).rejects.toMatchObject({ code: 'store_unavailable' })
  expect(await columns()).toEqual([])
})

test('processes that start at the same moment apply a migration once', async () => {
  const lanes = [1, 2, 3].map(
    () =>
      new Lane({ settings: async () => ({ connectionString: url }), purpose: 'prepare the schema', connectMs: 10_000 }),
  )

  await Promise.all(lanes.map((one) => migrate(one, schema, { migrations: [...MIGRATIONS, LATER] })))

  expect(await columns()).toEqual(['dead', 'jobs'])
  await Promise.all(lanes.map((one) => one.close()))
})

const INDEX = {
  number: 9999,
  name: 'later_index',
  sql: '-- concurrently\nCREATE INDEX CONCURRENTLY later_index ON :schema.dead (type);\n',
}

async function indexState(): Promise<unknown> {
  const { rows } = await sql.query(
    `SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = to_regclass('${schema}.later_index')`,
  )
  return rows
}

test('an index that a crash left invalid is dropped and built again', async () => {
  await Promise.all([jobIn(store, 'dead', { queue: 'a' }), jobIn(store, 'dead', { queue: 'b' })])
  const failed = sql.query(`CREATE UNIQUE INDEX CONCURRENTLY later_index ON ${schema}.dead (type)`)
  await expect(failed).rejects.toThrow('could not create unique index')
  expect(await indexState()).toEqual([{ indisvalid: false, indisunique: true }])

  await migrateTo(INDEX)

  expect(await indexState()).toEqual([{ indisvalid: true, indisunique: false }])
  await migrateTo(INDEX)
})

test('an index is built while jobs go on, and nobody waits for it though it waits for a dump', async () => {
  await beginDump()
  await dump.query(`SELECT FROM ${schema}.dead`)

  const migrating = migrateTo(INDEX)
  for (let round = 0; round < 20; round++) await jobIn(store, 'dead')
  await dump.query('COMMIT')
  await migrating

  expect(await indexState()).toEqual([{ indisvalid: true, indisunique: false }])
}, 60_000)

test('a new schema is made while transactions are open', async () => {
  await dump.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  const other = `${schema}_new`

  await (await postgresStore(url, { schema: other })).close()

  await dump.query('COMMIT')
  await sql.query(`DROP SCHEMA ${other} CASCADE`)
})

test('a migration is cut into its statements, and the bodies of functions are left whole', () => {
  const [first, second, third, ...rest] = statementsOf(
    'CREATE TABLE a (b int); -- so;\n-- not; this;\nCREATE FUNCTION f() AS $$\nBEGIN\n  x;\nEND\n$$;\nSELECT 1;\n\n-- the end\n',
  )

  expect([first, third, rest]).toEqual(['CREATE TABLE a (b int); -- so;', 'SELECT 1;', []])
  expect(second).toMatch(/^-- not; this;\nCREATE FUNCTION[\s\S]*\$\$;$/)
  // One whose function came anew with a later migration is a comment alone.
  const written = MIGRATIONS.filter(({ sql: text }) => !/^--[^\n]*$/.test(text.trim()))
  expect(MIGRATIONS.length - written.length).toBe(2)
  for (const { sql: text } of written) expect(statementsOf(text).join('\n').trim()).toBe(text.trim())
})

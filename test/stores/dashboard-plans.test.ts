// What the dashboard asks for is found, not searched for: every statement behind its requests is caught on its way and explained,
// on tables the planner knows nothing about and on ones it has analysed. Counted in rows, not in time.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fillStore } from '../../lab/bench/dashboard/fill.js'
import { ask, dashboardRequests, findKnownJobs } from '../../lab/bench/dashboard/requests.js'
import { COUNT_WINDOW_MAX, LIST_WINDOW } from '../../src/core/operator-store.js'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import { createServer, type Server } from '../../src/server/index.js'
import { Database, type Purpose, type Send } from '../../src/stores/postgres/database.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../src/stores/postgres/session.js'
import { inSchema, type Row, type Statement } from '../../src/stores/postgres/statement.js'
import { composeStore } from '../../src/stores/postgres/store.js'
import { WakeUps } from '../../src/stores/postgres/wake.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `dashboard_${process.pid}`
const TOKEN = 'a-token-for-tests-that-is-long-enough-0123456789'
// More than any count may look at, so that reading a table from end to end is over the bound.
const WAITING = 150_000
const FINISHED = 60_000

const HOT = /^(ready|running|scheduled|dead|blocked|(jobs|finished|attempts)(_\d{8}|_rest|_rest_old|_rest_new)?)$/

/** The most rows one scan of a hot table may read, by statement. Others look at a window of a list. */
const ROWS_MAX: readonly (readonly [name: RegExp, rows: number])[] = [
  [/^(count_|depth_)/, COUNT_WINDOW_MAX + 1],
  // Pages, not rows: 600 of them, each with some 130 rows.
  [/^(sample_of_|oldest_ready_seen)/, 600 * 130],
  // Up to 10,001 jobs of each group.
  [/^dead_groups/, FINISHED / 20 + 10_001],
  [/^standing$/, 2 * 10_001],
]
const WINDOW_MAX = LIST_WINDOW + 1_001

interface Sent {
  readonly statement: Statement
  readonly values: readonly unknown[]
}

/** A database that writes down what is sent through it. */
class RecordingDatabase extends Database {
  sent: Sent[] = []

  override send(purpose: Purpose, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    this.sent.push({ statement, values })
    return super.send(purpose, statement, values)
  }

  override transaction<T>(purpose: Purpose, work: (send: Send) => Promise<T>): Promise<T> {
    return super.transaction(purpose, (send) =>
      work((statement, values) => {
        this.sent.push({ statement, values })
        return send(statement, values)
      }),
    )
  }
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

describe('the statements behind the dashboard', () => {
  let sql: pg.Client
  let db: RecordingDatabase
  let holdfast: Holdfast
  let server: Server

  beforeAll(async () => {
    await (await postgresStore(testServerUrl(), { schema })).close()
    sql = new pg.Client({ connectionString: testServerUrl(), options: START_OPTIONS })
    await sql.connect()
    await keepUnknown(sql)
    await fillStore(sql, { schema, waiting: WAITING, finished: FINISHED })
    const settings = async () => ({ connectionString: testServerUrl() })
    db = new RecordingDatabase({ settings, schema, clock: null, connectMs: 60_000, deadlineMs: 60_000 })
    const wakeUps = new WakeUps({ settings, schema, connectMs: 60_000 })
    const store = composeStore({
      db,
      wakeUps,
      extender: () => ({ kind: 'postgres', module: null, data: null }),
      leaveServer: async () => {},
    })
    holdfast = await openHoldfast(store, { upkeep: false })
    server = createServer(holdfast, { token: TOKEN })
  }, 180_000)

  afterAll(async () => {
    await server.close()
    await holdfast.close()
    await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    await sql.end()
  })

  test('read no more rows than declared of tables the planner knows nothing about', async () => {
    expect(await excesses()).toEqual([])
  }, 180_000)

  test('read no more rows than declared of tables that were analysed', async () => {
    await sql.query('ANALYZE')

    expect(await excesses()).toEqual([])
  }, 180_000)

  test('taking a sample is bounded as well', async () => {
    db.sent = []
    await holdfast.stats()
    await sampleOf(db)

    expect(await excessesOf(db.sent)).toEqual([])
  }, 60_000)

  async function excesses(): Promise<string[]> {
    const requests = dashboardRequests(await findKnownJobs(server, TOKEN))
    const found = new Set<string>()
    for (const request of requests) {
      db.sent = []
      await ask(server, TOKEN, request)
      for (const excess of await excessesOf(db.sent)) found.add(`${request.name}: ${excess}`)
    }
    return [...found]
  }

  async function excessesOf(sent: readonly Sent[]): Promise<string[]> {
    const found: string[] = []
    for (const { statement, values } of sent) {
      if (!/^\s*(WITH|SELECT)/.test(statement.sql)) continue
      const most = ROWS_MAX.find(([name]) => name.test(statement.name))?.[1] ?? WINDOW_MAX
      for (const node of await explain(statement, values)) {
        if (!HOT.test(node['Relation Name'] ?? '')) continue
        const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
        if (rows > most || node['Node Type'] === 'Seq Scan') {
          found.push(
            `${statement.name} reads ${Math.round(rows)} rows of ${node['Relation Name']} (${node['Node Type']})`,
          )
        }
      }
    }
    return found
  }

  async function explain({ sql: text }: Statement, values: readonly unknown[]): Promise<readonly PlanNode[]> {
    await sql.query('BEGIN')
    const { rows } = await sql.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${inSchema(text, schema)}`, [...values])
    await sql.query('ROLLBACK')
    return flatten(rows[0]['QUERY PLAN'][0].Plan)
  }
})

async function sampleOf(db: Database): Promise<void> {
  const { sample } = await import('../../src/stores/postgres/series.js')
  await sample(db)
}

/** Keeps autovacuum, which analyses too, away from the tables. */
async function keepUnknown(sql: pg.Client): Promise<void> {
  const { rows } = await sql.query<{ name: string }>(
    `SELECT format('%I.%I', relnamespace::regnamespace, relname) AS name
       FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'`,
    [schema],
  )
  for (const { name } of rows) await sql.query(`ALTER TABLE ${name} SET (autovacuum_enabled = off)`)
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)]
}

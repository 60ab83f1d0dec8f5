// Settle on PostgreSQL: one exchange and one commit for a batch, rows that change while it runs, and plans that don't depend on statistics.

import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { START_OPTIONS } from '../../src/stores/postgres/session.js'
import { settleAny } from '../../src/stores/postgres/settle-any.js'
import { settleSucceeded } from '../../src/stores/postgres/settle-succeeded.js'
import { inSchema } from '../../src/stores/postgres/statement.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newJobs, OPERATOR, retrying, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, startJob, stateOf } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, SERVERS } from '../support/postgres.js'

const schema = `settle_${process.pid}`

describe.each(SERVERS.filter(([, urlOf]) => urlOf() !== undefined))('a settlement on %s', (_, urlOf) => {
  const url = urlOf()!
  let store: Store
  let sql: pg.Client
  beforeEach(async () => {
    store = await openCleanStore(url, schema, manualClock(START_MS))
    sql = new pg.Client({ connectionString: url, options: START_OPTIONS })
    await sql.connect()
  })
  afterEach(() => sql.end())
  afterAll(() => dropSchema(url, schema))

  /** Twenty successes, and retries between them. */
  async function mixedBatch(): Promise<readonly SettledJob[]> {
    await store.enqueue(newJobs(25))
    return (await claimJobs(store)).map((job, index) => (index % 5 === 2 ? retrying(job) : succeeded(job)))
  }

  test('of successes and other outcomes is one transaction', async () => {
    await store.settle(await mixedBatch())

    const { rows } = await sql.query(
      `SELECT DISTINCT xmin::text FROM ${schema}.finished UNION SELECT DISTINCT xmin::text FROM ${schema}.scheduled`,
    )
    expect(rows).toHaveLength(1)
  })

  test('of successes and other outcomes waits for a row that is being extended, and settles it', async () => {
    const batch = await mixedBatch()
    await sql.query(`BEGIN; UPDATE ${schema}.running SET leased_until = leased_until + interval '1 second'`)

    const settling = store.settle(batch)
    await someoneWaits(sql)
    await sql.query('COMMIT')

    expect((await settling).map(({ result }) => result)).toEqual(batch.map(() => 'settled'))
    expect((await sql.query(`SELECT FROM ${schema}.running`)).rowCount).toBe(0)
  })

  test('finds its lease lost when the row it waits for was claimed again meanwhile', async () => {
    const batch = await mixedBatch()
    await sql.query(`BEGIN; UPDATE ${schema}.running SET fence = fence + 1`)

    const settling = store.settle(batch)
    await someoneWaits(sql)
    await sql.query('COMMIT')

    expect((await settling).map(({ result }) => result)).toEqual(batch.map(() => 'lost'))
    expect((await sql.query(`SELECT FROM ${schema}.running`)).rowCount).toBe(batch.length)
  })

  test('of a batch with one locked job answers locked for it and settles the rest', async () => {
    const batch = await mixedBatch()
    await sql.query(`BEGIN; SELECT FROM ${schema}.running WHERE id = '${batch[7]!.id}' FOR UPDATE`)

    const answers = await store.settle(batch)

    expect(answers.map(({ result }) => result)).toEqual(batch.map((_, index) => (index === 7 ? 'locked' : 'settled')))
    await sql.query('ROLLBACK')
    expect((await store.settle([batch[7]!]))[0]).toMatchObject({ result: 'settled' })
  })

  test('in a transaction answers cancelled for a retry whose cancel was requested', async () => {
    const [first, second] = [await startJob(store), await startJob(store)]
    await store.cancel([second.id], OPERATOR)
    await sql.query('BEGIN')

    const answers = await store.settle([retrying(first), retrying(second), succeeded(first)], { tx: sql })
    await sql.query('COMMIT')

    expect(answers.map(({ state }) => state)).toEqual(['retrying', 'cancelled', 'retrying'])
    expect([await stateOf(store, first.id), await stateOf(store, second.id)]).toEqual(['retrying', 'cancelled'])
  })

  test.each([
    ['successes', (batch: readonly SettledJob[]) => settleSucceeded(FIXED_TIME, batch, false)],
    ['any outcome', (batch: readonly SettledJob[]) => settleAny(FIXED_TIME, batch, { path: 'fast', marks: new Map() })],
  ])('of %s finds rows by id and their fences in a hash table, whatever the planner knows', async (_, callOf) => {
    const [statement, values] = callOf(await mixedBatch())
    const plan = async () => {
      const { rows } = await sql.query(`EXPLAIN ${inSchema(statement.sql, schema)}`, [...values])
      return rows.map((row) => row['QUERY PLAN']).join('\n')
    }

    const plans = [await plan()]
    await sql.query(
      `INSERT INTO ${schema}.running
       SELECT gen_random_uuid(), fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested, queue, type, worker
         FROM ${schema}.running, generate_series(1, 1000)`,
    )
    plans.push(await plan())
    await sql.query(`ANALYZE ${schema}.running`)
    plans.push(await plan())

    for (const text of plans) {
      expect(text).toMatch(/Delete on running.*\n\s+-> {2}Index Scan using running_one_for_each_job/)
      expect(text).toMatch(/Filter: .*hashed SubPlan/)
    }
  })
})

const FIXED_TIME = { now: () => null } as never

/** Resolves when somebody waits for a lock that `holder` has. */
async function someoneWaits(holder: pg.Client): Promise<void> {
  const { processID } = holder as unknown as { processID: number }
  for (;;) {
    const { rows } = await holder.query(
      'SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)) AND pid <> $1',
      [processID],
    )
    if (rows.length > 0) return
  }
}

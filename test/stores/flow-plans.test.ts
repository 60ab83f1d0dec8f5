// What a claim of a queue with flow control costs must not depend on how many jobs wait in groups that may not go: counted in pages.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { CLAIM_FLOW } from '../../src/stores/postgres/claim-flow.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../src/stores/postgres/session.js'
import { inSchema } from '../../src/stores/postgres/statement.js'
import { newJob } from '../../src/testing/store-suite/samples.js'
import { claimJobs } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `flow_plans_${process.pid}`
const QUEUE = 'blocked'
const GROUPS = 100
const LATER_MS = 120_000

describe('a claim of a job behind blocked groups', () => {
  let sql: pg.Client
  let store: Store

  beforeAll(async () => {
    store = await postgresStore(testServerUrl(), { schema })
    sql = new pg.Client({ connectionString: testServerUrl(), options: START_OPTIONS })
    await sql.connect()
    // Never analysed, never vacuumed: the planner knows nothing but the files' sizes.
    for (const table of ['held', 'running', 'arrivals', 'rotation']) {
      await sql.query(`ALTER TABLE ${schema}.${table} SET (autovacuum_enabled = off)`)
    }
    const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
    await store.setQueue(QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, 'ada')
    // One of each group runs, and one more is looked at in vain.
    for (let round = 0; round < 2; round++)
      await store.enqueue(Array.from({ length: GROUPS }, (_, index) => jobOf(`g${index}`)))
    await claimJobs(store, { queue: QUEUE, limit: GROUPS })
    await claimJobs(store, { queue: QUEUE, limit: GROUPS })
  }, LATER_MS)

  afterAll(async () => {
    await store.close()
    await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    await sql.end()
  })

  test('reads the same pages with a thousand and with a million of them', { timeout: LATER_MS }, async () => {
    await hold(1_000)
    const few = await pagesOfClaim()
    await hold(1_000_000)
    const many = await pagesOfClaim()

    // One more level of the index of held jobs, for the one group that is looked at.
    expect(many).toBeLessThanOrEqual(few + 10)
  })

  function jobOf(group: string) {
    return newJob({ queue: QUEUE, flow: { group, limits: [], cost: 1 } })
  }

  /** Jobs of the blocked groups that came when those were full, and whose events were looked at. */
  async function hold(count: number): Promise<void> {
    await sql.query(
      `INSERT INTO ${schema}.held (id, position, since, track, priority, queue, group_name, type)
       SELECT gen_random_uuid(), 1000000000 + n, now(), (SELECT track FROM ${schema}.tracks), 0, $1, 'g' || n % $2, 'work'
         FROM generate_series(1, $3) AS n`,
      [QUEUE, GROUPS, count],
    )
  }

  /** The pages that a claim of the one job that may go reads and finds. */
  async function pagesOfClaim(): Promise<number> {
    // The first claim plans its statements, which reads the catalog.
    for (let tries = 0; ; tries++) {
      await store.enqueue([jobOf('free')])
      const text = inSchema(CLAIM_FLOW.sql, schema)
      const { rows } = await sql.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [
        ...[null, QUEUE, 16, null, 30_000, 'ada', null, null, null, null, 0],
      ])
      const plan = rows[0]['QUERY PLAN'][0].Plan
      expect(plan['Actual Rows']).toBe(2)
      await sql.query(`DELETE FROM ${schema}.running WHERE group_name = 'free'`)
      if (tries === 3) return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
    }
  }
})

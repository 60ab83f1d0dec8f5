// Workers of a version without flow control, which still run when a queue gets limits: they take plain jobs without asking, and write no
// events. Their statements are those of version 0.1.0.

import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { claimFlow, enqueueGroup, setFlow } from '../../src/testing/store-suite/flow-samples.js'
import { newJobs, QUEUE, START_MS } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const schema = `older_workers_${process.pid}`

describe('a worker of an older version', () => {
  let store: Store
  let clock: ManualClock
  let sql: pg.Client
  beforeEach(async () => {
    clock = manualClock(START_MS)
    store = await openCleanStore(testServerUrl(), schema, clock)
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
  })
  afterEach(() => sql.end())
  afterAll(() => dropSchema(testServerUrl(), schema))

  const claimAsBefore = (count: number) =>
    sql.query(
      `WITH gone AS (
         DELETE FROM ${schema}.ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${schema}.ready WHERE queue = $1 ORDER BY position LIMIT $2))
         RETURNING id, priority, queue, type
       )
       INSERT INTO ${schema}.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested, queue, type, worker)
       SELECT id, 1, $3, $3::timestamptz + interval '30 seconds', priority, 1, 0, false, false, queue, type, 'old' FROM gone`,
      [QUEUE, count, new Date(START_MS).toISOString()],
    )

  test('takes plain jobs of a limited queue, and they count: the others hold back', async () => {
    await setFlow(store, { concurrency: 3 })
    await store.enqueue(newJobs(5))
    await claimAsBefore(2)
    await store.promote(10)

    expect((await claimFlow(store)).jobs).toHaveLength(1)
  })

  test('never sees a job that has a group or limits', async () => {
    await enqueueGroup(store, 2)
    await claimAsBefore(5)

    expect((await claimFlow(store)).jobs).toHaveLength(2)
  })

  test('settles a job of a group without an event, and upkeep finds the group', async () => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 2)
    const { jobs } = await claimFlow(store)
    await claimFlow(store)
    await sql.query(`DELETE FROM ${schema}.running WHERE id = $1`, [jobs[0]!.id])
    const before = await claimFlow(store)
    const { repaired } = await store.promote(10)

    expect([before.jobs.length, repaired]).toEqual([0, 1])
    expect((await claimFlow(store)).jobs).toHaveLength(1)
  })
})

// What long jobs keep on PostgreSQL: gone with their jobs, and written under the lock of the lease.

import pg from 'pg'
import { afterAll, beforeEach, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { DAY_MS, newId, OPERATOR, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { pruneAll, startJob } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `kept_${process.pid}`
const clock = manualClock(START_MS)
let store: Store

beforeEach(async () => {
  store = await openCleanStore(url, schema, clock)
  return () => store.close()
})
afterAll(() => dropSchema(url, schema))

async function sql<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

test('nothing is left in any table of a job that was pruned', async () => {
  const job = await startJob(store)
  const entry = { kind: 'step', name: 'a', value: '1', begun: 1, isEnded: true, tookMs: 0 } as const
  await store.keep([{ ...job, entry }])
  await store.write([{ ...job, offset: 0, chunks: ['text'] }])
  await store.signal([{ id: job.id, key: newId(), name: 'go', value: '1', by: OPERATOR }])
  await store.settle([succeeded(job)])
  await clock.advance(3 * DAY_MS)

  await pruneAll(store, DAY_MS)

  const left = await sql(async (client) => {
    const counts = ['jobs', 'kept', 'output', 'signals', 'waits'].map(
      (table) => `(SELECT count(*) FROM ${schema}.${table})`,
    )
    return (await client.query(`SELECT (${counts.join(' + ')})::integer AS left`)).rows[0].left
  })
  expect(left).toBe(0)
})

test('a step whose lease is being ended elsewhere waits for that, and is not kept', async () => {
  const job = await startJob(store)
  const entry = { kind: 'step', name: 'a', value: '1', begun: 1, isEnded: true, tookMs: 0 } as const

  const kept = await sql(async (client) => {
    await client.query('BEGIN')
    await client.query(`DELETE FROM ${schema}.running WHERE id = $1`, [job.id])
    const keeping = store.keep([{ ...job, entry }]).catch((error: unknown) => (error as { code: string }).code)
    await client.query('SELECT pg_sleep(0.02)')
    await client.query('COMMIT')
    return keeping
  })

  // The lane gives up a lock after a while and the caller tries again; either way nothing is kept.
  expect([[false], 'store_unavailable']).toContainEqual(kept)
  expect(await sql(async (client) => (await client.query(`SELECT FROM ${schema}.kept`)).rowCount)).toBe(0)
})

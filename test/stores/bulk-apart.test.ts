// A bulk action may wait, for its filter or for a lock: nothing else of upkeep waits with it.

import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const schema = `bulk_apart_${process.pid}`
let store: Store
let holdfast: Holdfast
let sql: pg.Client

beforeAll(async () => {
  store = await postgresStore(testServerUrl(), { schema })
  holdfast = await openHoldfast(store, { upkeep: false })
  sql = new pg.Client({ connectionString: testServerUrl() })
  await sql.connect()
})

afterAll(async () => {
  await sql.end()
  await holdfast.close()
  await dropSchema(testServerUrl(), schema)
})

test('a timed job becomes ready while a bulk action waits', async () => {
  await holdfast.enqueue('x', null, { queue: 'bulk' })
  await holdfast.bulk({ action: 'cancel', filter: 'queue:bulk error:boom' })
  await holdfast.enqueue('timed', null, { runAt: new Date(Date.now() - 1_000), queue: 'timed' })
  // Of what upkeep does, only the filter on errors reads the attempts.
  await sql.query(`BEGIN; LOCK TABLE ${schema}.attempts IN ACCESS EXCLUSIVE MODE`)
  const stepping = store.stepBulk()
  const waits = `SELECT FROM pg_locks WHERE NOT granted AND relation = '${schema}.attempts'::regclass`
  await expect.poll(async () => (await sql.query(waits)).rowCount, { interval: 20 }).toBeGreaterThan(0)

  await store.promote(100)
  const { ready } = await holdfast.stats('timed')

  await sql.query('ROLLBACK')
  expect(ready).toBe(1)
  expect(await stepping).toMatchObject({ action: 'cancel', state: 'done' })
}, 30_000)

// A cancel of jobs that move while they are looked for. What moves them comes between two statements of the cancel.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { cancel } from '../../src/stores/postgres/cancel.js'
import type { Database, Send } from '../../src/stores/postgres/database.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { OPERATOR, START_MS } from '../../src/testing/store-suite/samples.js'
import { enqueueJob, jobIn, stateOf } from '../../src/testing/store-suite/steps.js'
import { databaseOf, dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `cancel_${process.pid}`
const LISTENERS = { asked: () => {}, ready: () => {} }
let store: Store
let db: Database

beforeAll(async () => {
  store = await openCleanStore(url, schema, manualClock(START_MS))
  db = await databaseOf(url, schema)
})
afterAll(() => dropSchema(url, schema))

const send: Send = (statement, values) => db.send('operate', statement, values)

test('a dead job that is requeued meanwhile is refused for having been dead', async () => {
  const id = await jobIn(store, 'dead')
  const requeueing: Send = async (statement, values) => {
    const rows = await send(statement, values)
    if (statement.name === 'states') await store.requeue([id], OPERATOR)
    return rows
  }

  expect(await cancel(db, requeueing, [id], OPERATOR, LISTENERS)).toEqual([{ id, result: 'refused', state: 'dead' }])
})

test('a job that is somewhere else each time it is looked for is asked to be cancelled, and upkeep does it', async () => {
  const id = await enqueueJob(store)
  // Each look comes to a table that the job is not in.
  const missing: Send = async (statement, values) => (statement.name === 'cancel' ? [] : send(statement, values))

  const answers = await cancel(db, missing, [id], OPERATOR, LISTENERS)
  const before = await stateOf(store, id)
  await store.promote(100)

  expect(answers).toEqual([{ id, result: 'asked' }])
  expect([before, await stateOf(store, id)]).toEqual(['ready', 'cancelled'])
  expect((await store.audit({ before: null, limit: 10 })).entries.filter(({ job }) => job === id)).toHaveLength(1)
})

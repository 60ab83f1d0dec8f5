// A store full of schedules: no more are made, those there are can be changed, and the turns of the queues are kept.

import pg from 'pg'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { SCHEDULES_MAX } from '../../src/core/schedule-limit.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newSchedule, OPERATOR, START_MS } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const SCHEMA = `many_schedules_${process.pid}`

async function fillMemory(): Promise<Store> {
  const store = memoryStore({ clock: manualClock(START_MS) })
  for (let index = 0; index < SCHEDULES_MAX; index++) {
    await store.setSchedule(newSchedule({ name: `a:${index}`, queue: 'a' }), START_MS, OPERATOR)
  }
  return store
}

async function fillPostgres(): Promise<Store> {
  const store = await openCleanStore(testServerUrl(), SCHEMA, manualClock(START_MS))
  const sql = new pg.Client({ connectionString: testServerUrl() })
  await sql.connect()
  const settings = JSON.stringify(newSchedule({ queue: 'a' }))
  await sql.query(
    `INSERT INTO "${SCHEMA}".schedules (name, settings, next_at)
     SELECT 'a:' || number, $1::json, to_timestamp($2::float8 / 1000) FROM generate_series(1, $3::integer) AS number`,
    [settings, START_MS, SCHEDULES_MAX],
  )
  await sql.end()
  return store
}

afterAll(() => dropSchema(testServerUrl(), SCHEMA))

describe.each([
  ['memory', fillMemory],
  ['postgres', fillPostgres],
])('a %s store full of schedules', (_, fill) => {
  let store: Store

  beforeEach(async () => {
    store = await fill()
  })

  test('takes no more, lets those there are be changed, and fires the one of another queue in the first turn', async () => {
    const more = newSchedule({ name: 'one-more', queue: 'b' })

    await expect(store.setSchedule(more, START_MS, OPERATOR)).rejects.toMatchObject({
      code: 'too_many_schedules',
      details: { schedule: 'one-more', max: SCHEDULES_MAX },
    })
    await store.setSchedule(newSchedule({ name: 'a:7', queue: 'b' }), START_MS, OPERATOR)
    await store.removeSchedule('a:8', OPERATOR)
    await store.setSchedule(more, START_MS, OPERATOR)
    const { schedules, nextDueMs } = await store.due(3, 'a')

    expect(schedules.map(({ queue }) => queue)).toEqual(['b', 'a', 'b'])
    expect(nextDueMs).toBe(0)
  })
})

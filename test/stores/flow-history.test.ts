// Random histories of flow control keep every rule, on the memory store and on PostgreSQL.

import { afterAll, expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { START_MS } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { playFlow } from './flow-history.js'

const HISTORIES = 300

test(`${HISTORIES} random histories pass no limit, keep every order, forget no job`, { timeout: 60_000 }, async () => {
  let starts = 0
  for (let seed = 1; seed <= HISTORIES; seed++) {
    const clock = manualClock(START_MS)
    const store = memoryStore({ clock })
    const played = await playFlow(store, clock, seed)
    starts += played.starts
    expect({ seed, problems: played.problems }).toEqual({ seed, problems: [] })
    await store.close()
  }
  expect(starts).toBeGreaterThan(HISTORIES * 10)
})

const ON_POSTGRES = 40
const schema = `flow_history_${process.pid}`

afterAll(() => dropSchema(testServerUrl(), schema))

test(`${ON_POSTGRES} random histories on PostgreSQL do the same`, { timeout: 120_000 }, async () => {
  let starts = 0
  for (let seed = 1; seed <= ON_POSTGRES; seed++) {
    const clock = manualClock(START_MS)
    const store = await openCleanStore(testServerUrl(), schema, clock)
    const played = await playFlow(store, clock, seed)
    starts += played.starts
    expect({ seed, problems: played.problems }).toEqual({ seed, problems: [] })
    await store.close()
  }
  expect(starts).toBeGreaterThan(ON_POSTGRES * 10)
})

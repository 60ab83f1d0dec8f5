import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { Health } from '../../src/client/look.js'
import type { Horizon } from '../../src/core/operating.js'
import { BoundedNames } from '../../src/metrics/names.js'
import { StoreMetrics } from '../../src/metrics/store-metrics.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { testPorts } from '../client/support.js'
import { readValue } from './exposition.js'

const POSTGRES = {
  versionNumber: 180004,
  schemaVersion: 1,
  schema: 'holdfast',
  settings: {
    synchronousCommit: 'on',
    synchronousCommitOfRole: 'on',
    fsync: true,
    fullPageWrites: true,
    autovacuum: true,
    maxConnections: 100,
    statementTimeout: 'none',
    readOnlyByDefault: false,
  },
  connections: 1,
  inRecovery: false,
  databaseBytes: 8_000_000,
  roundTripMs: 1,
  hasPooler: false,
  postponedDays: [],
  tables: [{ name: 'ready', liveRows: 1, deadRows: 500, bytes: 8_192, lastVacuumAt: null }],
}

const HOLDER = { pid: 7, user: 'ann', application: 'psql', state: 'idle in transaction', since: null, queryStart: null }

/** The gauges of a store that answers with this horizon, or not at all. */
async function show(answer: Promise<Horizon | undefined>, postponedDays: { day: string; why: string }[] = []) {
  const clock = manualClock()
  const registry = new Registry()
  const health = async (): Promise<Health> => {
    const horizon = await answer
    const postgres = { ...POSTGRES, postponedDays, ...(horizon === undefined ? {} : { horizon }) }
    const seen = { clockOffsetMs: 0, roundTripMs: 3 }
    return { kind: 'postgres', version: '18.4', isDurable: true, nowMs: clock.now(), postgres, ...seen }
  }
  const overview = async () => ({ nowMs: clock.now(), queues: [], total: 0, isExact: true })
  const source = { overview, flowCounts: async () => ({ limits: [], queues: [] }), workers: async () => [], health }
  const ports = testPorts(clock)
  const store = new StoreMetrics({
    source,
    registry,
    queues: new BoundedNames(5),
    limits: new BoundedNames(5),
    ports,
    cacheMs: 5_000,
  })
  const done = store.refresh()
  await clock.advance(2_000)
  await done
  const text = await registry.metrics()
  return (name: string, labels = {}) => readValue(text, `holdfast_${name}`, labels)
}

test('days that retention passes over are counted', async () => {
  const read = await show(Promise.resolve(undefined), [{ day: '2026-03-01', why: 'it is in use' }])

  expect(read('retention_days_postponed')).toBe(1)
})

test('the horizon and what holds it are shown', async () => {
  const held: Horizon = { ageMs: 700_000, xids: 1_234, holder: { ...HOLDER, kind: 'transaction' } }

  const read = await show(Promise.resolve(held))

  expect(read('database_horizon_age_seconds')).toBe(700)
  expect(read('database_horizon_xids')).toBe(1_234)
  expect(read('database_horizon_held', { kind: 'transaction' })).toBe(1)
  expect(read('database_horizon_held', { kind: 'slot' })).toBe(0)
  expect(read('database_dead_rows', { table: 'ready' })).toBe(500)
  expect(read('database_bytes')).toBe(8_000_000)
  expect(read('store_round_trip_seconds')).toBe(0.003)
})

test('a horizon that nobody holds has no age', async () => {
  const read = await show(Promise.resolve(undefined))

  expect([read('database_horizon_age_seconds'), read('database_horizon_held')]).toEqual([0, 0])
  expect(read('store_up')).toBe(1)
})

test('a store that does not answer is waited for two seconds, not longer', async () => {
  const read = await show(new Promise(() => {}))

  expect(read('store_up')).toBe(0)
})

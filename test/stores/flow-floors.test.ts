// Claims of queues with flow control while somebody holds an old snapshot: what they read, and what they find.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { Floors } from '../../src/stores/postgres/floors.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newJob, QUEUE, succeeded } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `flow_floors_${process.pid}`
const GROUPS = 50
const LATER_MS = 60_000

let store: Store
let floors: Floors
let sql: pg.Client

const claim = async () =>
  (await store.claim({ queues: [{ queue: QUEUE, limit: 100 }], types: null, worker: 'w', leaseMs: 60_000 })).jobs
const jobOf = (group: string) => newJob({ flow: { group, limits: [], cost: 1 } })

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  await sql.connect()
})

beforeEach(async () => {
  floors = new Floors()
  floors.isOn = true
  store = await openCleanStore(url, schema, manualClock(), floors)
  const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
  await store.setQueue(QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, 'ada')
})

afterAll(async () => {
  await sql.end()
  await dropSchema(url, schema)
})

/** Lets jobs of all groups come and go. */
async function pass(rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    await store.enqueue(Array.from({ length: GROUPS }, (_, index) => jobOf(`g${index}`)))
    await store.settle((await claim()).map((job) => succeeded(job)))
  }
}

test('a claim reads none of the events that were consumed long ago', { timeout: LATER_MS }, async () => {
  await sql.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await sql.query(`SELECT count(*) FROM ${schema}.held`)
  try {
    await pass(40)
    // Each claim raises the floor to what was known a third of a second before, and the first looks below read everything.
    for (let round = 0; round < 4; round++) {
      await pause(600)
      await claim()
    }

    // Now and then a claim looks below the floor. It must not be every one.
    let withFloor = await eventsRead()
    for (let round = 0; round < 8 && withFloor >= 3 * GROUPS; round++) withFloor = await eventsRead()
    floors.isOn = false
    const withoutFloor = await eventsRead()

    expect(withFloor).toBeLessThan(3 * GROUPS)
    expect(withoutFloor).toBeGreaterThan(40 * GROUPS)
  } finally {
    await sql.query('ROLLBACK')
  }
})

test('a job is found whose event was written before the floor and committed after it', {
  timeout: LATER_MS,
}, async () => {
  const writer = new pg.Client({ connectionString: url })
  await writer.connect()
  const late = jobOf('late')
  await store.enqueue([jobOf('late')])
  await store.settle((await claim()).map((job) => succeeded(job)))
  await writer.query('BEGIN')
  await store.enqueue([late], { tx: writer })
  for (let round = 0; round < 4; round++) {
    await pass(2)
    await pause(400)
  }
  await writer.query('COMMIT')
  await writer.end()

  const found = new Set<string>()
  await expect
    .poll(
      async () => {
        for (const { id } of await claim()) found.add(id)
        return found.has(late.id)
      },
      { interval: 50, timeout: 30_000 },
    )
    .toBe(true)
})

/** How many entries of the index of events a claim read, live or dead. The server reports what a connection did with the next statement
 *  it sends a second later. */
async function eventsRead(): Promise<number> {
  const read = async () => {
    await pause(1_100)
    await store.claim({ queues: [{ queue: 'another', limit: 0 }], types: null, worker: 'w', leaseMs: 60_000 })
    const { rows } = await counter.query(
      `SELECT idx_tup_read::float8 AS read FROM pg_stat_all_indexes WHERE schemaname = $1 AND indexrelname = 'arrivals_in_order'`,
      [schema],
    )
    return rows[0].read as number
  }
  const counter = new pg.Client({ connectionString: url })
  await counter.connect()
  try {
    const before = await read()
    await claim()
    return (await read()) - before
  } finally {
    await counter.end()
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

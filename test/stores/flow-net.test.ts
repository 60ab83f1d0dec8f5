// The net beneath flow control, and retention of its rows, on PostgreSQL: what is reported, and what is left in the tables.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { checksOf } from '../../src/cli/doctor/checks.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Store } from '../../src/core/store.js'
import { Database } from '../../src/stores/postgres/database.js'
import { lastRepaired } from '../../src/stores/postgres/flow-net.js'
import { health } from '../../src/stores/postgres/health.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import {
  claimFlow,
  groupJobs,
  inGroup,
  LIMIT,
  perSecond,
  setFlow,
  setLimit,
} from '../../src/testing/store-suite/flow-samples.js'
import { newJob, OPERATOR, QUEUE, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJobs } from '../../src/testing/store-suite/steps.js'
import { Promote } from '../../src/upkeep/promote.js'
import { testPorts } from '../client/support.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `flow_net_${process.pid}`
const LATER_MS = 60_000
const HOUR_MS = 3_600_000
const RETENTION = { retentionMs: 7 * 86_400_000 }
let sql: pg.Client
let clock: ManualClock
let store: Store

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  await sql.connect()
})

afterAll(async () => {
  await sql.end()
  await dropSchema(url, schema)
})

beforeEach(async () => {
  clock = manualClock(START_MS)
  store = await openCleanStore(url, schema, clock)
  await sql.query(`SET search_path = ${schema}`)
}, LATER_MS)

async function countOf(table: string): Promise<number> {
  return (await sql.query(`SELECT count(*)::integer AS count FROM ${table}`)).rows[0].count
}

test('a group that no claim would look at goes on, is counted, and reported by event and doctor', {
  timeout: LATER_MS,
}, async () => {
  const heard: HoldfastEvent[] = []
  const db = new Database({
    settings: async () => ({ connectionString: url }),
    schema,
    clock: null,
    connectMs: LATER_MS,
    deadlineMs: LATER_MS,
  })
  const flowCheck = async () => {
    const facts = { migrations: null, health: await health(db), clockOffsetMs: 0, overview: null }
    return checksOf({ ...facts, repaired: await lastRepaired(db) }).find(({ name }) => name === 'flow')
  }
  await setFlow(store, { groups: { concurrency: 1 } })
  expect(await flowCheck()).toMatchObject({ level: 'ok' })
  const [job] = groupJobs(1)
  await store.enqueue([job!])
  await sql.query('DELETE FROM arrivals')
  expect(await claimIds(store)).toEqual([])

  await new Promote({ store, ports: testPorts(clock), emit: (event) => heard.push(event) }).step()

  expect(heard).toEqual([{ name: 'flow.repaired', count: 1 }])
  expect(await claimIds(store)).toEqual([job!.id])
  expect((await store.flowCounts()).queues).toMatchObject([{ queue: QUEUE, repaired: 1 }])
  await sql.query('UPDATE flows SET repaired_at = clock_timestamp()')
  expect(await flowCheck()).toMatchObject({ level: 'warning', text: expect.stringMatching(/^1 groups of email /) })
  await db.close()
})

test('a track without jobs goes, with all its rows, once nobody can be writing to it', {
  timeout: LATER_MS,
}, async () => {
  await setLimit(store)
  await store.enqueue([newJob(inGroup('acme', { limits: [LIMIT] })), newJob(inGroup('acme'))])
  const [first] = await claimJobs(store)
  await store.settle([succeeded(first!)])
  await sql.query(`INSERT INTO arrivals SELECT 1, track, 'junk' FROM tracks`)
  const open = new pg.Client({ connectionString: url })
  await open.connect()

  for (let hour = 0; hour < 3; hour++) {
    await store.prune(RETENTION)
    await clock.advance(HOUR_MS)
  }
  // Somebody writes something before it may go.
  await open.query('BEGIN; SELECT pg_current_xact_id()')
  await sql.query('UPDATE tracks SET empty_since = pg_current_xact_id() WHERE forgotten')
  await store.prune(RETENTION)
  expect(await countOf('tracks')).toBe(2)
  await open.query('COMMIT')
  await open.end()
  await clock.advance(HOUR_MS)
  await store.prune(RETENTION)

  const left = (await sql.query('SELECT track, limits FROM tracks')).rows
  expect(left).toHaveLength(1)
  expect((await sql.query('SELECT DISTINCT track FROM arrivals')).rows).toEqual([{ track: left[0].track }])
  expect(await claimIds(store)).toEqual([])
})

test('naps of groups without jobs and rows of groups like any other go, a window at a time', {
  timeout: LATER_MS,
}, async () => {
  await setFlow(store, { groups: { rate: perSecond(1) } })
  const jobs = [...groupJobs(2, 'a'), ...groupJobs(2, 'b')]
  await store.enqueue(jobs)
  await claimFlow(store)
  expect([await countOf('naps'), await countOf('groups')]).toEqual([2, 2])
  await store.cancel([jobs[1]!.id], OPERATOR)

  await clock.advance(2 * 60_000)
  const { rows } = await store.prune(RETENTION)

  expect(rows).toBe(2)
  expect((await sql.query('SELECT group_name FROM naps')).rows).toEqual([{ group_name: 'b' }])
  expect(await claimIds(store)).toEqual([jobs[3]!.id])
})

test('retention looks at a bounded number of groups in a call, each time at the next', {
  timeout: LATER_MS,
}, async () => {
  await sql.query(
    `INSERT INTO groups (queue, group_name, paused) SELECT 'q', lpad(number::text, 6, '0'), number <> 20500 FROM generate_series(1, 21000) AS number`,
  )

  const seen: number[] = []
  for (let call = 0; call < 4; call++) seen.push((await store.prune(RETENTION)).rows)

  expect(seen).toEqual([0, 0, 1, 0])
})

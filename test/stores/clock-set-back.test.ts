// A server whose clock is set back.
// While a backend waits, its own limits of time (lock_timeout, statement_timeout, deadlock_timeout) count
// by that clock and don't come for as long as it was set back, so ours must.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer } from '../../lab/servers/postgres.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Lane } from '../../src/stores/postgres/lane.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { DAY_MS, MINUTE_MS, newJob, START_MS } from '../../src/testing/store-suite/samples.js'
import { claimJobs, enqueueJob } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'

// What is loaded into the server shows the set clock to whoever asks, and the machine's to the handler of a timer that ends a wait. So
// with a clock that is ahead each wait is one in which the clock is set back.
const AHEAD_MS = 600_000
const PATIENCE_MS = 120_000

let server: PostgresServer
let pooler: PgBouncer
let sql: pg.Client
// What a transaction sees of the other backends stays as it was at its first look.
let watch: pg.Client

beforeAll(async () => {
  server = await PostgresServer.open({ settings: { fsync: 'off' }, hasClock: true })
  pooler = await PgBouncer.open({ target: server.port, poolSize: 5 })
  sql = new pg.Client({ connectionString: server.url })
  watch = new pg.Client({ connectionString: server.url })
  await Promise.all([sql.connect(), watch.connect()])
  await server.clock!.move(AHEAD_MS)
}, PATIENCE_MS)

afterAll(async () => {
  await Promise.all([sql.end(), watch.end()])
  await pooler.close()
  await server.close()
}, PATIENCE_MS)

/** How many backends wait for a lock, once there are as many as `isEnough` wants. */
async function waiting(isEnough: (count: number) => boolean): Promise<number> {
  for (;;) {
    const { rows } = await watch.query(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid()`,
    )
    if (isEnough(rows[0].n)) return rows[0].n
    await sleep(5)
  }
}

describe.each([
  ['directly', () => server.url],
  ['through a pooler', () => pooler.url],
])('queries sent %s that wait for a lock', (_, urlOf) => {
  let lane: Lane
  beforeEach(async () => {
    await sql.query('CREATE TABLE public.locked (n int)')
    await sql.query('BEGIN')
    await sql.query('LOCK TABLE public.locked')
    const session = { lock_timeout: '1s' }
    lane = new Lane({
      settings: async () => ({ connectionString: urlOf() }),
      purpose: 'test',
      connectMs: 5_000,
      session,
    })
  })
  afterEach(async () => {
    await lane.close()
    await sql.query('ROLLBACK')
    await sql.query('DROP TABLE public.locked')
  })

  test(
    'wait no longer on the server than their callers do, however many are sent behind each other',
    async () => {
      const deadlineMs = 1_500
      const query = (n: number) => ({ name: '', text: `INSERT INTO public.locked VALUES (${n})`, values: [] })
      const calls = [1, 2, 3].map((n) => lane.query(query(n), deadlineMs))
      const ended = Promise.allSettled(calls)
      await waiting((count) => count > 0)

      const results = await ended

      expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
      expect(results.every((result) => result.status === 'rejected' && result.reason.retryable)).toBe(true)
      expect(await waiting((count) => count === 0)).toBe(0)
    },
    PATIENCE_MS,
  )
})

describe('a step of retention that waits for a lock behind which everyone waits', () => {
  let store: Store
  beforeEach(async () => {
    store = await postgresStore(server.url, { schema: 'set_back' })
  })
  afterEach(async () => {
    await store.close()
    await sql.query('ROLLBACK')
  })

  test(
    'is given up before a call that waits behind it fails',
    async () => {
      await sql.query('BEGIN')
      await sql.query('LOCK TABLE set_back.finished IN ACCESS SHARE MODE')
      const pruning = store.prune({ retentionMs: 86_400_000 })
      await waiting((count) => count > 0)

      await enqueueJob(store)
      await pruning

      expect(await waiting((count) => count === 0)).toBe(0)
    },
    PATIENCE_MS,
  )
})

describe('a lease that was given when the clock was four days ahead', () => {
  const schema = `set_back_${process.pid}`
  afterAll(() => dropSchema(testServerUrl(), schema))

  test('runs out after as long as it was given for, unless its worker extends it', async () => {
    const [ahead, right] = [manualClock(START_MS + 4 * DAY_MS), manualClock(START_MS)]
    const before = await openCleanStore(testServerUrl(), schema, ahead)
    await before.enqueue([newJob(), newJob()])
    const [dead, alive] = await claimJobs(before, { limit: 2, leaseMs: MINUTE_MS / 2 })
    const after = await openPeerStore(testServerUrl(), schema, right)

    const first = await after.expired(10)
    await right.advance(MINUTE_MS / 2 - 1)
    await after.extend([alive!], MINUTE_MS / 2)
    const second = await after.expired(10)
    await right.advance(1)
    const third = await after.expired(10)

    expect([first, second, third].map(({ jobs }) => jobs.map(({ id }) => id))).toEqual([[], [], [dead!.id]])
  })

  test('that a transaction which is open is ending keeps nobody else from being rescued', async () => {
    const ahead = manualClock(START_MS + 4 * DAY_MS)
    const before = await openCleanStore(testServerUrl(), schema, ahead)
    await before.enqueue([newJob(), newJob()])
    const [ending, dead] = await claimJobs(before, { limit: 2, leaseMs: MINUTE_MS / 2 })
    const right = manualClock(START_MS)
    const after = await openPeerStore(testServerUrl(), schema, right)
    const other = new pg.Client({ connectionString: testServerUrl() })
    await other.connect()
    try {
      await other.query('BEGIN')
      await other.query(`SELECT FROM ${schema}.running WHERE id = '${ending!.id}' FOR UPDATE`)
      await after.expired(10)
      await right.advance(MINUTE_MS / 2)

      expect((await after.expired(10)).jobs.map(({ id }) => id)).toEqual([dead!.id])
    } finally {
      await other.end()
    }
  })
})

// A child whose parents have ended goes on, in whatever order the transactions of both commit. Barriers are locks held by the test.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { cancel } from '../../src/stores/postgres/cancel.js'
import type { Send } from '../../src/stores/postgres/database.js'
import { LateLooks } from '../../src/stores/postgres/late-looks.js'
import { oneByOne, settle } from '../../src/stores/postgres/settle.js'
import { settleSucceeded } from '../../src/stores/postgres/settle-succeeded.js'
import { inSchema, type Row, statement } from '../../src/stores/postgres/statement.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { newJob, newJobs, OPERATOR, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, enqueueJob, startJob, stateOf, statesOf } from '../../src/testing/store-suite/steps.js'
import { databaseOf, dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'

const schema = `links_${process.pid}`
const url = testServerUrl()
const SOON = { timeout: 10_000, interval: 20 }

// F50 of docs/findings/chaos.md.
describe('a child', () => {
  let store: Store
  let peer: Store
  let clock: ManualClock
  let sql: pg.Client
  let barrier: pg.Client
  beforeEach(async () => {
    clock = manualClock(START_MS)
    store = await openCleanStore(url, schema, clock)
    peer = await openPeerStore(url, schema, clock)
    sql = await open()
    barrier = await open()
  })
  afterEach(() => Promise.all([sql.end(), barrier.end()]))
  afterAll(() => dropSchema(url, schema))

  test('that is committed while the settlement of its parent runs is not missed', async () => {
    const parent = await startJob(store)
    // The settlement waits for the row of its lease: its view of the children is from before, and it has not committed.
    await barrier.query(`BEGIN; SELECT FROM ${schema}.running FOR UPDATE`)
    const db = await databaseOf(url, schema)
    const looks = new LateLooks(db, () => {})
    const options = { onReady: () => {}, onEnded: (ids: readonly string[]) => looks.add(ids) }
    const settling = settle(db, oneByOne(patiently(sql)), [succeeded(parent)], options)
    await someoneWaits(barrier)

    const child = newJob({ after: [parent.id] })
    const [answer] = await peer.enqueue([child])
    await barrier.query('COMMIT')
    await settling

    expect(answer).toMatchObject({ state: 'blocked' })
    await expect.poll(() => stateOf(store, child.id), SOON).toBe('ready')
  })

  test('whose parent is cancelled while it is written is not missed', async () => {
    const parent = await enqueueJob(store)
    await barrier.query(`BEGIN; SELECT FROM ${schema}.ready FOR UPDATE`)
    const calls = { asked: () => {}, ready: () => {} }
    const cancelling = cancel(await databaseOf(url, schema), patiently(sql), [parent], OPERATOR, calls)
    await someoneWaits(barrier)

    const child = newJob({ after: [parent] })
    await peer.enqueue([child])
    await barrier.query('COMMIT')
    await cancelling

    await expect.poll(() => stateOf(store, child.id), SOON).toBe('cancelled')
  })

  for (const level of ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']) {
    test(`written by a transaction (${level}) that commits after its parent was settled goes on at the next promote`, async () => {
      const parent = await startJob(store)
      await waitingLinks(sql, 5_000)
      await sql.query(`BEGIN ISOLATION LEVEL ${level}`)
      const child = newJob({ after: [parent.id] })
      await store.enqueue([child], { tx: sql })
      await store.settle([succeeded(parent)])
      await sql.query('COMMIT')

      await peer.promote(1_000)

      expect(await stateOf(store, child.id)).toBe('ready')
    })

    test(`whose parents end side by side, one in an open transaction (${level}), goes on at the next promote`, async () => {
      const [first, second] = [await startJob(store), await startJob(store)]
      const child = await enqueueJob(store, { after: [first.id, second.id] })
      await waitingLinks(sql, 5_000)
      await sql.query(`BEGIN ISOLATION LEVEL ${level}`)
      await store.settle([succeeded(first)], { tx: sql })
      await store.settle([succeeded(second)])
      await sql.query('COMMIT')

      await peer.promote(1_000)

      expect(await stateOf(store, child)).toBe('ready')
    })

    test(`that is written while its parent's transaction (${level}) is open goes on at the next promote`, async () => {
      const parent = await startJob(store)
      await waitingLinks(sql, 5_000)
      await sql.query(`BEGIN ISOLATION LEVEL ${level}`)
      await store.settle([succeeded(parent)], { tx: sql })
      const child = await enqueueJob(peer, { after: [parent.id] })
      await sql.query('COMMIT')

      await peer.promote(1_000)

      expect(await stateOf(store, child)).toBe('ready')
    })
  }

  test('soon goes on without promote, when a transaction of its parent has committed', async () => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await sql.query('BEGIN')
    await store.settle([succeeded(parent)], { tx: sql })
    await sql.query('COMMIT')

    await expect.poll(() => stateOf(store, child), SOON).toBe('ready')
  })

  test('whose parent was settled by a process that died right after goes on at the next promote', async () => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await waitingLinks(sql, 5_000)
    const db = await databaseOf(url, schema)
    await db.send('settle', ...settleSucceeded(db, [succeeded(parent)], false))

    await peer.promote(1_000)

    expect(await stateOf(store, child)).toBe('ready')
  })

  test('committed beside the settlement of its parent goes on 15 s later, though the process that settled died', async () => {
    await waitingLinks(sql, 5_000)
    const parent = await startJob(store)
    const child = newJob({ after: [parent.id] })
    await settledBeside(parent, () => peer.enqueue([child]))

    await peer.promote(1_000)
    const before = await stateOf(store, child.id)
    await clock.advance(15_000)
    await peer.promote(1_000)

    expect([before, await stateOf(store, child.id)]).toEqual(['blocked', 'ready'])
    expect(await announced()).toBe(0)
  })

  test('of a transaction, first seen by promote while its parent is settled, goes on 15 s later', async () => {
    await waitingLinks(sql, 5_000)
    const parent = await startJob(store)
    const child = newJob({ after: [parent.id] })
    await settledBeside(parent, async () => {
      const own = await open()
      await own.query('BEGIN')
      await peer.enqueue([child], { tx: own })
      await own.query('COMMIT')
      await own.end()
      await peer.promote(1_000)
    })

    const before = await stateOf(store, child.id)
    await clock.advance(15_000)
    await peer.promote(1_000)

    expect([before, await stateOf(store, child.id)]).toEqual(['blocked', 'ready'])
    expect(await announced()).toBe(0)
  })

  test('that waits for long is looked at twice, and leaves nothing announced', async () => {
    const parent = await startJob(store)
    await store.enqueue(newJobs(2_500, { after: [parent.id] }))
    const before = await announced()
    await clock.advance(15_000)

    await peer.promote(1_000)

    expect([before, await announced()]).toEqual([2_500, 0])
    expect(await store.stats(newJob().queue)).toMatchObject({ blocked: 2_500 })
  })

  /** Settles a job by a process that dies right after, and does something while the settlement runs. */
  async function settledBeside(job: ClaimedJob, meanwhile: () => Promise<unknown>): Promise<void> {
    // The settlement waits for the row of its lease: its view of the children is from before, and it has not committed.
    await barrier.query(`BEGIN; SELECT FROM ${schema}.running FOR UPDATE`)
    const db = await databaseOf(url, schema)
    const settling = settle(db, oneByOne(patiently(sql)), [succeeded(job)], { onReady: () => {} })
    await someoneWaits(barrier)
    await meanwhile()
    await barrier.query('COMMIT')
    await settling
  }

  async function announced(): Promise<number | null> {
    return (await sql.query(`SELECT FROM ${schema}.link_checks`)).rowCount
  }

  test('of one that a transaction completes can be changed and cancelled while that is open', async () => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await sql.query('BEGIN')
    await store.settle([succeeded(parent)], { tx: sql })

    const updated = await peer.update(child, { priority: 3 }, OPERATOR)
    const cancelled = await peer.cancel([child], OPERATOR)

    expect([updated.result, cancelled]).toEqual(['updated', [{ id: child, result: 'cancelled' }]])
  })

  test('is not missed by any of 400 settlements and enqueues at the same moment', async () => {
    await store.enqueue(newJobs(400))
    const parents = await claimJobs(store)
    const children = parents.map(({ id }) => newJob({ after: [id], queue: 'children' }))

    for (const [index, parent] of parents.entries()) {
      await Promise.all([store.settle([succeeded(parent)]), peer.enqueue([children[index]!])])
    }

    const ids = children.map(({ id }) => id)
    await expect.poll(async () => new Set(await statesOf(store, ids)), SOON).toEqual(new Set(['ready']))
    await expect.poll(announced, SOON).toBe(0)
  }, 60_000)

  test('is looked for by one look at a time: a settlement never waits for a row of them', async () => {
    const db = await databaseOf(url, schema)
    const looks = new LateLooks(db, () => {})
    // Each look waits for this lock until its time is over, half a second, and each transaction asks for three.
    await barrier.query(`BEGIN; LOCK TABLE ${schema}.link_checks IN ACCESS EXCLUSIVE MODE`)
    for (let transactions = 0; transactions < 300; transactions++) {
      looks.afterTransaction()
      await sleep(5)
    }

    const settled = db.send('settle', statement('answered', "SELECT 'answered'"), []).then(([row]) => row![0])

    // Of a row of 60 looks each would cost it half a second.
    expect(await Promise.race([settled, sleep(9_000, 'waits')])).toBe('answered')
    await barrier.query('COMMIT')
    await looks.close()
  }, 60_000)

  test('among 3,000 of one parent goes on with all of them', async () => {
    const parent = await startJob(store)
    await store.enqueue(newJobs(3_000, { after: [parent.id], queue: 'children' }))

    await store.settle([succeeded(parent)])
    await store.promote(1_000)

    expect(await store.stats('children')).toMatchObject({ ready: 3_000, blocked: 0 })
  }, 60_000)
})

async function open(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Sends over a connection that waits for locks as long as it takes, each statement by itself. */
function patiently(client: pg.Client): Send {
  return async ({ sql }, values) => {
    const { rows } = await client.query({ text: inSchema(sql, schema), values: [...values], rowMode: 'array' })
    return rows as Row[]
  }
}

/** Resolves when another connection waits for a lock of this one. */
async function someoneWaits(holder: pg.Client): Promise<void> {
  const { processID } = holder as unknown as { processID: number }
  for (;;) {
    const { rows } = await holder.query(
      'SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)) AND pid <> $1',
      [processID],
    )
    if (rows.length > 0) return
  }
}

/** Links of other jobs that wait, before all of the test in the order in which links are swept. */
async function waitingLinks(sql: pg.Client, count: number): Promise<void> {
  await sql.query(
    `WITH job AS (
       SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id FROM generate_series(1, $1 + 1) AS n
     ), written AS (
       INSERT INTO ${schema}.jobs (id, created_at, position, priority, version, queue, type, payload)
       SELECT id, now(), 1, 0, 1, 'others', 'work', '{}' FROM job
     ), linked AS (
       INSERT INTO ${schema}.parents (parent, child)
       SELECT (SELECT min(id::text)::uuid FROM job), id FROM job WHERE id > (SELECT min(id::text)::uuid FROM job)
     )
     INSERT INTO ${schema}.blocked (id, priority, cancel_with_parents, queue, type)
     SELECT id, 0, true, 'others', 'work' FROM job WHERE id > (SELECT min(id::text)::uuid FROM job)`,
    [count],
  )
}

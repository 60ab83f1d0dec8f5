// Nobody's open transaction delays a stranger. In each of these somebody's transaction stays open while the others' calls are made and
// awaited: a call that waited for it would fail at its deadline.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import { leaseOf } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { setFlow } from '../../src/testing/store-suite/flow-samples.js'
import {
  dead,
  keyed,
  newId,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { claimJobs, enqueueJob, jobIn, startJob, stateOf, viewOf } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const schema = `strangers_${process.pid}`

// F47 of docs/findings/chaos.md.
describe("a stranger's open transaction", () => {
  let store: Store
  let clock: ManualClock
  let sql: pg.Client
  let other: pg.Client
  beforeEach(async () => {
    clock = manualClock(START_MS)
    store = await openCleanStore(testServerUrl(), schema, clock)
    sql = await open()
    other = await open()
    await sql.query('BEGIN')
  })
  afterEach(() => Promise.all([sql.end(), other.end()]))
  afterAll(() => dropSchema(testServerUrl(), schema))

  test('that enqueues a taken key delays no settlement, neither of the holder nor of its neighbours', async () => {
    const holder = await startJob(store, keyed('welcome'))
    await store.enqueue(newJobs(20))
    const neighbours = await claimJobs(store)

    const answers = await store.enqueue([newJob(keyed('welcome'))], { tx: sql })
    const results = await store.settle([holder, ...neighbours].map((job) => succeeded(job)))

    expect(answers).toEqual([{ id: holder.id, created: false, state: 'running' }])
    expect(results.map(({ result }) => result)).toEqual(Array(21).fill('settled'))
  })

  test('that enqueues into a group delays no enqueue, claim or settlement of the group', async () => {
    const flow = { group: 'acme', limits: [], cost: 1 }
    await setFlow(store, { groups: { concurrency: 1 } })
    const first = await startJob(store, { flow })

    await store.enqueue([newJob({ flow })], { tx: sql })
    const id = await enqueueJob(store, { flow })
    const [result] = await store.settle([succeeded(first)])

    expect(result!.result).toBe('settled')
    expect((await claimJobs(store)).map((job) => job.id)).toEqual([id])
  })

  test('that locks the flow control of a queue holds up that queue alone', async () => {
    const flow = { group: 'acme', limits: [], cost: 1 }
    const queues = [
      { queue: 'locked', limit: 5 },
      { queue: 'free', limit: 5 },
    ]
    const claim = () => store.claim({ queues, types: ['send_email'], worker: 'w', leaseMs: 60 * SECOND_MS })
    for (const { queue } of queues) await setFlow(store, { groups: { concurrency: 5 } }, queue)
    await store.enqueue(queues.map(({ queue }) => newJob({ flow, queue })))
    expect((await claim()).jobs).toHaveLength(2)

    await sql.query(`SELECT FROM ${schema}.flows WHERE queue = 'locked' FOR UPDATE`)
    const held = await enqueueJob(store, { flow, queue: 'locked' })
    await expect(claim()).rejects.toMatchObject({ code: 'store_unavailable', details: { sqlState: '55P03' } })
    const id = await enqueueJob(store, { flow, queue: 'free' })
    const answer = await claim()

    expect(answer.jobs.map((job) => job.id)).toEqual([id])
    expect(answer.flow).toMatchObject([{ queue: 'locked', more: false, waitMs: expect.any(Number) }, { queue: 'free' }])
    await sql.query('ROLLBACK')
    // As long as it was told to wait.
    await sleep(answer.flow![0]!.waitMs!)
    expect((await claim()).jobs.map((job) => job.id)).toEqual([held])
  })

  test('that completes a job of a group delays nobody, and its slot is free with its commit', async () => {
    const flow = { group: 'acme', limits: [], cost: 1 }
    await setFlow(store, { groups: { concurrency: 1 } })
    const first = await startJob(store, { flow })

    await store.settle([succeeded(first)], { tx: sql })
    const id = await enqueueJob(store, { flow })
    const other = await enqueueJob(store, { flow: { ...flow, group: 'other' } })

    expect((await claimJobs(store)).map((job) => job.id)).toEqual([other])
    await sql.query('COMMIT')
    expect((await claimJobs(store)).map((job) => job.id)).toEqual([id])
  })

  test('that enqueues a taken key leaves the key to the next job once its holder is settled', async () => {
    const holder = await startJob(store, keyed('welcome'))
    await store.enqueue([newJob(keyed('welcome'))], { tx: sql })
    await store.settle([succeeded(holder)])

    const next = newJob(keyed('welcome'))

    expect(await store.enqueue([next])).toEqual([{ id: next.id, created: true, state: 'ready' }])
  })

  test('that waited for a key which another took over does not delay the settlement of that one', async () => {
    await enqueueJob(store, { ...keyed('welcome', SECOND_MS), queue: 'old' })
    await clock.advance(2 * SECOND_MS)
    await other.query('BEGIN')
    const first = newJob({ ...keyed('welcome'), queue: 'old' })
    await store.enqueue([first], { tx: other })
    const waiting = store.enqueue([newJob({ ...keyed('welcome'), queue: 'old' })], { tx: sql })
    await isWaiting(sql, other)
    await other.query('COMMIT')
    const [second] = await waiting

    const [claimed] = await claimJobs(store, { queue: 'old', types: ['send_email'] }).then((jobs) =>
      jobs.filter(({ id }) => id === first.id),
    )
    const [result] = await store.settle([succeeded(claimed!)])

    expect(second).toEqual({ id: first.id, created: false, state: 'ready' })
    expect(result).toMatchObject({ result: 'settled', state: 'succeeded' })
  })

  test('with an old snapshot takes over a key that has expired', async () => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    await sql.query('SELECT')
    await clock.advance(2 * SECOND_MS)

    const next = newJob(keyed('welcome'))
    const answers = await store.enqueue([next], { tx: sql })
    await sql.query('COMMIT')

    expect(answers).toEqual([{ id: next.id, created: true, state: 'ready' }])
    expect(await stateOf(store, next.id)).toBe('ready')
  })

  test('that took a key with a short life takes it again once it has expired', async () => {
    await store.enqueue([newJob(keyed('welcome', SECOND_MS))], { tx: sql })
    await clock.advance(2 * SECOND_MS)

    const next = newJob(keyed('welcome'))

    expect(await store.enqueue([next], { tx: sql })).toEqual([{ id: next.id, created: true, state: 'ready' }])
  })

  test('that completes a job does not keep waiting who asks for its key', async () => {
    const holder = await startJob(store, keyed('welcome'))
    await store.settle([succeeded(holder)], { tx: sql })

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: holder.id, created: false, state: 'running' }])
  })

  test('that completes a job delays neither its cancel nor any other call of an operator', async () => {
    const job = await startJob(store)
    const waits = await enqueueJob(store, { queue: 'second' })
    await store.settle([succeeded(job)], { tx: sql })

    const answers = await store.cancel([job.id, waits], OPERATOR)
    await store.pause('third', OPERATOR)
    const fresh = await enqueueJob(store, { queue: 'fourth' })

    expect(answers).toEqual([
      { id: job.id, result: 'asked' },
      { id: waits, result: 'cancelled' },
    ])
    expect(await stateOf(store, fresh)).toBe('ready')
  })

  test('that completes a job and rolls back leaves it cancelled, when that was asked for meanwhile', async () => {
    const job = await startJob(store)
    await store.settle([succeeded(job)], { tx: sql })
    await store.cancel([job.id], OPERATOR)
    await sql.query('ROLLBACK')

    const view = await viewOf(store, job.id)
    const watched = await store.watch([job])
    const [result] = await store.settle([released(job)])

    expect([view.cancelRequested, watched.cancelled]).toEqual([true, [leaseOf(job)]])
    expect(result).toMatchObject({ result: 'settled', state: 'cancelled' })
  })

  test('that completes a job and commits makes the cancel that was asked for meanwhile void', async () => {
    const job = await startJob(store)
    await store.settle([succeeded(job)], { tx: sql })
    await store.cancel([job.id], OPERATOR)
    await sql.query('COMMIT')
    await store.promote(10)

    expect(await stateOf(store, job.id)).toBe('succeeded')
    expect(await rowsOf(other, 'cancels')).toEqual([])
    expect((await store.audit({ limit: 10, before: null, job: job.id })).entries).toHaveLength(1)
  })

  test('that completes a job and rolls back leaves a wish that upkeep turns into the usual one', async () => {
    const job = await startJob(store)
    await store.settle([succeeded(job)], { tx: sql })
    await store.cancel([job.id], OPERATOR)
    await store.promote(10)
    const whileOpen = await rowsOf(other, 'cancels')
    await sql.query('ROLLBACK')
    await store.promote(10)

    expect(whileOpen).toEqual([{ id: job.id }])
    expect(await rowsOf(other, 'cancels')).toEqual([])
    expect((await viewOf(store, job.id)).cancelRequested).toBe(true)
  })

  test('that completes a job does not delay a bulk cancel, nor the upkeep beside it', async () => {
    const job = await startJob(store)
    await enqueueJob(store, { queue: 'second' })
    const timed = await enqueueJob(store, { queue: 'third', when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)
    await store.settle([succeeded(job)], { tx: sql })
    const filter = { queues: ['email', 'second'] }
    await store.startBulk({
      id: newId(),
      action: 'cancel',
      filter,
      by: OPERATOR,
      perSecond: null,
      limit: 100,
      expected: null,
    })

    const [progress] = await Promise.all([store.stepBulk(), store.promote(10)])

    expect(progress).toMatchObject({ moved: 2, refused: 0, state: 'done' })
    expect(await stateOf(store, timed)).toBe('ready')
  })

  test('that was left open by a handler which then failed holds up that one settlement and no other', async () => {
    const job = await startJob(store)
    await store.enqueue(newJobs(20))
    const neighbours = await claimJobs(store)
    await store.settle([succeeded(job)], { tx: sql })

    const [own, ...others] = await store.settle([retrying(job), ...neighbours.map((each) => succeeded(each))])
    const again = await store.settle([retrying(job)])
    await sql.query('ROLLBACK')
    const afterwards = await store.settle([retrying(job)])

    expect(own).toEqual({ ...leaseOf(job), result: 'locked', state: null })
    expect(others.map(({ result }) => result)).toEqual(Array(20).fill('settled'))
    expect(again).toMatchObject([{ result: 'locked' }])
    expect(afterwards).toMatchObject([{ result: 'settled', state: 'retrying' }])
  })

  test('that commits after a handler failed makes its later settlement answer what became of the job', async () => {
    const job = await startJob(store)
    await store.settle([succeeded(job)], { tx: sql })
    await store.settle([retrying(job)])
    await sql.query('COMMIT')

    // The success is of this very lease, so the answer is what became of it.
    expect(await store.settle([retrying(job)])).toMatchObject([{ result: 'settled', state: 'succeeded' }])
  })

  test('that is writing a key delays no requeue of a dead job with that key: it is refused, its neighbours go', async () => {
    const id = await deadJob(store, keyed('welcome'))
    const neighbour = await deadJob(store, keyed('goodbye'))
    await store.enqueue([newJob(keyed('welcome'))], { tx: sql })

    const answers = await store.requeue([id, neighbour], OPERATOR)

    expect(answers).toEqual([
      { id, result: 'refused', state: 'dead', heldBy: null },
      { id: neighbour, result: 'requeued', requeues: 1 },
    ])
  })

  test('that is writing a key delays no bulk requeue', async () => {
    await deadJob(store, keyed('welcome'))
    await deadJob(store, keyed('goodbye'))
    await store.enqueue([newJob(keyed('welcome'))], { tx: sql })
    const filter = { states: ['dead'] as const }
    await store.startBulk({
      id: newId(),
      action: 'requeue',
      filter,
      by: OPERATOR,
      perSecond: null,
      limit: 100,
      expected: null,
    })

    expect(await store.stepBulk()).toMatchObject({ moved: 1, refused: 1, state: 'done' })
  })

  test('that did everything a transaction of a user can do delays no call of anybody else', async () => {
    const parent = await startJob(store, { queue: 'parents' })
    const child = await enqueueJob(store, { after: [parent.id], queue: 'children' })
    const held = await startJob(store, keyed('held'))
    const doomed = await deadJob(store)
    const ready = await jobIn(store, 'ready', { queue: 'second' })
    const timed = await jobIn(store, 'scheduled')
    const later = newJob({ queue: 'new' })
    await store.enqueue(
      [
        newJob(),
        newJob({ when: { delayMs: SECOND_MS } }),
        newJob(keyed('held')),
        newJob(keyed('fresh')),
        newJob({ after: [ready] }),
        later,
      ],
      { tx: sql },
    )
    await store.settle([succeeded(parent), succeeded(held)], { tx: sql })
    await clock.advance(SECOND_MS)

    await store.setQueue('new', { limits: {} }, OPERATOR)
    await store.pause('email', OPERATOR)
    await store.resume('email', OPERATOR)
    const schedule = newSchedule({ queue: 'new' })
    await store.setSchedule(schedule, START_MS, OPERATOR)
    await store.pauseSchedule(schedule.name, OPERATOR)
    await store.resumeSchedule(schedule.name, START_MS, OPERATOR)
    const tick = { tickMs: START_MS, job: newJob({ queue: 'new' }) }
    const fired = await store.fire({ name: schedule.name, expectedNextAtMs: START_MS, ticks: [tick], nextAtMs: null })
    await store.removeSchedule(schedule.name, OPERATOR)
    const updates = await Promise.all([ready, timed, child].map((id) => store.update(id, { priority: 3 }, OPERATOR)))
    const cancels = await store.cancel([ready, timed, child, held.id, parent.id], OPERATOR)
    const discarded = await store.discard([doomed], OPERATOR)
    await store.extend([held], 60_000)
    await store.promote(100)
    const [settled] = await store.settle([succeeded(await startJob(store, { queue: 'third' }))])

    expect(fired).toEqual({ fired: true, jobs: [tick.job.id] })
    expect(updates.map(({ result }) => result)).toEqual(['updated', 'updated', 'updated'])
    expect(cancels.map(({ result }) => result)).toEqual(['cancelled', 'cancelled', 'cancelled', 'asked', 'asked'])
    expect(discarded).toEqual([{ id: doomed, result: 'cancelled' }])
    expect(settled).toMatchObject({ result: 'settled' })
  })
})

async function open(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: testServerUrl() })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Resolves when the first connection waits for a lock; the second asks. */
async function isWaiting(waiter: pg.Client, asker: pg.Client): Promise<void> {
  const { processID } = waiter as unknown as { processID: number }
  for (;;) {
    const { rows } = await asker.query('SELECT cardinality(pg_blocking_pids($1)) > 0 AS waits', [processID])
    if (rows[0].waits) return
  }
}

async function rowsOf(sql: pg.Client, table: string): Promise<unknown[]> {
  return (await sql.query(`SELECT * FROM ${schema}.${table}`)).rows
}

async function deadJob(store: Store, changes: Parameters<typeof startJob>[1] = {}): Promise<string> {
  const job: ClaimedJob = await startJob(store, changes)
  await store.settle([dead(job)])
  return job.id
}

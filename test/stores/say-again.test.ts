// Saying again what a new primary may not know: it takes what is missing, and leaves what it knows as it is.

import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob, SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { Database } from '../../src/stores/postgres/database.js'
import type { FiredTicks, RememberedLease } from '../../src/stores/postgres/failover-memory.js'
import { LaneGroup } from '../../src/stores/postgres/lane-group.js'
import { newSweep, promote } from '../../src/stores/postgres/promote.js'
import { enqueueAgain, leaseAgain, ticksAgain } from '../../src/stores/postgres/say-again.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import {
  dead,
  LEASE_MS,
  newJob,
  newSchedule,
  OPERATOR,
  QUEUE,
  retrying,
  START_MS,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob } from '../../src/testing/store-suite/steps.js'
import { databaseOf, dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { claimed } from './failover-samples.js'

const url = testServerUrl()
const schema = `say_again_${process.pid}`
const FENCE = START_MS + 5

let store: Store
let db: Database
let clock: ManualClock

beforeEach(async () => {
  clock = manualClock()
  store = await openCleanStore(url, schema, clock)
  db = await databaseOf(url, schema)
})

afterAll(() => dropSchema(url, schema))

/** A claim that this process remembers, and how it ended. */
function lease(job: NewJob, settle?: (job: ReturnType<typeof claimed>) => SettledJob, fence = FENCE): RememberedLease {
  const claim = claimed(job, fence)
  const { id, queue, type, priority, attempt, crashes } = claim
  return {
    ...{ id, fence },
    claim: { id, fence, queue, type, priority, attempt, crashes, worker: 'worker-a', leaseMs: LEASE_MS },
    settled: settle === undefined ? null : settle(claim),
  }
}

/** Says leases as a worker does whose patience with producers is over; then what became of them. */
async function sayLeases(
  ...leases: RememberedLease[]
): Promise<{ readonly claimed: number; readonly settled: number }> {
  const { claimed, settled } = await leaseAgain(db, leases, { onReady: () => {}, takesUnknown: true })
  return { claimed, settled }
}

/** Says leases as a worker does that waits for producers. Returns how many have to wait. */
async function sayKnown(...leases: RememberedLease[]): Promise<number> {
  return (await leaseAgain(db, leases, { onReady: () => {}, takesUnknown: false })).left.length
}

const sayAll = (...jobs: NewJob[]) => enqueueAgain(db, jobs, () => {})
const sayJobs = async (...jobs: NewJob[]) => (await sayAll(...jobs)).written

const TICK_MS = START_MS + 3_600_000

/** A tick that made this job, an hour before the next. */
function fired(job: NewJob, tickMs = TICK_MS): FiredTicks {
  const ticks = [{ tickMs, job }]
  return { name: 'nightly', expectedNextAtMs: tickMs, ticks, nextAtMs: tickMs + 3_600_000, made: new Set([job.id]) }
}

const sayTicks = (...ticks: FiredTicks[]) => ticksAgain(db, ticks, () => {})

async function stateOf({ id }: NewJob): Promise<string | undefined> {
  return (await store.get(id))?.state
}

describe('a settlement that is said again', () => {
  test('ends a job whose claim was lost as well, wherever it waits', async () => {
    const [plain, timed, grouped] = [
      newJob(),
      newJob({ when: { delayMs: 60_000 } }),
      newJob({ queue: 'apart', flow: { group: 'acme', limits: [], cost: 1 } }),
    ]
    await store.enqueue([plain!, timed!, grouped!])

    const said = await sayLeases(...[plain, timed, grouped].map((job) => lease(job!, succeeded)))

    expect(said).toEqual({ claimed: 0, settled: 3 })
    for (const { id } of [plain, timed, grouped] as NewJob[]) expect((await store.get(id))?.state).toBe('succeeded')
    expect(await claimIds(store)).toEqual([])
  })

  test('ends a job that becomes ready in the same moment', async () => {
    const due = newJob({ when: { delayMs: 1 } })
    await store.enqueue([due])
    await clock.advance(1)
    const mover = await promoteSlowly()

    const saying = sayLeases(lease(due, succeeded))
    await mover.whenInTheWay()
    mover.commit()

    expect(await saying).toEqual({ claimed: 0, settled: 1 })
    await mover.isOver
    expect(await placesOf(due.id)).toEqual(['finished'])
  })

  test('changes nothing the second time', async () => {
    const job = newJob()
    await store.enqueue([job])
    await sayLeases(lease(job, succeeded))
    const before = await store.get(job.id)

    expect(await sayLeases(lease(job, succeeded))).toEqual({ claimed: 0, settled: 0 })
    expect(await store.get(job.id)).toEqual(before)
  })

  test('ends a job whose claim was replicated', async () => {
    const job = newJob()
    await store.enqueue([job])
    const held = await claimJob(store)

    await sayLeases(lease(job, succeeded, held.fence))

    expect((await store.get(job.id))?.state).toBe('succeeded')
  })

  test('leaves a job alone that another claim has taken since', async () => {
    const job = newJob()
    await store.enqueue([job])
    const held = await claimJob(store)

    const said = await sayLeases(lease(job, succeeded, held.fence - 1))

    expect(said).toEqual({ claimed: 0, settled: 0 })
    expect((await store.get(job.id))?.state).toBe('running')
    expect(await store.settle([succeeded(held)])).toMatchObject([{ result: 'settled' }])
  })

  test('counts the attempt of a retry, and the death of a job', async () => {
    const [failed, died] = [newJob(), newJob()]
    await store.enqueue([failed, died])

    await sayLeases(lease(failed, retrying), lease(died, dead))

    expect(await store.get(failed.id)).toMatchObject({ state: 'retrying', attempt: 1 })
    expect((await store.get(died.id))?.state).toBe('dead')
  })

  test('makes its queue wait as its handler was told', async () => {
    const [told, next] = [newJob(), newJob()]
    await store.enqueue([told, next])
    const holdOff = { scope: 'queue', afterMs: 60_000 } as const

    await sayLeases(lease(told, (job) => ({ ...retrying(job), holdOff })))

    expect(await claimIds(store)).toEqual([])
    await clock.advance(60_000)
    expect(await claimIds(store)).toContain(next.id)
  })

  test('and the job after it: the job has ended, and is not claimed', async () => {
    const [plain, timed] = [newJob(), newJob({ when: { delayMs: 0 } })]
    await sayLeases(lease(plain, succeeded), lease(timed, dead))

    expect(await sayJobs(plain, timed)).toBe(2)

    expect((await store.get(plain.id))?.state).toBe('succeeded')
    expect((await store.get(timed.id))?.state).toBe('dead')
    expect(await claimIds(store)).toEqual([])
  })
})

describe('a claim that is said again', () => {
  test('takes the job from those that wait, under its fence', async () => {
    const job = newJob()
    await store.enqueue([job])

    expect(await sayLeases(lease(job))).toEqual({ claimed: 1, settled: 0 })

    expect(await claimIds(store)).toEqual([])
    expect(await store.extend([{ id: job.id, fence: FENCE, queue: QUEUE }], LEASE_MS)).toMatchObject({ lost: [] })
    expect(await sayLeases(lease(job))).toEqual({ claimed: 0, settled: 0 })
  })

  test('takes the job from an older claim', async () => {
    const job = newJob()
    await store.enqueue([job])
    const old = await claimJob(store)

    await sayLeases(lease(job, undefined, old.fence + 1))

    expect(await store.settle([succeeded(old)])).toMatchObject([{ result: 'lost' }])
    expect(await store.settle([succeeded({ ...old, fence: old.fence + 1 })])).toMatchObject([{ result: 'settled' }])
  })

  test('and the job after it: the job runs, and is settled', async () => {
    const job = newJob()
    await sayLeases(lease(job))

    await sayJobs(job)

    expect(await claimIds(store)).toEqual([])
    expect((await store.get(job.id))?.state).toBe('running')
    expect(await store.settle([succeeded(claimed(job, FENCE))])).toMatchObject([{ result: 'settled' }])
  })
})

describe('jobs that are said again', () => {
  test('are written once, and those that are known are left as they are', async () => {
    const [known, lost] = [newJob(), newJob({ payload: '{"lost":true}' })]
    await store.enqueue([known])
    const held = await claimJob(store)

    expect(await sayJobs(known, lost)).toBe(1)
    expect(await sayJobs(known, lost)).toBe(0)

    expect(await claimIds(store)).toEqual([lost.id])
    expect(await store.settle([succeeded(held)])).toMatchObject([{ result: 'settled' }])
  })
})

describe('what a worker knows of a job that the server does not', () => {
  test('waits for the producer: a retry counts its attempt, a job that runs keeps its limits', async () => {
    const failed = newJob()
    const running = newJob({ queue: 'apart', flow: { group: 'acme', limits: [], cost: 1 } })
    const leases = [lease(failed, retrying), lease(running)]

    expect(await sayKnown(...leases)).toBe(2)
    expect(await store.get(failed.id)).toBeNull()
    await sayJobs(failed, running)
    expect(await sayKnown(...leases)).toBe(0)

    expect(await store.get(failed.id)).toMatchObject({ state: 'retrying', attempt: 1 })
    expect(await stateOf(running)).toBe('running')
    expect(await claimIds(store, { queue: 'apart' })).toEqual([])
  })

  test('that was a tick or a child stays ended when the others say it later, and is in one place', async () => {
    await store.setSchedule(newSchedule(), TICK_MS, OPERATOR)
    const [parent, tick] = [newJob(), newJob()]
    const child = newJob({ after: [parent.id] })
    await sayLeases(lease(parent, succeeded), lease(tick, dead), lease(child, succeeded))

    await sayTicks(fired(tick))
    await sayJobs(parent, child)
    await store.promote(100)

    expect([await stateOf(parent), await stateOf(child), await stateOf(tick)]).toEqual([
      'succeeded',
      'succeeded',
      'dead',
    ])
    expect(await claimIds(store)).toEqual([])
    const places = await placesOf(parent.id, child.id, tick.id)
    expect(places).toEqual(['dead', 'finished', 'finished'])
  })
})

describe('ticks that are said again', () => {
  test('are there once, whichever of two processes that fired them in turn speaks first', async () => {
    await store.setSchedule(newSchedule(), TICK_MS, OPERATOR)
    const [first, second] = [newJob(), newJob()]

    expect(await sayTicks(fired(second, TICK_MS + 3_600_000))).toBe(1)
    expect(await sayTicks(fired(first))).toBe(1)
    expect(await sayTicks(fired(second, TICK_MS + 3_600_000), fired(first))).toBe(0)

    expect([await stateOf(first), await stateOf(second)]).toEqual(['ready', 'ready'])
    const [schedule] = await store.schedules()
    expect(schedule?.nextAt?.getTime()).toBe(TICK_MS + 2 * 3_600_000)
  })

  test('that made no job, because one was running, make none again', async () => {
    await store.setSchedule(newSchedule(), TICK_MS, OPERATOR)
    const skipped = newJob()

    expect(await sayTicks({ ...fired(skipped), made: new Set() })).toBe(0)

    expect(await store.get(skipped.id)).toBeNull()
    expect((await store.schedules())[0]?.nextAt?.getTime()).toBe(TICK_MS + 3_600_000)
  })
})

describe('keys', () => {
  const idempotencyKey = { key: 'one', ttlMs: null }

  test('that were used twice are the newest job’s, and both jobs are there', async () => {
    const [older, newer] = [newJob({ idempotencyKey }), newJob({ idempotencyKey })]

    expect(await sayJobs(older, newer)).toBe(2)

    expect([await stateOf(older), await stateOf(newer)]).toEqual(['ready', 'ready'])
    expect(await store.enqueue([newJob({ idempotencyKey })])).toMatchObject([{ id: newer.id, created: false }])
  })

  test('that an ended job still has let the next one wait until that is said', async () => {
    const [older, newer] = [newJob({ idempotencyKey }), newJob({ idempotencyKey })]
    await store.enqueue([older])

    expect((await sayAll(newer)).left).toEqual([newer])
    await sayLeases({ ...lease(older, (job) => ({ ...succeeded(job), idempotencyKey })) })
    expect((await sayAll(newer)).left).toEqual([])

    expect(await stateOf(newer)).toBe('ready')
  })
})

test('a child whose parent another process knows waits for it', async () => {
  const parent = newJob()
  const child = newJob({ after: [parent.id] })

  expect((await sayAll(child)).left).toEqual([child])
  await sayJobs(parent)
  expect((await sayAll(child)).left).toEqual([])

  expect(await stateOf(child)).toBe('blocked')
})

test('while others have still to speak, a claim that waited for a connection is refused, and a settlement is not', async () => {
  const group = new LaneGroup()
  group.isHeld = (until) => until === 'said by all'
  const settings = async () => ({ connectionString: url })
  const peer = new Database({ settings, schema, clock: null, connectMs: 10_000, deadlineMs: 10_000, group })
  const any = { name: '', sql: 'SELECT 1' }

  await expect(peer.send('claim', any, [])).rejects.toMatchObject({ code: 'store_unavailable', retryable: true })
  expect(await peer.send('settle', any, [])).toHaveLength(1)

  await peer.close()
})

/** Promotes in a transaction that stays open until it is told to commit. */
async function promoteSlowly() {
  let commit: () => void = () => {}
  const told = new Promise<void>((resolve) => {
    commit = resolve
  })
  let isOver: Promise<void> = Promise.resolve()
  const backend = await new Promise<string>((resolve, reject) => {
    isOver = db.transaction('upkeep', async (send) => {
      await promote(db, send, newSweep(), 100, () => {})
      resolve((await send({ name: '', sql: 'SELECT pg_backend_pid()::text' }, []))[0]![0]!)
      await told
    })
    isOver.catch(reject)
  })
  const sql = 'SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))::text'
  const isInTheWay = async () => (await db.send('look', { name: '', sql }, [backend]))[0]![0]
  return {
    isOver,
    commit,
    whenInTheWay: () => expect.poll(isInTheWay, { interval: 10 }).toBe('true'),
  }
}

/** The tables that have a row of one of these jobs, beside its facts. */
async function placesOf(...ids: string[]): Promise<readonly string[]> {
  const tables = ['blocked', 'dead', 'finished', 'held', 'ready', 'running', 'scheduled']
  const sql = tables
    .map((table) => `SELECT '${table}' FROM :schema.${table} WHERE id = ANY ($1::uuid[])`)
    .join(' UNION ALL ')
  return (await db.send('look', { name: '', sql }, [`{${ids.join(',')}}`])).map(([table]) => table!).sort()
}

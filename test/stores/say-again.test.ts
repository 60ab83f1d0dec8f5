// Saying again what a new primary may not know: it takes what is missing, and leaves what it knows as it is.

import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob, SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import type { Database } from '../../src/stores/postgres/database.js'
import type { RememberedLease } from '../../src/stores/postgres/failover-memory.js'
import { enqueueAgain, leaseAgain } from '../../src/stores/postgres/say-again.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { dead, LEASE_MS, newJob, QUEUE, retrying, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob } from '../../src/testing/store-suite/steps.js'
import { databaseOf, dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { claimed } from './failover-samples.js'

const url = testServerUrl()
const schema = `say_again_${process.pid}`
const FENCE = START_MS + 5

let store: Store
let db: Database

beforeEach(async () => {
  store = await openCleanStore(url, schema, manualClock())
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

const sayLeases = (...leases: RememberedLease[]) => leaseAgain(db, leases, () => {})
const sayJobs = (...jobs: NewJob[]) => enqueueAgain(db, jobs, () => {})

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

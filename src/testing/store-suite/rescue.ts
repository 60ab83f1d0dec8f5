// Rescue: leases that have run out are found, and their jobs taken from workers that may still be alive.

import { leaseOf } from '../../core/job.js'
import type { Facts } from './context.js'
import {
  crashed,
  dead,
  keyed,
  LEASE_MS,
  newJob,
  newNote,
  OPERATOR,
  QUEUE,
  released,
  SECOND_MS,
  START_MS,
  stale,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, enqueueJob, everything, startJob, stateOf, viewOf } from './steps.js'

const RESCUE = { onlyExpired: true } as const

const finding: Facts = {
  'a lease that holds is not expired': async ({ store, clock, expect }) => {
    await startJob(store)
    await clock.advance(LEASE_MS - 1)

    expect((await store.expired(10)).jobs).toEqual([])
  },

  'a lease is expired when its time is over': async ({ store, clock, expect }) => {
    const { id } = await startJob(store)
    await clock.advance(LEASE_MS)

    expect((await store.expired(10)).jobs.map((job) => job.id)).toEqual([id])
  },

  'an expired lease comes with what is needed to decide about its job': async ({ store, clock, expect }) => {
    const limits = { maxAttempts: 3 }
    await store.setQueue(QUEUE, { limits: { timeoutMs: 9 } }, OPERATOR)
    const job = await startJob(store, { ...keyed('welcome'), type: 'send_push', limits }, { worker: 'worker-b' })
    await clock.advance(LEASE_MS + 5)

    const { jobs } = await store.expired(10)

    expect(jobs).toEqual([
      {
        id: job.id,
        fence: job.fence,
        queue: QUEUE,
        type: 'send_push',
        worker: 'worker-b',
        attempt: 1,
        crashes: 0,
        createdAtMs: START_MS,
        expiredMs: 5,
        started: true,
        limits,
        queueLimits: { timeoutMs: 9 },
        idempotencyKey: { key: 'welcome', ttlMs: null },
      },
    ])
  },

  'expired leases carry the time of the store': async ({ store, clock, expect }) => {
    await clock.advance(99)

    expect((await store.expired(10)).nowMs).toBe(START_MS + 99)
  },

  'the lease that ran out first comes first': async ({ store, clock, expect }) => {
    const late = await startJob(store, {}, { leaseMs: 2_000 })
    const early = await startJob(store, {}, { leaseMs: 1_000 })
    await clock.advance(2_000)

    const { jobs } = await store.expired(10)

    expect(jobs.map(({ id }) => id)).toEqual([early.id, late.id])
  },

  'leases that ran out together come in the order of their ids': async ({ store, clock, expect }) => {
    const [smaller, larger] = [newJob(), newJob()]
    await store.enqueue([larger, smaller])
    await claimIds(store)
    await clock.advance(LEASE_MS)

    const { jobs } = await store.expired(10)

    expect(jobs.map(({ id }) => id)).toEqual([smaller.id, larger.id])
  },

  'no more expired leases are listed than the limit': async ({ store, clock, expect }) => {
    const first = await startJob(store, {}, { leaseMs: 1_000 })
    await startJob(store, {}, { leaseMs: 2_000 })
    await clock.advance(2_000)

    const { jobs } = await store.expired(1)

    expect(jobs.map(({ id }) => id)).toEqual([first.id])
  },

  'listing expired leases changes nothing': async ({ store, clock, expect }) => {
    await startJob(store)
    await clock.advance(LEASE_MS)
    const before = await everything(store)

    await store.expired(10)

    expect(await everything(store)).toEqual(before)
  },
}

// A job that crashed before is a suspect: only of such a one does a worker say when it begins.
const suspects: Facts = {
  'a job that crashed before counts as started only if its worker said so': async ({ store, clock, expect }) => {
    await store.settle([released({ ...(await startJob(store)), crashes: 1 })])
    await claimJob(store)
    await clock.advance(LEASE_MS)

    expect((await store.expired(10)).jobs.map(({ started }) => started)).toEqual([false])
  },

  'a job that crashed before counts as started when its worker said so': async ({ store, clock, expect }) => {
    await store.settle([released({ ...(await startJob(store)), crashes: 1 })])
    await store.begin([await claimJob(store)])
    await clock.advance(LEASE_MS)

    expect((await store.expired(10)).jobs.map(({ started }) => started)).toEqual([true])
  },

  'a beginning under a lost lease does not count': async ({ store, clock, expect }) => {
    const first = await startJob(store)
    await store.settle([released({ ...first, crashes: 1 })])
    await claimJob(store)

    await store.begin([first])
    await clock.advance(LEASE_MS)

    expect((await store.expired(10)).jobs.map(({ started }) => started)).toEqual([false])
  },

  'a beginning does not count for the next claim': async ({ store, clock, expect }) => {
    await store.settle([released({ ...(await startJob(store)), crashes: 1 })])
    const second = await claimJob(store)
    await store.begin([second])
    await store.settle([released(second)])
    await claimJob(store)
    await clock.advance(LEASE_MS)

    expect((await store.expired(10)).jobs.map(({ started }) => started)).toEqual([false])
  },
}

const taking: Facts = {
  'a lease that holds is not rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS - 1)

    const answers = await store.settle([crashed(job)], RESCUE)

    expect(answers).toEqual([{ ...leaseOf(job), result: 'lost', state: null }])
  },

  'a rescue that came too early changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)
    const before = await everything(store)

    await store.settle([crashed(job)], RESCUE)

    expect(await everything(store)).toEqual(before)
  },

  'a lease that was extended in time is not rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.extend([job], SECOND_MS)

    const [answer] = await store.settle([crashed(job)], RESCUE)

    expect(answer).toMatchObject({ result: 'lost' })
    expect(await stateOf(store, job.id)).toBe('running')
  },

  'a lease whose time is over is rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)

    const answers = await store.settle([crashed(job)], RESCUE)

    expect(answers).toEqual([{ ...leaseOf(job), result: 'settled', state: 'retrying' }])
    expect(await viewOf(store, job.id)).toMatchObject({ state: 'retrying', crashes: 1 })
  },

  'a rescued job is no longer listed as expired': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)

    await store.settle([crashed(job)], RESCUE)

    expect((await store.expired(10)).jobs).toEqual([])
  },

  'a rescue takes the expired ones among its leases': async ({ store, clock, expect }) => {
    const expired = await startJob(store, {}, { leaseMs: SECOND_MS })
    const held = await startJob(store)
    await clock.advance(SECOND_MS)

    const answers = await store.settle([crashed(held), crashed(expired)], RESCUE)

    expect(answers.map(({ result }) => result)).toEqual(['lost', 'settled'])
  },

  'a late worker cannot settle what was rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([crashed(job)], RESCUE)

    const [answer] = await store.settle([succeeded(job)])

    expect(answer).toMatchObject({ result: 'lost', state: null })
    expect(await stateOf(store, job.id)).toBe('retrying')
  },

  'a late worker cannot settle what was rescued into its death': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([dead(job, { reason: 'crashed' })], RESCUE)

    const [answer] = await store.settle([dead(job)])

    expect(answer).toMatchObject({ result: 'lost', state: null })
  },

  'a late worker learns that its lease is lost': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([crashed(job)], RESCUE)

    expect((await store.extend([job], LEASE_MS)).lost).toEqual([leaseOf(job)])
  },

  'a late worker adds no notes': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([released(job)], RESCUE)
    await claimJob(store)

    await store.note([newNote(job, { progress: '1' })])

    expect((await viewOf(store, job.id)).progress).toBe(null)
  },

  'a late worker cannot settle what was claimed elsewhere after the rescue': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([released(job)], RESCUE)
    await claimJob(store, { worker: 'worker-b' })

    const [answer] = await store.settle([succeeded(job)])

    expect(answer).toMatchObject({ result: 'lost' })
    expect(await viewOf(store, job.id)).toMatchObject({ state: 'running', worker: 'worker-b' })
  },

  'a claim after a rescue has a fence above both': async ({ store, expect }) => {
    const job = await startJob(store, {}, { leaseMs: 0 })
    await store.settle([released(job)], RESCUE)

    const next = await claimJob(store)

    expect(next.fence).toBe(job.fence + 2)
  },

  'a rescue that is repeated is lost and changes nothing': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    await store.settle([crashed(job)], RESCUE)
    const before = await everything(store)

    const [answer] = await store.settle([crashed(job)], RESCUE)

    expect(answer).toMatchObject({ result: 'lost', state: null })
    expect(await everything(store)).toEqual(before)
  },

  'one lease twice in a rescue is taken once': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)

    const answers = await store.settle([crashed(job), crashed(job)], RESCUE)

    expect(answers.map(({ result }) => result)).toEqual(['settled', 'lost'])
    expect((await viewOf(store, job.id)).attempts).toHaveLength(1)
  },

  'a stale lease of an expired job is not rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)

    const [answer] = await store.settle([crashed({ ...job, ...stale(job) })], RESCUE)

    expect(answer).toMatchObject({ result: 'lost' })
  },

  'a rescued job whose cancel was asked for is cancelled': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)
    await clock.advance(LEASE_MS)

    await store.settle([crashed(job)], RESCUE)

    expect(await stateOf(store, job.id)).toBe('cancelled')
  },

  'a job rescued into its death frees its key': async ({ store, clock, expect }) => {
    const job = await startJob(store, keyed('welcome'))
    await clock.advance(LEASE_MS)
    await store.settle([dead(job, { reason: 'crashed' })], RESCUE)

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a job that was rescued before its handler ran goes before the backlog': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    const backlog = await enqueueJob(store)
    await clock.advance(LEASE_MS)

    await store.settle([released(job)], RESCUE)

    expect(await claimIds(store)).toEqual([job.id, backlog])
  },

  'an empty list rescues nothing': async ({ store, expect }) => {
    expect(await store.settle([], RESCUE)).toEqual([])
  },
}

export const rescueFacts: Facts = { ...finding, ...suspects, ...taking }

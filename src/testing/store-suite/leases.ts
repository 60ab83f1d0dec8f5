// Leases: how long a claim is good for, what a worker says under it, and when it no longer holds.

import { leaseOf } from '../../core/job.js'
import { BATCH_MAX } from '../../core/job-store.js'
import type { Facts } from './context.js'
import {
  LEASE_MS,
  newId,
  newJobs,
  newNote,
  OPERATOR,
  QUEUE,
  released,
  SECOND_MS,
  START_MS,
  stale,
  succeeded,
  WORKER,
} from './samples.js'
import { claimJob, claimJobs, codeOf, startJob, viewOf } from './steps.js'

const claimed: Facts = {
  'a claim counts the attempt': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(job.attempt).toBe(1)
    expect((await viewOf(store, job.id)).attempt).toBe(1)
  },

  'the first fence of a job is the time of its claim': async ({ store, clock, expect }) => {
    await clock.advance(50)

    expect((await startJob(store)).fence).toBe(START_MS + 50)
  },

  'a fence grows though the clock stands still': async ({ store, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first)])

    const second = await claimJob(store)

    expect(second.fence).toBe(first.fence + 1)
  },

  'a fence grows though the clock goes back': async ({ store, clock, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first)])
    clock.set(START_MS - SECOND_MS)

    const second = await claimJob(store)

    expect(second.fence).toBe(first.fence + 1)
  },

  'a fence catches up with the time': async ({ store, clock, expect }) => {
    await store.settle([released(await startJob(store))])
    await clock.advance(SECOND_MS)

    expect((await claimJob(store)).fence).toBe(START_MS + SECOND_MS)
  },

  'a lease lasts from the claim': async ({ store, clock, expect }) => {
    await clock.advance(SECOND_MS)

    const { id } = await startJob(store, {}, { leaseMs: 5_000 })

    expect((await viewOf(store, id)).leasedUntil).toEqual(new Date(START_MS + 6_000))
  },

  'a running job shows its worker and when it was claimed': async ({ store, clock, expect }) => {
    await clock.advance(SECOND_MS)

    const { id } = await startJob(store, {}, { worker: 'worker-b' })

    expect(await viewOf(store, id)).toMatchObject({ worker: 'worker-b', startedAt: new Date(START_MS + SECOND_MS) })
  },
}

const extending: Facts = {
  'an extended lease lasts from now': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    const extension = await store.extend([job], LEASE_MS)

    expect(extension).toEqual({ lost: [], cancelled: [] })
    expect((await viewOf(store, job.id)).leasedUntil).toEqual(new Date(START_MS + SECOND_MS + LEASE_MS))
  },

  'an extension may shorten a lease': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.extend([job], SECOND_MS)

    expect((await viewOf(store, job.id)).leasedUntil).toEqual(new Date(START_MS + SECOND_MS))
  },

  'a lease that has run out can be extended until it is rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(2 * LEASE_MS)

    const extension = await store.extend([job], LEASE_MS)

    expect(extension.lost).toEqual([])
    expect((await store.expired(10)).jobs).toEqual([])
  },

  'extending a lease of another claim reports it lost': async ({ store, expect }) => {
    const job = await startJob(store)

    const extension = await store.extend([stale(job)], LEASE_MS)

    expect(extension).toEqual({ lost: [stale(job)], cancelled: [] })
  },

  'a lost lease does not extend the claim that came after it': async ({ store, clock, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first)])
    await claimJob(store)
    await clock.advance(SECOND_MS)

    await store.extend([first], LEASE_MS)

    expect((await viewOf(store, first.id)).leasedUntil).toEqual(new Date(START_MS + LEASE_MS))
  },

  'extending the lease of a settled job reports it lost': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([succeeded(job)])

    const { lost } = await store.extend([job], LEASE_MS)

    expect(lost).toEqual([leaseOf(job)])
  },

  'extending the lease of an unknown job reports it lost': async ({ store, expect }) => {
    const lease = { id: newId(), fence: START_MS, queue: QUEUE }

    expect((await store.extend([lease], LEASE_MS)).lost).toEqual([lease])
  },

  'extending many reports exactly the lost ones, in the order asked': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const unknown = { id: newId(), fence: 1, queue: QUEUE }

    const { lost } = await store.extend([unknown, first, stale(second), second], LEASE_MS)

    expect(lost).toEqual([unknown, stale(second)])
  },

  'a lost lease does not keep its neighbours from being extended': async ({ store, clock, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    await clock.advance(SECOND_MS)

    await store.extend([stale(first), second], LEASE_MS)

    expect((await viewOf(store, second.id)).leasedUntil).toEqual(new Date(START_MS + SECOND_MS + LEASE_MS))
  },

  'an extension tells whose cancel was asked for, and extends them': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)
    await clock.advance(SECOND_MS)

    const extension = await store.extend([job], LEASE_MS)

    expect(extension).toEqual({ lost: [], cancelled: [leaseOf(job)] })
    expect((await viewOf(store, job.id)).leasedUntil).toEqual(new Date(START_MS + SECOND_MS + LEASE_MS))
  },

  'one lease may be named twice in an extension': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(await store.extend([job, job], LEASE_MS)).toEqual({ lost: [], cancelled: [] })
  },

  'an empty list of leases extends nothing': async ({ store, expect }) => {
    expect(await store.extend([], LEASE_MS)).toEqual({ lost: [], cancelled: [] })
  },

  'the largest number of leases is extended in one call': async ({ store, clock, expect }) => {
    await store.enqueue(newJobs(BATCH_MAX))
    const jobs = await claimJobs(store)
    await clock.advance(LEASE_MS)

    const { lost } = await store.extend(jobs, LEASE_MS)

    expect(lost).toEqual([])
    expect((await store.expired(10)).jobs).toEqual([])
  },

  'more leases than the largest number are refused': async ({ store, expect }) => {
    const leases = newJobs(BATCH_MAX + 1).map(({ id, queue }) => ({ id, fence: 1, queue }))

    expect(await codeOf(store.extend(leases, LEASE_MS))).toBe('invalid_option')
  },
}

const watching: Facts = {
  'watching tells which leases are lost': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(await store.watch([stale(job), job])).toEqual({ lost: [stale(job)], cancelled: [], settled: [] })
  },

  'watching tells whose cancel was asked for': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)

    expect(await store.watch([job])).toEqual({
      lost: [],
      cancelled: [leaseOf(job)],
      settled: [],
    })
  },

  'watching does not extend': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    await store.watch([job])

    expect((await viewOf(store, job.id)).leasedUntil).toEqual(new Date(START_MS + LEASE_MS))
  },

  'an empty list of leases is watched': async ({ store, expect }) => {
    expect(await store.watch([])).toEqual({ lost: [], cancelled: [], settled: [] })
  },

  'watching tells a lease under which the job was settled from one that ran out': async ({ store, clock, expect }) => {
    const [done, lost] = [await startJob(store), await startJob(store)]
    await store.settle([succeeded(done)])
    await clock.advance(2 * LEASE_MS)
    await store.settle([released(lost)], { onlyExpired: true })

    const watch = await store.watch([done, lost])

    expect(watch.lost).toEqual([done, lost].map(leaseOf))
    expect(watch.settled).toEqual([leaseOf(done)])
  },

  'a job that was settled under one lease and runs under the next is settled under neither': async ({
    store,
    expect,
  }) => {
    const first = await startJob(store)
    await store.settle([released(first)])
    const second = await claimJob(store)

    expect((await store.watch([first, second])).settled).toEqual([])
  },
}

const noting: Facts = {
  'progress replaces what was there': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.note([newNote(job, { progress: '{"done":1}' })])

    await store.note([newNote(job, { progress: '{"done":2}' })])

    expect((await viewOf(store, job.id)).progress).toEqual({ done: 2 })
  },

  'a note without progress leaves it as it is': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.note([newNote(job, { progress: '{"done":1}' })])

    await store.note([newNote(job, { logs: [{ atMs: START_MS, text: 'half way' }] })])

    expect((await viewOf(store, job.id)).progress).toEqual({ done: 1 })
  },

  'log lines are added behind those that are there': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.note([newNote(job, { logs: [{ atMs: START_MS, text: 'one' }] })])

    await store.note([newNote(job, { logs: [{ atMs: START_MS - 5, text: 'two' }] })])

    expect((await viewOf(store, job.id)).logs).toEqual([
      { at: new Date(START_MS), text: 'one' },
      { at: new Date(START_MS - 5), text: 'two' },
    ])
  },

  'many log lines of one note keep their order': async ({ store, expect }) => {
    const job = await startJob(store)
    const logs = Array.from({ length: 200 }, (_, line) => ({ atMs: START_MS, text: `line ${line}` }))

    await store.note([newNote(job, { logs })])

    expect((await viewOf(store, job.id)).logs.map(({ text }) => text)).toEqual(logs.map(({ text }) => text))
  },

  'a note under a lost lease is dropped': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.note([newNote(stale(job), { progress: '1', logs: [{ atMs: START_MS, text: 'late' }] })])

    expect(await viewOf(store, job.id)).toMatchObject({ progress: null, logs: [] })
  },

  'a lost note does not disturb its neighbours': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.note([
      newNote({ id: newId(), fence: 1, queue: QUEUE }, { progress: '1' }),
      newNote(job, { progress: '2' }),
    ])

    expect((await viewOf(store, job.id)).progress).toBe(2)
  },

  'a lost note of the same job is kept apart from the one that counts': async ({ store, expect }) => {
    const job = await startJob(store)
    const [late, fresh] = ['late', 'fresh'].map((text) => [{ atMs: START_MS, text }])

    await store.note([newNote(stale(job), { logs: late! }), newNote(job, { logs: fresh! })])

    expect((await viewOf(store, job.id)).logs).toEqual([{ at: new Date(START_MS), text: 'fresh' }])
  },

  'two notes of one job in a call both count, the later progress last': async ({ store, expect }) => {
    const job = await startJob(store)
    const [one, two] = ['one', 'two'].map((text) => [{ atMs: START_MS, text }])

    await store.note([newNote(job, { progress: '1', logs: one! }), newNote(job, { progress: '2', logs: two! })])

    const { progress, logs } = await viewOf(store, job.id)
    expect([progress, ...logs.map(({ text }) => text)]).toEqual([2, 'one', 'two'])
  },

  'notes of many jobs are kept apart': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]

    await store.note([newNote(first, { progress: '"first"' }), newNote(second, { progress: '"second"' })])

    expect((await viewOf(store, first.id)).progress).toBe('first')
    expect((await viewOf(store, second.id)).progress).toBe('second')
  },

  'an empty list of notes changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.note([])

    expect(await viewOf(store, job.id)).toMatchObject({ progress: null, logs: [], worker: WORKER })
  },

  'an empty list of leases begins': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.begin([])

    expect((await viewOf(store, job.id)).state).toBe('running')
  },
}

export const leaseFacts: Facts = { ...claimed, ...extending, ...watching, ...noting }

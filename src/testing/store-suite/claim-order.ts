// The order of claiming: priority, then lane, then the order in which jobs became ready.

import type { Facts } from './context.js'
import {
  LEASE_MS,
  MINUTE_MS,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  WORKER,
} from './samples.js'
import { claimIds, claimJob, enqueueEach, enqueueJob, jobIn, startJob } from './steps.js'

const inLine: Facts = {
  'higher priority goes first': async ({ store, expect }) => {
    const [low, high, middle] = await enqueueEach(store, [{ priority: -1 }, { priority: 1 }, { priority: 0 }])

    expect(await claimIds(store)).toEqual([high, middle, low])
  },

  'priorities of a batch are kept apart': async ({ store, expect }) => {
    const jobs = [5, -32_768, 32_767, 0].map((priority) => newJob({ priority }))

    await store.enqueue(jobs)

    expect(await claimIds(store)).toEqual([jobs[2]!.id, jobs[0]!.id, jobs[3]!.id, jobs[1]!.id])
  },

  'jobs of one priority go in the order they were enqueued': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, {}, {}])

    expect(await claimIds(store)).toEqual(ids)
  },

  'the order does not depend on ids': async ({ store, expect }) => {
    const [smaller, larger] = newJobs(2)

    await store.enqueue([larger!])
    await store.enqueue([smaller!])

    expect(await claimIds(store)).toEqual([larger!.id, smaller!.id])
  },

  'jobs of a batch go in the order of the batch': async ({ store, expect }) => {
    const jobs = newJobs(20).reverse()

    await store.enqueue(jobs)

    expect(await claimIds(store)).toEqual(jobs.map(({ id }) => id))
  },

  'plain jobs and jobs with options share one line': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{ tags: ['a'] }, {}, { limits: { maxAttempts: 2 } }, {}])

    expect(await claimIds(store)).toEqual(ids)
  },

  'jobs that are claimed one by one come in the same order': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, { priority: 3 }, {}])

    const claimed = [await claimJob(store), await claimJob(store), await claimJob(store)]

    expect(claimed.map(({ id }) => id)).toEqual([ids[1], ids[0], ids[2]])
  },

  'a claim of several queues answers in the order of the queues': async ({ store, expect }) => {
    const email = await enqueueJob(store, { queue: 'email', priority: 9 })
    const push = await enqueueJob(store, { queue: 'push' })
    const queues = ['push', 'email'].map((queue) => ({ queue, limit: 5 }))

    const { jobs } = await store.claim({ queues, types: null, worker: WORKER, leaseMs: LEASE_MS })

    expect(jobs.map(({ id }) => id)).toEqual([push, email])
  },

  'a job enqueued with a time that has passed has no privilege': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, { when: { runAtMs: START_MS - MINUTE_MS } }, {}])

    expect(await claimIds(store)).toEqual(ids)
  },
}

const frontLane: Facts = {
  'a job whose time has come goes before the backlog': async ({ store, clock, expect }) => {
    const [timed, backlog] = await enqueueEach(store, [{ when: { delayMs: SECOND_MS } }, {}])
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([timed, backlog])
  },

  'a job whose time has come goes behind higher priority': async ({ store, clock, expect }) => {
    const [timed, urgent] = await enqueueEach(store, [{ when: { delayMs: SECOND_MS } }, { priority: 1 }])
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([urgent, timed])
  },

  'timed jobs go in the order of their times': async ({ store, clock, expect }) => {
    const [late, early] = await enqueueEach(store, [{ when: { delayMs: 2_000 } }, { when: { delayMs: 1_000 } }])
    await clock.advance(2_000)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([early, late])
  },

  'timed jobs of one time go in the order of their ids': async ({ store, clock, expect }) => {
    const jobs = newJobs(5, { when: { runAtMs: START_MS + SECOND_MS } })
    await store.enqueue([...jobs].reverse())
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual(jobs.map(({ id }) => id))
  },

  'timed jobs that were promoted earlier stay ahead': async ({ store, clock, expect }) => {
    const [second, first] = await enqueueEach(store, [{ when: { delayMs: 2_000 } }, { when: { delayMs: 1_000 } }])
    await clock.advance(1_000)
    await store.promote(10)
    await clock.advance(1_000)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([first, second])
  },

  'a released job goes before the backlog': async ({ store, expect }) => {
    const job = await startJob(store)
    const backlog = await enqueueJob(store)

    await store.settle([released(job)])

    expect(await claimIds(store)).toEqual([job.id, backlog])
  },

  'a released job goes behind those that were in front already': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    const timed = await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)
    await store.promote(10)

    await store.settle([released(job)])

    expect(await claimIds(store)).toEqual([timed, job.id])
  },

  'jobs released in one call keep the order of the call': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]

    await store.settle([released(second), released(first)])

    expect(await claimIds(store)).toEqual([second.id, first.id])
  },

  'a snoozed job goes before the backlog': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.settle([snoozed(job, SECOND_MS)])
    const backlog = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([job.id, backlog])
  },

  'the job of a tick goes before the backlog': async ({ store, expect }) => {
    const backlog = await enqueueJob(store)
    const tick = { tickMs: START_MS, job: newJob() }
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)

    await store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks: [tick], nextAtMs: null })

    expect(await claimIds(store)).toEqual([tick.job.id, backlog])
  },

  'a job that leaves the front lane for a retry loses its privilege': async ({ store, clock, expect }) => {
    const timed = await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)
    await store.promote(10)
    await store.settle([retrying(await claimJob(store), SECOND_MS)])
    const backlog = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([backlog, timed])
  },
}

const endOfLine: Facts = {
  'a retry goes to the end of its queue': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying(job, SECOND_MS)])
    const backlog = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([backlog, job.id])
  },

  'a retry keeps its priority': async ({ store, clock, expect }) => {
    const job = await startJob(store, { priority: 5 })
    await store.settle([retrying(job, SECOND_MS)])
    const backlog = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([job.id, backlog])
  },

  'a requeued job goes to the end of its queue': async ({ store, expect }) => {
    const requeued = await jobIn(store, 'dead')
    const backlog = await enqueueJob(store)

    await store.requeue([requeued], OPERATOR)

    expect(await claimIds(store)).toEqual([backlog, requeued])
  },

  'a requeued job keeps its priority': async ({ store, expect }) => {
    const requeued = await jobIn(store, 'dead', { priority: 5 })
    const backlog = await enqueueJob(store)

    await store.requeue([requeued], OPERATOR)

    expect(await claimIds(store)).toEqual([requeued, backlog])
  },
}

export const claimOrderFacts: Facts = { ...inLine, ...frontLane, ...endOfLine }

// Claim: which jobs a worker gets, and what comes with them.

import { BATCH_MAX, type Claim } from '../../core/job-store.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { keyed, LEASE_MS, newJob, newJobs, OPERATOR, QUEUE, released, START_MS, succeeded, WORKER } from './samples.js'
import { claimIds, claimJob, claimJobs, codeOf, enqueueJob, jobIn, startJob, stateOf } from './steps.js'

const REQUEST = { types: null, worker: WORKER, leaseMs: LEASE_MS } as const

const choosing: Facts = {
  'a claimed job is running': async ({ store, expect }) => {
    const { id } = await startJob(store)

    expect(await stateOf(store, id)).toBe('running')
  },

  'a claimed job says where it comes from, and a plain one carries nothing for that': async ({ store, expect }) => {
    const [plain, child] = newJobs(2)
    const next = newJob({ after: [plain!.id], enqueuedBy: plain!.id })
    await store.enqueue([plain!, { ...child!, enqueuedBy: plain!.id }, next])
    const [first, second] = await claimJobs(store)
    await store.settle([succeeded(first!)])
    const third = await claimJob(store)

    expect(first!.origin).toBe(undefined)
    expect(second!.origin).toEqual({ after: [], schedule: null, enqueuedBy: plain!.id })
    expect(third.origin).toEqual({ after: [plain!.id], schedule: null, enqueuedBy: plain!.id })
    expect(await store.get(next.id)).toMatchObject({ enqueuedBy: plain!.id })
  },

  'a claimed job is not claimed again': async ({ store, expect }) => {
    await startJob(store)

    expect(await claimIds(store)).toEqual([])
  },

  'a claim takes no more than its limit': async ({ store, expect }) => {
    await store.enqueue(newJobs(3))

    expect(await claimJobs(store, { limit: 2 })).toHaveLength(2)
  },

  'what a claim leaves is there for the next': async ({ store, expect }) => {
    const jobs = newJobs(3)
    await store.enqueue(jobs)
    await claimJobs(store, { limit: 2 })

    expect(await claimIds(store)).toEqual([jobs[2]!.id])
  },

  'a claim with a limit of nothing takes nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await claimJobs(store, { limit: 0 })).toEqual([])
  },

  'a claim of no queues takes nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    const claim = await store.claim({ ...REQUEST, queues: [] })

    expect(claim).toEqual({ jobs: [], nowMs: START_MS, waitedMs: null })
  },

  'a queue nobody ever enqueued to gives nothing': async ({ store, expect }) => {
    expect(await claimJobs(store, { queue: 'unheard-of' })).toEqual([])
  },

  'a claim takes from its own queue only': async ({ store, expect }) => {
    await enqueueJob(store, { queue: 'push' })

    expect(await claimJobs(store, { queue: 'email' })).toEqual([])
  },

  'each queue of a claim has a limit of its own': async ({ store, expect }) => {
    await store.enqueue([...newJobs(3, { queue: 'email' }), ...newJobs(3, { queue: 'push' })])
    const queues = [
      { queue: 'email', limit: 1 },
      { queue: 'push', limit: 2 },
    ]

    const { jobs } = await store.claim({ ...REQUEST, queues })

    expect(jobs.map(({ queue }) => queue)).toEqual(['email', 'push', 'push'])
  },

  'a queue that is listed twice gives its jobs once': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    const queues = [
      { queue: QUEUE, limit: 5 },
      { queue: QUEUE, limit: 5 },
    ]

    const { jobs } = await store.claim({ ...REQUEST, queues })

    expect(jobs.map((job) => job.id)).toEqual([id])
  },

  'a claim takes only the types it names': async ({ store, expect }) => {
    await enqueueJob(store, { type: 'resize_image' })
    const id = await enqueueJob(store, { type: 'send_email' })

    expect(await claimIds(store, { types: ['send_email', 'send_push'] })).toEqual([id])
  },

  'jobs of other types do not use up the limit': async ({ store, expect }) => {
    await store.enqueue(newJobs(5, { type: 'resize_image', priority: 1 }))
    const id = await enqueueJob(store, { type: 'send_email' })

    expect(await claimIds(store, { types: ['send_email'], limit: 1 })).toEqual([id])
  },

  'a job of another type stays ready': async ({ store, expect }) => {
    const id = await enqueueJob(store, { type: 'resize_image' })

    await claimJobs(store, { types: ['send_email'] })

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a claim that names no types at all takes nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await claimJobs(store, { types: [] })).toEqual([])
  },

  'the largest claim takes as many': async ({ store, expect }) => {
    await store.enqueue(newJobs(BATCH_MAX))

    expect(await claimJobs(store, { limit: BATCH_MAX })).toHaveLength(BATCH_MAX)
  },

  'a claim over the largest is refused': async ({ store, expect }) => {
    expect(await codeOf(claimJobs(store, { limit: BATCH_MAX + 1 }))).toBe('invalid_option')
  },
}

const paused: Facts = {
  'a paused queue gives nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    await store.pause(QUEUE, OPERATOR)

    expect(await claimIds(store)).toEqual([])
  },

  'a paused queue takes jobs': async ({ store, expect }) => {
    await store.pause(QUEUE, OPERATOR)

    const id = await enqueueJob(store)

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a resumed queue gives what it took while it was paused': async ({ store, expect }) => {
    await store.pause(QUEUE, OPERATOR)
    const id = await enqueueJob(store)

    await store.resume(QUEUE, OPERATOR)

    expect(await claimIds(store)).toEqual([id])
  },

  'a paused queue does not hold up the others of a claim': async ({ store, expect }) => {
    await enqueueJob(store, { queue: 'email' })
    const id = await enqueueJob(store, { queue: 'push' })
    await store.pause('email', OPERATOR)

    const { jobs } = await store.claim({
      ...REQUEST,
      queues: ['email', 'push'].map((queue) => ({ queue, limit: 5 })),
    })

    expect(jobs.map((job) => job.id)).toEqual([id])
  },
}

const carrying: Facts = {
  'a claim carries the time of the store': async ({ store, clock, expect }) => {
    await clock.advance(777)

    const { nowMs } = await store.claim({ ...REQUEST, queues: [{ queue: QUEUE, limit: 1 }] })

    expect(nowMs).toBe(START_MS + 777)
  },

  'a claim carries the facts of the job': async ({ store, expect }) => {
    const facts = {
      queue: 'push',
      type: 'send_push',
      payload: '{"device":7}',
      version: 3,
      priority: 12,
      limits: { maxAttempts: 4, timeoutMs: null, maxAgeMs: 5_000 },
      tags: ['vip', 'night'],
      trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      ...keyed('push:7', 60_000),
    }

    const job = await startJob(store, facts)

    expect(job).toEqual({
      ...facts,
      id: job.id,
      fence: START_MS,
      attempt: 1,
      crashes: 0,
      createdAtMs: START_MS,
      queueLimits: {},
    })
  },

  'a claim carries the retry policy of the job': async ({ store, expect }) => {
    const retry = { backoff: [1_000, 5_000], baseMs: 1, capMs: 9_000, jitter: false }

    const job = await startJob(store, { limits: { retry } })

    expect(job.limits).toEqual({ retry })
  },

  'a plain job carries nothing it was not given': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(job).toMatchObject({ limits: {}, queueLimits: {}, idempotencyKey: null, tags: [], trace: null })
  },

  'a claim carries the limits of the queue': async ({ store, expect }) => {
    const limits = { maxAttempts: 7, timeoutMs: 1_000 }
    await store.setQueue(QUEUE, { limits, retentionMs: 1_000 }, OPERATOR)

    const job = await startJob(store)

    expect(job.queueLimits).toEqual(limits)
  },

  'a job claimed again still carries its facts': async ({ store, clock, expect }) => {
    const { payload, tags } = newJob({ payload: '[1,2]', tags: ['vip'] })
    await jobIn(store, 'retrying', { payload, tags })
    await clock.advance(60_000)
    await store.promote(1)

    const job = await claimJob(store)

    expect(job).toMatchObject({ payload, tags, attempt: 2, createdAtMs: START_MS })
  },
}

const waiting: Facts = {
  'a claim says how long the longest-waiting of its jobs had been ready': async ({ store, clock, expect }) => {
    await enqueueJob(store)
    await clock.advance(300)
    await enqueueJob(store, { priority: 9 })
    await clock.advance(40)

    expect((await claimAny(store, 2)).waitedMs).toBe(340)
  },

  'what a claim leaves does not count for how long its jobs had waited': async ({ store, clock, expect }) => {
    await enqueueJob(store)
    await clock.advance(300)
    await enqueueJob(store, { priority: 9 })
    await clock.advance(40)

    expect((await claimAny(store, 1)).waitedMs).toBe(40)
  },

  'a claim that finds no jobs says of no time that it was waited': async ({ store, expect }) => {
    expect((await claimAny(store, 1)).waitedMs).toBe(null)
  },

  'a timed job has waited since it became ready, not since it was enqueued': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: 60_000 } })
    await clock.advance(60_000)
    await store.promote(1)
    await clock.advance(25)

    expect((await claimAny(store, 1)).waitedMs).toBe(25)
  },

  'a retry has waited since it became ready again': async ({ store, clock, expect }) => {
    await jobIn(store, 'retrying')
    await clock.advance(60_000)
    await store.promote(1)
    await clock.advance(25)

    expect((await claimAny(store, 1)).waitedMs).toBe(25)
  },

  'a released job has waited since its release': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(1_000)
    await store.settle([released(job)])
    await clock.advance(25)

    expect((await claimAny(store, 1)).waitedMs).toBe(25)
  },
}

function claimAny(store: Store, limit: number): Promise<Claim> {
  return store.claim({ ...REQUEST, queues: [{ queue: QUEUE, limit }] })
}

const announcing: Facts = {
  'an enqueue announces its queue to those who listen, as its own': async ({ store, expect }) => {
    const heard: unknown[] = []
    store.listen({ ready: (...seen) => heard.push(seen) })

    await enqueueJob(store)

    expect(heard).toEqual([[QUEUE, true]])
  },

  'jobs that become ready by their time are announced, and not as an enqueue': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: 1_000 } })
    await clock.advance(1_000)
    const heard: unknown[] = []
    store.listen({ ready: (...seen) => heard.push(seen) })

    await store.promote(1)

    expect(heard).toEqual([[QUEUE, false]])
  },

  'a muted listener is notified of what its own process enqueues': async ({ store, expect }) => {
    const heard: unknown[] = []
    const listener = { ready: (...seen: unknown[]) => void heard.push(seen) }
    store.listen(listener)
    await store.mute(listener, true)

    await enqueueJob(store)

    expect(heard).toEqual([[QUEUE, true]])
  },
}

export const claimFacts: Facts = { ...choosing, ...paused, ...carrying, ...waiting, ...announcing }

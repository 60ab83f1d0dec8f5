// Claiming as part of an enqueue: what goes straight to a worker, and what waits in its queue as usual.

import type { ClaimedJob, Enqueued } from '../../core/job.js'
import type { Facts } from './context.js'
import { keyed, LEASE_MS, newJob, newJobs, OPERATOR, QUEUE, START_MS, succeeded, WORKER } from './samples.js'
import { claimIds, enqueueJob, stateOf } from './steps.js'

const claim = (count: number) => ({ claim: { worker: WORKER, leaseMs: LEASE_MS, count } })

const claimedOf = (answer: Enqueued | undefined): ClaimedJob | undefined =>
  answer !== undefined && 'claimed' in answer ? answer.claimed : undefined

export const claimOnEnqueueFacts: Facts = {
  'an enqueue can claim its jobs as it writes them': async ({ store, expect }) => {
    const job = newJob({ payload: '{"n":1}', priority: 3, tags: ['red'] })

    const [answer] = await store.enqueue([job], claim(1))

    expect(answer).toMatchObject({ id: job.id, created: true, state: 'running' })
    expect(claimedOf(answer)).toMatchObject({ id: job.id, payload: '{"n":1}', priority: 3, attempt: 1, crashes: 0 })
    expect(claimedOf(answer)).toMatchObject({ tags: ['red'], createdAtMs: START_MS })
    expect(await store.get(job.id)).toMatchObject({ state: 'running', worker: WORKER, attempt: 1 })
  },

  'a job claimed with its enqueue answers like one claimed afterwards': async ({ store, expect }) => {
    const facts = { payload: '{"n":1}', limits: { maxAttempts: 3 }, version: 2 }
    await store.setQueue(QUEUE, { limits: { timeoutMs: 5_000 } }, OPERATOR)
    const [answer] = await store.enqueue([newJob(facts)], claim(1))
    await enqueueJob(store, facts)

    const later = (await store.claim({ queues: [{ queue: QUEUE, limit: 1 }], types: null, worker: WORKER, leaseMs: 1 }))
      .jobs[0]!

    expect({ ...claimedOf(answer), id: '' }).toEqual({ ...later, id: '' })
  },

  'no claim gives what was claimed with its enqueue': async ({ store, expect }) => {
    await store.enqueue(newJobs(3), claim(3))

    expect(await claimIds(store)).toEqual([])
  },

  'an enqueue claims no more than its count, from the first': async ({ store, expect }) => {
    const jobs = newJobs(5)

    const answers = await store.enqueue(jobs, claim(2))

    const states = answers.map((answer) => ('state' in answer ? answer.state : null))
    expect(states).toEqual(['running', 'running', 'ready', 'ready', 'ready'])
    expect(await claimIds(store)).toEqual(jobs.slice(2).map(({ id }) => id))
  },

  'an enqueue claims the first of many jobs though the last have a time': async ({ store, expect }) => {
    const jobs = newJobs(40).map((job, index) => (index < 38 ? job : { ...job, when: { delayMs: 1_000 } }))

    const answers = await store.enqueue(jobs, claim(2))

    expect(answers.map(claimedOf).filter((job) => job !== undefined)).toHaveLength(2)
    expect(claimedOf(answers[1])?.id).toBe(jobs[1]!.id)
    expect(await claimIds(store)).toEqual(jobs.slice(2, 38).map(({ id }) => id))
    expect(await stateOf(store, jobs[39]!.id)).toBe('scheduled')
  },

  'a lease from an enqueue settles': async ({ store, expect }) => {
    const [answer] = await store.enqueue([newJob()], claim(1))

    const [result] = await store.settle([succeeded(claimedOf(answer)!)])

    expect(result).toMatchObject({ result: 'settled', state: 'succeeded' })
  },

  'a lease from an enqueue runs out like any other': async ({ store, clock, expect }) => {
    const job = newJob()
    await store.enqueue([job], claim(1))

    clock.set(START_MS + LEASE_MS)

    expect((await store.expired(10)).jobs.map(({ id }) => id)).toEqual([job.id])
  },

  'the next claim of such a job has a higher fence': async ({ store, clock, expect }) => {
    const [answer] = await store.enqueue([newJob()], claim(1))
    const first = claimedOf(answer)!
    clock.set(START_MS + LEASE_MS)
    const released = { state: 'ready', attempt: 0, crashes: 0 } as const
    await store.settle([{ ...succeeded(first), settlement: released }], { onlyExpired: true })

    const request = { queues: [{ queue: QUEUE, limit: 1 }], types: null, worker: 'other', leaseMs: LEASE_MS }
    const [second] = (await store.claim(request)).jobs

    expect(second!.fence).toBeGreaterThan(first.fence)
  },

  'an enqueue claims nothing from a paused queue': async ({ store, expect }) => {
    await store.pause(QUEUE, OPERATOR)
    const job = newJob()

    const [answer] = await store.enqueue([job], claim(1))

    expect(claimedOf(answer)).toBe(undefined)
    expect(await stateOf(store, job.id)).toBe('ready')
  },

  'a job that was written before is not claimed by enqueueing it again': async ({ store, expect }) => {
    const job = newJob()
    await store.enqueue([job])

    const [answer] = await store.enqueue([job], claim(1))

    expect(answer).toEqual({ id: job.id, created: true, state: 'ready' })
    expect(await claimIds(store)).toEqual([job.id])
  },

  'a job that was claimed with its enqueue is left as it is by enqueueing it again': async ({ store, expect }) => {
    const job = newJob()
    const [first] = await store.enqueue([job], claim(1))

    const [again] = await store.enqueue([job], claim(1))

    expect(again).toEqual({ id: job.id, created: true, state: 'running' })
    expect(await store.settle([succeeded(claimedOf(first)!)])).toMatchObject([{ result: 'settled' }])
  },

  'a job whose time has not come is not claimed with its enqueue': async ({ store, expect }) => {
    const [answer] = await store.enqueue([newJob({ when: { delayMs: 1_000 } })], claim(1))

    expect(answer).toMatchObject({ state: 'scheduled' })
    expect(claimedOf(answer)).toBe(undefined)
  },

  'a key that is held keeps a job from being claimed with its enqueue': async ({ store, expect }) => {
    const holder = await enqueueJob(store, keyed('welcome'))

    const [answer] = await store.enqueue([newJob(keyed('welcome'))], claim(1))

    expect(answer).toEqual({ id: holder, created: false, state: 'ready' })
  },
}

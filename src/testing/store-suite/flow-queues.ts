// How many jobs of a queue run concurrently.

import type { Facts } from './context.js'
import { claimFlow, groupJobs, inGroup, perGroup, setFlow } from './flow-samples.js'
import { LEASE_MS, newJob, newJobs, QUEUE, released, retrying, succeeded, WORKER } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob, startJob } from './steps.js'

export const flowQueueFacts: Facts = {
  'a queue runs no more jobs than its concurrency': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 3 })
    await store.enqueue(newJobs(10))

    expect(await claimIds(store)).toHaveLength(3)
    expect(await claimIds(store)).toEqual([])
  },

  'the concurrency of a queue counts plain jobs and those of groups together': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 4 })
    await store.enqueue([...newJobs(10), ...groupJobs(10)])

    const counts = perGroup(await claimJobs(store))

    expect(counts['']! + counts.acme!).toBe(4)
    expect(await claimIds(store)).toEqual([])
  },

  'plain jobs of a queue with a concurrency keep their order': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 2 })
    const [low, high, middle] = await enqueueEach(store, [{ priority: -1 }, { priority: 5 }, {}])

    const jobs = await claimJobs(store)
    await store.settle(jobs.map((job) => succeeded(job)))

    expect(jobs.map(({ id }) => id)).toEqual([high, middle])
    expect(await claimIds(store)).toEqual([low])
  },

  'another process keeps to the concurrency of a queue': async ({ store, openPeer, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(2))
    const peer = await openPeer()

    await claimJobs(store)

    expect(await claimIds(peer)).toEqual([])
  },

  'claims made concurrently keep to the concurrency of a queue': async ({ store, openPeer, expect }) => {
    await setFlow(store, { concurrency: 5 })
    await store.enqueue([...newJobs(20), ...groupJobs(20)])
    const peers = [store, await openPeer(), await openPeer()]

    const claims = await Promise.all([...peers, ...peers].map((each) => claimIds(each, { limit: 3 })))

    expect(claims.flat()).toHaveLength(5)
  },

  'every end of a lease makes room in its queue': async ({ store, clock, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(4))

    for (const settle of [succeeded, released, retrying]) {
      await store.settle([settle(await claimJob(store))])
      await clock.advance(1)
    }

    expect(await claimIds(store)).toHaveLength(1)
  },

  'a lease that ran out counts until it is rescued': async ({ store, clock, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(2))
    const job = await claimJob(store)
    await clock.advance(LEASE_MS * 2)
    expect(await claimIds(store)).toEqual([])

    await store.settle([released(job)], { onlyExpired: true })

    expect(await claimIds(store)).toHaveLength(1)
  },

  'jobs that run when a concurrency is set count in it': async ({ store, expect }) => {
    await store.enqueue(newJobs(6))
    const running = await claimJobs(store, { limit: 3 })

    await setFlow(store, { concurrency: 4 })

    expect(await claimIds(store)).toHaveLength(1)
    await store.settle(running.map((job) => succeeded(job)))
    expect(await claimIds(store)).toHaveLength(2)
  },

  'a lowered concurrency lets running jobs end': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 3 })
    await store.enqueue(newJobs(6))
    const [first, second, third] = await claimJobs(store)

    await setFlow(store, { concurrency: 1 })

    await store.settle([succeeded(first!), succeeded(second!)])
    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(third!)])
    expect(await claimIds(store)).toHaveLength(1)
  },

  'a raised concurrency lets waiting jobs go': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(6))
    await claimJobs(store)

    await setFlow(store, { concurrency: 3 })

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a queue whose flow control is taken away runs everything': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1, groups: { concurrency: 1 } })
    await store.enqueue([...newJobs(3), ...groupJobs(3)])
    await claimJobs(store)

    await store.setQueue(QUEUE, { limits: {} }, 'ada')

    expect(await claimIds(store)).toHaveLength(5)
  },

  'the concurrency of one queue leaves the others': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(3, { queue: 'push' }))

    expect(await claimIds(store, { queue: 'push' })).toHaveLength(3)
  },

  'a claim of several queues keeps to the concurrency of each': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 }, 'email')
    await setFlow(store, { concurrency: 2 }, 'push')
    await store.enqueue([
      ...newJobs(5, { queue: 'email' }),
      ...newJobs(5, { queue: 'push' }),
      ...newJobs(5, { queue: 'sms' }),
    ])
    const queues = ['sms', 'push', 'email'].map((queue) => ({ queue, limit: 5 }))

    const { jobs, flow } = await store.claim({ queues, types: null, worker: WORKER, leaseMs: LEASE_MS })

    expect(jobs.map(({ queue }) => queue).join(' ')).toBe('sms sms sms sms sms push push email')
    expect(flow!.map(({ queue }) => queue)).toEqual(['push', 'email'])
  },

  'an enqueue leases no job of a queue with flow control': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    const claim = { worker: WORKER, leaseMs: LEASE_MS, count: 1 }

    const [answer] = await store.enqueue([newJob()], { claim })

    expect(answer).toMatchObject({ created: true, state: 'ready' })
    expect('claimed' in answer!).toBe(false)
  },

  'an enqueue leases no job of a group': async ({ store, expect }) => {
    const claim = { worker: WORKER, leaseMs: LEASE_MS, count: 1 }

    const [answer] = await store.enqueue([newJob(inGroup())], { claim })

    expect(answer).toMatchObject({ created: true, state: 'ready' })
    expect('claimed' in answer!).toBe(false)
  },

  'the bounds of the queue and of its groups hold together': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 3, groups: { concurrency: 2 } })
    await store.enqueue([...groupJobs(5, 'a'), ...groupJobs(5, 'b')])

    const counts = perGroup(await claimJobs(store))

    expect(counts.a! + counts.b!).toBe(3)
    expect(Math.max(counts.a!, counts.b!)).toBe(2)
  },

  'types the worker does not know are passed over in a queue with flow control': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 5 })
    const [, known] = await enqueueEach(store, [{ type: 'other' }, {}])

    expect(await claimFlow(store, { types: ['send_email'] })).toMatchObject({ ids: [known] })
  },

  'a queue without flow control says nothing about it': async ({ store, expect }) => {
    await enqueueJob(store)

    const request = { queues: [{ queue: QUEUE, limit: 1 }], types: null, worker: WORKER, leaseMs: LEASE_MS }

    expect('flow' in (await store.claim(request))).toBe(false)
  },

  'a job of a queue with a concurrency is shown as any other': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    const job = await startJob(store)

    expect(await store.stats(QUEUE)).toMatchObject({ ready: 0, running: 1 })
    expect(await store.settle([succeeded(job)])).toMatchObject([{ result: 'settled' }])
  },
}

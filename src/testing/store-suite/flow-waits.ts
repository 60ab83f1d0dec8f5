// What a claim says about the jobs it left, and who is woken when they may go.

import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perSecond,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { newJob, newJobs, OPERATOR, QUEUE, retrying, SECOND_MS, succeeded } from './samples.js'
import { claimJob, claimJobs, enqueueJob, startJob } from './steps.js'

/** The queues that are reported to have ready jobs during a step. */
async function wokenBy(store: Store, step: () => Promise<unknown>): Promise<string[]> {
  const woken = new Set<string>()
  const stop = store.listen({ ready: (queue) => void woken.add(queue) })
  try {
    await step()
    // A store may report after its answer.
    for (let look = 0; look < 100 && woken.size === 0; look++) await new Promise((resolve) => setTimeout(resolve, 2))
  } finally {
    stop()
  }
  return [...woken].sort()
}

const answers: Facts = {
  'a claim that took what other jobs of its queue left over says that there are more': async ({ store, expect }) => {
    await store.enqueue(groupJobs(20))

    // Groups and plain jobs begin in turns, so that one of these claims ends with what the plain job has left to the group.
    for (let round = 0; round < 2; round++) {
      await store.enqueue([newJob()])
      const { jobs, state } = await claimFlow(store, { limit: 4 })
      expect(jobs).toHaveLength(4)
      expect(state).toEqual({ queue: QUEUE, more: true, waitMs: null })
    }
  },

  'a claim that left claimable jobs says that there are more': async ({ store, expect }) => {
    await enqueueGroup(store, 5)

    expect((await claimFlow(store, { limit: 2 })).state).toEqual({ queue: QUEUE, more: true, waitMs: null })
  },

  'a claim that took all says that there is nothing to wait for': async ({ store, expect }) => {
    await enqueueGroup(store, 2)

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'a claim of an empty queue with flow control says that there is nothing to wait for': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'jobs behind a full group are nothing to wait for': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 3)

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'jobs behind a full queue are nothing to wait for': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(3))

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'jobs of a paused group are nothing to wait for': async ({ store, expect }) => {
    await enqueueGroup(store, 1)
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'jobs of types the worker does not know are nothing to wait for': async ({ store, expect }) => {
    await enqueueJob(store, { ...inGroup(), type: 'other' })

    expect((await claimFlow(store, { types: ['send_email'] })).state).toEqual({
      queue: QUEUE,
      more: false,
      waitMs: null,
    })
  },

  'a claim says how long until the next token of the queue': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(4, 1) })
    await store.enqueue(newJobs(5))

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: 250 })
    await clock.advance(100)
    expect((await claimFlow(store)).state.waitMs).toBe(150)
  },

  'a job can be claimed after the time the claim said': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(7, 1) })
    await store.enqueue(newJobs(9))

    for (let round = 0; round < 8; round++) {
      const { ids, state } = await claimFlow(store)
      expect(ids).toHaveLength(1)
      await clock.advance(state.waitMs!)
    }
  },

  'a claim says how long until the next token of a limit': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(2, 1) })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))

    expect((await claimFlow(store)).state.waitMs).toBe(500)
  },

  'a claim says how long until the next token of a group': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(5, 1) } })
    await store.enqueue([...groupJobs(5, 'a'), ...groupJobs(5, 'b')])

    expect((await claimFlow(store)).state.waitMs).toBe(200)
    expect((await claimFlow(store)).state.waitMs).toBe(200)
  },

  'the soonest of several times counts': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 1) }, 'slow')
    await setLimit(store, { rate: perSecond(10, 1) }, 'fast')
    await store.enqueue([...newJobs(3, limitedBy('slow')), ...newJobs(3, limitedBy('fast'))])

    expect((await claimFlow(store)).state.waitMs).toBe(100)
  },

  'a job waits for the last of its own limits': async ({ store, expect }) => {
    for (const name of ['a-slow', 'c-slow']) await setLimit(store, { rate: perSecond(1, 1) }, name)
    await setLimit(store, { rate: perSecond(10, 1) }, 'b-fast')
    await store.enqueue(newJobs(3, limitedBy('a-slow', 'b-fast')))
    await store.enqueue(newJobs(3, { ...limitedBy('b-fast', 'c-slow'), queue: 'push' }))

    expect((await claimFlow(store)).state.waitMs).toBe(1_000)
    expect((await claimFlow(store, { queue: 'push' })).state.waitMs).toBe(100)
  },

  'a job that waits for a slot and a token is nothing to wait for': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1, rate: perSecond(10, 1) })
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'a rate without waiting jobs is nothing to wait for': async ({ store, expect }) => {
    await setFlow(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(1))

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },
}

const wakes: Facts = {
  'a settlement wakes its queue while jobs wait there': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 2)
    const job = await claimJob(store)

    expect(await wokenBy(store, () => store.settle([succeeded(job)]))).toEqual([QUEUE])
  },

  'a settlement wakes the other queues that wait for its limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    const job = await startJob(store, { ...limitedBy(LIMIT), queue: 'push' })
    await enqueueJob(store, limitedBy(LIMIT))
    await claimJobs(store)

    expect(await wokenBy(store, () => store.settle([succeeded(job)]))).toContain(QUEUE)
  },

  'a retry wakes its queue: the slot is free': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(2))
    const job = await claimJob(store)

    expect(await wokenBy(store, () => store.settle([retrying(job, SECOND_MS)]))).toEqual([QUEUE])
  },

  'an enqueue to a group wakes its queue': async ({ store, expect }) => {
    expect(await wokenBy(store, () => enqueueGroup(store, 1))).toEqual([QUEUE])
  },

  'a raised limit wakes the queues that wait for it': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(2, limitedBy(LIMIT)))
    await claimJobs(store)

    expect(await wokenBy(store, () => setLimit(store, { concurrency: 2 }))).toEqual([QUEUE])
  },

  'raised settings of a queue wake it': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.enqueue(newJobs(2))
    await claimJobs(store)

    expect(await wokenBy(store, () => setFlow(store, { concurrency: 2 }))).toEqual([QUEUE])
  },

  'settings of a group wake its queue': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 2)
    await claimJobs(store)

    expect(await wokenBy(store, () => setGroup(store, GROUP, { concurrency: 2 }))).toEqual([QUEUE])
  },

  'a resumed group wakes its queue': async ({ store, expect }) => {
    await enqueueGroup(store, 2)
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect(await wokenBy(store, () => store.resumeGroup(QUEUE, GROUP, OPERATOR))).toEqual([QUEUE])
  },

  'cancelling the first of an ordered group wakes its queue': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    await enqueueGroup(store, 2)
    const job = await claimJob(store)
    await store.settle([retrying(job, SECOND_MS)])

    expect(await wokenBy(store, () => store.cancel([job.id], OPERATOR))).toEqual([QUEUE])
  },
}

export const flowWaitFacts: Facts = { ...answers, ...wakes }

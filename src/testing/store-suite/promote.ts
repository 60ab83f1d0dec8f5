// Promote: what is due becomes ready.

import type { Facts } from './context.js'
import { MINUTE_MS, newJobs, OPERATOR, QUEUE, SECOND_MS, START_MS } from './samples.js'
import { claimIds, enqueueEach, enqueueJob, jobIn, startJob, stateOf, statesOf, viewOf } from './steps.js'

const due: Facts = {
  'a job whose time has come becomes ready': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await viewOf(store, id)).toMatchObject({ state: 'ready', runAt: null })
  },

  'a job is not promoted a millisecond too early': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS - 1)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('scheduled')
  },

  'a retry whose delay is over becomes ready': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'retrying')
    await clock.advance(MINUTE_MS)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a timed job is not claimed before it is promoted': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)

    expect(await claimIds(store)).toEqual([])
  },

  'a promotion counts the jobs that became ready': async ({ store, clock, expect }) => {
    await store.enqueue([...newJobs(3, { when: { delayMs: 1 } }), ...newJobs(2, { when: { delayMs: MINUTE_MS } })])
    await clock.advance(1)

    expect((await store.promote(10)).promoted).toBe(3)
  },

  'a promotion takes no more than its limit': async ({ store, clock, expect }) => {
    await store.enqueue(newJobs(3, { when: { delayMs: 1 } }))
    await clock.advance(1)

    expect((await store.promote(2)).promoted).toBe(2)
    expect(await store.stats(null)).toMatchObject({ ready: 2, scheduled: 1 })
  },

  'a promotion that cannot take all takes the longest due': async ({ store, clock, expect }) => {
    const ids = await enqueueEach(store, [{ when: { delayMs: 2 } }, { when: { delayMs: 1 } }])
    await clock.advance(2)

    await store.promote(1)

    expect(await statesOf(store, ids)).toEqual(['scheduled', 'ready'])
  },

  'what a promotion leaves is taken by the next': async ({ store, clock, expect }) => {
    await store.enqueue(newJobs(3, { when: { delayMs: 1 } }))
    await clock.advance(1)
    await store.promote(2)

    expect((await store.promote(2)).promoted).toBe(1)
  },

  'a promotion without due jobs reports none': async ({ store, expect }) => {
    expect(await store.promote(10)).toEqual({ promoted: 0, queues: [], nextDueMs: null, lateMs: null })
  },

  'a job of a paused queue is promoted too': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, { when: { delayMs: 1 } })
    await store.pause(QUEUE, OPERATOR)
    await clock.advance(1)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a timed job that was cancelled is not promoted': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, { when: { delayMs: 1 } })
    await store.cancel([id], OPERATOR)
    await clock.advance(1)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('cancelled')
  },

  'a blocked job is not promoted when its time comes': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'blocked', { when: { delayMs: 1 } })
    await clock.advance(1)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('blocked')
  },

  'a running job is not touched': async ({ store, clock, expect }) => {
    const { id } = await startJob(store)
    await clock.advance(MINUTE_MS)

    await store.promote(10)

    expect(await stateOf(store, id)).toBe('running')
  },
}

const answers: Facts = {
  'a promotion names each queue once': async ({ store, clock, expect }) => {
    await store.enqueue([
      ...newJobs(2, { queue: 'push', when: { delayMs: 1 } }),
      ...newJobs(2, { queue: 'email', when: { delayMs: 1 } }),
      ...newJobs(2, { queue: 'sms', when: { delayMs: MINUTE_MS } }),
    ])
    await clock.advance(1)

    const { queues } = await store.promote(10)

    expect([...queues].sort()).toEqual(['email', 'push'])
  },

  'a promotion tells how long until the next job is due': async ({ store, clock, expect }) => {
    await enqueueEach(store, [{ when: { delayMs: 5_000 } }, { when: { delayMs: 1_000 } }, { when: { delayMs: 9_000 } }])
    await clock.advance(1_500)

    expect((await store.promote(10)).nextDueMs).toBe(3_500)
  },

  'a promotion that left due jobs behind is due again immediately': async ({ store, clock, expect }) => {
    await store.enqueue(newJobs(3, { when: { delayMs: 1 } }))
    await clock.advance(MINUTE_MS)

    expect((await store.promote(2)).nextDueMs).toBe(0)
  },

  'a promotion tells how long the first job had been due': async ({ store, clock, expect }) => {
    await enqueueEach(store, [{ when: { delayMs: 5_000 } }, { when: { delayMs: 1_000 } }, { when: { delayMs: 9_000 } }])
    await clock.advance(6_500)

    expect((await store.promote(10)).lateMs).toBe(5_500)
  },

  'a retry counts as the next job that is due': async ({ store, expect }) => {
    await jobIn(store, 'retrying')

    expect((await store.promote(10)).nextDueMs).toBe(MINUTE_MS)
  },

  'a blocked job with a time does not count as due': async ({ store, expect }) => {
    await jobIn(store, 'blocked', { when: { runAtMs: START_MS + 5 } })

    expect((await store.promote(10)).nextDueMs).toBe(null)
  },

  'nothing is due when everything was promoted': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: 1 } })
    await clock.advance(1)

    expect((await store.promote(10)).nextDueMs).toBe(null)
  },
}

export const promoteFacts: Facts = { ...due, ...answers }

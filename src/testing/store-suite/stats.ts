// Stats: how much is where, and how long the oldest has waited.

import { JOB_STATES } from '../../core/states.js'
import type { Store } from '../../core/store.js'
import { ATTEMPTS_WINDOW } from '../../core/views.js'
import { type Facts, factsFor } from './context.js'
import { cancelled, dead, MINUTE_MS, newJobs, OPERATOR, QUEUE, released, SECOND_MS, succeeded } from './samples.js'
import { claimJob, claimJobs, enqueueJob, jobIn, startJob } from './steps.js'

const COUNTS = { blocked: 0, scheduled: 0, ready: 0, running: 0, retrying: 0, dead: 0 }
const EMPTY = { ...COUNTS, oldestAgeS: 0, attemptsP99: 0, isExact: true }

const counts: Facts = {
  'an empty store counts nothing': async ({ store, expect }) => {
    expect(await store.stats(null)).toEqual(EMPTY)
  },

  'a queue nobody knows counts nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await store.stats('unheard-of')).toEqual(EMPTY)
  },

  ...factsFor(
    JOB_STATES,
    (state) => `a job that is ${state} is counted where it is`,
    async ({ store, expect }, state) => {
      await jobIn(store, state)

      const counted = state in COUNTS ? { ...COUNTS, [state]: 1 } : COUNTS
      expect(await store.stats('email')).toMatchObject(counted)
    },
  ),

  'jobs of a queue are counted apart from those of others': async ({ store, expect }) => {
    await store.enqueue([...newJobs(2, { queue: 'email' }), ...newJobs(3, { queue: 'push' })])

    expect((await store.stats('push')).ready).toBe(3)
  },

  'jobs of all queues are counted together': async ({ store, expect }) => {
    await store.enqueue([...newJobs(2, { queue: 'email' }), ...newJobs(3, { queue: 'push' })])

    expect((await store.stats(null)).ready).toBe(5)
  },
}

const ages: Facts = {
  'the oldest age is that of the job that has been ready longest': async ({ store, clock, expect }) => {
    await enqueueJob(store)
    await clock.advance(1_500)
    await enqueueJob(store)

    expect((await store.stats(null)).oldestAgeS).toBe(1.5)
  },

  'the oldest age looks past priority': async ({ store, clock, expect }) => {
    await enqueueJob(store, { priority: -5 })
    await clock.advance(2_000)
    await enqueueJob(store, { priority: 5 })

    expect((await store.stats(null)).oldestAgeS).toBe(2)
  },

  'the oldest age looks past the front lane': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: 2_000 } })
    await enqueueJob(store)
    await clock.advance(2_000)
    await store.promote(1)

    expect((await store.stats(null)).oldestAgeS).toBe(2)
  },

  'the oldest age of a queue is its own': async ({ store, clock, expect }) => {
    await enqueueJob(store, { queue: 'email' })
    await clock.advance(2_000)
    await enqueueJob(store, { queue: 'push' })
    await clock.advance(1_000)

    expect((await store.stats('push')).oldestAgeS).toBe(1)
  },

  'a timed job ages from the moment it became ready': async ({ store, clock, expect }) => {
    await enqueueJob(store, { when: { delayMs: MINUTE_MS } })
    await clock.advance(MINUTE_MS)
    await store.promote(1)
    await clock.advance(SECOND_MS)

    expect((await store.stats(null)).oldestAgeS).toBe(1)
  },

  'a released job ages anew': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(MINUTE_MS)
    await store.settle([released(job)])
    await clock.advance(SECOND_MS)

    expect((await store.stats(null)).oldestAgeS).toBe(1)
  },

  'a change of priority does not make a job younger': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await store.update(id, { priority: 3 }, OPERATOR)

    expect((await store.stats(null)).oldestAgeS).toBe(1)
  },

  'a running job has no age': async ({ store, clock, expect }) => {
    await enqueueJob(store)
    await clock.advance(SECOND_MS)

    await claimJob(store)

    expect((await store.stats(null)).oldestAgeS).toBe(0)
  },
}

/** Ends a new job after this number of attempts. */
async function endAfter(store: Store, attempt: number, how: typeof succeeded, queue: string = QUEUE): Promise<void> {
  const job = await startJob(store, { queue })
  await store.settle([how({ ...job, attempt })])
}

const attempts: Facts = {
  'attempts are those of the jobs that succeeded or died': async ({ store, expect }) => {
    await endAfter(store, 2, succeeded)
    await endAfter(store, 7, dead)
    await endAfter(store, 9, cancelled)

    expect((await store.stats(null)).attemptsP99).toBe(7)
  },

  'attempts of a queue are its own': async ({ store, expect }) => {
    await endAfter(store, 5, succeeded)
    await endAfter(store, 2, succeeded, 'push')

    expect((await store.stats('push')).attemptsP99).toBe(2)
  },

  'one job in a hundred may take more attempts': async ({ store, expect }) => {
    await store.enqueue(newJobs(200))
    const jobs = await claimJobs(store)

    await store.settle(jobs.map((job, index) => succeeded({ ...job, attempt: index < 2 ? 20 : index < 3 ? 4 : 1 })))

    expect((await store.stats(null)).attemptsP99).toBe(4)
  },

  'only the newest finished jobs count for attempts': async ({ store, expect }) => {
    await store.enqueue(newJobs(ATTEMPTS_WINDOW + 100))
    const jobs = await claimJobs(store)

    await store.settle(jobs.map((job, index) => succeeded({ ...job, attempt: index < 100 ? 20 : 1 })))

    expect((await store.stats(QUEUE)).attemptsP99).toBe(1)
  },
}

export const statsFacts: Facts = { ...counts, ...ages, ...attempts }

// Enqueue: where a new job stands, and what the answers say.

import { BATCH_MAX } from '../../core/job-store.js'
import type { Facts } from './context.js'
import { keyed, MINUTE_MS, newId, newJob, newJobs, START_MS, succeeded } from './samples.js'
import { claimIds, codeOf, enqueueJob, jobIn, listIds, runNext, stateOf, statesOf, viewOf } from './steps.js'

const states: Facts = {
  'a job without a time is ready at once': async ({ store, expect }) => {
    const job = newJob()

    const answers = await store.enqueue([job])

    expect(answers).toEqual([{ id: job.id, created: true, state: 'ready' }])
  },

  'a job whose time lies ahead is scheduled': async ({ store, expect }) => {
    const job = newJob({ when: { runAtMs: START_MS + 1 } })

    const answers = await store.enqueue([job])

    expect(answers).toEqual([{ id: job.id, created: true, state: 'scheduled' }])
  },

  'a job whose time is this very moment is ready': async ({ store, expect }) => {
    const id = await enqueueJob(store, { when: { runAtMs: START_MS } })

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a job whose time has passed is ready': async ({ store, expect }) => {
    const id = await enqueueJob(store, { when: { runAtMs: START_MS - MINUTE_MS } })

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a delay counts from the moment of the enqueue': async ({ store, clock, expect }) => {
    await clock.advance(250)

    const id = await enqueueJob(store, { when: { delayMs: 1_000 } })

    expect((await viewOf(store, id)).runAt).toEqual(new Date(START_MS + 1_250))
  },

  'a delay of nothing makes a job ready at once': async ({ store, expect }) => {
    const id = await enqueueJob(store, { when: { delayMs: 0 } })

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a time is kept to the millisecond': async ({ store, expect }) => {
    const id = await enqueueJob(store, { when: { runAtMs: START_MS + 123_457 } })

    expect((await viewOf(store, id)).runAt).toEqual(new Date(START_MS + 123_457))
  },

  'a job that comes after an unfinished one is blocked': async ({ store, expect }) => {
    const child = newJob({ after: [await enqueueJob(store)] })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'blocked' }])
  },

  'a blocked job keeps its time': async ({ store, expect }) => {
    const parent = await enqueueJob(store)

    const id = await enqueueJob(store, { after: [parent], when: { delayMs: MINUTE_MS } })

    expect(await viewOf(store, id)).toMatchObject({ state: 'blocked', runAt: new Date(START_MS + MINUTE_MS) })
  },

  'a job is created at the time of the store': async ({ store, clock, expect }) => {
    await clock.advance(4_321)

    const id = await enqueueJob(store)

    expect((await viewOf(store, id)).createdAt).toEqual(new Date(START_MS + 4_321))
  },

  'the lowest and the highest priority are kept': async ({ store, expect }) => {
    const [lowest, highest] = [newJob({ priority: -32_768 }), newJob({ priority: 32_767 })]

    await store.enqueue([lowest, highest])

    expect((await viewOf(store, lowest.id)).priority).toBe(-32_768)
    expect((await viewOf(store, highest.id)).priority).toBe(32_767)
  },
}

const batches: Facts = {
  'an empty batch of jobs is answered with nothing': async ({ store, expect }) => {
    expect(await store.enqueue([])).toEqual([])
  },

  'answers come in the order of the jobs': async ({ store, expect }) => {
    const holder = await enqueueJob(store, keyed('welcome'))
    const [ready, timed, held, orphan] = [
      newJob(),
      newJob({ when: { delayMs: 1_000 } }),
      newJob(keyed('welcome')),
      newJob({ after: [newId()] }),
    ]

    const answers = await store.enqueue([orphan, held, timed, ready])

    expect(answers.map(({ id }) => id)).toEqual([orphan.id, holder, timed.id, ready.id])
  },

  'the largest batch is written whole': async ({ store, expect }) => {
    await store.enqueue(newJobs(BATCH_MAX))

    expect((await store.stats(null)).ready).toBe(BATCH_MAX)
  },

  'the largest batch of jobs with keys, tags and limits is written whole': async ({ store, expect }) => {
    const jobs = newJobs(BATCH_MAX).map((job, index) => ({
      ...job,
      ...keyed(`key ${index}`),
      tags: ['many', `number ${index}`],
      limits: { maxAttempts: 3 },
    }))

    const answers = await store.enqueue(jobs)

    expect(answers).toEqual(jobs.map(({ id }) => ({ id, created: true, state: 'ready' })))
  },

  'a batch over the largest is refused whole': async ({ store, expect }) => {
    const code = await codeOf(store.enqueue(newJobs(BATCH_MAX + 1)))

    expect(code).toBe('invalid_option')
    expect((await store.stats(null)).ready).toBe(0)
  },

  'a batch of every kind puts each job into its own state': async ({ store, expect }) => {
    const parent = newJob()
    const [timed, child] = [newJob({ when: { delayMs: 1_000 } }), newJob({ after: [parent.id] })]

    await store.enqueue([parent, timed, child])

    const ids = [parent.id, timed.id, child.id]
    expect(await statesOf(store, ids)).toEqual(['ready', 'scheduled', 'blocked'])
  },
}

const knownJobs: Facts = {
  'a job whose id is known is left as it is': async ({ store, expect }) => {
    const id = await enqueueJob(store, { payload: '1' })

    await store.enqueue([newJob({ id, payload: '2', priority: 9, when: { delayMs: 1_000 } })])

    expect(await viewOf(store, id)).toMatchObject({ payload: 1, priority: 0, state: 'ready' })
  },

  'a job whose id is known is answered as created, in its current state': async ({ store, expect }) => {
    const id = await jobIn(store, 'running')

    const answers = await store.enqueue([newJob({ id })])

    expect(answers).toEqual([{ id, created: true, state: 'running' }])
  },

  'a finished job that is enqueued again stays finished': async ({ store, expect }) => {
    const id = await jobIn(store, 'succeeded')

    const answers = await store.enqueue([newJob({ id })])

    expect(answers).toEqual([{ id, created: true, state: 'succeeded' }])
    expect(await claimIds(store)).toEqual([])
  },

  'a known job among new ones does not disturb them': async ({ store, expect }) => {
    const known = await enqueueJob(store)
    const fresh = newJob()

    const answers = await store.enqueue([newJob({ id: known }), fresh])

    expect(answers.map(({ id }) => id)).toEqual([known, fresh.id])
    expect(await claimIds(store)).toEqual([known, fresh.id])
  },

  'one job twice in a batch is written once': async ({ store, expect }) => {
    const job = newJob()

    const answers = await store.enqueue([job, job])

    expect(answers).toEqual(Array(2).fill({ id: job.id, created: true, state: 'ready' }))
    expect(await claimIds(store)).toEqual([job.id])
  },

  'one job with tags twice in a batch is written once': async ({ store, expect }) => {
    const job = newJob({ tags: ['twice'] })

    await store.enqueue([job, job])

    expect(await claimIds(store)).toEqual([job.id])
  },

  'one job with a time twice in a batch is written once': async ({ store, expect }) => {
    const job = newJob({ when: { delayMs: 1_000 } })

    await store.enqueue([job, job])

    expect(await listIds(store, { states: ['scheduled'] })).toEqual([job.id])
  },

  'one job with a key twice in a batch is created both times': async ({ store, expect }) => {
    const job = newJob(keyed('welcome'))

    const answers = await store.enqueue([job, job])

    expect(answers).toEqual(Array(2).fill({ id: job.id, created: true, state: 'ready' }))
  },

  'a child that is enqueued again after its parent ended stays where it went': async ({ store, expect }) => {
    const child = newJob({ after: [await enqueueJob(store)] })
    await store.enqueue([child])
    await runNext(store, succeeded)
    await runNext(store, succeeded)

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'succeeded' }])
  },
}

export const enqueueFacts: Facts = { ...states, ...batches, ...knownJobs }

// Idempotency keys: who holds one, for how long, and what the second caller gets.

import type { Facts } from './context.js'
import {
  cancelled,
  dead,
  keyed,
  newJob,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimIds, enqueueJob, runNext, startJob, stateOf } from './steps.js'

const holding: Facts = {
  'a key that is held keeps a second job away': async ({ store, expect }) => {
    const holder = await enqueueJob(store, keyed('welcome'))

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: holder, created: false, state: 'ready' }])
  },

  'a job that was kept away is not written': async ({ store, expect }) => {
    await enqueueJob(store, keyed('welcome'))
    const second = newJob(keyed('welcome'))

    await store.enqueue([second])

    expect(await store.get(second.id)).toBe(null)
  },

  'a job that is kept away is answered with the current state of the holder': async ({ store, expect }) => {
    const { id } = await startJob(store, keyed('welcome'))

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'running' }])
  },

  'a job that waits for its time holds its key': async ({ store, expect }) => {
    const id = await enqueueJob(store, { ...keyed('welcome'), when: { delayMs: SECOND_MS } })

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'scheduled' }])
  },

  'a key in one queue is free in another': async ({ store, expect }) => {
    await enqueueJob(store, { ...keyed('welcome'), queue: 'email' })
    const other = newJob({ ...keyed('welcome'), queue: 'push' })

    const answers = await store.enqueue([other])

    expect(answers).toEqual([{ id: other.id, created: true, state: 'ready' }])
  },

  'queue and key are never mistaken for one another': async ({ store, expect }) => {
    await enqueueJob(store, { ...keyed('b/c'), queue: 'a' })
    const other = newJob({ ...keyed('c'), queue: 'a/b' })

    const answers = await store.enqueue([other])

    expect(answers).toEqual([{ id: other.id, created: true, state: 'ready' }])
  },

  'keys that differ in case only are two keys': async ({ store, expect }) => {
    await enqueueJob(store, keyed('Welcome'))
    const other = newJob(keyed('welcome'))

    const answers = await store.enqueue([other])

    expect(answers).toEqual([{ id: other.id, created: true, state: 'ready' }])
  },

  'of two jobs with one key in a batch the first is written': async ({ store, expect }) => {
    const [first, second] = [newJob(keyed('welcome')), newJob(keyed('welcome'))]

    const answers = await store.enqueue([first, second])

    expect(answers).toEqual([
      { id: first.id, created: true, state: 'ready' },
      { id: first.id, created: false, state: 'ready' },
    ])
    expect(await claimIds(store)).toEqual([first.id])
  },

  'all jobs of a batch whose key is held answer with the holder': async ({ store, expect }) => {
    const holder = await enqueueJob(store, keyed('welcome'))

    const answers = await store.enqueue([newJob(keyed('welcome')), newJob(keyed('welcome'))])

    expect(answers).toEqual(Array(2).fill({ id: holder, created: false, state: 'ready' }))
  },

  'a job that is kept away does not disturb its neighbours': async ({ store, expect }) => {
    const holder = await enqueueJob(store, keyed('welcome'))
    const [before, after] = [newJob(), newJob(keyed('reminder'))]

    await store.enqueue([before, newJob(keyed('welcome')), after])

    expect(await claimIds(store)).toEqual([holder, before.id, after.id])
  },
}

const freeing: Facts = {
  'a job that succeeds frees its key': async ({ store, expect }) => {
    await startJob(store, keyed('welcome')).then((job) => store.settle([succeeded(job)]))

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a job that dies frees its key': async ({ store, expect }) => {
    await startJob(store, keyed('welcome')).then((job) => store.settle([dead(job)]))

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a job that ends as cancelled frees its key': async ({ store, expect }) => {
    await startJob(store, keyed('welcome')).then((job) => store.settle([cancelled(job)]))

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a job that is cancelled while it waits frees its key': async ({ store, expect }) => {
    await store.cancel([await enqueueJob(store, keyed('welcome'))], OPERATOR)

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a retry cancelled because somebody asked for it frees its key': async ({ store, expect }) => {
    const job = await startJob(store, keyed('welcome'))
    await store.cancel([job.id], OPERATOR)
    await store.settle([retrying(job)])

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a child cancelled with its parent frees its key': async ({ store, expect }) => {
    const parent = await startJob(store)
    await enqueueJob(store, { ...keyed('welcome'), after: [parent.id] })
    await store.settle([dead(parent)])

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a retry keeps the key': async ({ store, expect }) => {
    const job = await startJob(store, keyed('welcome'))
    await store.settle([retrying(job)])

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: job.id, created: false, state: 'retrying' }])
  },

  'a snooze keeps the key': async ({ store, expect }) => {
    const job = await startJob(store, keyed('welcome'))
    await store.settle([snoozed(job)])

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: job.id, created: false, state: 'scheduled' }])
  },

  'a release keeps the key': async ({ store, expect }) => {
    const job = await startJob(store, keyed('welcome'))
    await store.settle([released(job)])

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: job.id, created: false, state: 'ready' }])
  },

  'a finished job that is enqueued again does not take its key again': async ({ store, expect }) => {
    const job = newJob(keyed('welcome'))
    await store.enqueue([job])
    await runNext(store, succeeded)
    await store.enqueue([job])

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a finished job that is enqueued again answers as itself, also when another holds its key now': async ({
    store,
    expect,
  }) => {
    const job = newJob(keyed('welcome'))
    await store.enqueue([job])
    await runNext(store, succeeded)
    await enqueueJob(store, keyed('welcome'))

    const answers = await store.enqueue([job])

    expect(answers).toEqual([{ id: job.id, created: true, state: 'succeeded' }])
  },

  'the end of one job does not free the key of another': async ({ store, expect }) => {
    await enqueueJob(store, { ...keyed('reminder'), queue: 'push' })
    await startJob(store, keyed('welcome')).then((job) => store.settle([succeeded(job)]))

    const [answer] = await store.enqueue([newJob({ ...keyed('reminder'), queue: 'push' })])

    expect(answer).toMatchObject({ created: false })
  },
}

const lasting: Facts = {
  'a key with a time outlives its job': async ({ store, expect }) => {
    const job = await startJob(store, keyed('welcome', SECOND_MS))
    await store.settle([succeeded(job)])

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: job.id, created: false, state: 'succeeded' }])
  },

  'a key with a time outlives a job that was cancelled while it waited': async ({ store, expect }) => {
    const id = await enqueueJob(store, keyed('welcome', SECOND_MS))
    await store.cancel([id], OPERATOR)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'cancelled' }])
  },

  'a key with a time is held until the last millisecond': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS - 1)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'ready' }])
  },

  'a key with a time is free when its time is over, also while its job waits': async ({ store, clock, expect }) => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)

    const [answer] = await store.enqueue([newJob(keyed('welcome'))])

    expect(answer).toMatchObject({ created: true })
  },

  'a key whose time is over is taken over by a batch in which a job comes after the new holder': async ({
    store,
    clock,
    expect,
  }) => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)
    const holder = newJob(keyed('welcome'))

    const answers = await store.enqueue([holder, newJob({ after: [holder.id] })])

    expect(answers).toMatchObject([
      { id: holder.id, created: true, state: 'ready' },
      { created: true, state: 'blocked' },
    ])
  },

  'a job that takes over a key holds it': async ({ store, clock, expect }) => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)
    const successor = await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS - 1)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: successor, created: false, state: 'ready' }])
  },

  'a job whose key was taken over does not free it': async ({ store, clock, expect }) => {
    const job = await startJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)
    const successor = await enqueueJob(store, keyed('welcome'))
    await store.settle([succeeded(job)])

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id: successor, created: false, state: 'ready' }])
  },

  'a job loses nothing but its key when its key is taken over': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)

    await enqueueJob(store, keyed('welcome'))

    expect(await stateOf(store, id)).toBe('ready')
  },
}

export const keyFacts: Facts = { ...holding, ...freeing, ...lasting }

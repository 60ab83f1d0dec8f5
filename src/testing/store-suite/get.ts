// Get: a job as it is shown, with its whole story.

import { LIMIT_DEFAULTS } from '../../core/limits.js'
import { JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { keyed, newId, newJob, OPERATOR, QUEUE, START_MS, succeeded } from './samples.js'
import { enqueueJob, jobIn, startJob, viewOf } from './steps.js'

const whole: Facts = {
  'jobs among some queues are those that are in them': async ({ store, expect }) => {
    const [one, other] = [await enqueueJob(store, { queue: 'one' }), await enqueueJob(store, { queue: 'other' })]
    const done = await jobIn(store, 'succeeded')

    const found = await store.among([one, other, done, newId()], ['one', QUEUE, 'none'])

    expect([...found].sort()).toEqual([one, done].sort())
    expect(await store.among([one], [])).toEqual([])
    expect(await store.among([], ['one'])).toEqual([])
  },

  'every look at the shared secret gives the same': async ({ store, expect }) => {
    const secret = await store.sharedSecret()

    expect(secret.length).toBeGreaterThan(60)
    expect(await store.sharedSecret()).toBe(secret)
  },

  'a job that does not exist is shown as null': async ({ store, expect }) => {
    expect(await store.get(newId())).toBe(null)
  },

  'a plain job is shown with everything there is to show': async ({ store, expect }) => {
    const job = newJob()
    await store.enqueue([job])

    expect(await store.get(job.id)).toEqual({
      id: job.id,
      type: 'send_email',
      queue: QUEUE,
      state: 'ready',
      payload: { to: 'grace@example.com' },
      version: 1,
      priority: 0,
      attempt: 0,
      crashes: 0,
      maxAttempts: LIMIT_DEFAULTS.maxAttempts,
      runAt: null,
      createdAt: new Date(START_MS),
      startedAt: null,
      finishedAt: null,
      result: null,
      reason: null,
      error: null,
      attempts: [],
      worker: null,
      leasedUntil: null,
      cancelRequested: false,
      progress: null,
      logs: [],
      tags: [],
      idempotencyKey: null,
      after: [],
      onParentDead: 'cancel',
      schedule: null,
      requeues: [],
    })
  },

  'a job with every option shows them': async ({ store, expect }) => {
    const parents = [await enqueueJob(store), await enqueueJob(store)]
    const options = {
      queue: 'push',
      type: 'send_push',
      version: 4,
      priority: -9,
      after: parents,
      onParentDead: 'run',
      tags: ['vip', 'a tag'],
    } as const

    const id = await enqueueJob(store, { ...options, ...keyed('push:7', 1_000), limits: { maxAttempts: 3 } })

    expect(await viewOf(store, id)).toMatchObject({ ...options, idempotencyKey: 'push:7', maxAttempts: 3 })
  },

  ...factsFor(
    JOB_STATES,
    (state) => `a job that is ${state} is shown so`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      expect((await viewOf(store, id)).state).toBe(state)
    },
  ),
}

const parts: Facts = {
  'the attempts of the job come before those of its queue': async ({ store, expect }) => {
    await store.setQueue(QUEUE, { limits: { maxAttempts: 7 } }, OPERATOR)

    const id = await enqueueJob(store, { limits: { maxAttempts: 3 } })

    expect((await viewOf(store, id)).maxAttempts).toBe(3)
  },

  'a job without attempts of its own has those of its queue': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    await store.setQueue(QUEUE, { limits: { maxAttempts: 7 } }, OPERATOR)

    expect((await viewOf(store, id)).maxAttempts).toBe(7)
  },

  'a finished job still shows its key': async ({ store, expect }) => {
    const id = await jobIn(store, 'succeeded', keyed('welcome'))

    expect((await viewOf(store, id)).idempotencyKey).toBe('welcome')
  },

  'a child that went on still shows its parents': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })

    await store.settle([succeeded(parent)])

    expect(await viewOf(store, child)).toMatchObject({ state: 'ready', after: [parent.id] })
  },

  'a result of null is shown as null': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([succeeded(job, { result: 'null' })])

    expect((await viewOf(store, job.id)).result).toBe(null)
  },

  'a result of false is shown as false': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([succeeded(job, { result: 'false' })])

    expect((await viewOf(store, job.id)).result).toBe(false)
  },

  'what is shown is a copy': async ({ store, expect }) => {
    const id = await enqueueJob(store, { payload: '{"to":["a"]}' })
    const view = await viewOf(store, id)

    ;(view.payload as { to: string[] }).to.push('b')

    expect((await viewOf(store, id)).payload).toEqual({ to: ['a'] })
  },

  'a job does not change with the object it was enqueued from': async ({ store, expect }) => {
    const tags = ['vip']
    const id = await enqueueJob(store, { tags })

    tags.push('late')

    expect((await viewOf(store, id)).tags).toEqual(['vip'])
  },

  'the time of the store is the clock it was opened with': async ({ store, clock, expect }) => {
    await clock.advance(1_234)

    expect(await store.now()).toBe(START_MS + 1_234)
  },
}

export const getFacts: Facts = {
  ...whole,
  ...parts,
}

// Requeue and discard: what operators do with dead jobs.

import { JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { dead, FAILURE, keyed, newId, newJob, OPERATOR, SECOND_MS, START_MS } from './samples.js'
import { claimIds, claimJob, enqueueJob, jobIn, startJob, stateOf, statesOf, viewOf } from './steps.js'

const reviving: Facts = {
  'a dead job is ready again': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    const answers = await store.requeue([id], OPERATOR)

    expect(answers).toEqual([{ id, result: 'requeued', requeues: 1 }])
    expect(await claimIds(store)).toEqual([id])
  },

  'a revived job begins at its first attempt': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([dead({ ...job, attempt: 25, crashes: 3 })])

    await store.requeue([job.id], OPERATOR)

    expect(await viewOf(store, job.id)).toMatchObject({ attempt: 0, crashes: 0 })
  },

  'a revived job shows nothing of its death': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    await store.requeue([id], OPERATOR)

    expect(await viewOf(store, id)).toMatchObject({
      state: 'ready',
      reason: null,
      finishedAt: null,
      startedAt: null,
      worker: null,
    })
  },

  'a revived job keeps its failed attempts': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    await store.requeue([id], OPERATOR)

    expect((await viewOf(store, id)).attempts.map(({ error }) => error)).toEqual([FAILURE])
  },

  'failed attempts of a second life are added to those of the first': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')
    await store.requeue([id], OPERATOR)
    const job = await claimJob(store)

    await store.settle([dead(job)])

    expect((await viewOf(store, id)).attempts.map(({ attempt }) => attempt)).toEqual([1, 1])
  },

  'a revived job has a higher fence at its next claim': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([dead(job)])
    await store.requeue([job.id], OPERATOR)

    expect((await claimJob(store)).fence).toBe(job.fence + 1)
  },

  'requeues are counted and kept with who and when': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'dead')
    await store.requeue([id], 'ada')
    await store.settle([dead(await claimJob(store))])
    await clock.advance(SECOND_MS)

    const answers = await store.requeue([id], 'grace')

    expect(answers).toEqual([{ id, result: 'requeued', requeues: 2 }])
    expect((await viewOf(store, id)).requeues).toEqual([
      { number: 1, at: new Date(START_MS), by: 'ada' },
      { number: 2, at: new Date(START_MS + SECOND_MS), by: 'grace' },
    ])
  },

  ...factsFor(
    JOB_STATES.filter((state) => state !== 'dead'),
    (state) => `a job that is ${state} cannot be revived`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      const answers = await store.requeue([id], OPERATOR)

      expect(answers).toEqual([{ id, result: 'refused', state }])
      expect(await viewOf(store, id)).toMatchObject({ state, requeues: [] })
    },
  ),

  'a job that does not exist cannot be revived': async ({ store, expect }) => {
    const id = newId()

    expect(await store.requeue([id], OPERATOR)).toEqual([{ id, result: 'missing' }])
  },

  'many revivals are answered in the order asked': async ({ store, expect }) => {
    const [first, second] = [await jobIn(store, 'dead'), await jobIn(store, 'dead')]
    const missing = newId()

    const answers = await store.requeue([second, missing, first], OPERATOR)

    expect(answers.map(({ id, result }) => [id, result])).toEqual([
      [second, 'requeued'],
      [missing, 'missing'],
      [first, 'requeued'],
    ])
  },

  'an empty list revives nothing': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    expect(await store.requeue([], OPERATOR)).toEqual([])
    expect(await stateOf(store, id)).toBe('dead')
  },
}

const keys: Facts = {
  'a revived job takes its key again': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome'))
    await store.requeue([id], OPERATOR)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'ready' }])
  },

  'a dead job whose key is held by another is not revived': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome'))
    const holder = await enqueueJob(store, keyed('welcome'))

    const answers = await store.requeue([id], OPERATOR)

    expect(answers).toEqual([{ id, result: 'refused', state: 'dead', heldBy: holder }])
    expect(await stateOf(store, id)).toBe('dead')
  },

  'a dead job whose key is held does not keep its neighbours from being revived': async ({ store, expect }) => {
    const held = await jobIn(store, 'dead', keyed('welcome'))
    const free = await jobIn(store, 'dead')
    await enqueueJob(store, keyed('welcome'))

    await store.requeue([held, free], OPERATOR)

    expect(await statesOf(store, [held, free])).toEqual(['dead', 'ready'])
  },

  'the time of a key counts from the revival': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS - 1)
    await store.requeue([id], OPERATOR)
    await clock.advance(SECOND_MS - 1)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'ready' }])
  },

  'a key whose time is over is taken again from whoever held it': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome'))
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)

    const [answer] = await store.requeue([id], OPERATOR)

    expect(answer).toMatchObject({ result: 'requeued' })
  },
}

const discarding: Facts = {
  'a discarded job is cancelled': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'dead')
    await clock.advance(SECOND_MS)

    const answers = await store.discard([id], OPERATOR)

    expect(answers).toEqual([{ id, result: 'cancelled' }])
    expect(await viewOf(store, id)).toMatchObject({
      state: 'cancelled',
      reason: null,
      finishedAt: new Date(START_MS + SECOND_MS),
    })
  },

  'a discarded job cannot be revived': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')
    await store.discard([id], OPERATOR)

    expect(await store.requeue([id], OPERATOR)).toEqual([{ id, result: 'refused', state: 'cancelled' }])
  },

  'a discarded job keeps its failed attempts and its error': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    await store.discard([id], OPERATOR)

    const { attempts, error } = await viewOf(store, id)
    expect([attempts.length, error]).toEqual([1, FAILURE])
  },

  'discarding a dead job does not free a key another holds by now': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome'))
    const holder = await enqueueJob(store, keyed('welcome'))

    await store.discard([id], OPERATOR)

    expect(await store.enqueue([newJob(keyed('welcome'))])).toEqual([{ id: holder, created: false, state: 'ready' }])
  },

  'a cancelled job is answered as discarded': async ({ store, expect }) => {
    const id = await jobIn(store, 'cancelled')

    expect(await store.discard([id], OPERATOR)).toEqual([{ id, result: 'cancelled' }])
  },

  ...factsFor(
    JOB_STATES.filter((state) => state !== 'dead' && state !== 'cancelled'),
    (state) => `a job that is ${state} cannot be discarded`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      const answers = await store.discard([id], OPERATOR)

      expect(answers).toEqual([{ id, result: 'refused', state }])
      expect(await stateOf(store, id)).toBe(state)
    },
  ),

  'a job that does not exist cannot be discarded': async ({ store, expect }) => {
    const id = newId()

    expect(await store.discard([id], OPERATOR)).toEqual([{ id, result: 'missing' }])
  },

  'an empty list discards nothing': async ({ store, expect }) => {
    expect(await store.discard([], OPERATOR)).toEqual([])
  },
}

export const requeueFacts: Facts = { ...reviving, ...keys, ...discarding }

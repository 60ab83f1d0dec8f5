// Endings: how jobs ended, for those who wait on them.

import { isFinished, JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { cancelled, dead, FAILURE, newId, OPERATOR, retrying, succeeded } from './samples.js'
import { claimJob, enqueueJob, jobIn, startJob } from './steps.js'

export const endingFacts: Facts = {
  'a job that succeeded ends with its result as it was given': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([succeeded(job, { result: '{"sent": true}' })])

    expect(await store.endings([job.id])).toEqual([
      { id: job.id, state: 'succeeded', result: '{"sent": true}', reason: null, error: null },
    ])
  },

  'a job that died ends with its reason and its error': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([dead(job, { reason: 'dropped' })])

    expect(await store.endings([job.id])).toEqual([
      { id: job.id, state: 'dead', result: null, reason: 'dropped', error: FAILURE },
    ])
  },

  'a job that died without an error of its own ends with that of its last attempt': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)
    const second = await claimJob(store)
    await store.settle([dead(second, { reason: 'expired', error: null })])

    expect(await store.endings([second.id])).toEqual([
      { id: second.id, state: 'dead', result: null, reason: 'expired', error: FAILURE },
    ])
  },

  'a job that was cancelled while it waited ends with nothing': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    await store.cancel([id], OPERATOR)

    expect(await store.endings([id])).toEqual([{ id, state: 'cancelled', result: null, reason: null, error: null }])
  },

  'a job that was cancelled while it ran ends with its result': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([cancelled(job, { result: '"half"' })])

    expect(await store.endings([job.id])).toEqual([
      { id: job.id, state: 'cancelled', result: '"half"', reason: null, error: null },
    ])
  },

  'a discarded job ends as cancelled, without its reason': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')
    await store.discard([id], OPERATOR)

    expect(await store.endings([id])).toEqual([{ id, state: 'cancelled', result: null, reason: null, error: null }])
  },

  ...factsFor(
    JOB_STATES.filter((state) => !isFinished(state)),
    (state) => `a job that is ${state} has no ending`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      expect(await store.endings([id])).toEqual([])
    },
  ),

  'a requeued job has no ending any more': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead')

    await store.requeue([id], OPERATOR)

    expect(await store.endings([id])).toEqual([])
  },

  'endings come in the order asked, without those that are missing or open': async ({ store, expect }) => {
    const [first, second] = [await jobIn(store, 'succeeded'), await jobIn(store, 'dead')]
    const open = await enqueueJob(store)

    const endings = await store.endings([second, newId(), open, first])

    expect(endings.map(({ id }) => id)).toEqual([second, first])
  },

  'an empty list has no endings': async ({ store, expect }) => {
    expect(await store.endings([])).toEqual([])
  },
}

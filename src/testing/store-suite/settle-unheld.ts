// Settling without the lease: a lost lease changes nothing, and a repeated settlement gets the answer of the first one.

import { leaseOf } from '../../core/job.js'
import { type Facts, factsFor } from './context.js'
import {
  cancelled,
  dead,
  newId,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  snoozed,
  stale,
  succeeded,
} from './samples.js'
import { claimJob, enqueueJob, everything, startJob, stateOf, viewOf } from './steps.js'

const lost: Facts = {
  'a lease of another claim cannot settle': async ({ store, expect }) => {
    const job = await startJob(store)

    const answers = await store.settle([succeeded({ ...job, ...stale(job) })])

    expect(answers).toEqual([{ ...stale(job), result: 'lost', state: null }])
  },

  'a lost settlement changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)
    const before = await everything(store)

    await store.settle([dead({ ...job, ...stale(job) })])

    expect(await everything(store)).toEqual(before)
  },

  'a lease whose job was claimed again cannot settle': async ({ store, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first)])
    await claimJob(store)

    const [answer] = await store.settle([succeeded(first)])

    expect(answer).toMatchObject({ result: 'lost', state: null })
    expect(await stateOf(store, first.id)).toBe('running')
  },

  'the lease of an unknown job cannot settle': async ({ store, expect }) => {
    const job = await startJob(store)
    const unknown = { ...job, id: newId() }

    const answers = await store.settle([succeeded(unknown)])

    expect(answers).toEqual([{ ...leaseOf(unknown), result: 'lost', state: null }])
  },

  'settling many leases reports exactly the lost ones': async ({ store, expect }) => {
    const [first, second, third] = [await startJob(store), await startJob(store), await startJob(store)]

    const answers = await store.settle([succeeded(first), succeeded({ ...second, ...stale(second) }), retrying(third)])

    expect(answers.map(({ result }) => result)).toEqual(['settled', 'lost', 'settled'])
  },

  ...factsFor(
    Object.entries({ succeeded, retrying, ready: released, dead, cancelled }),
    ([state]) =>
      `two jobs that are settled as ${state} with each other's fence stay as they are, beside one with its own`,
    async ({ store, clock, expect }, [state, settle]) => {
      const first = await startJob(store)
      await clock.advance(SECOND_MS)
      const second = await startJob(store)
      const third = await startJob(store)

      const answers = await store.settle([
        settle({ ...first, fence: second.fence }),
        settle({ ...second, fence: first.fence }),
        settle(third),
      ])

      expect(answers.map(({ result }) => result)).toEqual(['lost', 'lost', 'settled'])
      expect([await stateOf(store, first.id), await stateOf(store, second.id)]).toEqual(['running', 'running'])
      expect(await stateOf(store, third.id)).toBe(state)
    },
  ),

  'a job that was never claimed cannot be settled': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    const job = { ...(await startJob(store, { queue: 'push' })), id }

    const [answer] = await store.settle([succeeded(job)])

    expect(answer).toMatchObject({ result: 'lost', state: null })
    expect(await stateOf(store, id)).toBe('ready')
  },
}

const repeated: Facts = {
  'settling twice answers the same the second time': async ({ store, expect }) => {
    const job = await startJob(store)
    const first = await store.settle([succeeded(job)])

    const second = await store.settle([succeeded(job)])

    expect(second).toEqual(first)
  },

  'the first settlement counts, whatever the second says': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([succeeded(job, { result: '1' })])
    const before = await everything(store)

    await store.settle([dead(job, { result: '2' })])

    expect(await everything(store)).toEqual(before)
  },

  'settling twice answers with where the job is by now': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying(job)])
    await clock.advance(SECOND_MS)
    await store.promote(1)

    const [answer] = await store.settle([retrying(job)])

    expect(answer).toMatchObject({ result: 'settled', state: 'ready' })
  },

  ...factsFor(
    Object.entries({ retrying, scheduled: snoozed, ready: released, dead, cancelled }),
    ([state]) => `a repeated settlement knows a job that is ${state}`,
    async ({ store, expect }, [state, settle]) => {
      const job = await startJob(store)
      await store.settle([settle(job)])

      const [answer] = await store.settle([settle(job)])

      expect(answer).toMatchObject({ result: 'settled', state })
    },
  ),

  'settling twice is known after the job was requeued': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([dead(job)])
    await store.requeue([job.id], OPERATOR)

    const [answer] = await store.settle([dead(job)])

    expect(answer).toMatchObject({ result: 'settled', state: 'ready' })
  },

  'settling twice is known after the retry was cancelled': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying(job)])
    await store.cancel([job.id], OPERATOR)

    const [answer] = await store.settle([retrying(job)])

    expect(answer).toMatchObject({ result: 'settled', state: 'cancelled' })
  },

  'one lease twice in a call is settled by the first and repeated by the second': async ({ store, expect }) => {
    const job = await startJob(store)

    const answers = await store.settle([succeeded(job, { result: '1' }), dead(job)])

    expect(answers.map(({ state }) => state)).toEqual(['succeeded', 'succeeded'])
    expect(await viewOf(store, job.id)).toMatchObject({ state: 'succeeded', result: 1, attempts: [] })
  },
}

export const unheldFacts: Facts = { ...lost, ...repeated }

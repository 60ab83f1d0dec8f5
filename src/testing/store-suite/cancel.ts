// Cancel: immediately while a job waits, by asking while it runs.

import { type Facts, factsFor } from './context.js'
import { newId, newJobs, OPERATOR, retrying, SECOND_MS, START_MS } from './samples.js'
import { claimIds, claimJob, enqueueJob, jobIn, startJob, stateOf, viewOf } from './steps.js'

const waiting: Facts = {
  ...factsFor(
    ['blocked', 'scheduled', 'ready', 'retrying'],
    (state) => `a job that is ${state} is cancelled immediately`,
    async ({ store, clock, expect }, state) => {
      const id = await jobIn(store, state)
      await clock.advance(SECOND_MS)

      const answers = await store.cancel([id], OPERATOR)

      expect(answers).toEqual([{ id, result: 'cancelled' }])
      expect(await viewOf(store, id)).toMatchObject({
        state: 'cancelled',
        runAt: null,
        startedAt: null,
        worker: null,
        finishedAt: new Date(START_MS + SECOND_MS),
      })
    },
  ),

  'a cancelled job is not claimed': async ({ store, expect }) => {
    await store.cancel([await enqueueJob(store)], OPERATOR)

    expect(await claimIds(store)).toEqual([])
  },

  'a ready job that moved before is cancelled': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'scheduled')
    await clock.advance(60_000)
    await store.promote(1)

    await store.cancel([id], OPERATOR)

    expect(await stateOf(store, id)).toBe('cancelled')
    expect(await claimIds(store)).toEqual([])
  },

  'a ready job whose priority was changed is cancelled': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    await store.update(id, { priority: 5 }, OPERATOR)

    await store.cancel([id], OPERATOR)

    expect(await claimIds(store)).toEqual([])
  },

  'a cancelled retry keeps its attempt': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying({ ...job, attempt: 4, crashes: 1 })])

    await store.cancel([job.id], OPERATOR)

    expect(await viewOf(store, job.id)).toMatchObject({ attempt: 4, crashes: 1 })
  },
}

const running: Facts = {
  'a running job is asked to stop': async ({ store, expect }) => {
    const { id } = await startJob(store)

    const answers = await store.cancel([id], OPERATOR)

    expect(answers).toEqual([{ id, result: 'asked' }])
    expect(await viewOf(store, id)).toMatchObject({ state: 'running', cancelRequested: true, finishedAt: null })
  },

  'a running job can be asked again': async ({ store, expect }) => {
    const { id } = await startJob(store)
    await store.cancel([id], OPERATOR)

    expect(await store.cancel([id], OPERATOR)).toEqual([{ id, result: 'asked' }])
  },

  'a job that nobody asked to stop has no cancel request': async ({ store, expect }) => {
    const { id } = await startJob(store)

    expect((await viewOf(store, id)).cancelRequested).toBe(false)
  },
}

const over: Facts = {
  'a job that is cancelled already is answered as cancelled': async ({ store, expect }) => {
    const id = await jobIn(store, 'cancelled')

    expect(await store.cancel([id], OPERATOR)).toEqual([{ id, result: 'cancelled' }])
  },

  'cancelling again does not change when a job ended': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store)
    await store.cancel([id], OPERATOR)
    await clock.advance(SECOND_MS)

    await store.cancel([id], OPERATOR)

    expect((await viewOf(store, id)).finishedAt).toEqual(new Date(START_MS))
  },

  ...factsFor(
    ['succeeded', 'dead'],
    (state) => `a job that is ${state} cannot be cancelled`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      const answers = await store.cancel([id], OPERATOR)

      expect(answers).toEqual([{ id, result: 'refused', state }])
      expect(await stateOf(store, id)).toBe(state)
    },
  ),

  'a job that does not exist is missing': async ({ store, expect }) => {
    const id = newId()

    expect(await store.cancel([id], OPERATOR)).toEqual([{ id, result: 'missing' }])
  },
}

const many: Facts = {
  'many jobs are answered in the order asked': async ({ store, expect }) => {
    const succeeded = await jobIn(store, 'succeeded')
    const running = await jobIn(store, 'running')
    const [ready, missing] = [await enqueueJob(store), newId()]

    const answers = await store.cancel([missing, ready, running, succeeded], OPERATOR)

    expect(answers.map(({ id, result }) => [id, result])).toEqual([
      [missing, 'missing'],
      [ready, 'cancelled'],
      [running, 'asked'],
      [succeeded, 'refused'],
    ])
  },

  'cancelling some jobs leaves the others': async ({ store, expect }) => {
    const jobs = newJobs(3)
    await store.enqueue(jobs)

    await store.cancel([jobs[1]!.id], OPERATOR)

    expect(await claimIds(store)).toEqual([jobs[0]!.id, jobs[2]!.id])
  },

  'one job named twice is cancelled once': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect(await store.cancel([id, id], OPERATOR)).toEqual(Array(2).fill({ id, result: 'cancelled' }))
  },

  'a parent and its child are cancelled in one call': async ({ store, expect }) => {
    const parent = await enqueueJob(store)
    const child = await enqueueJob(store, { after: [parent] })

    const answers = await store.cancel([parent, child], OPERATOR)

    expect(answers.map(({ result }) => result)).toEqual(['cancelled', 'cancelled'])
  },

  'an empty list cancels nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await store.cancel([], OPERATOR)).toEqual([])
    expect((await claimJob(store)).attempt).toBe(1)
  },
}

export const cancelFacts: Facts = { ...waiting, ...running, ...over, ...many }

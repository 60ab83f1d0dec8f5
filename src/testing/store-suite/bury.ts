// Bury: jobs that are dead from the start, because they failed in another queue.

import type { Burial } from '../../core/operator-store.js'
import type { Facts } from './context.js'
import { FAILURE, keyed, MINUTE_MS, newId, newJob, OPERATOR } from './samples.js'
import { claimIds, claimJob, enqueueJob, jobIn, startJob, stateOf, viewOf } from './steps.js'

const LATER = { when: { delayMs: MINUTE_MS } }

function burial(id: string, changes: Partial<Burial> = {}): Burial {
  return { id, attempt: 3, error: FAILURE, worker: 'elsewhere', ...changes }
}

export const buryFacts: Facts = {
  'a scheduled job that never ran is dead with the error, attempts and worker of elsewhere': async ({
    store,
    expect,
  }) => {
    const id = await enqueueJob(store, LATER)

    const answers = await store.bury([burial(id)])

    expect(answers).toEqual([{ id, result: 'buried' }])
    const view = await viewOf(store, id)
    expect(view).toMatchObject({ state: 'dead', reason: 'attempts', attempt: 3, worker: 'elsewhere' })
    expect(view.attempts.map(({ attempt, error }) => ({ attempt, error }))).toEqual([{ attempt: 3, error: FAILURE }])
  },

  'a buried job is in the dead-letter queue, grouped by its error': async ({ store, expect }) => {
    await store.bury([burial(await enqueueJob(store, LATER))])

    const groups = await store.deadGroups({ queue: null, limit: 10 })

    expect(groups.map(({ count }) => count)).toEqual([1])
    expect(await store.stats(null)).toMatchObject({ dead: 1, scheduled: 0 })
  },

  'burying a job again changes nothing': async ({ store, expect }) => {
    const id = await enqueueJob(store, LATER)
    await store.bury([burial(id)])

    const again = await store.bury([burial(id, { attempt: 9 })])

    expect(again).toEqual([{ id, result: 'buried' }])
    expect((await viewOf(store, id)).attempts).toHaveLength(1)
  },

  'a buried job is requeued like any dead job, and claimed': async ({ store, expect }) => {
    const id = await enqueueJob(store, LATER)
    await store.bury([burial(id)])

    await store.requeue([id], OPERATOR)

    expect(await claimIds(store)).toEqual([id])
    expect(await viewOf(store, id)).toMatchObject({ attempt: 1 })
  },

  'the failed attempts of a requeued one are added to that of elsewhere': async ({ store, expect }) => {
    const id = await enqueueJob(store, LATER)
    await store.bury([burial(id)])
    await store.requeue([id], OPERATOR)
    const { fence, queue } = await claimJob(store)

    await store.settle([
      {
        ...{ id, fence, queue, result: null, error: FAILURE, ranMs: 5, idempotencyKey: null },
        settlement: { state: 'dead', reason: 'dropped', attempt: 1, crashes: 0 },
      },
    ])

    expect((await viewOf(store, id)).attempts.map(({ attempt }) => attempt)).toEqual([3, 1])
  },

  'the key of a buried job is free': async ({ store, expect }) => {
    const key = keyed('welcome:42')
    await store.bury([burial(await enqueueJob(store, { ...LATER, ...key }))])

    const [answer] = await store.enqueue([newJob(key)])

    expect(answer).toMatchObject({ created: true })
  },

  'a job that comes after a buried one is cancelled with it': async ({ store, expect }) => {
    const id = await enqueueJob(store, LATER)
    const child = await enqueueJob(store, { after: [id] })

    await store.bury([burial(id)])

    expect(await stateOf(store, child)).toBe('cancelled')
  },

  'a job that is ready, running or has run is not buried': async ({ store, expect }) => {
    const ready = await enqueueJob(store)
    const succeeded = await jobIn(store, 'succeeded', { queue: 'other' })
    const { id: running } = await startJob(store, { queue: 'third' }, { queue: 'third' })

    const answers = await store.bury([ready, succeeded, running].map((id) => burial(id)))

    expect(answers).toEqual([
      { id: ready, result: 'refused', state: 'ready' },
      { id: succeeded, result: 'refused', state: 'succeeded' },
      { id: running, result: 'refused', state: 'running' },
    ])
  },

  'burying a job that does not exist is answered as missing': async ({ store, expect }) => {
    const id = newId()

    expect(await store.bury([burial(id)])).toEqual([{ id, result: 'missing' }])
  },

  'many jobs are buried in one call, each answered in order': async ({ store, expect }) => {
    const [one, two] = [await enqueueJob(store, LATER), await enqueueJob(store, LATER)]
    const ready = await enqueueJob(store)

    const answers = await store.bury([burial(two), burial(ready), burial(one)])

    expect(answers.map(({ result }) => result)).toEqual(['buried', 'refused', 'buried'])
  },
}

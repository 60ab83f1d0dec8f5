// Delete: nothing of a job stays.

import { JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import {
  dead,
  keyed,
  MINUTE_MS,
  newId,
  newJob,
  newNote,
  OPERATOR,
  QUEUE,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, enqueueJob, jobIn, listIds, startJob, stateOf, viewOf } from './steps.js'

const CAN_BE = JOB_STATES.filter((state) => state !== 'running')

const REPLACE = { waitMs: 0, maxWaitMs: null }

const jobs: Facts = {
  ...factsFor(
    CAN_BE,
    (state) => `a job that is ${state} is gone when it is deleted`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      expect(await store.delete([id], OPERATOR)).toEqual([{ id, result: 'deleted' }])

      expect(await store.get(id)).toBe(null)
      expect(await listIds(store, { queues: [QUEUE] })).toEqual([])
      expect(await store.endings([id])).toEqual([])
      expect(await store.among([id], [QUEUE])).toEqual([])
    },
  ),

  'a deleted job that waited is never claimed': async ({ store, clock, expect }) => {
    const timed = await enqueueJob(store, { when: { delayMs: SECOND_MS } })
    const [gone, stays] = [await enqueueJob(store), await enqueueJob(store)]

    await store.delete([gone, timed], OPERATOR)
    await clock.advance(MINUTE_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([stays])
  },

  'a job that runs is not deleted, and runs on': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(await store.delete([job.id], OPERATOR)).toEqual([{ id: job.id, result: 'refused', state: 'running' }])

    expect(await viewOf(store, job.id)).toMatchObject({ state: 'running', cancelRequested: false })
    expect(await store.settle([succeeded(job)])).toMatchObject([{ result: 'settled' }])
  },

  'deleting again is answered as missing': async ({ store, expect }) => {
    const [id, absent] = [await jobIn(store, 'succeeded'), newId()]
    await store.delete([id], OPERATOR)

    expect(await store.delete([id, absent, id], OPERATOR)).toEqual([
      { id, result: 'missing' },
      { id: absent, result: 'missing' },
      { id, result: 'missing' },
    ])
  },

  'a job that is named twice is deleted once': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect(await store.delete([id, id], OPERATOR)).toEqual([
      { id, result: 'deleted' },
      { id, result: 'deleted' },
    ])
    expect((await store.audit({ before: null, limit: 10 })).entries.map(({ action }) => action)).toEqual(['delete'])
  },

  'an empty list deletes nothing': async ({ store, expect }) => {
    expect(await store.delete([], OPERATOR)).toEqual([])
  },

  'each of several jobs is answered by itself': async ({ store, expect }) => {
    const running = await startJob(store)
    const [done, waiting] = [await jobIn(store, 'dead'), await enqueueJob(store)]

    expect(await store.delete([running.id, done, waiting], OPERATOR)).toEqual([
      { id: running.id, result: 'refused', state: 'running' },
      { id: done, result: 'deleted' },
      { id: waiting, result: 'deleted' },
    ])
  },

  'the neighbours of a deleted job keep what is theirs': async ({ store, expect }) => {
    const [first, second, third] = [await startJob(store), await startJob(store), await startJob(store)]
    for (const job of [first, second, third])
      await store.note([newNote(job, { logs: [{ atMs: START_MS, text: job.id }] })])
    await store.settle([first, second, third].map((job) => succeeded(job, { result: `"${job.id}"` })))

    await store.delete([second.id], OPERATOR)

    for (const { id } of [first, third]) {
      expect(await viewOf(store, id)).toMatchObject({
        result: id,
        logs: [{ text: id }],
        payload: { to: 'grace@example.com' },
      })
    }
  },

  'nothing of a deleted job comes back with its id': async ({ store, clock, expect }) => {
    const job = newJob(keyed('welcome', MINUTE_MS))
    await store.enqueue([job])
    const first = await claimJob(store)
    await store.note([newNote(first, { progress: '50', logs: [{ atMs: START_MS, text: 'half' }] })])
    await store.settle([retrying(first)])
    await clock.advance(SECOND_MS)
    await store.promote(10)
    await store.settle([dead(await claimJob(store))])
    await store.requeue([job.id], OPERATOR)
    await store.settle([succeeded(await claimJob(store), { result: '"done"' })])
    await store.delete([job.id], OPERATOR)

    await store.enqueue([{ ...job, payload: '2' }])

    expect(await viewOf(store, job.id)).toMatchObject({
      ...{ state: 'ready', payload: 2, result: null, progress: null, attempts: [], logs: [], attempt: 0 },
    })
  },

  'the key of a deleted job is free, also one that lasts for a time': async ({ store, expect }) => {
    const [kept, lasting] = [newJob(keyed('kept')), newJob(keyed('lasting', MINUTE_MS))]
    await store.enqueue([kept, lasting])
    await store.delete([kept.id, lasting.id], OPERATOR)

    const answers = await store.enqueue([newJob(keyed('kept')), newJob(keyed('lasting', MINUTE_MS))])

    expect(answers.map((answer) => 'created' in answer && answer.created)).toEqual([true, true])
  },

  'a key that another job has taken stays with it': async ({ store, expect }) => {
    const first = await startJob(store, keyed('welcome'))
    await store.settle([dead(first)])
    const holder = await enqueueJob(store, keyed('welcome'))

    await store.delete([first.id], OPERATOR)

    expect(await store.enqueue([newJob(keyed('welcome'))])).toMatchObject([{ id: holder, created: false }])
  },

  ...factsFor(
    [null, MINUTE_MS],
    (ttlMs) => `the successor of a deleted job has its key${ttlMs === null ? '' : ', also one that lasts for a time'}`,
    async ({ store, clock, expect }, ttlMs) => {
      const first = await startJob(store, keyed('welcome', ttlMs))
      const successor = newJob({ ...keyed('welcome'), replace: REPLACE })
      await store.enqueue([successor])
      await store.settle([succeeded(first)])
      await store.delete([first.id], OPERATOR)

      const again = () => store.enqueue([newJob(keyed('welcome'))])
      expect(await again()).toMatchObject([{ id: successor.id, created: false }])
      await store.delete([successor.id], OPERATOR)
      expect(await again()).toMatchObject([{ created: true }])
      await clock.advance(2 * MINUTE_MS)
      expect((await store.prune({ retentionMs: MINUTE_MS })).rows).toBe(0)
    },
  ),

  'a line of the audit log names the id and who, and nothing else': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'dead')
    await store.delete([id], 'grace')

    expect((await store.audit({ before: null, limit: 1 })).entries).toMatchObject([
      { actor: 'grace', action: 'delete', job: id, target: null, details: null, at: new Date(clock.now()) },
    ])
  },
}

const chains: Facts = {
  'a job that waits is cancelled first: its child ends as its parent policy says': async ({ store, expect }) => {
    const parent = await enqueueJob(store)
    const ends = await enqueueJob(store, { after: [parent] })
    const runs = await enqueueJob(store, { after: [parent], onParentDead: 'run' })

    await store.delete([parent], OPERATOR)

    expect([await stateOf(store, ends), await stateOf(store, runs)]).toEqual(['cancelled', 'ready'])
  },

  'a chain that is deleted from its beginning ends to its last job': async ({ store, expect }) => {
    const first = await enqueueJob(store)
    const second = await enqueueJob(store, { after: [first] })
    const third = await enqueueJob(store, { after: [second] })

    await store.delete([first], OPERATOR)

    expect([await stateOf(store, second), await stateOf(store, third)]).toEqual(['cancelled', 'cancelled'])
  },

  'a child waits for its other parents when a finished one is deleted': async ({ store, expect }) => {
    const [done, running] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [done.id, running.id] })
    await store.settle([succeeded(done)])

    await store.delete([done.id], OPERATOR)
    expect(await stateOf(store, child)).toBe('blocked')

    await store.settle([succeeded(running)])
    expect(await stateOf(store, child)).toBe('ready')
  },

  'a deleted child is not brought back by its parent': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await store.delete([child], OPERATOR)

    await store.settle([succeeded(parent)])

    expect(await store.get(child)).toBe(null)
    expect(await claimIds(store)).toEqual([])
  },

  'nothing comes after a deleted job': async ({ store, expect }) => {
    const parent = await jobIn(store, 'succeeded')
    await store.delete([parent], OPERATOR)

    const [answer] = await store.enqueue([newJob({ after: [parent] })])

    expect(answer).toMatchObject({ unknownParent: parent })
  },
}

export const deleteFacts: Facts = { ...jobs, ...chains }

export const deleteKeptFacts: Facts = {
  'steps, signals and output of a deleted job go with it': async ({ store, clock, expect }) => {
    const job = newJob()
    await store.enqueue([job])
    const claimed = await claimJob(store)
    const entry = { kind: 'step', name: 'charge', value: '1', begun: 1, isEnded: true, tookMs: 0 } as const
    const effect = { kind: 'effect', name: 'mail', value: null, begun: 1, isEnded: false, tookMs: 0 } as const
    await store.keep([
      { ...claimed, entry },
      { ...claimed, entry: effect },
    ])
    await store.write([{ ...claimed, offset: 0, chunks: ['secret'] }])
    await store.signal([{ id: job.id, key: newId(), name: 'go', value: 'true', by: OPERATOR }])
    await store.settle([retrying(claimed)])

    await store.delete([job.id], OPERATOR)

    expect(await store.read({ id: job.id, from: 0 })).toBe(null)
    expect((await store.doubtful({ id: null, queues: null, limit: 10, after: null })).effects).toEqual([])
    await store.enqueue([job])
    await clock.advance(SECOND_MS)
    expect(await store.recall(await claimJob(store))).toEqual({ entries: [], signals: [], wait: null, outputEnd: 0 })
  },
}

export const deleteFlowFacts: Facts = {
  'the next of its group goes when the job before it is deleted': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1, ordered: true } })
    const [first, second] = [await enqueueJob(store, inGroup()), await enqueueJob(store, inGroup())]

    await store.delete([first], OPERATOR)

    expect(await claimIds(store)).toEqual([second])
  },

  'a limit that a deleted job named is removed': async ({ store, expect }) => {
    await setLimit(store)
    const died = await jobIn(store, 'dead', limitedBy(LIMIT))
    const waits = await enqueueJob(store, limitedBy(LIMIT))
    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('busy')

    await store.delete([waits, died], OPERATOR)

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
  },
}

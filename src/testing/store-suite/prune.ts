// Prune: finished jobs go when their day is over and their retention too, and with them what else has run out.

import { isFinished, JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import {
  DAY_MS,
  FAILURE,
  idAt,
  keyed,
  MINUTE_MS,
  newBeat,
  newJob,
  newNote,
  newSchedule,
  OPERATOR,
  QUEUE,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from './samples.js'
import { claimJob, enqueueJob, jobIn, listIds, pruneAll, startJob, stateOf } from './steps.js'

const RETENTION_MS = DAY_MS
/** The end of the first day, which begins at noon. */
const HALF_DAY_MS = DAY_MS / 2

const jobs: Facts = {
  ...factsFor(
    ['succeeded', 'cancelled'],
    (state) => `a job that is ${state} is gone when its day and its retention are over`,
    async ({ store, clock, expect }, state) => {
      const id = await jobIn(store, state)
      await clock.advance(HALF_DAY_MS + RETENTION_MS + SECOND_MS)

      const { days } = await pruneAll(store, RETENTION_MS)

      expect(await store.get(id)).toBe(null)
      expect(days).toEqual(['2026-03-01'])
    },
  ),

  'a finished job stays while its day is not long enough over': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'succeeded')
    await clock.advance(HALF_DAY_MS + RETENTION_MS - SECOND_MS)

    const { days } = await pruneAll(store, RETENTION_MS)

    expect(days).toEqual([])
    expect(await stateOf(store, id)).toBe('succeeded')
  },

  'a job of an old day that finished lately stays': async ({ store, clock, expect }) => {
    const job = await startJob(store, {}, { leaseMs: 30 * DAY_MS })
    await clock.advance(10 * DAY_MS)
    await store.settle([succeeded(job)])
    await clock.advance(RETENTION_MS - SECOND_MS)

    await pruneAll(store, RETENTION_MS)

    expect(await stateOf(store, job.id)).toBe('succeeded')
  },

  'a job of an old day is gone when it finished long ago too': async ({ store, clock, expect }) => {
    const job = await startJob(store, {}, { leaseMs: 30 * DAY_MS })
    await clock.advance(10 * DAY_MS)
    await store.settle([succeeded(job)])
    await clock.advance(RETENTION_MS + SECOND_MS)

    await pruneAll(store, RETENTION_MS)

    expect(await store.get(job.id)).toBe(null)
  },

  ...factsFor(
    JOB_STATES.filter((state) => state === 'dead' || !isFinished(state)),
    (state) => `a job that is ${state} is never pruned`,
    async ({ store, clock, expect }, state) => {
      const id = await jobIn(store, state)
      await clock.advance(90 * DAY_MS)

      await pruneAll(store, RETENTION_MS)

      expect(await stateOf(store, id)).toBe(state)
    },
  ),

  'a queue with a longer retention keeps its jobs': async ({ store, clock, expect }) => {
    await store.setQueue('push', { limits: {}, retentionMs: 3 * DAY_MS }, OPERATOR)
    const [kept, gone] = [await jobIn(store, 'succeeded', { queue: 'push' }), await jobIn(store, 'succeeded')]
    await clock.advance(3 * DAY_MS - SECOND_MS)

    await pruneAll(store, RETENTION_MS)
    expect(await stateOf(store, kept)).toBe('succeeded')
    expect(await store.get(gone)).toBe(null)

    await clock.advance(DAY_MS)
    await pruneAll(store, RETENTION_MS)
    expect(await store.get(kept)).toBe(null)
  },

  'a queue with a shorter retention keeps its jobs that long, and others theirs': async ({ store, clock, expect }) => {
    await store.setQueue(QUEUE, { limits: {}, retentionMs: MINUTE_MS }, OPERATOR)
    const [gone, cancelled] = [await jobIn(store, 'succeeded'), await jobIn(store, 'cancelled')]
    const other = await jobIn(store, 'succeeded', { queue: 'push' })
    await clock.advance(MINUTE_MS)
    await pruneAll(store, 3 * DAY_MS)
    expect(await stateOf(store, gone)).toBe('succeeded')

    await clock.advance(1)
    const young = await jobIn(store, 'succeeded')
    await pruneAll(store, 3 * DAY_MS)

    expect([await store.get(gone), await store.get(cancelled)]).toEqual([null, null])
    expect([await stateOf(store, young), await stateOf(store, other)]).toEqual(['succeeded', 'succeeded'])
  },

  'a job that finished long after it was made goes when its own retention is over': async ({
    store,
    clock,
    expect,
  }) => {
    await store.setQueue(QUEUE, { limits: {}, retentionMs: MINUTE_MS }, OPERATOR)
    const job = await startJob(store, {}, { leaseMs: DAY_MS })
    await clock.advance(3 * MINUTE_MS)
    await pruneAll(store, 3 * DAY_MS)
    await store.settle([succeeded(job)])
    await clock.advance(MINUTE_MS)
    await pruneAll(store, 3 * DAY_MS)
    expect(await stateOf(store, job.id)).toBe('succeeded')

    await clock.advance(1)
    await pruneAll(store, 3 * DAY_MS)

    expect(await store.get(job.id)).toBe(null)
  },

  'dead and unfinished jobs of a queue with a short retention stay': async ({ store, clock, expect }) => {
    await store.setQueue(QUEUE, { limits: {}, retentionMs: MINUTE_MS }, OPERATOR)
    const ids = [await jobIn(store, 'dead'), await jobIn(store, 'retrying'), await enqueueJob(store)]
    await clock.advance(2 * DAY_MS)

    await pruneAll(store, 3 * DAY_MS)

    expect((await listIds(store)).sort()).toEqual(ids.sort())
  },

  'a retention that is set later, changed or taken away holds for jobs that are there': async ({
    store,
    clock,
    expect,
  }) => {
    const ids = [await jobIn(store, 'succeeded'), await jobIn(store, 'succeeded', { queue: 'push' })]
    await clock.advance(2 * MINUTE_MS)
    await store.setQueue(QUEUE, { limits: {}, retentionMs: 5 * MINUTE_MS }, OPERATOR)
    await pruneAll(store, 3 * DAY_MS)
    expect((await listIds(store)).sort()).toEqual([...ids].sort())

    await store.setQueue(QUEUE, { limits: {}, retentionMs: MINUTE_MS }, OPERATOR)
    await store.setQueue('push', { limits: {}, retentionMs: MINUTE_MS }, OPERATOR)
    await store.setQueue('push', { limits: {} }, OPERATOR)
    await pruneAll(store, 3 * DAY_MS)

    expect(await listIds(store)).toEqual([ids[1]])
  },

  'live jobs of a day that is dropped live on whole': async ({ store, clock, expect }) => {
    await store.prune({ retentionMs: RETENTION_MS })
    await jobIn(store, 'succeeded')
    const job = await startJob(store, { payload: '{"n":1}' })
    await store.note([newNote(job, { progress: '3', logs: [{ atMs: START_MS, text: 'kept' }] })])
    await store.settle([retrying(job, SECOND_MS)])
    await clock.advance(5 * DAY_MS)

    await pruneAll(store, RETENTION_MS)

    const text = { at: new Date(START_MS), text: 'kept' }
    const view = { payload: { n: 1 }, progress: 3, logs: [text], error: FAILURE, state: 'retrying' }
    expect(await store.get(job.id)).toMatchObject(view)
  },

  'live jobs of a day that was dropped can still be run': async ({ store, clock, expect }) => {
    await store.prune({ retentionMs: RETENTION_MS })
    await jobIn(store, 'succeeded')
    const id = await enqueueJob(store)
    await clock.advance(5 * DAY_MS)
    await pruneAll(store, RETENTION_MS)

    await store.settle([succeeded(await claimJob(store))])

    expect(await stateOf(store, id)).toBe('succeeded')
  },

  'jobs of every day that is over go, those of younger days stay': async ({ store, clock, expect }) => {
    await store.prune({ retentionMs: RETENTION_MS })
    for (const day of [0, 1, 2, 6]) {
      const job = await startJob(store, { id: idAt(START_MS + day * DAY_MS) })
      await store.settle([succeeded(job)])
    }
    await clock.advance(6 * DAY_MS)

    const { days } = await pruneAll(store, RETENTION_MS)

    expect(days.sort()).toEqual(['2026-03-01', '2026-03-02', '2026-03-03'])
    expect(await listIds(store)).toHaveLength(1)
  },

  'what is enqueued after a pruning is kept': async ({ store, expect }) => {
    await store.prune({ retentionMs: RETENTION_MS })

    const id = await enqueueJob(store)

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a pruned job is as if it had never been': async ({ store, clock, expect }) => {
    const parent = await jobIn(store, 'succeeded')
    await clock.advance(5 * DAY_MS)
    await pruneAll(store, RETENTION_MS)
    const orphan = newJob({ after: [parent] })

    const answers = await store.enqueue([orphan])

    expect(answers).toEqual([{ id: orphan.id, unknownParent: parent }])
  },

  'nothing of a pruned job comes back with its id': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.note([newNote(job, { progress: '3', logs: [{ atMs: START_MS, text: 'gone' }] })])
    await store.settle([succeeded(job, { error: FAILURE })])
    await clock.advance(5 * DAY_MS)
    await pruneAll(store, RETENTION_MS)

    await store.enqueue([newJob({ id: job.id })])

    expect(await store.get(job.id)).toMatchObject({
      state: 'ready',
      progress: null,
      logs: [],
      attempts: [],
      error: null,
    })
  },

  'a store with nothing in it prunes nothing': async ({ store, expect }) => {
    expect(await pruneAll(store, RETENTION_MS)).toEqual({ days: [], rows: 0 })
  },
}

const rest: Facts = {
  'a key whose time is over is removed': async ({ store, clock, expect }) => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)

    expect((await pruneAll(store, RETENTION_MS)).rows).toBe(1)
  },

  'a key whose time is not over is kept': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS - 1)

    await pruneAll(store, RETENTION_MS)

    expect(await store.enqueue([newJob(keyed('welcome'))])).toEqual([{ id, created: false, state: 'ready' }])
  },

  'a key without a time is kept as long as its job is unfinished': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store, keyed('welcome'))
    await clock.advance(90 * DAY_MS)

    await pruneAll(store, RETENTION_MS)

    expect(await store.enqueue([newJob(keyed('welcome'))])).toEqual([{ id, created: false, state: 'ready' }])
  },

  'a key that outlives its pruned job still keeps others away': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'succeeded', keyed('welcome', 30 * DAY_MS))
    await clock.advance(5 * DAY_MS)
    await pruneAll(store, RETENTION_MS)

    const answers = await store.enqueue([newJob(keyed('welcome'))])

    expect(answers).toEqual([{ id, created: false, state: 'succeeded' }])
  },

  'a tick older than thirty days is removed': async ({ store, clock, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    const ticks = [{ tickMs: START_MS, job: newJob() }]
    await store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: null })
    await clock.advance(30 * DAY_MS + SECOND_MS)

    expect((await pruneAll(store, RETENTION_MS)).rows).toBe(1)
  },

  'a tick of the last thirty days is kept': async ({ store, clock, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    const ticks = [{ tickMs: START_MS, job: newJob() }]
    await store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: null })
    await clock.advance(30 * DAY_MS - SECOND_MS)

    expect((await pruneAll(store, RETENTION_MS)).rows).toBe(0)
  },

  'a worker that was not seen for ten minutes is removed': async ({ store, clock, expect }) => {
    await store.beat(newBeat())
    await clock.advance(10 * MINUTE_MS + SECOND_MS)

    expect((await pruneAll(store, RETENTION_MS)).rows).toBe(1)
    expect(await store.workers()).toEqual([])
  },

  'a worker that was seen in the last ten minutes is kept': async ({ store, clock, expect }) => {
    await store.beat(newBeat())
    await clock.advance(10 * MINUTE_MS - SECOND_MS)

    await pruneAll(store, RETENTION_MS)

    expect(await store.workers()).toHaveLength(1)
  },

  'queues and schedules are kept for ever': async ({ store, clock, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    await store.pause(QUEUE, OPERATOR)
    await clock.advance(400 * DAY_MS)

    await pruneAll(store, RETENTION_MS)

    expect(await store.schedules()).toHaveLength(1)
    expect(await store.queues()).toHaveLength(1)
  },
}

export const pruneFacts: Facts = { ...jobs, ...rest }

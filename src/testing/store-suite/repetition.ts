// Repetition: every call may be made again after its answer was lost, and the second time changes nothing.
// Claim and note are not here: a second claim gives other jobs, and a second note is a second note.

import { type Facts, factsFor, type Scene } from './context.js'
import {
  cancelled,
  crashed,
  DAY_MS,
  dead,
  keyed,
  LEASE_MS,
  newBeat,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  QUEUE,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimJobs, enqueueJob, everything, jobIn, pruneAll, startJob } from './steps.js'

/** Arranges a scene and returns the call that is made twice. */
type Arrange = (scene: Scene) => Promise<() => Promise<unknown>>

const jobCalls: Readonly<Record<string, Arrange>> = {
  enqueue: async ({ store }) => {
    const parent = newJob()
    const jobs = [
      parent,
      newJob({ when: { delayMs: SECOND_MS } }),
      newJob({ after: [parent.id] }),
      newJob(keyed('welcome')),
      newJob(keyed('welcome', SECOND_MS)),
      newJob({ tags: ['vip'], limits: { maxAttempts: 1 } }),
    ]
    return () => store.enqueue(jobs)
  },

  'enqueue of plain jobs': async ({ store }) => {
    const jobs = newJobs(3)
    return () => store.enqueue(jobs)
  },

  begin: async ({ store }) => {
    const job = await startJob(store)
    return () => store.begin([job])
  },

  extend: async ({ store, clock }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)
    return () => store.extend([job], LEASE_MS)
  },

  settle: async ({ store }) => {
    await store.enqueue(newJobs(6))
    const ways = [succeeded, cancelled, retrying, snoozed, released, dead]
    const settledJobs = (await claimJobs(store)).map((job, index) => ways[index]!(job))
    return () => store.settle(settledJobs)
  },

  'settle of a parent': async ({ store }) => {
    const parent = await startJob(store)
    await enqueueJob(store, { after: [parent.id] })
    return () => store.settle([succeeded(parent)])
  },

  'settle of a cancelled retry': async ({ store }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)
    return () => store.settle([retrying(job)])
  },

  rescue: async ({ store, clock }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS)
    return () => store.settle([crashed(job)], { onlyExpired: true })
  },

  promote: async ({ store, clock }) => {
    await store.enqueue(newJobs(3, { when: { delayMs: SECOND_MS } }))
    await clock.advance(SECOND_MS)
    return () => store.promote(10)
  },

  prune: async ({ store, clock }) => {
    await jobIn(store, 'succeeded')
    await clock.advance(5 * DAY_MS)
    return () => pruneAll(store, DAY_MS)
  },
}

const operatorCalls: Readonly<Record<string, Arrange>> = {
  'cancel of a job that waits': async ({ store }) => {
    const id = await enqueueJob(store)
    return () => store.cancel([id], OPERATOR)
  },

  'cancel of a job that runs': async ({ store }) => {
    const { id } = await startJob(store)
    return () => store.cancel([id], OPERATOR)
  },

  requeue: async ({ store }) => {
    const id = await jobIn(store, 'dead', keyed('welcome', SECOND_MS))
    return () => store.requeue([id], OPERATOR)
  },

  discard: async ({ store }) => {
    const id = await jobIn(store, 'dead')
    return () => store.discard([id], OPERATOR)
  },

  delete: async ({ store }) => {
    const id = await jobIn(store, 'dead')
    return () => store.delete([id], OPERATOR)
  },

  'update of a ready job': async ({ store }) => {
    const id = await enqueueJob(store)
    return () => store.update(id, { priority: 3, payload: '2' }, OPERATOR)
  },

  'update to a time': async ({ store }) => {
    const id = await enqueueJob(store)
    return () => store.update(id, { runAtMs: START_MS + SECOND_MS }, OPERATOR)
  },

  'update to no time': async ({ store }) => {
    const id = await jobIn(store, 'scheduled')
    return () => store.update(id, { runAtMs: null }, OPERATOR)
  },

  pause:
    async ({ store }) =>
    () =>
      store.pause(QUEUE, OPERATOR),

  resume: async ({ store }) => {
    await store.pause(QUEUE, OPERATOR)
    return () => store.resume(QUEUE, OPERATOR)
  },

  setQueue:
    async ({ store }) =>
    () =>
      store.setQueue(QUEUE, { limits: { maxAttempts: 3 } }, OPERATOR),
}

const otherCalls: Readonly<Record<string, Arrange>> = {
  setSchedule:
    async ({ store }) =>
    () =>
      store.setSchedule(newSchedule(), START_MS, OPERATOR),

  removeSchedule: async ({ store }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    return () => store.removeSchedule('nightly', OPERATOR)
  },

  pauseSchedule: async ({ store }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    return () => store.pauseSchedule('nightly', OPERATOR)
  },

  resumeSchedule: async ({ store }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)
    return () => store.resumeSchedule('nightly', START_MS + SECOND_MS, OPERATOR)
  },

  fire: async ({ store }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    const ticks = [{ tickMs: START_MS, job: newJob() }]
    const nextAtMs = START_MS + SECOND_MS
    return () => store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs })
  },

  beat:
    async ({ store }) =>
    () =>
      store.beat(newBeat()),

  leave: async ({ store }) => {
    await store.beat(newBeat())
    return () => store.leave('worker-a')
  },
}

export const repetitionFacts: Facts = factsFor(
  Object.entries({ ...jobCalls, ...operatorCalls, ...otherCalls }),
  ([what]) => `a repeated ${what} changes nothing`,
  async (scene, [, arrange]) => {
    const call = await arrange(scene)
    await call()
    const before = await everything(scene.store)

    await call()

    scene.expect(await everything(scene.store)).toEqual(before)
  },
)

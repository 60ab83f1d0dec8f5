// What operators see of flow control: who waits for a limit, which groups have stopped, who is around a job.

import { NO_LIMIT } from '../../core/flow/settings.js'
import { TRACK_READY_MAX } from '../../core/flow/views.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { enqueueGroup, GROUP, inGroup, setFlow } from './flow-samples.js'
import { dead, newJob, OPERATOR, QUEUE } from './samples.js'
import { claimJob, claimJobs, enqueueJob, jobIn, startJob } from './steps.js'

async function naming(store: Store, queue: string, limits: readonly string[], count = 1): Promise<void> {
  for (const limit of limits) await store.setLimit(limit, NO_LIMIT, OPERATOR)
  await store.enqueue(Array.from({ length: count }, () => newJob({ queue, flow: { group: null, limits, cost: 1 } })))
}

const tracks: Facts = {
  'the tracks of a limit are the queues whose jobs name it, with how many are ready': async ({ store, expect }) => {
    await naming(store, 'b', ['x', 'y'], 2)
    await naming(store, 'a', ['x'])
    await naming(store, 'a', ['z'])
    await enqueueGroup(store, 1)

    expect(await store.tracks({ queues: null, limit: 'x' })).toEqual([
      { queue: 'a', limits: ['x'], ready: 1 },
      { queue: 'b', limits: ['x', 'y'], ready: 2 },
    ])
    expect(await store.tracks({ queues: null, limit: 'nobody' })).toEqual([])
  },

  'the tracks of some queues are those alone, and only those that name a limit': async ({ store, expect }) => {
    await naming(store, 'a', ['x'])
    await naming(store, 'b', ['x'])
    await enqueueGroup(store, 1)

    expect(await store.tracks({ queues: ['b', QUEUE], limit: null })).toEqual([{ queue: 'b', limits: ['x'], ready: 1 }])
    expect(await store.tracks({ queues: [], limit: null })).toEqual([])
  },

  'a track stays when its jobs have started, with nobody ready': async ({ store, expect }) => {
    await naming(store, QUEUE, ['x'])

    await claimJobs(store)

    expect(await store.tracks({ queues: null, limit: 'x' })).toEqual([{ queue: QUEUE, limits: ['x'], ready: 0 }])
  },

  'ready jobs of a track are counted up to a bound': async ({ store, expect }) => {
    await naming(store, QUEUE, ['x'], TRACK_READY_MAX + 1)

    expect(await store.tracks({ queues: null, limit: 'x' })).toMatchObject([{ ready: TRACK_READY_MAX }])
  },
}

const stopped: Facts = {
  'a group that a death has stopped is shown until it is resumed': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true, onDead: 'stop' } })
    const job = await startJob(store, inGroup())
    expect(await store.stoppedGroups(10)).toEqual([])

    await store.settle([dead(job)])

    expect(await store.stoppedGroups(10)).toEqual([{ queue: QUEUE, group: GROUP, stoppedBy: job.id }])
    await store.resumeGroup(QUEUE, GROUP, OPERATOR)
    expect(await store.stoppedGroups(10)).toEqual([])
  },

  'a group that somebody paused has not stopped': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true, onDead: 'stop' } })

    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect(await store.stoppedGroups(10)).toEqual([])
  },

  'no more stopped groups are shown than asked for': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true, onDead: 'stop' } })
    for (const group of ['b', 'a', 'c']) await store.settle([dead(await startJob(store, inGroup(group)))])

    expect((await store.stoppedGroups(2)).map(({ group }) => group)).toEqual(['a', 'b'])
  },
}

const ids = (jobs: readonly { readonly id: string }[]) => jobs.map(({ id }) => id)

const neighbours: Facts = {
  'the neighbours of a job are those that run, and the nearest before and after it': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const [first, ...rest] = await enqueueGroup(store, 7)
    await enqueueGroup(store, 3, 'another')
    await claimJob(store)

    const around = await store.neighbours({ id: rest[3]!, queue: QUEUE, group: GROUP, limit: 2 })

    expect(ids(around.running)).toEqual([first])
    expect(ids(around.before)).toEqual([rest[2], rest[1]])
    expect(ids(around.after)).toEqual([rest[4], rest[5]])
    expect(around.after[0]!.type).toBe(newJob().type)
  },

  'jobs of a higher priority are before, those of a lower one after': async ({ store, expect }) => {
    const add = (priority: number) => enqueueJob(store, { ...inGroup(), priority })
    const low = await add(-5)
    const [one, two, three] = [await add(0), await add(0), await add(0)]
    const high = await add(9)

    const around = await store.neighbours({ id: two, queue: QUEUE, group: GROUP, limit: 10 })

    expect([ids(around.before), ids(around.after)]).toEqual([
      [one, high],
      [three, low],
    ])
  },

  'the neighbours in an ordered group are over all its tracks, by their enqueues': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    await store.setLimit('x', NO_LIMIT, OPERATOR)
    const one = await enqueueJob(store, { ...inGroup(), priority: -3 })
    const two = await enqueueJob(store, inGroup(GROUP, { limits: ['x'] }))
    const three = await enqueueJob(store, { ...inGroup(), priority: 3 })

    const around = await store.neighbours({ id: two, queue: QUEUE, group: GROUP, limit: 10 })

    expect([ids(around.before), ids(around.after)]).toEqual([[one], [three]])
  },

  'a job that is not ready has nobody before or after it': async ({ store, expect }) => {
    const id = await jobIn(store, 'retrying', inGroup())
    await enqueueGroup(store, 2)

    expect(await store.neighbours({ id, queue: QUEUE, group: GROUP, limit: 5 })).toEqual({
      running: [],
      before: [],
      after: [],
    })
  },
}

export const flowLookFacts: Facts = { ...tracks, ...stopped, ...neighbours }

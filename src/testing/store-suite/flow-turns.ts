// Fair turns between the groups of a queue.

import type { ClaimedJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { claimFlow, groupJobs, inGroup, limitedBy, perGroup, setFlow, setGroup, setLimit } from './flow-samples.js'
import { newJobs, succeeded } from './samples.js'
import { claimJobs, enqueueJob } from './steps.js'

/** Claims and settles until N jobs have started. */
async function runJobs(store: Store, count: number, limit: number): Promise<ClaimedJob[]> {
  const started: ClaimedJob[] = []
  while (started.length < count) {
    const jobs = await claimJobs(store, { limit: Math.min(limit, count - started.length) })
    if (jobs.length === 0) break
    started.push(...jobs)
    await store.settle(jobs.map((job) => succeeded(job)))
  }
  return started
}

/** The most and the fewest starts of a group. */
function spread(jobs: readonly ClaimedJob[]): { most: number; fewest: number } {
  const counts = Object.values(perGroup(jobs))
  return { most: Math.max(...counts), fewest: Math.min(...counts) }
}

export const flowTurnFacts: Facts = {
  'a group with few jobs does not wait behind one with many': async ({ store, expect }) => {
    await store.enqueue(groupJobs(500, 'flood'))
    const id = await enqueueJob(store, inGroup('single'))

    const started = await runJobs(store, 16, 8)

    expect(started.map((job) => job.id)).toContain(id)
  },

  'tenants behind a flood are done soon after their own number of starts': async ({ store, expect }) => {
    await store.enqueue(groupJobs(1_000, 'flood'))
    await store.enqueue(Array.from({ length: 20 }, (_, index) => groupJobs(10, `g${index}`)).flat())

    const started = await runJobs(store, 230, 10)

    const { flood, ...tenants } = perGroup(started)
    expect(Object.values(tenants).reduce((sum, count) => sum + count, 0)).toBe(200)
    expect(flood! <= 30).toBe(true)
  },

  'a claim ahead takes at most one turn of each group': async ({ store, expect }) => {
    await store.enqueue([...groupJobs(50, 'flood'), ...groupJobs(3, 'a'), ...groupJobs(3, 'b')])

    const { jobs, state } = await claimFlow(store, { limit: 20, ahead: 19 })

    expect(perGroup(jobs)).toEqual({ flood: 1, a: 1, b: 1 })
    expect(state.more).toBe(true)
  },

  'what is claimed ahead makes no turn longer': async ({ store, expect }) => {
    await store.enqueue([...groupJobs(50, 'flood'), ...groupJobs(50, 'other')])

    const { jobs } = await claimFlow(store, { limit: 30, ahead: 24 })

    expect(perGroup(jobs)).toEqual({ flood: 3, other: 3 })
  },

  'a claim ahead goes on until what is not ahead was taken': async ({ store, expect }) => {
    await store.enqueue([...groupJobs(50, 'flood'), ...groupJobs(1, 'a'), ...groupJobs(1, 'b')])

    const { jobs, state } = await claimFlow(store, { limit: 40, ahead: 30 })

    // Turns of four, and then the rest of ten by the flood.
    expect(perGroup(jobs)).toEqual({ flood: 8, a: 1, b: 1 })
    expect(state.more).toBe(true)
  },

  'groups of one job at a time are claimed ahead, as many as there are': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(Array.from({ length: 12 }, (_, index) => groupJobs(2, `g${index}`)).flat())

    const first = await claimFlow(store, { limit: 10, ahead: 10 })
    const second = await claimFlow(store, { limit: 10, ahead: 10 })

    expect([first.jobs.length, second.jobs.length]).toEqual([10, 2])
    expect([first.state.more, second.state.more]).toEqual([true, false])
  },

  'plain jobs of a limited queue are claimed ahead as any others': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 30 })
    await store.enqueue(newJobs(40))

    expect((await claimFlow(store, { limit: 20, ahead: 19 })).jobs).toHaveLength(20)
    expect((await claimFlow(store, { limit: 20, ahead: 19 })).jobs).toHaveLength(10)
  },

  'groups with as many jobs start as many': async ({ store, expect }) => {
    await store.enqueue(['a', 'b', 'c', 'd'].flatMap((group) => groupJobs(100, group)))

    const { most, fewest } = spread(await runJobs(store, 100, 7))

    expect(most - fewest <= 4).toBe(true)
  },

  'a group that comes late gets its turns beside those that fill every claim': async ({ store, expect }) => {
    await store.enqueue(['a', 'b', 'c'].flatMap((group) => groupJobs(200, group)))
    await runJobs(store, 30, 2)
    await store.enqueue(groupJobs(100, 'late'))

    const { late } = perGroup(await runJobs(store, 80, 2))

    expect(late! >= 15).toBe(true)
  },

  'groups take turns also when each claim asks for one job': async ({ store, expect }) => {
    await store.enqueue(['a', 'b', 'c', 'd'].flatMap((group) => groupJobs(50, group)))

    const { most, fewest } = spread(await runJobs(store, 40, 1))

    expect(most - fewest <= 4).toBe(true)
  },

  'a group of weight 3 starts three times as many': async ({ store, expect }) => {
    await setGroup(store, 'heavy', { weight: 3 })
    await store.enqueue(['heavy', 'a', 'b', 'c'].flatMap((group) => groupJobs(400, group)))

    const { heavy } = perGroup(await runJobs(store, 240, 10))

    expect(heavy! >= 108 && heavy! <= 132).toBe(true)
  },

  'weights hold when a claim ends within a turn': async ({ store, expect }) => {
    await setGroup(store, 'heavy', { weight: 3 })
    await store.enqueue(['heavy', 'a', 'b', 'c'].flatMap((group) => groupJobs(400, group)))

    const { heavy } = perGroup(await runJobs(store, 240, 1))

    expect(heavy! >= 108 && heavy! <= 132).toBe(true)
  },

  'weights hold between groups with a bound': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await setGroup(store, 'heavy', { weight: 3, concurrency: 3 })
    await store.enqueue(['heavy', 'a', 'b', 'c'].flatMap((group) => groupJobs(400, group)))

    const { heavy } = perGroup(await runJobs(store, 240, 6))

    expect(heavy! >= 108 && heavy! <= 132).toBe(true)
  },

  'what a group leaves of its share goes to the others': async ({ store, expect }) => {
    await store.enqueue([...groupJobs(1, 'a'), ...groupJobs(50, 'b')])

    expect(perGroup(await claimJobs(store, { limit: 20 }))).toEqual({ a: 1, b: 19 })
  },

  'a claim gets all it asked for while there is enough': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 4 } })
    await store.enqueue(Array.from({ length: 30 }, (_, index) => groupJobs(5, `g${index}`)).flat())

    expect(await claimJobs(store, { limit: 100 })).toHaveLength(100)
  },

  'a group without a bound that gave all it was asked for is not forgotten': async ({ store, expect }) => {
    await store.enqueue(groupJobs(30))

    const counts: number[] = []
    for (let round = 0; round < 4; round++) counts.push((await claimJobs(store, { limit: 10 })).length)

    expect(counts).toEqual([10, 10, 10, 0])
  },

  'priority does not let one group overtake another': async ({ store, expect }) => {
    await store.enqueue(groupJobs(50, 'loud', { priority: 9 }))
    await store.enqueue(groupJobs(50, 'quiet'))

    const { most, fewest } = spread(await claimJobs(store, { limit: 20 }))

    expect(most - fewest <= 4).toBe(true)
  },

  'plain jobs and groups of a queue are served side by side': async ({ store, expect }) => {
    await store.enqueue(newJobs(100))
    await store.enqueue(groupJobs(100))

    const counts = perGroup(await runJobs(store, 40, 4))

    expect(counts['']! >= 15 && counts.acme! >= 15).toBe(true)
  },

  'sets of limits of a queue are served side by side': async ({ store, expect }) => {
    for (const name of ['a', 'b']) await setLimit(store, {}, name)
    await store.enqueue(newJobs(100, limitedBy('a')))
    await store.enqueue(newJobs(100, limitedBy('b')))

    const started = await runJobs(store, 40, 1)

    const ofA = started.filter(({ flow }) => flow!.limits[0] === 'a').length
    expect(ofA >= 15 && ofA <= 25).toBe(true)
  },

  'what one set of limits cannot use goes to the others': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 2 }, 'a')
    await setLimit(store, {}, 'b')
    await store.enqueue(newJobs(20, limitedBy('a')))
    await store.enqueue(newJobs(20, limitedBy('b')))

    const { jobs } = await claimFlow(store, { limit: 10 })

    expect(jobs.filter(({ flow }) => flow!.limits[0] === 'a')).toHaveLength(2)
    expect(jobs).toHaveLength(10)
  },

  'what one set of limits has no jobs for goes to the others': async ({ store, expect }) => {
    for (const name of ['a', 'b']) await setLimit(store, {}, name)
    await store.enqueue(newJobs(40, limitedBy('a')))

    for (let round = 0; round < 2; round++) {
      await enqueueJob(store, limitedBy('b'))
      expect(await claimJobs(store, { limit: 10 })).toHaveLength(10)
    }
  },
}

// Rates: token buckets of queues, groups and limits.

import type { Store } from '../../core/store.js'
import type { ManualClock } from '../manual-clock.js'
import type { Facts } from './context.js'
import {
  claimFlow,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perGroup,
  perSecond,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { DAY_MS, newJobs, released, retrying, SECOND_MS, START_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, pruneAll } from './steps.js'

/** How many jobs start in each of N steps of the clock, each claim taking all it gets. */
async function starts(store: Store, clock: ManualClock, steps: number, stepMs: number): Promise<number[]> {
  const counts: number[] = []
  for (let step = 0; step < steps; step++) {
    if (step > 0) await clock.advance(stepMs)
    counts.push((await claimIds(store)).length)
  }
  return counts
}

const buckets: Facts = {
  'a rate starts its burst, then its number in each period': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(10, 3) })
    await store.enqueue(newJobs(50))

    expect(await starts(store, clock, 5, 100)).toEqual([3, 1, 1, 1, 1])
  },

  'nothing starts between two tokens': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(10, 1) })
    await store.enqueue(newJobs(50))

    expect(await starts(store, clock, 11, 10)).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
  },

  'an unused rate saves up no more than its burst': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(10, 4) })
    await store.enqueue(newJobs(50))
    await claimJobs(store)

    await clock.advance(60 * SECOND_MS)

    expect(await claimIds(store)).toHaveLength(4)
  },

  'no window of time has more starts than burst and rate allow': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(7, 5) })
    await store.enqueue(newJobs(200))

    const counts = await starts(store, clock, 60, 50)

    for (let from = 0; from < counts.length; from++) {
      for (let to = from; to < counts.length; to++) {
        const started = counts.slice(from, to + 1).reduce((sum, count) => sum + count, 0)
        expect(started <= 5 + (7 * (to - from) * 50) / 1_000 + 1e-6).toBe(true)
      }
    }
  },

  'a rate is used up while there are jobs': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(7, 5) })
    await store.enqueue(newJobs(200))

    const counts = await starts(store, clock, 61, 50)

    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(5 + 21)
  },

  'a rate below one in a second waits for its next': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: { limit: 2, perMs: 60_000, burst: 1, counts: 'starts' } })
    await store.enqueue(newJobs(5))

    expect(await starts(store, clock, 3, 30_000)).toEqual([1, 1, 1])
    expect(await starts(store, clock, 1, 0)).toEqual([0])
  },

  'every start takes a token, a retry too': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(1))
    await store.settle([retrying(await claimJob(store), 100)])
    await clock.advance(100)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([])
    await clock.advance(900)
    expect(await claimIds(store)).toHaveLength(1)
  },

  'a token is not given back with a released job': async ({ store, expect }) => {
    await setFlow(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(1))

    await store.settle([released(await claimJob(store))])

    expect(await claimIds(store)).toEqual([])
  },

  'a settlement gives no token back': async ({ store, expect }) => {
    await setFlow(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(5))

    await store.settle((await claimJobs(store)).map((job) => succeeded(job)))

    expect(await claimIds(store)).toEqual([])
  },

  'another process keeps to a rate': async ({ store, openPeer, expect }) => {
    await setFlow(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(5))
    const peer = await openPeer()

    await claimJobs(store)

    expect(await claimIds(peer)).toEqual([])
  },

  'claims made concurrently share the tokens of a rate': async ({ store, openPeer, expect }) => {
    await setLimit(store, { rate: perSecond(10, 4) })
    for (const queue of ['email', 'push']) await store.enqueue(newJobs(10, { ...limitedBy(LIMIT), queue }))
    const peers = [store, await openPeer(), await openPeer()]

    const claims = await Promise.all(
      peers.flatMap((each) => ['email', 'push'].map((queue) => claimIds(each, { queue, limit: 3 }))),
    )

    expect(claims.flat()).toHaveLength(4)
  },

  'tokens are shown': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(10, 5) })
    await store.enqueue(newJobs(10, limitedBy(LIMIT)))
    expect(await store.limits()).toMatchObject([{ tokens: 5 }])

    await claimJobs(store, { limit: 4 })
    expect(await store.limits()).toMatchObject([{ tokens: 1 }])
    await clock.advance(250)
    expect(await store.limits()).toMatchObject([{ tokens: 3 }])
  },
}

const places: Facts = {
  'queues share the rate of a limit': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 3) })
    for (const queue of ['email', 'push']) await store.enqueue(newJobs(5, { ...limitedBy(LIMIT), queue }))

    expect(await claimIds(store, { queue: 'email', limit: 2 })).toHaveLength(2)
    expect(await claimIds(store, { queue: 'push' })).toHaveLength(1)
  },

  'a limit without tokens leaves jobs that do not name it': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))
    await claimJobs(store)

    await store.enqueue(newJobs(2))

    expect(await claimIds(store)).toHaveLength(2)
  },

  'each group has a rate of its own': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(10, 2) } })
    await store.enqueue([...groupJobs(10, 'a'), ...groupJobs(10, 'b')])

    expect(perGroup(await claimJobs(store))).toEqual({ a: 2, b: 2 })
    await clock.advance(100)
    expect(perGroup(await claimJobs(store))).toEqual({ a: 1, b: 1 })
  },

  'a group goes by its own rate before that of its queue': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(10, 1) } })
    await setGroup(store, 'big', { rate: perSecond(100, 5) })
    await store.enqueue([...groupJobs(10, 'big'), ...groupJobs(10, 'small')])

    expect(perGroup(await claimJobs(store))).toEqual({ big: 5, small: 1 })
  },

  'a group without tokens leaves the others': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(1, 1) } })
    await store.enqueue(groupJobs(3, 'a'))
    await claimJobs(store)

    await store.enqueue(groupJobs(3, 'b'))

    expect(perGroup(await claimJobs(store))).toEqual({ b: 1 })
  },

  'a group that ran dry comes back by itself': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(1, 1) } })
    await store.enqueue(groupJobs(3))
    await claimJobs(store)
    expect(await claimIds(store)).toEqual([])

    await clock.advance(SECOND_MS)

    expect(await claimIds(store)).toHaveLength(1)
  },

  'jobs without a group have no rate of a group': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(1, 1) } })
    await store.enqueue(newJobs(5))

    expect(await claimIds(store)).toHaveLength(5)
  },

  'a job takes a token of each of its rates': async ({ store, expect }) => {
    for (const name of ['a', 'b']) await setLimit(store, { rate: perSecond(1, 2) }, name)
    await store.enqueue(newJobs(1, limitedBy('a', 'b')))
    await claimJobs(store)

    expect((await store.limits()).map(({ tokens }) => tokens)).toEqual([1, 1])
  },

  'a job that a limit keeps from starting takes no token elsewhere': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 }, 'narrow')
    await setLimit(store, { rate: perSecond(1, 5) }, 'rated')
    await store.enqueue(newJobs(4, limitedBy('narrow', 'rated')))
    await claimJobs(store)
    await claimJobs(store)

    expect(await store.limits()).toMatchObject([{ name: 'narrow' }, { name: 'rated', tokens: 4 }])
  },

  'an ordered group may have a rate': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { ordered: true, rate: perSecond(1, 1) } })
    const ids = await enqueueEach(store, [inGroup(), inGroup()])
    await store.settle([succeeded(await claimJob(store))])

    expect(await claimIds(store)).toEqual([])
    await clock.advance(SECOND_MS)
    expect(await claimIds(store)).toEqual([ids[1]])
  },

  'concurrency and rate of a limit hold together': async ({ store, clock, expect }) => {
    await setLimit(store, { concurrency: 2, rate: perSecond(10, 1) })
    await store.enqueue(newJobs(9, limitedBy(LIMIT)))

    expect(await starts(store, clock, 4, 100)).toEqual([1, 1, 0, 0])
  },
}

const changes: Facts = {
  'a raised rate holds from the next claim on': async ({ store, clock, expect }) => {
    await setFlow(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(20))
    await claimJobs(store)

    await setFlow(store, { rate: perSecond(10, 1) })
    await clock.advance(100)

    expect(await claimIds(store)).toHaveLength(1)
  },

  'setting a rate again does not fill its bucket': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))
    await claimJobs(store)

    await setLimit(store, { rate: perSecond(1, 2) })

    expect(await claimIds(store)).toEqual([])
  },

  'a rate that is taken away lets everything go': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(1, 1) } })
    await store.enqueue(groupJobs(4))
    await claimJobs(store)

    await setFlow(store, {})

    expect(await claimIds(store)).toHaveLength(3)
  },

  'pruning does not fill a bucket': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: { limit: 1, perMs: 60_000, burst: 1, counts: 'starts' } } })
    await store.enqueue(groupJobs(3))
    await claimJobs(store)

    await pruneAll(store, 7 * 86_400_000)

    expect(await claimIds(store)).toEqual([])
  },

  'a claim that takes one keeps the tokens of the others': async ({ store, expect }) => {
    await setFlow(store, { rate: perSecond(1, 3) })
    await store.enqueue(newJobs(9))

    const taken = [await claimIds(store, { limit: 1 }), await claimIds(store, { limit: 1 }), await claimIds(store)]

    expect(taken.map(({ length }) => length)).toEqual([1, 1, 1])
    expect((await claimFlow(store)).ids).toEqual([])
    expect((await store.groups({ queue: 'email', prefix: GROUP, after: null, limit: 10 })).groups).toEqual([])
  },
}

/** Starts jobs while the clock is days ahead, and sets it back. */
async function startAhead(store: Store, clock: ManualClock, limit: number): Promise<number> {
  clock.set(START_MS + 3 * DAY_MS)
  const { length } = await claimJobs(store, { limit })
  clock.set(START_MS)
  return length
}

const clocks: Facts = {
  'a limit that was drawn from by a clock days ahead begins anew when the clock is right': async (scene) => {
    const { store, clock, expect } = scene
    await setLimit(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(9, limitedBy(LIMIT)))
    expect(await startAhead(store, clock, 9)).toBe(2)

    expect(await claimIds(store)).toHaveLength(2)
    expect((await claimFlow(store)).state).toMatchObject({ more: false, waitMs: SECOND_MS })
  },

  "a queue's rate that was drawn from by a clock days ahead begins anew when the clock is right": async (scene) => {
    const { store, clock, expect } = scene
    await setFlow(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(9))
    expect(await startAhead(store, clock, 9)).toBe(2)

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a group that waits for a time of a clock days ahead goes on when the clock is right': async (scene) => {
    const { store, clock, expect } = scene
    await setFlow(store, { groups: { rate: perSecond(1, 2) } })
    await store.enqueue(groupJobs(9))
    expect(await startAhead(store, clock, 9)).toBe(2)
    await store.promote(100)

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a bucket that owes less than a day keeps what it owes when the clock goes back': async ({
    store,
    clock,
    expect,
  }) => {
    await setLimit(store, { rate: perSecond(1, 1) })
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))
    await claimJobs(store)

    clock.set(START_MS - 60 * SECOND_MS)

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { waitMs: 61 * SECOND_MS } })
  },

  'no cost keeps a bucket empty for longer than a day': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(1, 1, 'cost') })
    await store.enqueue(newJobs(2, limitedBy(LIMIT)))
    const [job] = await claimJobs(store)
    await store.settle([succeeded(job!, { spent: 1_000_000_000 })])

    await clock.advance(DAY_MS)
    expect(await claimIds(store)).toEqual([])
    await clock.advance(2 * SECOND_MS)

    expect(await claimIds(store)).toHaveLength(1)
  },
}

export const flowRateFacts: Facts = { ...buckets, ...places, ...changes, ...clocks }

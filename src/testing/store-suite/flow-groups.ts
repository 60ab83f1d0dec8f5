// Groups: how many of their jobs run concurrently, settings of their own, pause.

import type { Facts } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  limitedBy,
  perGroup,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { OPERATOR, QUEUE, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob, startJob, statesOf, viewOf } from './steps.js'

const concurrency: Facts = {
  'a group runs no more jobs than its queue lets each group': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 2 } })
    const ids = await enqueueGroup(store, 5)

    expect(await claimIds(store)).toEqual(ids.slice(0, 2))
    expect(await claimIds(store)).toEqual([])
  },

  'the bound of groups counts for each group by itself': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    for (const group of ['a', 'b', 'c']) await enqueueGroup(store, 2, group)

    expect(perGroup(await claimJobs(store))).toEqual({ a: 1, b: 1, c: 1 })
  },

  'a job that waits for its group is ready': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const ids = await enqueueGroup(store, 2)

    await claimJobs(store)

    expect(await statesOf(store, ids)).toEqual(['running', 'ready'])
  },

  'a settlement makes room for the next job of the group': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const [, second] = await enqueueGroup(store, 2)

    await store.settle([succeeded(await claimJob(store))])

    expect(await claimIds(store)).toEqual([second])
  },

  'another process keeps to the bound of a group': async ({ store, openPeer, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 2)
    const peer = await openPeer()

    await claimJobs(store)

    expect(await claimIds(peer)).toEqual([])
  },

  'claims made concurrently keep to the bound of a group': async ({ store, openPeer, expect }) => {
    await setFlow(store, { groups: { concurrency: 3 } })
    await store.enqueue(groupJobs(20))
    const peers = [store, await openPeer(), await openPeer()]

    const claims = await Promise.all([...peers, ...peers].map((each) => claimIds(each, { limit: 4 })))

    expect(claims.flat()).toHaveLength(3)
  },

  'groups without a bound run everything': async ({ store, expect }) => {
    await store.enqueue(groupJobs(30))

    expect(await claimIds(store)).toHaveLength(30)
  },

  'groups of one name in two queues are two groups': async ({ store, expect }) => {
    for (const queue of ['email', 'push']) {
      await setFlow(store, { groups: { concurrency: 1 } }, queue)
      await store.enqueue(groupJobs(2, GROUP, { queue }))
    }

    expect(await claimIds(store, { queue: 'email' })).toHaveLength(1)
    expect(await claimIds(store, { queue: 'push' })).toHaveLength(1)
  },

  'a group counts over all sets of limits its jobs have': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueEach(store, [inGroup(GROUP), inGroup(GROUP, { limits: ['stripe'] })])

    expect(await claimIds(store)).toHaveLength(1)
    expect(await claimIds(store)).toEqual([])
  },

  'jobs without a group have no bound of a group': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, { groups: { concurrency: 1 } })
    const ids = await enqueueEach(store, [{}, {}, limitedBy('stripe'), limitedBy('stripe')])

    expect((await claimIds(store)).sort()).toEqual([...ids].sort())
  },

  'priority counts inside a group': async ({ store, expect }) => {
    const [low, high] = await enqueueEach(store, [
      { ...inGroup(), priority: 1 },
      { ...inGroup(), priority: 5 },
    ])

    expect(await claimIds(store)).toEqual([high, low])
  },

  'a claimed job carries its group and limits': async ({ store, expect }) => {
    await setLimit(store)
    const flow = { group: GROUP, limits: ['stripe'], cost: 3 }

    const job = await startJob(store, { flow })

    expect(job.flow).toEqual(flow)
    expect((await viewOf(store, job.id)).flow).toEqual(flow)
  },

  'a plain job carries no group and no limits': async ({ store, expect }) => {
    const job = await startJob(store)

    expect('flow' in job).toBe(false)
    expect('flow' in (await viewOf(store, job.id))).toBe(false)
  },

  'a type the worker does not know is passed over inside a group': async ({ store, expect }) => {
    const types = ['other', 'other', 'other', 'send_email']
    const ids = await enqueueEach(
      store,
      types.map((type) => ({ ...inGroup(), type })),
    )

    expect(await claimIds(store, { types: ['send_email'] })).toEqual([ids[3]])
  },

  'a group whose first job nobody here knows keeps its turn for others': async ({ store, expect }) => {
    const unknown = await enqueueJob(store, { ...inGroup('a'), type: 'other' })
    const known = await enqueueJob(store, inGroup('b'))

    expect(await claimIds(store, { types: ['send_email'] })).toEqual([known])
    expect(await claimIds(store, { types: ['other'] })).toEqual([unknown])
  },

  'a claim never gives a blocked group more than it may, however often it is made': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue([...groupJobs(50, 'a'), ...groupJobs(1, 'b')])

    for (let round = 0; round < 5; round++) await claimJobs(store, { limit: 3 })

    expect(await store.stats(QUEUE)).toMatchObject({ running: 2, ready: 49 })
  },

  'one job behind many of blocked groups is claimed': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(Array.from({ length: 20 }, (_, index) => groupJobs(20, `g${index}`)).flat())
    await claimJobs(store)

    const id = await enqueueJob(store, inGroup('last'))

    expect(await claimIds(store, { limit: 1 })).toEqual([id])
  },

  'a thousand groups of one job each are all served': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(Array.from({ length: 1_000 }, (_, index) => groupJobs(1, `g${index}`)).flat())

    const claimed = new Set<string>()
    for (let round = 0; round < 20; round++) {
      for (const { flow } of await claimJobs(store, { limit: 100 })) claimed.add(flow!.group!)
    }

    expect(claimed.size).toBe(1_000)
  },
}

const overrides: Facts = {
  'a group with settings of its own goes by them': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await setGroup(store, 'big', { concurrency: 3 })
    await store.enqueue([...groupJobs(5, 'big'), ...groupJobs(5, 'small')])

    expect(perGroup(await claimJobs(store))).toEqual({ big: 3, small: 1 })
  },

  'a group may have a bound where its queue has none': async ({ store, expect }) => {
    await setGroup(store, 'a', { concurrency: 1 })
    await store.enqueue([...groupJobs(3, 'a'), ...groupJobs(3, 'b')])

    expect(perGroup(await claimJobs(store))).toEqual({ a: 1, b: 3 })
  },

  'a group without settings of its own again goes by the queue': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await setGroup(store, GROUP, { concurrency: 3 })

    await setGroup(store, GROUP, null)
    await store.enqueue(groupJobs(5))

    expect(await claimIds(store)).toHaveLength(1)
  },

  'a raised bound of a group lets waiting jobs go': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(groupJobs(5))
    await claimJobs(store)

    await setGroup(store, GROUP, { concurrency: 3 })

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a lowered bound of a group lets running jobs end': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 3 } })
    await store.enqueue(groupJobs(6))
    const [first, second, third] = await claimJobs(store)

    await setGroup(store, GROUP, { concurrency: 1 })

    await store.settle([succeeded(first!), succeeded(second!)])
    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(third!)])
    expect(await claimIds(store)).toHaveLength(1)
  },

  'settings of a group are for its queue alone': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } }, 'push')
    await setGroup(store, GROUP, { concurrency: 3 })
    await store.enqueue(groupJobs(5, GROUP, { queue: 'push' }))

    expect(await claimIds(store, { queue: 'push' })).toHaveLength(1)
  },
}

const pauses: Facts = {
  'a paused group gives no job': async ({ store, expect }) => {
    await enqueueGroup(store, 2, 'a')
    const other = await enqueueJob(store, inGroup('b'))

    await store.pauseGroup(QUEUE, 'a', OPERATOR)

    expect(await claimIds(store)).toEqual([other])
  },

  'a group can be paused before it has jobs': async ({ store, expect }) => {
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    await enqueueGroup(store, 1)

    expect(await claimIds(store)).toEqual([])
  },

  'a resumed group gives its jobs again': async ({ store, expect }) => {
    const ids = await enqueueGroup(store, 2)
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)
    await claimJobs(store)

    await store.resumeGroup(QUEUE, GROUP, OPERATOR)

    expect(await claimIds(store)).toEqual(ids)
  },

  'pausing a group lets its running jobs end': async ({ store, expect }) => {
    const job = await startJob(store, inGroup())

    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect(await store.settle([succeeded(job)])).toMatchObject([{ result: 'settled', state: 'succeeded' }])
  },

  'a paused queue gives no job of its groups': async ({ store, expect }) => {
    await enqueueGroup(store, 2)

    await store.pause(QUEUE, OPERATOR)

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { more: false, waitMs: null } })
  },

  'pausing a group keeps its settings': async ({ store, expect }) => {
    await setGroup(store, GROUP, { weight: 3 })

    await store.pauseGroup(QUEUE, GROUP, OPERATOR)
    await store.resumeGroup(QUEUE, GROUP, OPERATOR)

    const { groups } = await store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups).toMatchObject([{ group: GROUP, paused: false, override: { weight: 3 } }])
  },
}

export const flowGroupFacts: Facts = { ...concurrency, ...overrides, ...pauses }

// What a handler says when it settles: that others wait as well, and what the attempt really cost.

import type { HoldOff } from '../../core/flow/views.js'
import type { Facts } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perSecond,
  setFlow,
  setLimit,
} from './flow-samples.js'
import { MINUTE_MS, newJob, newJobs, QUEUE, released, SECOND_MS, START_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob, startJob, viewOf } from './steps.js'

const LIMIT_FOR_5S: HoldOff = { scope: 'limit', limit: LIMIT, afterMs: 5_000 }

const holds: Facts = {
  'a limit that is told to wait lets nothing start until then': async ({ store, clock, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await enqueueJob(store, { ...limitedBy(LIMIT), queue: 'push' })

    await store.settle([released(job, { holdOff: LIMIT_FOR_5S })])

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { more: false, waitMs: 5_000 } })
    expect(await claimFlow(store, { queue: 'push' })).toMatchObject({ ids: [], state: { waitMs: 5_000 } })
    await clock.advance(5 * SECOND_MS)
    expect(await claimIds(store)).toEqual([job.id])
    expect(await claimIds(store, { queue: 'push' })).toHaveLength(1)
  },

  'a job that was told to wait has its attempt back and comes first': async ({ store, clock, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await enqueueJob(store, limitedBy(LIMIT))
    await store.settle([released(job, { holdOff: LIMIT_FOR_5S })])
    expect(await viewOf(store, job.id)).toMatchObject({ state: 'ready', attempt: 0 })

    await clock.advance(5 * SECOND_MS)

    expect((await claimIds(store))[0]).toBe(job.id)
  },

  'a limit that is told to wait leaves jobs that do not name it': async ({ store, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await store.settle([released(job, { holdOff: LIMIT_FOR_5S })])

    const id = await enqueueJob(store)

    expect(await claimIds(store)).toEqual([id])
  },

  'a group that is told to wait waits alone': async ({ store, clock, expect }) => {
    const job = await startJob(store, inGroup('a'))
    await enqueueGroup(store, 1, 'a')
    const other = await enqueueJob(store, inGroup('b'))

    await store.settle([released(job, { holdOff: { scope: 'group', afterMs: 3_000 } })])

    expect(await claimFlow(store)).toMatchObject({ ids: [other], state: { more: false, waitMs: 3_000 } })
    await clock.advance(3 * SECOND_MS)
    expect(await claimIds(store)).toHaveLength(2)
  },

  'a queue that is told to wait lets nothing start until then': async ({ store, clock, expect }) => {
    await setFlow(store, { concurrency: 5 })
    const job = await startJob(store)
    await store.enqueue([newJob(), newJob(inGroup())])

    await store.settle([released(job, { holdOff: { scope: 'queue', afterMs: 2_000 } })])

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { more: false, waitMs: 2_000 } })
    await clock.advance(2 * SECOND_MS)
    expect(await claimIds(store)).toHaveLength(3)
  },

  'a queue without flow control can be told to wait': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await enqueueJob(store)

    await store.settle([released(job, { holdOff: { scope: 'queue', afterMs: 2_000 } })])

    expect(await claimIds(store)).toEqual([])
    await clock.advance(2 * SECOND_MS)
    expect(await claimIds(store)).toHaveLength(2)
  },

  'the longest of several waits counts': async ({ store, expect }) => {
    await setLimit(store)
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))
    const [first, second, third] = await claimJobs(store)

    await store.settle([released(first!, { holdOff: LIMIT_FOR_5S })])
    await store.settle([released(second!, { holdOff: { ...LIMIT_FOR_5S, afterMs: 1_000 } })])
    await store.settle([succeeded(third!)])

    expect((await claimFlow(store)).state.waitMs).toBe(5_000)
  },

  'a settlement that is lost holds nothing off': async ({ store, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await store.settle([succeeded(job)])

    await store.settle([released({ ...job, fence: job.fence - 1 }, { holdOff: LIMIT_FOR_5S })])

    expect(await store.limits()).toMatchObject([{ until: null }])
  },

  'a wait is shown': async ({ store, expect }) => {
    await setLimit(store)
    const [limited, grouped] = [await startJob(store, limitedBy(LIMIT)), await startJob(store, inGroup())]

    await store.settle([
      released(limited, { holdOff: LIMIT_FOR_5S }),
      released(grouped, { holdOff: { scope: 'group', afterMs: 1_000 } }),
    ])

    expect(await store.limits()).toMatchObject([{ name: LIMIT, until: new Date(START_MS + 5_000) }])
    const { groups } = await store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups).toMatchObject([{ group: GROUP, until: new Date(START_MS + 1_000) }])
  },

  'a limit that nobody has set any more cannot be told to wait': async ({ store, expect }) => {
    const job = await startJob(store, inGroup())

    const [answer] = await store.settle([released(job, { holdOff: { ...LIMIT_FOR_5S, limit: 'none' } })])

    expect(answer).toMatchObject({ result: 'settled', state: 'ready' })
    expect(await claimIds(store)).toEqual([job.id])
  },

  'an ordered group that is told to wait keeps its order': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const [first] = await enqueueGroup(store, 2)
    await store.settle([released(await claimJob(store), { holdOff: { scope: 'group', afterMs: 1_000 } })])
    expect(await claimIds(store)).toEqual([])

    await clock.advance(SECOND_MS)

    expect(await claimIds(store)).toEqual([first])
  },
}

const budgets: Facts = {
  'a rate that counts cost starts as much as it can pay for': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(100, 100, 'cost') })
    await store.enqueue(newJobs(9, { flow: { group: null, limits: [LIMIT], cost: 40 } }))

    expect(await claimIds(store)).toHaveLength(2)
    expect((await claimFlow(store)).state.waitMs).toBe(200)
    await clock.advance(200)
    expect(await claimIds(store)).toHaveLength(1)
  },

  'jobs that cost nothing start without tokens': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 1, 'cost') })
    await store.enqueue(newJobs(5, { flow: { group: null, limits: [LIMIT], cost: 0 } }))

    expect(await claimIds(store)).toHaveLength(5)
  },

  'a job that costs more than the bucket holds starts when it is full': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(100, 100, 'cost') })
    const flow = { group: null, limits: [LIMIT], cost: 300 }
    await store.enqueue(newJobs(2, { flow }))

    expect(await claimIds(store)).toHaveLength(1)
    await clock.advance(2_900)
    expect(await claimIds(store)).toEqual([])
    await clock.advance(100)
    expect(await claimIds(store)).toHaveLength(1)
  },

  'a cheap job does not overtake one that waits for its cost': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(100, 100, 'cost') })
    const [, dear, cheap] = await enqueueEach(
      store,
      [80, 90, 5].map((cost) => ({ flow: { group: null, limits: [LIMIT], cost } })),
    )
    await claimJobs(store)

    expect(await claimIds(store)).toEqual([])
    await clock.advance(700)
    expect(await claimIds(store)).toEqual([dear])
    await clock.advance(50)
    expect(await claimIds(store)).toEqual([cheap])
  },

  'what an attempt cost beyond its estimate is taken when it settles': async ({ store, clock, expect }) => {
    await setLimit(store, { rate: perSecond(100, 100, 'cost') })
    const flow = { group: null, limits: [LIMIT], cost: 10 }
    const job = await startJob(store, { flow })
    await enqueueJob(store, { flow })

    await store.settle([succeeded(job, { spent: 200 })])

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { waitMs: 1_100 } })
    await clock.advance(1_100)
    expect(await claimIds(store)).toHaveLength(1)
  },

  'what an attempt did not spend is given back': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(100, 100, 'cost') })
    const flow = { group: null, limits: [LIMIT], cost: 90 }
    const job = await startJob(store, { flow })
    await enqueueJob(store, { flow })
    expect(await claimIds(store)).toEqual([])

    await store.settle([succeeded(job, { spent: 5 })])

    expect(await claimIds(store)).toHaveLength(1)
  },

  'giving back fills no bucket beyond its burst': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 10, 'cost') })
    const job = await startJob(store, { flow: { group: null, limits: [LIMIT], cost: 5 } })
    await store.settle([succeeded(job, { spent: 0 })])

    await store.enqueue(newJobs(20, limitedBy(LIMIT)))

    expect(await claimIds(store)).toHaveLength(10)
  },

  'what is given back to a full bucket leaves it full, by a slower rate too': async ({ store, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await setLimit(store, { rate: perSecond(100, 1, 'cost') })
    await store.settle([succeeded(job, { spent: 0 })])
    await setLimit(store, { rate: { limit: 1, perMs: MINUTE_MS, burst: 1, counts: 'cost' } })

    await enqueueJob(store, limitedBy(LIMIT))

    expect(await claimIds(store)).toHaveLength(1)
  },

  'what an attempt cost beyond its estimate is taken from a group that had taken nothing': async ({
    store,
    expect,
  }) => {
    const job = await startJob(store, inGroup())
    await setFlow(store, { groups: { rate: perSecond(10, 10, 'cost') } })

    await store.settle([succeeded(job, { spent: 20 })])

    await enqueueJob(store, inGroup())
    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { waitMs: 1_000 } })
  },

  'a rate that counts starts takes no notice of cost': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 2) })
    await store.enqueue(newJobs(5, { flow: { group: null, limits: [LIMIT], cost: 1_000 } }))
    const jobs = await claimJobs(store)

    await store.settle(jobs.map((job) => succeeded(job, { spent: 0 })))

    expect(jobs).toHaveLength(2)
    expect(await claimIds(store)).toEqual([])
  },

  'groups have budgets too': async ({ store, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(10, 10, 'cost') } })
    await store.enqueue(groupJobs(5, 'a', inGroup('a', { cost: 4 })))
    const jobs = await claimJobs(store)
    expect(jobs).toHaveLength(2)

    await store.settle(jobs.map((job) => succeeded(job, { spent: 1 })))

    expect(await claimIds(store)).toHaveLength(2)
  },
}

export const flowHoldFacts: Facts = { ...holds, ...budgets }

// Breakers and adaptive concurrency of limits.

import type { BreakerSettings } from '../../core/flow/breaker.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { claimFlow, inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import { LEASE_MS, newJobs, OPERATOR, QUEUE, released, SECOND_MS, START_MS, succeeded } from './samples.js'
import { claimIds, claimJobs, enqueueJob, statesOf, viewOf } from './steps.js'

const BREAKER: BreakerSettings = { failures: 0.5, of: 4, withinMs: 10_000, cooldownMs: 5_000, probes: 2 }

async function withBreaker(store: Store, changes: Partial<BreakerSettings> = {}): Promise<void> {
  await setLimit(store, { breaker: { ...BREAKER, ...changes } })
  await store.enqueue(newJobs(20, limitedBy(LIMIT)))
}

function report(store: Store, ok: number, failed: number, overloaded: number = 0) {
  return store.observe([{ limit: LIMIT, ok, failed, overloaded }])
}

async function position(store: Store): Promise<string> {
  return (await store.limits()).find(({ name }) => name === LIMIT)!.breaker!.position
}

const breakers: Facts = {
  'a breaker opens when the part that failed is reached': async ({ store, expect }) => {
    await withBreaker(store)

    expect(await report(store, 2, 1)).toEqual([])
    expect(await report(store, 0, 1)).toEqual([
      { limit: LIMIT, from: 'closed', to: 'open', ok: 2, failed: 2, probeAtMs: START_MS + 5_000 },
    ])
    expect(await position(store)).toBe('open')
  },

  'a breaker stays closed while too few failed': async ({ store, expect }) => {
    await withBreaker(store)

    await report(store, 10, 9)
    expect(await position(store)).toBe('closed')
  },

  'a breaker judges no fewer outcomes than it needs': async ({ store, expect }) => {
    await withBreaker(store)

    await report(store, 0, 3)
    expect(await position(store)).toBe('closed')
  },

  'a breaker judges by the newest outcomes, however many went well before': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 100, 0)
    await clock.advance(2 * SECOND_MS)

    expect(await report(store, 0, 3)).toEqual([])
    expect(await report(store, 1, 1)).toMatchObject([{ to: 'open', ok: 1, failed: 4 }])
  },

  'outcomes stop counting after their time': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 0, 3)
    await clock.advance(12 * SECOND_MS)

    await report(store, 2, 1)

    expect(await position(store)).toBe('closed')
  },

  'outcomes of all processes count together': async ({ store, openPeer, expect }) => {
    await withBreaker(store)
    const peer = await openPeer()

    await report(store, 0, 2)
    await report(peer, 0, 2)

    expect(await position(store)).toBe('open')
  },

  'an open breaker lets nothing start and burns no attempt': async ({ store, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { more: false, waitMs: 5_000 } })
    const { jobs } = await store.list({ filter: {}, limit: 1, before: null })
    expect(await viewOf(store, jobs[0]!.id)).toMatchObject({ state: 'ready', attempt: 0 })
  },

  'an open breaker leaves jobs that do not name its limit': async ({ store, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)

    const id = await enqueueJob(store)

    expect(await claimIds(store)).toEqual([id])
  },

  'jobs that run when a breaker opens run to their end': async ({ store, expect }) => {
    await withBreaker(store)
    const jobs = await claimJobs(store, { limit: 2 })

    await report(store, 0, 4)

    expect(await store.settle(jobs.map((job) => succeeded(job)))).toMatchObject([
      { result: 'settled' },
      { result: 'settled' },
    ])
  },

  'after the cool-down a few jobs try it out': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)

    const { ids, state } = await claimFlow(store)

    expect(ids).toHaveLength(2)
    expect(state).toEqual({ queue: QUEUE, more: false, waitMs: null, probed: [LIMIT] })
    expect(await position(store)).toBe('half_open')
    expect(await claimIds(store)).toEqual([])
  },

  'a breaker is not half open before a job could try it out': async ({ store, clock, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 0, 4)
    await clock.advance(60 * SECOND_MS)

    await claimFlow(store, { queue: QUEUE }).catch(() => null)

    expect(await position(store)).toBe('open')
  },

  'as many successes as probes close a breaker': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)
    await store.settle((await claimJobs(store)).map((job) => succeeded(job)))
    expect(await report(store, 1, 0)).toEqual([])

    expect(await report(store, 1, 0)).toMatchObject([{ from: 'half_open', to: 'closed' }])

    expect(await claimIds(store)).toHaveLength(18)
  },

  'one failure opens a half-open breaker for twice as long': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)
    const jobs = await claimJobs(store)
    await store.settle(jobs.map((job) => released(job)))

    const moves = await report(store, 1, 1)

    expect(moves).toMatchObject([{ from: 'half_open', to: 'open', probeAtMs: START_MS + 15_000 }])
    expect((await claimFlow(store)).state.waitMs).toBe(10_000)
  },

  'a breaker that closed counts from the beginning': async ({ store, clock, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)
    await claimJobs(store)
    await report(store, 2, 0)

    await report(store, 0, 3)

    expect(await position(store)).toBe('closed')
  },

  'a probe whose worker is lost makes room for another': async ({ store, clock, expect }) => {
    await withBreaker(store, { probes: 1 })
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)
    const [probe] = await claimJobs(store)
    await clock.advance(LEASE_MS)
    expect(await claimIds(store)).toEqual([])

    await store.settle([released(probe!)], { onlyExpired: true })

    expect(await claimIds(store)).toHaveLength(1)
  },

  'a breaker and a concurrency hold together': async ({ store, clock, expect }) => {
    await setLimit(store, { concurrency: 1, breaker: BREAKER })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)

    expect(await claimIds(store)).toHaveLength(1)
  },

  'a breaker of one limit holds jobs of all its queues': async ({ store, expect }) => {
    await withBreaker(store)
    await store.enqueue(newJobs(3, { ...limitedBy(LIMIT), queue: 'push' }))
    await report(store, 0, 4)

    expect(await claimIds(store)).toEqual([])
    expect(await claimIds(store, { queue: 'push' })).toEqual([])
  },

  'an operator holds a breaker open': async ({ store, clock, expect }) => {
    await setLimit(store)
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))

    expect(await store.forceBreaker(LIMIT, 'open', OPERATOR)).toBe(true)

    expect(await claimFlow(store)).toMatchObject({ ids: [], state: { more: false, waitMs: null } })
    await clock.advance(3_600 * SECOND_MS)
    expect(await claimIds(store)).toEqual([])
    expect(await store.limits()).toMatchObject([{ breaker: { position: 'open', forced: 'open' } }])
  },

  'an operator holds a breaker closed': async ({ store, expect }) => {
    await withBreaker(store)
    await store.forceBreaker(LIMIT, 'closed', OPERATOR)

    await report(store, 0, 100)

    expect(await claimIds(store)).toHaveLength(20)
  },

  'a breaker that is left to itself again is closed and counts anew': async ({ store, expect }) => {
    await withBreaker(store)
    await store.forceBreaker(LIMIT, 'open', OPERATOR)
    await report(store, 0, 100)

    await store.forceBreaker(LIMIT, null, OPERATOR)

    expect(await store.limits()).toMatchObject([{ breaker: { position: 'closed', forced: null, failed: 0 } }])
    expect(await claimIds(store)).toHaveLength(20)
  },

  'forcing the breaker of a limit nobody has set does nothing': async ({ store, expect }) => {
    expect(await store.forceBreaker('none', 'open', OPERATOR)).toBe(false)
    expect((await store.audit({ before: null, limit: 10 })).entries).toEqual([])
  },

  'forcing a breaker is written down': async ({ store, expect }) => {
    await setLimit(store)
    await store.forceBreaker(LIMIT, 'open', OPERATOR)

    const { entries } = await store.audit({ before: null, limit: 1 })

    expect(entries).toMatchObject([
      { actor: OPERATOR, action: 'force breaker', target: LIMIT, details: { after: { forced: 'open' } } },
    ])
  },

  'a breaker is shown with its outcomes': async ({ store, expect }) => {
    await withBreaker(store)
    await report(store, 5, 1)

    expect(await store.limits()).toMatchObject([
      { breaker: { settings: BREAKER, position: 'closed', probeAt: null, opens: 0, forced: null, ok: 5, failed: 1 } },
    ])
  },

  'a limit without a breaker shows none and takes no reports': async ({ store, expect }) => {
    await setLimit(store)

    expect(await report(store, 0, 1_000)).toEqual([])
    expect(await store.observe([{ limit: 'none', ok: 0, failed: 9, overloaded: 0 }])).toEqual([])
    expect(await store.limits()).toMatchObject([{ breaker: null, level: null }])
  },

  'a breaker that is taken away lets everything go': async ({ store, expect }) => {
    await withBreaker(store)
    await report(store, 0, 4)
    await claimIds(store)

    await setLimit(store, {})

    expect(await claimIds(store)).toHaveLength(20)
  },

  'ordered groups keep their order through an open breaker': async ({ store, clock, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await setFlow(store, { groups: { ordered: true } })
    const ids: string[] = []
    for (let index = 0; index < 3; index++) ids.push(await enqueueJob(store, inGroup('a', { limits: [LIMIT] })))
    await report(store, 0, 4)
    expect(await claimIds(store)).toEqual([])
    await clock.advance(5 * SECOND_MS)

    expect(await claimIds(store)).toEqual([ids[0]])
    expect(await statesOf(store, ids)).toEqual(['running', 'ready', 'ready'])
  },
}

const adaptive: Facts = {
  'an adaptive concurrency starts at its floor': async ({ store, expect }) => {
    await setLimit(store, { adaptive: { min: 2, max: 50 } })
    await store.enqueue(newJobs(20, limitedBy(LIMIT)))

    expect(await claimIds(store)).toHaveLength(2)
    expect(await store.limits()).toMatchObject([{ level: 2, adaptive: { min: 2, max: 50 }, concurrency: null }])
  },

  'an adaptive concurrency grows while calls go well': async ({ store, expect }) => {
    await setLimit(store, { adaptive: { min: 1, max: 50 } })
    await store.enqueue(newJobs(60, limitedBy(LIMIT)))

    for (let round = 0; round < 10; round++) await report(store, 10, 0)

    const [limit] = await store.limits()
    expect(limit!.level! > 5).toBe(true)
    expect(await claimIds(store)).toHaveLength(limit!.level!)
  },

  'an adaptive concurrency falls when calls are refused for load': async ({ store, clock, expect }) => {
    await setLimit(store, { adaptive: { min: 1, max: 50 } })
    for (let round = 0; round < 50; round++) await report(store, 50, 0)
    expect(await store.limits()).toMatchObject([{ level: 50 }])
    await clock.advance(SECOND_MS)

    await report(store, 0, 0, 1)

    expect(await store.limits()).toMatchObject([{ level: 49 }])
  },

  'refusals of one burst take one each, and half of an adaptive concurrency at most': async ({
    store,
    clock,
    expect,
  }) => {
    await setLimit(store, { adaptive: { min: 1, max: 50 } })
    for (let round = 0; round < 50; round++) await report(store, 50, 0)
    await clock.advance(SECOND_MS)

    await report(store, 0, 0, 3)
    await report(store, 0, 0, 2)
    expect(await store.limits()).toMatchObject([{ level: 45 }])
    await report(store, 0, 0, 40)

    expect(await store.limits()).toMatchObject([{ level: 25 }])
  },

  'a limit that becomes adaptive again starts at its floor': async ({ store, expect }) => {
    await setLimit(store, { adaptive: { min: 1, max: 50 } })
    for (let round = 0; round < 20; round++) await report(store, 50, 0)

    await setLimit(store, { concurrency: 7 })
    await setLimit(store, { adaptive: { min: 3, max: 50 } })

    expect(await store.limits()).toMatchObject([{ level: 3 }])
  },

  'new bounds of an adaptive concurrency hold immediately': async ({ store, expect }) => {
    await setLimit(store, { adaptive: { min: 1, max: 50 } })
    for (let round = 0; round < 50; round++) await report(store, 50, 0)

    await setLimit(store, { adaptive: { min: 1, max: 10 } })

    expect(await store.limits()).toMatchObject([{ level: 10 }])
  },
}

export const flowBreakerFacts: Facts = { ...breakers, ...adaptive }

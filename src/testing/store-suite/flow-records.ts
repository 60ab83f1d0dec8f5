// What is kept about flow control: the history of breakers, and the lines of the audit log.

import type { BreakerSettings } from '../../core/flow/breaker.js'
import { NO_LIMIT } from '../../core/flow/settings.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { claimFlow, flowOf, GROUP, groupJobs, LIMIT, limitedBy, setFlow, setGroup, setLimit } from './flow-samples.js'
import { dead, newJobs, OPERATOR, QUEUE, released, SECOND_MS, START_MS } from './samples.js'
import { claimJob, enqueueJob } from './steps.js'

const BREAKER: BreakerSettings = { failures: 0.5, of: 4, withinMs: 10_000, cooldownMs: 5_000, probes: 2 }

async function historyOf(store: Store, name: string = LIMIT) {
  return (await store.limits()).find((limit) => limit.name === name)!.breaker!.history
}

function report(store: Store, ok: number, failed: number) {
  return store.observe([{ limit: LIMIT, ok, failed, overloaded: 0 }])
}

const histories: Facts = {
  'a breaker that never moved has no history': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 5, 1)

    expect(await historyOf(store)).toEqual([])
  },

  'every move of a breaker is kept with its outcomes, the newest first': async ({ store, clock, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))
    await report(store, 1, 0)
    await report(store, 0, 4)
    await clock.advance(5 * SECOND_MS)
    const { jobs } = await claimFlow(store)
    await store.settle(jobs.map((job) => released(job)))
    await clock.advance(SECOND_MS)
    await report(store, 0, 1)
    await clock.advance(10 * SECOND_MS)
    await claimFlow(store)
    await report(store, 2, 0)

    const at = (second: number) => new Date(START_MS + second * SECOND_MS)
    expect(await historyOf(store)).toEqual([
      { at: at(16), from: 'half_open', to: 'closed', ok: 2, failed: 0, by: null },
      { at: at(16), from: 'open', to: 'half_open', ok: 0, failed: 0, by: null },
      { at: at(6), from: 'half_open', to: 'open', ok: 0, failed: 1, by: null },
      { at: at(5), from: 'open', to: 'half_open', ok: 0, failed: 0, by: null },
      { at: at(0), from: 'closed', to: 'open', ok: 1, failed: 4, by: null },
    ])
  },

  'what an operator does to a breaker is in its history, with their name': async ({ store, clock, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 3, 0)
    await store.forceBreaker(LIMIT, 'open', 'ada')
    await clock.advance(SECOND_MS)
    await store.forceBreaker(LIMIT, 'closed', 'grace')
    await store.forceBreaker(LIMIT, null, 'grace')

    const second = new Date(START_MS + SECOND_MS)
    expect(await historyOf(store)).toEqual([
      { at: second, from: 'closed', to: 'closed', ok: 0, failed: 0, by: 'grace' },
      { at: second, from: 'open', to: 'closed', ok: 0, failed: 0, by: 'grace' },
      { at: new Date(START_MS), from: 'closed', to: 'open', ok: 3, failed: 0, by: 'ada' },
    ])
  },

  'forcing a breaker where it is forced already changes nothing': async ({ store, clock, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await store.forceBreaker(LIMIT, 'open', 'ada')
    await clock.advance(SECOND_MS)

    expect(await store.forceBreaker(LIMIT, 'open', 'grace')).toBe(true)

    expect(await store.limits()).toMatchObject([{ breaker: { since: new Date(START_MS) } }])
    expect(await historyOf(store)).toHaveLength(1)
    expect((await store.audit({ before: null, limit: 10, action: 'force breaker' })).entries).toHaveLength(1)
  },

  'releasing a breaker that opened by itself closes it': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 0, 4)

    await store.forceBreaker(LIMIT, null, 'ada')
    await store.forceBreaker(LIMIT, null, 'ada')

    expect(await historyOf(store)).toMatchObject([
      { from: 'open', to: 'closed', by: 'ada' },
      { from: 'closed', to: 'open', by: null },
    ])
  },

  'fifty moves of a breaker are kept': async ({ store, clock, expect }) => {
    await setLimit(store)
    for (let index = 0; index < 27; index++) {
      await store.forceBreaker(LIMIT, 'open', `open ${index}`)
      await clock.advance(SECOND_MS)
      await store.forceBreaker(LIMIT, 'closed', `closed ${index}`)
    }

    const history = await historyOf(store)

    expect(history).toHaveLength(50)
    expect([history[0]!.by, history[49]!.by]).toEqual(['closed 26', 'open 2'])
  },

  'limits have histories of their own, which go with them': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await setLimit(store, { breaker: BREAKER }, 'other')
    await store.forceBreaker(LIMIT, 'open', 'ada')
    expect(await historyOf(store, 'other')).toEqual([])

    await store.removeLimit(LIMIT, OPERATOR)
    await setLimit(store, { breaker: BREAKER })

    expect(await historyOf(store)).toEqual([])
  },

  'a breaker that is taken away while it is open has closed': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 0, 4)

    await setLimit(store, {})
    await setLimit(store, { breaker: BREAKER })

    expect(await store.limits()).toMatchObject([{ breaker: { position: 'closed' } }])
    expect(await historyOf(store)).toMatchObject([
      { from: 'open', to: 'closed', by: null },
      { from: 'closed', to: 'open', by: null },
    ])
  },

  'a process sees the history that another made': async ({ store, openPeer, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    const peer = await openPeer()
    await report(peer, 0, 4)

    expect(await historyOf(store)).toMatchObject([{ from: 'closed', to: 'open', ok: 0, failed: 4 }])
  },
}

/** What the log says, oldest first. */
async function linesOf(store: Store): Promise<unknown[]> {
  const { entries } = await store.audit({ before: null, limit: 200 })
  return entries.map(({ actor, action, target, details }) => ({ actor, action, target, details })).reverse()
}

const lines: Facts = {
  'a limit that is set and removed is written down with what it was before and after': async ({ store, expect }) => {
    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 1 }, 'ada')
    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 2 }, 'grace')
    await store.removeLimit(LIMIT, 'ada')
    await store.removeLimit(LIMIT, 'ada')

    const [one, two] = [1, 2].map((concurrency) => ({ origin: 'operator', ...NO_LIMIT, concurrency }))
    expect(await linesOf(store)).toEqual([
      { actor: 'ada', action: 'set limit', target: LIMIT, details: { before: null, after: one } },
      { actor: 'grace', action: 'set limit', target: LIMIT, details: { before: one, after: two } },
      { actor: 'ada', action: 'remove limit', target: LIMIT, details: { before: two, after: null } },
    ])
  },

  'an operator who takes a limit over from a definition is written down': async ({ store, expect }) => {
    await store.setLimit(LIMIT, NO_LIMIT, 'worker', 'definition')
    await store.setLimit(LIMIT, NO_LIMIT, 'ada')

    const [, taken] = await linesOf(store)

    expect(taken).toMatchObject({
      actor: 'ada',
      details: { before: { origin: 'definition' }, after: { origin: 'operator' } },
    })
  },

  'a breaker that is forced is written down with its position before and after': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await report(store, 0, 4)
    await store.forceBreaker(LIMIT, 'closed', 'ada')

    expect((await linesOf(store)).at(-1)).toEqual({
      actor: 'ada',
      action: 'force breaker',
      target: LIMIT,
      details: { before: { position: 'open', forced: null }, after: { position: 'closed', forced: 'closed' } },
    })
  },

  'settings of a group are written down as they were before and after': async ({ store, expect }) => {
    await setGroup(store, GROUP, { weight: 2 })
    await setGroup(store, GROUP, { weight: 3 })
    await setGroup(store, GROUP, null)
    await setGroup(store, GROUP, null)

    const [two, three] = [2, 3].map((weight) => ({ concurrency: null, rate: null, weight }))
    const line = (before: unknown, after: unknown) => ({
      ...{ actor: OPERATOR, action: 'set group', target: QUEUE, details: { group: GROUP, before, after } },
    })
    expect(await linesOf(store)).toEqual([line(null, two), line(two, three), line(three, null)])
  },

  'a group is paused and resumed with one line each, however often it is asked for': async ({ store, expect }) => {
    for (let round = 0; round < 2; round++) await store.pauseGroup(QUEUE, GROUP, 'ada')
    for (let round = 0; round < 2; round++) await store.resumeGroup(QUEUE, GROUP, 'grace')

    const [going, paused] = [false, true].map((isPaused) => ({ paused: isPaused, stoppedBy: null }))
    expect(await linesOf(store)).toEqual([
      {
        ...{ actor: 'ada', action: 'pause group', target: QUEUE },
        details: { group: GROUP, before: going, after: paused },
      },
      {
        ...{ actor: 'grace', action: 'resume group', target: QUEUE },
        details: { group: GROUP, before: paused, after: going },
      },
    ])
  },

  'a group that stopped for a dead job is resumed with that job in its line': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true, onDead: 'stop' } })
    await store.enqueue(groupJobs(2))
    const job = await claimJob(store)
    await store.settle([dead(job)])
    await store.pauseGroup(QUEUE, GROUP, 'ada')

    await store.resumeGroup(QUEUE, GROUP, 'ada')

    expect((await linesOf(store)).slice(1)).toMatchObject([
      { action: 'resume group', details: { before: { paused: true, stoppedBy: job.id } } },
    ])
  },

  'flow control of a queue is written down as it was before and after': async ({ store, expect }) => {
    await enqueueJob(store)
    await setFlow(store, { concurrency: 3 })
    await setFlow(store, { concurrency: 4 })
    await setFlow(store, { concurrency: 4 }, 'unheard-of')

    const settings = (concurrency: number) => ({ limits: {}, flow: flowOf({ concurrency }) })
    expect(((await linesOf(store)) as { details: unknown }[]).map(({ details }) => details)).toEqual([
      { before: { limits: {} }, after: settings(3) },
      { before: settings(3), after: settings(4) },
      { before: null, after: settings(4) },
    ])
  },
}

export const flowRecordFacts: Facts = { ...histories, ...lines }

// What long jobs keep between attempts: steps, effects and how waits ended.

import type { KeptEntry } from '../../core/kept/kept.js'
import type { Facts } from './context.js'
import { crashed, DAY_MS, dead, LEASE_MS, OPERATOR, retrying, SECOND_MS, stale, succeeded } from './samples.js'
import { claimJob, enqueueJob, pruneAll, startJob, viewOf } from './steps.js'

/** A step that has finished. */
function step(name: string, value: string | null = '1', changes: Partial<KeptEntry> = {}): KeptEntry {
  return { kind: 'step', name, value, begun: 1, isEnded: true, tookMs: 0, ...changes }
}

/** An effect that has begun. */
function effect(name: string, changes: Partial<KeptEntry> = {}): KeptEntry {
  return { kind: 'effect', name, value: null, begun: 1, isEnded: false, tookMs: 0, ...changes }
}

const steps: Facts = {
  'a job has kept nothing at first': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(await store.recall(job)).toEqual({ entries: [], signals: [], wait: null, outputEnd: 0 })
    expect('steps' in (await viewOf(store, job.id))).toBe(false)
  },

  'a step that was kept is recalled by the next attempt': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    expect(await store.keep([{ ...job, entry: step('charge', '{"id":7}') }])).toEqual([true])
    await store.settle([retrying(job)])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    const { entries } = (await store.recall(await claimJob(store)))!

    expect(entries).toHaveLength(1)
    expect(entries[0]).toMatchObject({
      kind: 'step',
      name: 'charge',
      value: '{"id":7}',
      attempt: 1,
      begun: 1,
      isEnded: true,
    })
  },

  'entries are recalled and shown in the order in which they began': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    for (const name of ['third', 'first', 'second']) {
      await store.keep([{ ...job, entry: step(name) }])
      await clock.advance(1)
    }

    expect((await store.recall(job))!.entries.map(({ name }) => name)).toEqual(['third', 'first', 'second'])
    expect((await viewOf(store, job.id)).steps!.map(({ name }) => name)).toEqual(['third', 'first', 'second'])
  },

  'a step is shown with its times and without its value': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(5 * SECOND_MS)
    await store.keep([{ ...job, entry: step('charge', '"secret"', { tookMs: 2 * SECOND_MS }) }])
    const now = clock.now()

    expect((await viewOf(store, job.id)).steps).toEqual([
      {
        kind: 'step',
        name: 'charge',
        attempt: 1,
        begun: 1,
        beganAt: new Date(now - 2 * SECOND_MS),
        endedAt: new Date(now),
      },
    ])
  },

  'a lost lease keeps nothing and recalls nothing': async ({ store, expect }) => {
    const job = await startJob(store)

    expect(await store.keep([{ ...stale(job), entry: step('charge') }])).toEqual([false])
    expect(await store.recall(stale(job))).toBe(null)
    expect((await store.recall(job))!.entries).toEqual([])
  },

  'a lease that ran out and was rescued keeps nothing': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(LEASE_MS + SECOND_MS)
    await store.settle([retrying(job, 0)], { onlyExpired: true })

    expect(await store.keep([{ ...job, entry: step('charge') }])).toEqual([false])
  },

  'each of several leases is answered by itself': async ({ store, expect }) => {
    const [one, other] = [await startJob(store), await startJob(store)]
    const calls = [
      { ...one, entry: step('a') },
      { ...stale(other), entry: step('b') },
      { ...other, entry: step('c') },
      { ...one, entry: step('d') },
    ]

    expect(await store.keep(calls)).toEqual([true, false, true, true])
    expect((await store.recall(one))!.entries.map(({ name }) => name).sort()).toEqual(['a', 'd'])
    expect((await store.recall(other))!.entries.map(({ name }) => name)).toEqual(['c'])
  },

  'keeping a step again changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.keep([{ ...job, entry: step('charge', '1') }])

    expect(await store.keep([{ ...job, entry: step('charge', '2') }])).toEqual([true])
    expect((await store.recall(job))!.entries.map(({ value }) => value)).toEqual(['1'])
  },

  'a step may have returned nothing, and its value may hold anything that JSON can': async ({ store, expect }) => {
    const job = await startJob(store)
    const hostile = JSON.stringify({ nul: '\u0000', lone: '\ud800', quote: '\'"\\{}', big: 1e308 })
    await store.keep([
      { ...job, entry: step('nothing', null) },
      { ...job, entry: step('hostile "name", \\{}', hostile) },
    ])

    const kept = new Map((await store.recall(job))!.entries.map(({ name, value }) => [name, value]))

    expect(kept.get('nothing')).toBe(null)
    expect(JSON.parse(kept.get('hostile "name", \\{}')!)).toEqual(JSON.parse(hostile))
  },

  'a job keeps its steps when it dies and is requeued': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.keep([{ ...job, entry: step('charge') }])
    await store.settle([dead(job)])
    await store.requeue([job.id], OPERATOR)

    expect((await store.recall(await claimJob(store)))!.entries.map(({ name }) => name)).toEqual(['charge'])
  },

  'what a job kept goes with it when it is pruned': async ({ store, clock, expect }) => {
    const [gone, stays] = [await startJob(store), await startJob(store, {}, { leaseMs: 30 * DAY_MS })]
    await store.keep([
      { ...gone, entry: step('charge') },
      { ...stays, entry: step('charge') },
    ])
    await store.settle([succeeded(gone)])
    await clock.advance(3 * DAY_MS)

    await pruneAll(store, DAY_MS)

    expect(await store.get(gone.id)).toBe(null)
    expect((await store.recall(stays))!.entries).toHaveLength(1)
  },
}

const crashes: Facts = {
  'a job that finished a step under its lease has not crashed before, however often it did': async ({
    store,
    clock,
    expect,
  }) => {
    const lost = async (keeps: boolean) => {
      const job = await claimJob(store)
      if (keeps) await store.keep([{ ...job, entry: step(`step of ${job.fence}`) }])
      await clock.advance(LEASE_MS + SECOND_MS)
      const [expired] = (await store.expired(10)).jobs
      await store.settle([crashed({ ...job, crashes: expired!.crashes })], { onlyExpired: true })
      await clock.advance(SECOND_MS)
      await store.promote(10)
      return expired!.crashes
    }
    await enqueueJob(store)

    expect([await lost(true), await lost(false), await lost(false), await lost(true), await lost(true)]).toEqual([
      0, 1, 2, 0, 0,
    ])
  },
}

const effects: Facts = {
  'an effect that has begun has no end until its outcome is kept': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.keep([{ ...job, entry: effect('charge') }])
    expect((await viewOf(store, job.id)).steps![0]).toMatchObject({ kind: 'effect', begun: 1, endedAt: null })

    await store.keep([{ ...job, entry: effect('charge', { value: '7', isEnded: true }) }])

    const [kept] = (await store.recall(job))!.entries
    expect(kept).toMatchObject({ kind: 'effect', name: 'charge', value: '7', isEnded: true })
  },

  'an effect that is begun again counts how often': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.keep([{ ...job, entry: effect('charge') }])
    await store.settle([retrying(job)])
    await clock.advance(SECOND_MS)
    await store.promote(10)
    const again = await claimJob(store)

    await store.keep([{ ...again, entry: effect('charge', { begun: 2 }) }])

    expect((await store.recall(again))!.entries[0]).toMatchObject({ begun: 2, attempt: 2, isEnded: false })
  },

  'a step and an effect of one name are two': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.keep([
      { ...job, entry: step('charge') },
      { ...job, entry: effect('charge') },
    ])

    expect((await store.recall(job))!.entries.map(({ kind }) => kind).sort()).toEqual(['effect', 'step'])
  },

  'nothing is kept with a job that does not exist or waits': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect(await store.keep([{ id, fence: 1, queue: 'email', entry: step('charge') }])).toEqual([false])
  },
}

const doubts: Facts = {
  'an effect is in doubt when its attempt is over without an outcome, and not while it runs': async ({
    store,
    clock,
    expect,
  }) => {
    const job = await startJob(store)
    const all = { id: null, queues: null, limit: 10, after: null }
    await store.keep([
      { ...job, entry: effect('charge') },
      { ...job, entry: effect('mail', { value: '1', isEnded: true }) },
      { ...job, entry: step('step') },
    ])
    expect(await store.doubtful(all)).toEqual({ effects: [], next: null })
    const began = new Date(clock.now())

    await store.settle([retrying(job)])

    const { id, type, queue } = job
    const doubt = { id, type, queue, key: 'charge', begun: 1, beganAt: began, endedAt: null }
    expect(await store.doubtful(all)).toEqual({ effects: [doubt], next: null })
  },

  'an effect that was begun twice stays in doubt, whatever its outcome': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.keep([{ ...job, entry: effect('charge', { begun: 2 }) }])
    await store.keep([{ ...job, entry: effect('charge', { begun: 2, value: '1', isEnded: true }) }])
    await store.settle([succeeded(job)])

    const { effects } = await store.doubtful({ id: job.id, queues: null, limit: 10, after: null })

    expect(effects).toMatchObject([{ key: 'charge', begun: 2 }])
    expect(effects[0]!.endedAt === null).toBe(false)
  },

  'effects in doubt come in pages, and of one job or some queues when asked': async ({ store, expect }) => {
    const [one, other] = [await startJob(store), await startJob(store, { queue: 'other' }, { queue: 'other' })]
    for (const job of [one, other]) {
      await store.keep(['b', 'a', 'c'].map((name) => ({ ...job, entry: effect(name, { begun: 2 }) })))
    }
    const keys = async (request: object): Promise<string[]> =>
      (await store.doubtful({ id: null, queues: null, limit: 10, after: null, ...request })).effects.map(
        ({ key }) => key,
      )

    const first = await store.doubtful({ id: null, queues: null, limit: 4, after: null })
    expect(first.effects.map(({ id, key }) => [id, key])).toEqual([
      [one.id, 'a'],
      [one.id, 'b'],
      [one.id, 'c'],
      [other.id, 'a'],
    ])
    expect(await keys({ after: first.next })).toEqual(['b', 'c'])
    expect(await keys({ id: one.id })).toEqual(['a', 'b', 'c'])
    expect(await keys({ queues: ['other'] })).toHaveLength(3)
    expect(await keys({ queues: [] })).toEqual([])
  },
}

export const keptFacts: Facts = { ...steps, ...crashes, ...effects, ...doubts }

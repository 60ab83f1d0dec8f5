// Overview and series: what is where in every queue, how fast it goes, and how it went.

import type { QueueTally } from '../../core/operating.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { DAY_MS, MINUTE_MS, newBeat, newJobs, OPERATOR, QUEUE, SECOND_MS, START_MS } from './samples.js'
import { codeOf, enqueueJob, jobIn } from './steps.js'

const NOTHING = { enqueued: 0, claimed: 0, succeeded: 0, failed: 0, retried: 0, dead: 0, cancelled: 0, rescued: 0 }

function newTally(changes: Partial<QueueTally> = {}): QueueTally {
  return { queue: QUEUE, ...NOTHING, waitMsTotal: 0, runMsTotal: 0, ...changes }
}

const overviews: Facts = {
  'an empty store has no queues': async ({ store, expect }) => {
    expect(await store.overview()).toEqual({ nowMs: START_MS, queues: [], total: 0, isExact: true })
  },

  'an overview shows every queue with its counts and settings': async ({ store, clock, expect }) => {
    await store.setQueue('push', { limits: { maxAttempts: 3 } }, OPERATOR)
    await store.pause('push', OPERATOR)
    await store.enqueue([...newJobs(2), ...newJobs(3, { queue: 'push' })])
    await clock.advance(1_500)

    const { queues } = await store.overview()

    const rates = { enqueued: 0, succeeded: 0, failed: 0, dead: 0 }
    const none = { blocked: 0, scheduled: 0, running: 0, retrying: 0, dead: 0, workers: 0, slots: 0, rates }
    expect(queues).toEqual([
      { ...none, name: 'push', paused: true, settings: { limits: { maxAttempts: 3 } }, ready: 3, oldestAgeS: 1.5 },
      { ...none, name: QUEUE, paused: false, settings: { limits: {} }, ready: 2, oldestAgeS: 1.5 },
    ])
  },

  'an overview counts jobs where they are': async ({ store, expect }) => {
    const states = ['blocked', 'scheduled', 'retrying', 'dead', 'succeeded', 'running', 'ready'] as const
    for (const state of states) await jobIn(store, state)

    const { queues } = await store.overview()

    expect(queues.find(({ name }) => name === QUEUE)).toMatchObject({
      ...{ blocked: 1, scheduled: 1, retrying: 1, dead: 1, running: 1, ready: 1 },
    })
  },

  'an overview counts the live workers of a queue and their slots': async ({ store, clock, expect }) => {
    await store.enqueue([...newJobs(1), ...newJobs(1, { queue: 'push' })])
    await store.beat(newBeat({ id: 'gone', queues: [QUEUE] }))
    await clock.advance(MINUTE_MS)
    await store.beat(newBeat({ id: 'a', queues: [QUEUE, 'push'], concurrency: 10 }))
    await store.beat(newBeat({ id: 'b', queues: [QUEUE], concurrency: 5 }))

    const { queues } = await store.overview()

    expect(queues.map(({ name, workers, slots }) => [name, workers, slots])).toEqual([
      [QUEUE, 2, 15],
      ['push', 1, 10],
    ])
  },

  'rates are those of the last full minute, by the second': async ({ store, clock, expect }) => {
    await enqueueJob(store)
    await store.tally([newTally({ enqueued: 999 })])
    await clock.advance(MINUTE_MS)
    await store.tally([newTally({ enqueued: 60, succeeded: 30, failed: 6, dead: 3 })])
    await clock.advance(10 * SECOND_MS)
    await store.tally([newTally({ enqueued: 888 })])

    const { queues } = await store.overview()

    expect(queues[0]!.rates).toEqual({ enqueued: 1, succeeded: 0.5, failed: 0.1, dead: 0.05 })
  },
}

/** A series in steps of ten seconds. */
function minuteOf(store: Store, queue: string | null) {
  return store.series({ queue, sinceMs: START_MS, stepMs: 10_000 })
}

const tallies: Facts = {
  'tallies of ten seconds are added up': async ({ store, clock, expect }) => {
    await store.tally([newTally({ enqueued: 2, runMsTotal: 40 }), newTally({ queue: 'push', dead: 1 })])
    await clock.advance(9_999)
    await store.tally([newTally({ enqueued: 3, runMsTotal: 2 })])
    await clock.advance(1)

    const points = await minuteOf(store, QUEUE)

    expect(points.map(({ at, enqueued, dead, runMsTotal }) => [at, enqueued, dead, runMsTotal])).toEqual([
      [new Date(START_MS), 5, 0, 42],
      [new Date(START_MS + 10_000), 0, 0, 0],
    ])
  },

  'a series of all queues adds them up': async ({ store, expect }) => {
    await store.tally([newTally({ succeeded: 2 }), newTally({ queue: 'push', succeeded: 5 })])
    await store.tally([newTally({ succeeded: 1 })])

    const [point] = await minuteOf(store, null)

    expect(point!.succeeded).toBe(8)
  },

  'longer steps hold what the shorter ones hold': async ({ store, clock, expect }) => {
    for (let step = 0; step < 4; step++) {
      await store.tally([newTally({ claimed: 1, rescued: 2, waitMsTotal: 3 })])
      await clock.advance(10_000)
    }

    const points = await store.series({ queue: QUEUE, sinceMs: START_MS, stepMs: 20_000 })

    expect(points.map(({ claimed, rescued, waitMsTotal }) => [claimed, rescued, waitMsTotal])).toEqual([
      [2, 4, 6],
      [2, 4, 6],
      [0, 0, 0],
    ])
  },

  'no tallies change nothing': async ({ store, expect }) => {
    await store.tally([])

    expect((await minuteOf(store, null))[0]).toMatchObject({ enqueued: 0, depth: null })
  },

  'a series of too many points, or of odd steps, is refused': async ({ store, expect }) => {
    expect(await codeOf(store.series({ queue: null, sinceMs: START_MS - DAY_MS, stepMs: 10_000 }))).toBe(
      'invalid_option',
    )
    expect(await codeOf(store.series({ queue: null, sinceMs: START_MS, stepMs: 15_000 }))).toBe('invalid_option')
    expect(await codeOf(store.series({ queue: null, sinceMs: START_MS, stepMs: 0 }))).toBe('invalid_option')
  },
}

const samples: Facts = {
  'a sample is taken once in ten seconds, by the first process': async ({ store, clock, expect, openPeer }) => {
    const peer = await openPeer()

    expect([await store.sample(), await peer.sample(), await store.sample()]).toEqual([true, false, false])
    await clock.advance(10_000)
    expect([await peer.sample(), await store.sample()]).toEqual([true, false])
  },

  'a series shows how much was where at the last sample of each step': async ({ store, clock, expect }) => {
    await store.enqueue([...newJobs(2), ...newJobs(1, { queue: 'push' })])
    await store.sample()
    await clock.advance(10_000)
    await store.enqueue(newJobs(1))
    await store.sample()
    await clock.advance(10_000)

    const points = await minuteOf(store, QUEUE)

    const none = { blocked: 0, scheduled: 0, running: 0, retrying: 0, dead: 0 }
    expect(points.map(({ depth }) => depth)).toEqual([
      { ...none, ready: 2, oldestAgeS: 0 },
      { ...none, ready: 3, oldestAgeS: 10 },
      null,
    ])
  },

  'a series of all queues adds up what was where, and shows the oldest age': async ({ store, clock, expect }) => {
    await jobIn(store, 'dead')
    await enqueueJob(store, { queue: 'push' })
    await clock.advance(5_000)
    await enqueueJob(store)
    await store.sample()

    const [point] = await minuteOf(store, null)

    expect(point!.depth).toMatchObject({ ready: 2, dead: 1, oldestAgeS: 5 })
  },

  'a queue that was empty at a sample had nothing then': async ({ store, expect }) => {
    await enqueueJob(store)
    await store.sample()

    const [point] = await minuteOf(store, 'push')

    expect(point!.depth).toMatchObject({ ready: 0, oldestAgeS: 0 })
  },

  'tallies and samples are kept for three days': async ({ store, clock, expect }) => {
    await store.tally([newTally({ enqueued: 1 })])
    await store.sample()
    await clock.advance(3 * DAY_MS)
    await store.tally([newTally({ enqueued: 1 })])
    await clock.advance(20_000)

    await store.prune({ retentionMs: DAY_MS })

    const points = await store.series({ queue: null, sinceMs: START_MS, stepMs: 600_000 })
    expect(points.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(1)
    expect(points.filter(({ depth }) => depth !== null)).toEqual([])
  },
}

export const overviewFacts: Facts = { ...overviews, ...tallies, ...samples }

// Bulk actions: written down, done batch by batch, each job once.

import { parseFilter } from '../../core/filter.js'
import type { BulkProgress, NewBulk } from '../../core/operating.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { dead, keyed, newId, newJobs, OPERATOR, QUEUE, SECOND_MS, START_MS } from './samples.js'
import { claimJobs, codeOf, enqueueJob, jobIn, stateOf, viewOf } from './steps.js'

function newBulk(filter: string, changes: Partial<NewBulk> = {}): NewBulk {
  return {
    id: newId(),
    action: 'requeue',
    filter: parseFilter(filter),
    by: OPERATOR,
    perSecond: null,
    limit: 1_000,
    expected: null,
    ...changes,
  }
}

/** Does everything that is due. */
async function stepAll(store: Store): Promise<BulkProgress[]> {
  const steps: BulkProgress[] = []
  for (let step = await store.stepBulk(); step !== null; step = await store.stepBulk()) steps.push(step)
  return steps
}

/** So many dead jobs, oldest first. */
async function die(store: Store, count: number, queue: string = QUEUE): Promise<string[]> {
  const jobs = newJobs(count, { queue })
  await store.enqueue(jobs)
  await store.settle((await claimJobs(store, { queue })).map((job) => dead(job)))
  return jobs.map(({ id }) => id)
}

const life: Facts = {
  'without bulk actions there is nothing to do': async ({ store, expect }) => {
    expect([await store.stepBulk(), await store.bulks(10), await store.getBulk(newId())]).toEqual([null, [], null])
  },

  'a bulk action waits when it is written down': async ({ store, expect }) => {
    const bulk = newBulk('state:dead', { perSecond: 5, expected: { count: 7, isExact: false } })

    const started = await store.startBulk(bulk)

    const now = new Date(START_MS)
    const fresh = { state: 'waiting', matched: 0, done: 0, refused: 0, createdAt: now, updatedAt: now, error: null }
    expect(started).toEqual({ ...bulk, ...fresh })
    expect(await store.getBulk(bulk.id)).toEqual(started)
    expect(await store.bulks(10)).toEqual([started])
  },

  'a bulk action that is sent again is the same': async ({ store, expect }) => {
    const bulk = newBulk('state:dead')
    const started = await store.startBulk(bulk)

    expect(await store.startBulk({ ...bulk, action: 'discard' })).toEqual(started)
    expect(await store.bulks(10)).toHaveLength(1)
  },

  'bulk actions are listed newest first': async ({ store, expect }) => {
    const bulks = [newBulk('state:dead'), newBulk('state:dead'), newBulk('state:dead')]
    for (const bulk of bulks) await store.startBulk(bulk)

    expect((await store.bulks(2)).map(({ id }) => id)).toEqual([bulks[2]!.id, bulks[1]!.id])
    expect(await codeOf(store.bulks(0))).toBe('invalid_option')
  },

  'every job that matches is revived, and the others are left': async ({ store, expect }) => {
    const ids = await die(store, 3)
    const [other] = await die(store, 1, 'push')
    const bulk = newBulk(`state:dead queue:${QUEUE}`)
    await store.startBulk(bulk)

    const steps = await stepAll(store)

    expect(steps.at(-1)).toMatchObject({ id: bulk.id, action: 'requeue', state: 'done' })
    expect(await store.getBulk(bulk.id)).toMatchObject({ state: 'done', matched: 3, done: 3, refused: 0 })
    expect([await stateOf(store, ids[0]!), await stateOf(store, other!)]).toEqual(['ready', 'dead'])
    expect((await viewOf(store, ids[0]!)).requeues).toMatchObject([{ number: 1, by: OPERATOR }])
  },

  'jobs are discarded and cancelled in bulk as well': async ({ store, expect }) => {
    const [gone] = await die(store, 1)
    const [running, waiting] = [await jobIn(store, 'running'), await jobIn(store, 'ready')]
    await store.startBulk(newBulk('state:dead', { action: 'discard' }))
    await store.startBulk(newBulk('state:running,ready', { action: 'cancel' }))

    await stepAll(store)

    expect([await stateOf(store, gone!), await stateOf(store, waiting)]).toEqual(['cancelled', 'cancelled'])
    expect(await viewOf(store, running)).toMatchObject({ state: 'running', cancelRequested: true })
    expect((await store.bulks(10)).map(({ done, state }) => [done, state])).toEqual([
      [2, 'done'],
      [1, 'done'],
    ])
  },

  'a job that cannot be revived is counted as refused': async ({ store, expect }) => {
    await jobIn(store, 'dead', keyed('welcome'))
    await enqueueJob(store, keyed('welcome'))
    const bulk = newBulk('state:dead')
    await store.startBulk(bulk)

    await stepAll(store)

    expect(await store.getBulk(bulk.id)).toMatchObject({ state: 'done', matched: 1, done: 0, refused: 1 })
  },

  'a batch is bounded, and the next goes on where it ended': async ({ store, expect }) => {
    await die(store, 1_200)
    const bulk = newBulk('state:dead', { limit: 1_100 })
    await store.startBulk(bulk)

    const steps = await stepAll(store)

    expect(Math.max(...steps.map(({ moved }) => moved))).toBe(500)
    expect(await store.getBulk(bulk.id)).toMatchObject({ state: 'done', matched: 1_100, done: 1_100 })
    expect((await store.stats(null)).dead).toBe(100)
  },

  'jobs created after the start are not touched': async ({ store, clock, expect }) => {
    const [before] = await die(store, 1)
    await store.startBulk(newBulk('state:dead'))
    await clock.advance(SECOND_MS)
    const [after] = await die(store, 1)

    await stepAll(store)

    expect([await stateOf(store, before!), await stateOf(store, after!)]).toEqual(['ready', 'dead'])
  },

  'the newest jobs go first': async ({ store, expect }) => {
    const ids = await die(store, 3)
    await store.startBulk(newBulk('state:dead', { limit: 2 }))

    await stepAll(store)

    const states = await Promise.all(ids.map((id) => stateOf(store, id)))
    expect(states).toEqual(['dead', 'ready', 'ready'])
  },
}

const pace: Facts = {
  'a paced bulk action does so many a second': async ({ store, clock, expect }) => {
    await die(store, 10)
    await store.startBulk(newBulk('state:dead', { perSecond: 4 }))

    const moved: number[] = []
    for (let quarter = 0; quarter < 8; quarter++) {
      moved.push((await stepAll(store)).reduce((sum, step) => sum + step.moved, 0))
      await clock.advance(250)
    }

    expect(moved).toEqual([0, 1, 1, 1, 1, 1, 1, 1])
  },

  'a pace that was missed is not made up for': async ({ store, clock, expect }) => {
    await die(store, 10)
    const bulk = newBulk('state:dead', { perSecond: 4 })
    await store.startBulk(bulk)
    await clock.advance(60 * SECOND_MS)

    await stepAll(store)

    expect(await store.getBulk(bulk.id)).toMatchObject({ done: 4, state: 'running' })
  },

  'several bulk actions take turns': async ({ store, clock, expect }) => {
    await die(store, 600)
    await die(store, 600, 'push')
    const [one, other] = [newBulk(`state:dead queue:${QUEUE}`), newBulk('state:dead queue:push')]
    await store.startBulk(one)
    await store.startBulk(other)

    const turns: (string | undefined)[] = []
    for (let turn = 0; turn < 4; turn++) {
      await clock.advance(1)
      turns.push((await store.stepBulk())?.id)
    }

    expect(turns).toEqual([one.id, other.id, one.id, other.id])
  },

  'steps of several processes do each job once': async ({ store, expect, openPeer }) => {
    const peer = await openPeer()
    await die(store, 1_200)
    const bulk = newBulk('state:dead', { limit: 10_000 })
    await store.startBulk(bulk)

    for (let round = 0; round < 10; round++) await Promise.all([store.stepBulk(), peer.stepBulk(), store.stepBulk()])

    expect(await store.getBulk(bulk.id)).toMatchObject({ state: 'done', matched: 1_200, done: 1_200, refused: 0 })
    expect((await store.stats(null)).ready).toBe(1_200)
  },
}

const endings: Facts = {
  'a cancelled bulk action does no more': async ({ store, clock, expect }) => {
    await die(store, 600)
    const bulk = newBulk('state:dead')
    await store.startBulk(bulk)
    await store.stepBulk()
    await clock.advance(SECOND_MS)

    const ended = await store.cancelBulk(bulk.id, 'grace')

    expect(ended).toMatchObject({ state: 'cancelled', done: 500, updatedAt: new Date(START_MS + SECOND_MS) })
    expect(await stepAll(store)).toEqual([])
    expect((await store.stats(null)).dead).toBe(100)
  },

  'a bulk action that has ended stays as it ended': async ({ store, expect }) => {
    const bulk = newBulk('state:dead')
    await store.startBulk(bulk)
    await stepAll(store)

    expect(await store.cancelBulk(bulk.id, OPERATOR)).toMatchObject({ state: 'done' })
    expect(await store.cancelBulk(newId(), OPERATOR)).toBe(null)
  },

  'start and cancel of a bulk action are written down': async ({ store, expect }) => {
    const bulk = newBulk('state:dead', { perSecond: 1 })
    await store.startBulk(bulk)
    await store.cancelBulk(bulk.id, 'grace')
    await store.cancelBulk(bulk.id, 'grace')

    const { entries } = await store.audit({ before: null, limit: 10 })

    const { action, filter, limit, perSecond } = bulk
    expect(entries.map(({ line: _, at: __, ...entry }) => entry)).toEqual([
      { actor: 'grace', action: 'cancel bulk', job: null, target: bulk.id, details: null },
      {
        ...{ actor: OPERATOR, action: 'start bulk', job: null, target: bulk.id },
        details: { action, filter, limit, perSecond },
      },
    ])
  },
}

export const bulkFacts: Facts = { ...life, ...pace, ...endings }

// Chains: jobs that come after others, and what the end of a parent does to them.

import type { Facts } from './context.js'
import {
  cancelled,
  crashed,
  dead,
  LEASE_MS,
  MINUTE_MS,
  newJob,
  OPERATOR,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from './samples.js'
import { claimIds, enqueueJob, jobIn, runNext, startJob, stateOf, statesOf, viewOf } from './steps.js'

const going: Facts = {
  'a blocked job is not claimed': async ({ store, expect }) => {
    const parent = await enqueueJob(store)
    await enqueueJob(store, { after: [parent] })

    expect(await claimIds(store)).toEqual([parent])
  },

  'a child becomes ready when its parent succeeds': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })

    await store.settle([succeeded(parent)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a child stays blocked while its parent retries': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })

    await store.settle([retrying(parent)])

    expect(await stateOf(store, child)).toBe('blocked')
  },

  'a child waits for every parent': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id] })

    await store.settle([succeeded(first)])

    expect(await stateOf(store, child)).toBe('blocked')
  },

  'a child goes on when its last parent succeeds': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id] })
    await store.settle([succeeded(first)])

    await store.settle([succeeded(second)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a child goes on when all its parents are settled in one call': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id] })

    await store.settle([succeeded(first), succeeded(second)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a parent that is named twice is waited for once': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id, parent.id] })

    await store.settle([succeeded(parent)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'every child of a parent goes on': async ({ store, expect }) => {
    const parent = await startJob(store)
    const children = [newJob({ after: [parent.id] }), newJob({ after: [parent.id] }), newJob({ after: [parent.id] })]
    await store.enqueue(children)

    await store.settle([succeeded(parent)])

    expect(await claimIds(store)).toEqual(children.map(({ id }) => id))
  },

  'a child goes to the end of its queue': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    const neighbour = await enqueueJob(store)

    await store.settle([succeeded(parent)])

    expect(await claimIds(store)).toEqual([neighbour, child])
  },

  'a child whose time lies ahead is scheduled when its parent succeeds': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id], when: { delayMs: MINUTE_MS } })

    await store.settle([succeeded(parent)])

    expect(await viewOf(store, child)).toMatchObject({ state: 'scheduled', runAt: new Date(START_MS + MINUTE_MS) })
  },

  'a child whose time has passed meanwhile is ready when its parent succeeds': async ({ store, clock, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id], when: { delayMs: SECOND_MS } })
    await clock.advance(SECOND_MS)

    await store.settle([succeeded(parent)])

    expect(await viewOf(store, child)).toMatchObject({ state: 'ready', runAt: null })
  },

  'a chain runs link by link': async ({ store, expect }) => {
    const first = newJob()
    const second = newJob({ after: [first.id] })
    const third = newJob({ after: [second.id] })
    await store.enqueue([first, second, third])

    const order = [await runNext(store, succeeded), await runNext(store, succeeded), await runNext(store, succeeded)]

    expect(order).toEqual([first.id, second.id, third.id])
  },
}

const badEnds: Facts = {
  'a child is cancelled when its parent dies': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })

    await store.settle([dead(parent)])

    expect(await viewOf(store, child)).toMatchObject({ state: 'cancelled', finishedAt: new Date(START_MS) })
  },

  'a child is cancelled when its parent ends as cancelled': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })

    await store.settle([cancelled(parent)])

    expect(await stateOf(store, child)).toBe('cancelled')
  },

  'a child is cancelled when an operator cancels its parent': async ({ store, expect }) => {
    const parent = await enqueueJob(store)
    const child = await enqueueJob(store, { after: [parent] })

    await store.cancel([parent], OPERATOR)

    expect(await stateOf(store, child)).toBe('cancelled')
  },

  'a child is cancelled when its parent dies in a rescue': async ({ store, clock, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await clock.advance(LEASE_MS)

    await store.settle([dead(parent, { reason: 'crashed' })], { onlyExpired: true })

    expect(await stateOf(store, child)).toBe('cancelled')
  },

  'a child stays blocked when the worker of its parent is lost': async ({ store, clock, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await clock.advance(LEASE_MS)

    await store.settle([crashed(parent)], { onlyExpired: true })

    expect(await stateOf(store, child)).toBe('blocked')
  },

  'a child is cancelled by one dead parent without waiting for the others': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id] })

    await store.settle([dead(second)])

    expect(await stateOf(store, child)).toBe('cancelled')
  },

  'a child that runs anyway is ready when its parent dies': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id], onParentDead: 'run' })

    await store.settle([dead(parent)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a child that runs anyway is ready when its parent is cancelled': async ({ store, expect }) => {
    const parent = await enqueueJob(store)
    const child = await enqueueJob(store, { after: [parent], onParentDead: 'run' })

    await store.cancel([parent], OPERATOR)

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a child that runs anyway still waits for its other parents': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id], onParentDead: 'run' })

    await store.settle([dead(first)])

    expect(await stateOf(store, child)).toBe('blocked')
  },

  'a child waits again for a parent that was requeued': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id], onParentDead: 'run' })
    await store.settle([dead(first)])
    await store.requeue([first.id], OPERATOR)

    await store.settle([succeeded(second)])

    expect(await stateOf(store, child)).toBe('blocked')
  },

  'a child goes on when the dead one of its parents was discarded': async ({ store, expect }) => {
    const [first, second] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { after: [first.id, second.id], onParentDead: 'run' })
    await store.settle([dead(first)])
    await store.discard([first.id], OPERATOR)

    await store.settle([succeeded(second)])

    expect(await stateOf(store, child)).toBe('ready')
  },

  'a whole chain is cancelled when its first job dies': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    const grandchild = await enqueueJob(store, { after: [child] })

    await store.settle([dead(parent)])
    await store.promote(100)

    expect(await statesOf(store, [child, grandchild])).toEqual(['cancelled', 'cancelled'])
  },

  'a grandchild that runs anyway is ready when its parent is cancelled with its own': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    const grandchild = await enqueueJob(store, { after: [child], onParentDead: 'run' })

    await store.settle([dead(parent)])
    await store.promote(100)

    expect(await stateOf(store, grandchild)).toBe('ready')
  },

  'cancelling a blocked job cancels its children': async ({ store, expect }) => {
    const child = await jobIn(store, 'blocked')
    const grandchild = await enqueueJob(store, { after: [child] })

    await store.cancel([child], OPERATOR)

    expect(await stateOf(store, grandchild)).toBe('cancelled')
  },

  'a cancelled child is not requeued when its parent succeeds': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    await store.cancel([child], OPERATOR)

    await store.settle([succeeded(parent)])

    expect(await stateOf(store, child)).toBe('cancelled')
  },
}

export const chainFacts: Facts = { ...going, ...badEnds }

// Queues: known by use, paused, resumed, set, shown.

import type { Overview } from '../../core/operating.js'
import type { Facts } from './context.js'
import { OPERATOR, QUEUE } from './samples.js'
import { claimIds, enqueueJob, jobIn } from './steps.js'

export const queueFacts: Facts = {
  'a queue without jobs can be removed, and comes back with a job': async ({ store, expect }) => {
    await store.setQueue('email', { limits: { maxAttempts: 3 } }, OPERATOR)

    expect(await store.removeQueue('email', OPERATOR)).toBe('removed')
    expect(await store.queues()).toEqual([])
    expect(await store.removeQueue('email', OPERATOR)).toBe('missing')
    expect((await store.audit({ before: null, limit: 1 })).entries[0]).toMatchObject({
      ...{ actor: OPERATOR, action: 'remove queue', target: 'email' },
    })

    await enqueueJob(store, { queue: 'email' })
    expect(await store.queues()).toEqual([{ name: 'email', paused: false, settings: { limits: {} } }])
  },

  'a queue with jobs that are unfinished or dead stays': async ({ store, expect }) => {
    for (const state of ['succeeded', 'blocked', 'scheduled', 'retrying', 'dead', 'running', 'ready'] as const) {
      await jobIn(store, state)
    }

    expect(await store.removeQueue(QUEUE, OPERATOR)).toBe('busy')
    expect((await store.queues()).map(({ name }) => name)).toContain(QUEUE)
  },

  'a maker who has made as many queues as they may makes no more': async ({ store, expect }) => {
    const bounds = { by: 'key 1', most: 2 }

    expect(await store.openQueues(['a', 'b'], bounds)).toBe(true)
    expect(await store.openQueues(['a', 'b'], bounds)).toBe(true)
    expect(await store.openQueues(['c'], bounds)).toBe(false)
    expect(await store.openQueues(['c'], { ...bounds, by: 'key 2' })).toBe(true)
    expect((await store.queues()).map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  },

  'a queue set to nothing in particular matters no more than another': async ({ store, expect }) => {
    await store.setQueue('a', { limits: {} }, OPERATOR)
    await store.pause('b', OPERATOR)

    const { queues } = await store.overview()

    expect(queues.map(({ name }) => name)).toEqual(['b', 'a'])
  },

  'an overview shows queues that matter first, then those known longest': async ({ store, clock, expect }) => {
    for (const queue of ['old', 'newer', 'a', 'paused', 'set']) {
      await enqueueJob(store, { queue })
      await clock.advance(1_000)
    }
    await store.pause('paused', OPERATOR)
    await store.setQueue('set', { limits: { maxAttempts: 3 } }, OPERATOR)

    const names = ({ queues }: Overview) => queues.map(({ name }) => name)
    expect(names(await store.overview())).toEqual(['paused', 'set', 'old', 'newer', 'a'])
    expect(names(await store.overview({ offset: 3 }))).toEqual(['newer', 'a'])
    expect(names(await store.overview({ queues: ['a', 'none'] }))).toEqual(['a'])
    expect((await store.overview({ queues: ['a'] })).total).toBe(5)
  },

  'there are no queues at first': async ({ store, expect }) => {
    expect(await store.queues()).toEqual([])
  },

  'a queue is known once a job was enqueued to it': async ({ store, expect }) => {
    await enqueueJob(store, { queue: 'email' })

    expect(await store.queues()).toEqual([{ name: 'email', paused: false, settings: { limits: {} } }])
  },

  'a queue is known once it was paused': async ({ store, expect }) => {
    await store.pause('email', OPERATOR)

    expect(await store.queues()).toEqual([{ name: 'email', paused: true, settings: { limits: {} } }])
  },

  'a queue is known once it was set': async ({ store, expect }) => {
    const settings = { limits: { maxAttempts: 3 }, retentionMs: 1_000 }

    await store.setQueue('email', settings, OPERATOR)

    expect(await store.queues()).toEqual([{ name: 'email', paused: false, settings }])
  },

  'looking at a queue does not make it known': async ({ store, expect }) => {
    await claimIds(store, { queue: 'email' })
    await store.stats('email')
    await store.resume('email', OPERATOR)

    expect(await store.queues()).toEqual([])
  },

  'queues are listed by name': async ({ store, expect }) => {
    for (const queue of ['b', 'Z', 'a', 'B:1']) await enqueueJob(store, { queue })

    expect((await store.queues()).map(({ name }) => name)).toEqual(['B:1', 'Z', 'a', 'b'])
  },

  'a resumed queue is no longer paused': async ({ store, expect }) => {
    await store.pause('email', OPERATOR)

    await store.resume('email', OPERATOR)

    expect((await store.queues())[0]).toMatchObject({ name: 'email', paused: false })
  },

  'pausing one queue leaves the others': async ({ store, expect }) => {
    const id = await enqueueJob(store, { queue: 'push' })

    await store.pause('email', OPERATOR)

    expect(await claimIds(store, { queue: 'push' })).toEqual([id])
  },

  'settings replace the settings before': async ({ store, expect }) => {
    await store.setQueue('email', { limits: { maxAttempts: 3 }, retentionMs: 1_000 }, OPERATOR)

    await store.setQueue('email', { limits: { timeoutMs: null } }, OPERATOR)

    expect((await store.queues())[0]!.settings).toEqual({ limits: { timeoutMs: null } })
  },

  'settings do not touch a pause': async ({ store, expect }) => {
    await store.pause('email', OPERATOR)

    await store.setQueue('email', { limits: {} }, OPERATOR)

    expect((await store.queues())[0]!.paused).toBe(true)
  },

  'a pause does not touch the settings': async ({ store, expect }) => {
    await store.setQueue('email', { limits: { maxAttempts: 3 } }, OPERATOR)

    await store.pause('email', OPERATOR)

    expect((await store.queues())[0]!.settings).toEqual({ limits: { maxAttempts: 3 } })
  },

  'enqueueing to a queue does not touch its pause and its settings': async ({ store, expect }) => {
    await store.pause('email', OPERATOR)
    await store.setQueue('email', { limits: { maxAttempts: 3 } }, OPERATOR)

    await enqueueJob(store, { queue: 'email' })

    expect(await store.queues()).toEqual([{ name: 'email', paused: true, settings: { limits: { maxAttempts: 3 } } }])
  },
}

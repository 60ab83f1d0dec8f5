// Queues: known by use, paused, resumed, set, shown.

import type { Facts } from './context.js'
import { OPERATOR } from './samples.js'
import { claimIds, enqueueJob } from './steps.js'

export const queueFacts: Facts = {
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

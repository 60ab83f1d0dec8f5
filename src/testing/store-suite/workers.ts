// Workers: who lives, by their own word.

import type { Facts } from './context.js'
import { newBeat, SECOND_MS, START_MS } from './samples.js'

export const workerFacts: Facts = {
  'there are no workers at first': async ({ store, expect }) => {
    expect(await store.workers()).toEqual([])
  },

  'a worker is shown with what it said and since when it lives': async ({ store, expect }) => {
    const worker = newBeat()

    await store.beat(worker)

    expect(await store.workers()).toEqual([{ ...worker, startedAt: new Date(START_MS), seenAt: new Date(START_MS) }])
  },

  'a worker that beats again is seen later and started when it did': async ({ store, clock, expect }) => {
    await store.beat(newBeat())
    await clock.advance(SECOND_MS)

    await store.beat(newBeat())

    expect((await store.workers())[0]).toMatchObject({
      startedAt: new Date(START_MS),
      seenAt: new Date(START_MS + SECOND_MS),
    })
  },

  'the last word of a worker counts': async ({ store, expect }) => {
    await store.beat(newBeat({ running: 1, draining: false }))

    await store.beat(newBeat({ running: 5, draining: true, queues: ['push'] }))

    expect((await store.workers())[0]).toMatchObject({ running: 5, draining: true, queues: ['push'] })
  },

  'workers are listed by id': async ({ store, expect }) => {
    for (const id of ['b', 'Z', 'a']) await store.beat(newBeat({ id }))

    expect((await store.workers()).map(({ id }) => id)).toEqual(['Z', 'a', 'b'])
  },

  'a worker that has left is gone': async ({ store, expect }) => {
    await store.beat(newBeat({ id: 'a' }))
    await store.beat(newBeat({ id: 'b' }))

    await store.leave('a')

    expect((await store.workers()).map(({ id }) => id)).toEqual(['b'])
  },

  'a worker nobody knows may leave': async ({ store, expect }) => {
    await store.leave('unheard-of')

    expect(await store.workers()).toEqual([])
  },

  'a worker that comes back started anew': async ({ store, clock, expect }) => {
    await store.beat(newBeat())
    await store.leave('worker-a')
    await clock.advance(SECOND_MS)

    await store.beat(newBeat())

    expect((await store.workers())[0]!.startedAt).toEqual(new Date(START_MS + SECOND_MS))
  },
}

import { describe, expect, test } from 'vitest'
import { type EventsOptions, iterateEvents } from '../../src/client/event-iterator.js'
import { Events } from '../../src/client/events.js'
import { failure, openClient } from './support.js'

const settled = (queue: string, state: 'dead' | 'retrying' = 'dead') =>
  ({ name: 'job.settled', id: 'x', type: 'mail', queue, state, reason: null, delayMs: null }) as const

describe('events as an iterator', () => {
  test('gives those that pass the filter, in order, also those before the first look', async () => {
    const { client, events } = await openClient()
    const found = client.events({ filter: { names: ['job.dead', 'job.retrying'], queues: ['a'] } })

    events.emit(settled('a'))
    events.emit(settled('b'))
    events.emit(settled('a', 'retrying'))

    expect((await found.next()).value).toMatchObject({ name: 'job.dead', queue: 'a' })
    expect((await found.next()).value).toMatchObject({ name: 'job.retrying', queue: 'a' })
  })

  test('waits for the next one, and ends with its signal', async () => {
    const { client, events } = await openClient()
    const stop = new AbortController()
    const seen: string[] = []
    const reading = (async () => {
      for await (const { queue } of client.events({ filter: { names: 'job.dead' }, signal: stop.signal }))
        seen.push(queue)
    })()

    events.emit(settled('a'))
    await Promise.resolve()
    events.emit(settled('b'))
    stop.abort()
    events.emit(settled('c'))
    await reading

    expect(seen).toEqual(['a', 'b'])
  })

  test('listens no more once its loop is left', async () => {
    const events = new Events()
    const found = iterateEvents(events, { filter: { names: 'job.dead' } })
    const during = events.isHeard
    events.emit(settled('a'))

    for await (const _ of found) break

    expect([during, events.isHeard]).toEqual([true, false])
    expect(await found.next()).toEqual({ done: true, value: undefined })
  })

  test('ends with buffer_full when its reader is too slow, after what was kept', async () => {
    const { client, events } = await openClient()
    const found = client.events({ filter: { names: 'job.dead' }, bufferMax: 2 })
    for (const queue of ['a', 'b', 'c', 'd']) events.emit(settled(queue))

    expect((await found.next()).value).toMatchObject({ queue: 'a' })
    expect((await found.next()).value).toMatchObject({ queue: 'b' })
    expect((await failure(found.next())).code).toBe('buffer_full')
    expect((await found.next()).done).toBe(true)
  })

  const cases: [name: string, options: unknown, message: RegExp][] = [
    ['no filter', {}, /filter must be an object/],
    ['an unknown part of it', { filter: { names: 'job.dead', queue: 'a' } }, /filter has no option "queue"/],
    ['queues that are text', { filter: { names: 'job.dead', queues: 'a' } }, /filter.queues must be an array/],
    ['a signal that is none', { filter: { names: 'job.dead' }, signal: {} }, /signal must be an AbortSignal/],
    ['a buffer of nothing', { filter: { names: 'job.dead' }, bufferMax: 0 }, /bufferMax must be a whole number/],
    ['an unknown event', { filter: { names: 'job.gone' } }, /job.gone/],
  ]
  test.each(cases)('refuses %s', async (_, options, message) => {
    const { client } = await openClient()

    expect(() => client.events(options as EventsOptions)).toThrow(message)
  })
})

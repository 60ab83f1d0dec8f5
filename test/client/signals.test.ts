// Signals of one process: those that are sent concurrently go together.

import { expect, test } from 'vitest'
import { HoldfastError } from '../../src/core/errors.js'
import type { NewSignal } from '../../src/core/kept/contract.js'
import type { Store } from '../../src/core/store.js'
import { failure, gate, openClient, unavailable } from './support.js'

/** Keeps the signals of each call, and lets faults happen before it. */
function faultySignal(store: Store, calls: (readonly NewSignal[])[], before: () => void | Promise<void>): Store {
  return {
    ...store,
    async signal(signals) {
      calls.push(signals)
      await before()
      return store.signal(signals)
    },
  }
}

test('signals that are sent while others are under way go together, and each gets its own answer', async () => {
  const calls: (readonly NewSignal[])[] = []
  const { opened, open } = gate()
  const { client } = await openClient({ between: (store) => faultySignal(store, calls, () => opened) })
  const { id } = await client.enqueue('approval', null)

  const first = client.signal(id, 'approved', 1)
  await new Promise((resolve) => setImmediate(resolve))
  const others = [2, 3].map((value) => client.signal(id, 'approved', value))
  const missing = failure(client.signal('0198f0c2-7c1e-7000-8000-000000000001', 'approved'))
  open()

  expect(await Promise.all([first, ...others])).toEqual([1, 2, 3].map(() => ({ id, woken: false })))
  expect((await missing).code).toBe('job_not_found')
  expect(calls.map((signals) => signals.map(({ value }) => value))).toEqual([['1'], ['2', '3', 'null']])
})

test('signals that are sent in one turn go in one call', async () => {
  const calls: (readonly NewSignal[])[] = []
  const { client } = await openClient({ between: (store) => faultySignal(store, calls, () => {}) })
  const { id } = await client.enqueue('approval', null)

  await Promise.all(Array.from({ length: 700 }, (_, value) => client.signal(id, 'approved', value)))

  expect(calls.map(({ length }) => length)).toEqual([500, 200])
})

test('a signal that the store refuses fails alone', async () => {
  const calls: (readonly NewSignal[])[] = []
  const refuse = () => {
    const isRefused = calls.at(-1)!.some(({ name }) => name === 'bad')
    if (isRefused) throw new HoldfastError('store_refused', 'the value cannot be stored')
  }
  const { client } = await openClient({ between: (store) => faultySignal(store, calls, refuse) })
  const { id } = await client.enqueue('approval', null)

  const [one, bad, two] = await Promise.allSettled(['good', 'bad', 'good'].map((name) => client.signal(id, name)))

  expect([one!.status, bad!.status, two!.status]).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect((bad as PromiseRejectedResult).reason.code).toBe('store_refused')
})

test('signals are refused together while the store is away, and sent later they arrive', async () => {
  const calls: (readonly NewSignal[])[] = []
  let isAway = true
  const { client } = await openClient({
    between: (store) =>
      faultySignal(store, calls, () => {
        if (isAway) throw unavailable()
      }),
  })
  const { id } = await client.enqueue('approval', null)

  const ended = await Promise.allSettled([client.signal(id, 'a'), client.signal(id, 'b')])
  isAway = false

  expect(ended.map((end) => end.status === 'rejected' && end.reason.code)).toEqual([
    'store_unavailable',
    'store_unavailable',
  ])
  expect(calls).toHaveLength(1)
  expect(await client.signal(id, 'a')).toEqual({ id, woken: false })
})

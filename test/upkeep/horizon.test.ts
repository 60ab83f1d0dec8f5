// The watch for old snapshots: it warns, names who holds one, and says when it is over.

import { expect, test } from 'vitest'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Horizon } from '../../src/core/operating.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { HorizonWatch } from '../../src/upkeep/horizon.js'

const held = (ageMs: number): Horizon => ({
  ageMs,
  xids: 12,
  holder: {
    kind: 'transaction',
    pid: 4711,
    user: 'reports',
    application: 'nightly report',
    state: 'idle in transaction',
    since: null,
    queryStart: null,
  },
})

function openWatch() {
  const clock = manualClock()
  const heard: HoldfastEvent[] = []
  const now: { horizon: Horizon | null } = { horizon: null }
  const store = { ...memoryStore({ clock }), horizon: async () => now.horizon }
  const random = { float: () => 0.5, fill: () => {} }
  const watch = new HorizonWatch({
    store,
    ports: { clock, timers: clock.timers, random },
    emit: (event) => heard.push(event),
  })
  return { watch, clock, heard, now }
}

test('a snapshot held for long is reported, with the process that holds it', async () => {
  const { watch, heard, now } = openWatch()
  now.horizon = held(20_000)

  await watch.step()

  expect(heard).toMatchObject([{ name: 'horizon.held', horizon: { holder: { pid: 4711 } } }])
  expect(heard[0]).toHaveProperty(
    'text',
    'process 4711 (nightly report, user reports, idle in transaction) has held a snapshot for 20s: dead rows pile up; end its transaction, or SELECT pg_terminate_backend(4711)',
  )
})

test('a snapshot of a moment is not worth a word', async () => {
  const { watch, heard, now } = openWatch()
  now.horizon = held(2_000)

  await watch.step()

  expect(heard).toEqual([])
})

test('it is said again each minute, and once when it is over', async () => {
  const { watch, clock, heard, now } = openWatch()
  now.horizon = held(20_000)

  await watch.step()
  await clock.advance(30_000)
  await watch.step()
  await clock.advance(31_000)
  await watch.step()
  now.horizon = null
  await watch.step()
  await watch.step()

  expect(heard.map(({ name }) => name)).toEqual(['horizon.held', 'horizon.held', 'horizon.freed'])
})

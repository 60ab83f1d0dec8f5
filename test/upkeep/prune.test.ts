// Pruning as a step of upkeep: it goes on soon while there is more to do, and names the days it passes over.

import { expect, test } from 'vitest'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Pruned } from '../../src/core/upkeep-store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { Prune } from '../../src/upkeep/prune.js'

const MINUTE_MS = 60_000

function openPrune() {
  const clock = manualClock()
  const heard: HoldfastEvent[] = []
  const now: { pruned: Pruned } = { pruned: { days: [], rows: 0, postponed: [], isDone: true } }
  const store = { ...memoryStore({ clock }), prune: async () => now.pruned }
  const random = { float: () => 0.5, fill: () => {} }
  const ports = { clock, timers: clock.timers, random }
  const prune = new Prune({ store, ports, emit: (event) => heard.push(event), retentionMs: MINUTE_MS })
  return { prune, clock, heard, now }
}

test('it comes back within a second while there is more to do, and within a minute otherwise', async () => {
  const { prune, now } = openPrune()

  const idleMs = await prune.step()
  now.pruned = { ...now.pruned, isDone: false }
  const busyMs = await prune.step()

  expect([busyMs > 0 && busyMs < 1_000, idleMs > 30_000 && idleMs <= MINUTE_MS]).toEqual([true, true])
})

test('a day that is passed over is named once an hour, and again when it comes back', async () => {
  const { prune, clock, heard, now } = openPrune()
  const postponed = { day: '2026-03-01', why: 'it is in use' }
  now.pruned = { ...now.pruned, postponed: [postponed] }

  await prune.step()
  await prune.step()
  expect(heard).toEqual([{ name: 'prune.postponed', ...postponed }])
  await clock.advance(61 * MINUTE_MS)
  await prune.step()
  expect(heard).toHaveLength(2)
  now.pruned = { ...now.pruned, postponed: [] }
  await prune.step()
  now.pruned = { ...now.pruned, postponed: [postponed] }
  await prune.step()

  expect(heard).toHaveLength(3)
})

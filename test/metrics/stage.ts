// A connected queue on the memory store with metrics, on a clock in the hands of the test.

import type { Store } from '../../src/core/store.js'
import { type Holdfast, type HoldfastOptions, openHoldfast } from '../../src/holdfast.js'
import { createMetrics, type Metrics, type MetricsOptions } from '../../src/metrics/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { testPorts } from '../client/support.js'
import { readValue } from './exposition.js'

export interface MetricsStage {
  readonly holdfast: Holdfast
  readonly store: Store
  readonly clock: ManualClock
  readonly metrics: Metrics
  /** Calls of a store method so far. */
  calls(method: keyof Store): number
  /** Calls of this method fail from now on; null ends it. */
  fail(method: keyof Store | null): void
  /** What a metric says now, with the store asked again. */
  read(name: string, labels?: Readonly<Record<string, string>>): Promise<number | null>
}

export async function openMetricsStage(
  options: MetricsOptions = {},
  holdfastOptions: HoldfastOptions = {},
): Promise<MetricsStage> {
  const clock = manualClock()
  const ports = testPorts(clock)
  const counts = new Map<string, number>()
  let failing: keyof Store | null = null
  const store = new Proxy(memoryStore({ clock }), {
    get(target, method: keyof Store) {
      const plain = target[method]
      if (typeof plain !== 'function' || ['listen', 'wake', 'extender'].includes(method)) return plain
      return (...values: unknown[]) => {
        counts.set(method, (counts.get(method) ?? 0) + 1)
        if (method === failing) return Promise.reject(new Error('the store is away'))
        return (plain as (...values: unknown[]) => unknown)(...values)
      }
    },
  })
  const holdfast = await openHoldfast(store, { ports, upkeep: { hold: 0 }, ...holdfastOptions })
  const metrics = createMetrics(holdfast, { ports, ...options })
  return {
    holdfast,
    store,
    clock,
    metrics,
    calls: (method) => counts.get(method) ?? 0,
    fail: (method) => {
      failing = method
    },
    async read(name, labels) {
      await clock.advance(10_000)
      return readValue(await metrics.render(), name, labels)
    },
  }
}

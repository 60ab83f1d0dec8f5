// Tells which limits stopped giving jobs, and which go on. One look every ten seconds for all processes: the one that takes the sample.

import type { Emit } from '../core/events.js'
import { type ClosedBecause, closedBecause } from '../core/flow/counts.js'
import type { UpkeepStore } from '../core/upkeep-store.js'

/** The limits of one store as this process saw them last. */
export class FlowWatch {
  readonly #deps: { readonly store: UpkeepStore; readonly emit: Emit }
  #closed = new Map<string, ClosedBecause>()

  constructor(deps: { readonly store: UpkeepStore; readonly emit: Emit }) {
    this.#deps = deps
  }

  async look(): Promise<void> {
    const { store, emit } = this.#deps
    const { limits } = await store.flowCounts()
    const closed = new Map<string, ClosedBecause>()
    for (const limit of limits) {
      const why = closedBecause(limit)
      if (why === null) continue
      closed.set(limit.name, why)
      if (!this.#closed.has(limit.name)) emit({ name: 'limit.closed', limit: limit.name, why })
    }
    for (const name of this.#closed.keys()) if (!closed.has(name)) emit({ name: 'limit.opened', limit: name })
    this.#closed = closed
  }
}

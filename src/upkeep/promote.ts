// Promote: jobs whose time has come, or whose parents have finished, become ready.

import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'
import { PromotePace } from './promote-pace.js'

const BATCH = 1_000
const CALLS_MAX = 20
// Between two turns that left something behind.
const WAIT_MS_MIN = 5
const WAIT_MS = 1_000
// With nothing due soon: jobs given a nearer time in this process nudge, those of other processes are promoted there.
const IDLE_WAIT_MS = 4_000

/** Promotes in one process. */
export class Promote {
  readonly #deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }
  readonly #pace: PromotePace

  constructor(deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }) {
    this.#deps = deps
    this.#pace = new PromotePace(deps.ports)
  }

  /** How long to wait for what becomes due in so many milliseconds. */
  waitFor(dueInMs: number): number {
    return this.#pace.waitMs(dueInMs)
  }

  /** Promotes what is due, as far as one turn goes, and returns how long until the next is needed. */
  async step(): Promise<number> {
    const { store, ports, emit } = this.#deps
    let count = 0
    for (let calls = 0; calls < CALLS_MAX; calls++) {
      const { promoted, nextDueMs, lateMs } = await store.promote(BATCH)
      this.#pace.learn({ promoted, lateMs })
      count += promoted
      if (promoted > 0) {
        emit({ name: 'job.promoted', count: promoted })
      }
      if (promoted >= BATCH) continue
      const usualMs = jittered(count > 0 ? WAIT_MS : IDLE_WAIT_MS, ports)
      return nextDueMs === null || nextDueMs > usualMs ? usualMs : this.#pace.waitMs(nextDueMs)
    }
    // There is more. The pause lets others have the store, and a stop get through.
    return WAIT_MS_MIN
  }
}

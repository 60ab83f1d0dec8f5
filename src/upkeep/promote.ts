// Promote: jobs whose time has come, or whose parents have finished, become ready.

import type { Emit } from '../core/events.js'
import { PACES, Pace } from '../core/pace.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

const BATCH = 1_000
const CALLS_MAX = 20
// The wait between two steps when due jobs are left.
const WAIT_MS_MIN = 5
const WAIT_MS = 1_000
// The wait with nothing due soon. A job that this process gives an earlier time nudges this loop; other processes promote theirs.
const IDLE_WAIT_MS = 4_000

/** Promotes in one process. */
export class Promote {
  readonly #deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }
  readonly #pace = new Pace(PACES.promote)

  constructor(deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }) {
    this.#deps = deps
  }

  /** How long to wait for what becomes due in `dueInMs`. */
  waitFor(dueInMs: number): number {
    return Math.max(dueInMs, this.#pace.waitMs(this.#deps.ports.clock.monotonic()))
  }

  /** Promotes what is due, up to the limit of one step, and returns how long to wait until the next. */
  async step(): Promise<number> {
    const { store, ports, emit } = this.#deps
    let count = 0
    for (let calls = 0; calls < CALLS_MAX; calls++) {
      const startedMs = ports.clock.monotonic()
      const { promoted, nextDueMs, lateMs, repaired = 0 } = await store.promote(BATCH)
      // Jobs that were unblocked by their parents have no due time. They get the age that leaves the pace as it is.
      const ageMs = promoted === 0 ? null : (lateMs ?? PACES.promote.staleMs)
      this.#pace.learn({ startedMs, endedMs: ports.clock.monotonic(), ageMs })
      count += promoted
      if (promoted > 0) {
        emit({ name: 'job.promoted', count: promoted })
      }
      if (repaired > 0) emit({ name: 'flow.repaired', count: repaired })
      if (promoted >= BATCH) continue
      const usualMs = jittered(count > 0 ? WAIT_MS : IDLE_WAIT_MS, ports)
      return nextDueMs === null || nextDueMs > usualMs ? usualMs : this.waitFor(nextDueMs)
    }
    // There is more. The pause leaves the store to others, and lets a stop come in between.
    return WAIT_MS_MIN
  }
}

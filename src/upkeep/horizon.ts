// Horizon: watches for somebody who holds an old snapshot, and names them. That is how queues on PostgreSQL die: a forgotten
// BEGIN, a report that runs for an hour, a replica that fell behind.

import type { Emit } from '../core/events.js'
import { describeHorizon } from '../core/horizon.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

const LOOK_MS = 10_000
/** From this age on it is worth a warning. */
const HELD_MS = 15_000
/** While it lasts it is reported again this often. */
const AGAIN_MS = 60_000

/** The watch of one process. */
export class HorizonWatch {
  readonly #deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }
  #saidAtMs: number | null = null

  constructor(deps: { readonly store: UpkeepStore; readonly ports: Ports; readonly emit: Emit }) {
    this.#deps = deps
  }

  /** Looks once, and returns how long to wait. */
  async step(): Promise<number> {
    const { store, ports, emit } = this.#deps
    const horizon = await store.horizon()
    const nowMs = ports.clock.monotonic()
    if (horizon !== null && horizon.ageMs >= HELD_MS) {
      if (this.#saidAtMs === null || nowMs - this.#saidAtMs >= AGAIN_MS) {
        this.#saidAtMs = nowMs
        emit({ name: 'horizon.held', horizon, text: describeHorizon(horizon) })
      }
    } else if (this.#saidAtMs !== null) {
      this.#saidAtMs = null
      emit({ name: 'horizon.freed' })
    }
    return jittered(LOOK_MS, ports)
  }
}

// Prune: drops days past their retention and other expired rows, and prepares the partitions of the next days.

import { isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { PostponedDay, UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

const WAIT_MS = 60_000
/** Between two pieces of a large day. */
const GO_ON_MS = 250
/** A postponed day is reported again this often. */
const AGAIN_MS = 60 * 60_000

export interface PruneDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
  readonly retentionMs: number
}

/** The pruning of one process. */
export class Prune {
  readonly #deps: PruneDeps
  /** When each postponed day was last reported. */
  #namedAtMs = new Map<string, number>()

  constructor(deps: PruneDeps) {
    this.#deps = deps
  }

  /** Prunes once and returns how long to wait. */
  async step(): Promise<number> {
    const { store, ports, emit, retentionMs } = this.#deps
    try {
      const { days, rows, early = 0, postponed, isDone } = await store.prune({ retentionMs })
      if (days.length > 0 || rows + early > 0) emit({ name: 'prune.done', days, rows: rows + early })
      this.#name(postponed)
      if (!isDone) return jittered(GO_ON_MS, ports)
    } catch (error) {
      // A role without the right will not have it a second later. It is reported once a minute, not as often as a lost store.
      if (!isHoldfastError(error, 'access_denied')) throw error
      emit({ name: 'store.failed', during: 'prune', error })
    }
    return jittered(WAIT_MS, ports)
  }

  #name(postponed: readonly PostponedDay[]): void {
    const nowMs = this.#deps.ports.clock.monotonic()
    const before = this.#namedAtMs
    this.#namedAtMs = new Map()
    for (const { day, why } of postponed) {
      const namedAtMs = before.get(day)
      const isNews = namedAtMs === undefined || nowMs - namedAtMs >= AGAIN_MS
      this.#namedAtMs.set(day, isNews ? nowMs : namedAtMs)
      if (isNews) this.#deps.emit({ name: 'prune.postponed', day, why })
    }
  }
}

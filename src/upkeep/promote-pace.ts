// When this process promotes. Every process sees the same next due time, and without more all of them would call for each due job.
// So they watch what their calls find: jobs that have just come due, or none any more, mean that enough calls are made, by whomever;
// jobs that were due for a while mean that too few are. A process that is alone never comes to nothing, and stays exact.

import type { Ports } from '../core/ports.js'

/** Due jobs this close together become ready in one call; how close depends on what calls find. */
const GAP_MS_MIN = 5
/** The longest gap between calls, and how far apart processes come for the same due job. */
const APART_MS_MAX = 250
const FRESH_MS = 20
const STALE_MS = 40
/** Below this it is as good as nothing. */
const SPREAD_MS_MIN = 2

/** What a call found. */
export interface Found {
  readonly promoted: number
  /** How long the first of them had been due; null for none. */
  readonly lateMs: number | null
}

/** Follows what the calls of one process find. */
export class PromotePace {
  readonly #ports: Ports
  #gapMs = GAP_MS_MIN
  #spreadMs = 0
  #calledMs = Number.NEGATIVE_INFINITY
  #expectedMs = Number.POSITIVE_INFINITY

  constructor(ports: Ports) {
    this.#ports = ports
  }

  /** How long to wait for a job that is due in `dueInMs`. */
  waitMs(dueInMs: number): number {
    const nowMs = this.#ports.clock.monotonic()
    this.#expectedMs = Math.min(this.#expectedMs, nowMs + dueInMs)
    const spreadMs = this.#spreadMs < SPREAD_MS_MIN ? 0 : this.#spreadMs * this.#ports.random.float()
    return Math.max(dueInMs + spreadMs, this.#calledMs + this.#gapMs - nowMs)
  }

  /** A call has found this. */
  learn({ promoted, lateMs }: Found): void {
    const nowMs = this.#ports.clock.monotonic()
    const wasDue = this.#expectedMs <= nowMs
    this.#calledMs = nowMs
    this.#expectedMs = Number.POSITIVE_INFINITY
    if (promoted === 0) {
      if (wasDue) this.#spreadMs = Math.min(APART_MS_MAX, Math.max(GAP_MS_MIN, this.#spreadMs * 2))
    } else if (lateMs !== null && lateMs > STALE_MS) {
      this.#gapMs = Math.max(GAP_MS_MIN, this.#gapMs * 0.6)
      this.#spreadMs *= 0.5
    } else {
      if (lateMs !== null && lateMs < FRESH_MS) this.#gapMs = Math.min(APART_MS_MAX, this.#gapMs * 1.3)
      this.#spreadMs *= 0.9
    }
  }
}

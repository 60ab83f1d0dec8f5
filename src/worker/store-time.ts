// The store's time as well as the worker knows it: what the last claim said, carried on by the monotonic clock. The
// worker's wall clock plays no part, so a wrong one changes nothing.

import type { Clock } from '../core/ports.js'

/** An estimate that is never ahead of the store's clock, and behind it by at most the way of an answer. */
export class StoreTime {
  readonly #clock: Clock
  #offsetMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    // Until the first claim there is nothing to decide about; wall time serves.
    this.#offsetMs = clock.now() - clock.monotonic()
  }

  /** Takes the time of an answer that just arrived. */
  learn(storeMs: number): void {
    this.#offsetMs = storeMs - this.#clock.monotonic()
  }

  /** The store's time at a moment of the monotonic clock. */
  at(monotonicMs: number): number {
    return monotonicMs + this.#offsetMs
  }

  nowMs(): number {
    return this.#clock.monotonic() + this.#offsetMs
  }
}

// The store's time as well as this process knows it, for ids. No decision about a job depends on it.

import type { JobStore } from '../core/job-store.js'
import type { Clock } from '../core/ports.js'

// Ordinary clocks drift some 50 ppm: 3 ms in a minute, far less than matters to the order of ids.
const REFRESH_MS = 60_000

/** The difference between the store's clock and this process's monotonic one. */
export class StoreTime {
  readonly #store: JobStore
  readonly #clock: Clock
  #offsetMs = 0
  #readAtMs = 0

  private constructor(store: JobStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Reads the store's clock once; raises what the store raises when it cannot be reached. */
  static async read(store: JobStore, clock: Clock): Promise<StoreTime> {
    const time = new StoreTime(store, clock)
    await time.#read()
    return time
  }

  nowMs(): number {
    return this.#clock.monotonic() + this.#offsetMs
  }

  /** Reads the clock again in the background when the last reading is a minute old. */
  refresh(): void {
    if (this.#clock.monotonic() - this.#readAtMs < REFRESH_MS) return
    // The old difference serves as well until the store answers again.
    this.#read().catch(() => {})
  }

  async #read(): Promise<void> {
    const askedAtMs = this.#clock.monotonic()
    this.#readAtMs = askedAtMs
    const storeMs = await this.#store.now()
    this.#offsetMs = storeMs - (askedAtMs + this.#clock.monotonic()) / 2
  }
}

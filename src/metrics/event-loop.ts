// How late the event loop is: a timer that should fire every few milliseconds, and by how much it does not.

import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 20
const NS_PER_S = 1e9

/** Lag in seconds since it was last read. */
export interface LoopLag {
  readonly mean: number
  readonly p99: number
  readonly max: number
}

/** Watches the event loop of this process. Does not keep it alive. */
export class EventLoop {
  readonly #delays: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })

  constructor() {
    this.#delays.enable()
  }

  /** Reads and starts anew. */
  read(): LoopLag {
    const delays = this.#delays
    // The timer's own interval is no lag. Without a single firing yet there is nothing to report.
    const lag = (ns: number) => (delays.count === 0 ? 0 : Math.max(0, ns / NS_PER_S - RESOLUTION_MS / 1_000))
    const read = { mean: lag(delays.mean), p99: lag(delays.percentile(99)), max: lag(delays.max) }
    delays.reset()
    return read
  }

  stop(): void {
    this.#delays.disable()
  }
}

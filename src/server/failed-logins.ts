// Counts wrong tokens by where they come from and by whose they claim to be, and says when it is enough.

import { Refusal } from './problem.js'

const WINDOW_MS = 60_000
const SOURCES_MAX = 10_000

interface Window {
  readonly beganMs: number
  failures: number
}

export class FailedLogins {
  readonly #max: number
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()

  constructor(max: number, now: () => number) {
    this.#max = max
    this.#now = now
  }

  /** Raises 429 when one of these sources has failed too often in the last minute. Asked before a token is looked at. */
  check(sources: readonly string[]): void {
    for (const source of sources) {
      const window = this.#windows.get(source)
      if (window === undefined) continue
      const leftMs = window.beganMs + WINDOW_MS - this.#now()
      if (leftMs <= 0) this.#windows.delete(source)
      else if (window.failures >= this.#max) {
        throw new Refusal(429, 'too_many_requests', 'too many wrong tokens: wait a minute', {
          headers: { 'retry-after': String(Math.ceil(leftMs / 1_000)) },
        })
      }
    }
  }

  count(sources: readonly string[]): void {
    const nowMs = this.#now()
    for (const source of sources) {
      const window = this.#windows.get(source)
      if (window !== undefined && nowMs - window.beganMs < WINDOW_MS) window.failures++
      else {
        this.#windows.delete(source)
        // The oldest goes: whoever has so many addresses is not stopped by counting them.
        if (this.#windows.size >= SOURCES_MAX) this.#windows.delete(this.#windows.keys().next().value!)
        this.#windows.set(source, { beganMs: nowMs, failures: 1 })
      }
    }
  }
}

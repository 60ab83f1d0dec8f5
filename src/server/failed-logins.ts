// Counts wrong tokens by source address and slows further wrong ones. A right token is never slowed, whatever else its address
// sends: secrets are too long to guess at any speed.

import { Refusal } from './problem.js'

const WINDOW_MS = 60_000
const SOURCES_MAX = 10_000
/** How long the answer to a wrong token is delayed after too many. */
const HOLD_MS = 1_000
/** How many answers are delayed concurrently. Further ones go out immediately, so that delayed requests stay bounded. */
const HELD_MAX = 256

interface Window {
  readonly beganMs: number
  failures: number
}

export class FailedLogins {
  readonly #max: number
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()
  #held = 0

  constructor(max: number, now: () => number) {
    this.#max = max
    this.#now = now
  }

  /** Counts a wrong token. After too many of this source in a minute it waits a second and raises 429. */
  async count(source: string): Promise<void> {
    const { failures, beganMs } = this.#add(source)
    if (failures <= this.#max) return
    await this.#hold()
    const leftMs = Math.max(0, beganMs + WINDOW_MS - this.#now())
    throw new Refusal(429, 'too_many_requests', 'too many wrong tokens: wait a minute, or send a right one', {
      headers: { 'retry-after': String(Math.max(1, Math.ceil(leftMs / 1_000))) },
    })
  }

  #add(source: string): Window {
    const nowMs = this.#now()
    const known = this.#windows.get(source)
    if (known !== undefined && nowMs - known.beganMs < WINDOW_MS) {
      known.failures++
      return known
    }
    this.#windows.delete(source)
    // Drop the oldest: counting does not stop an attacker who has that many addresses.
    if (this.#windows.size >= SOURCES_MAX) this.#windows.delete(this.#windows.keys().next().value!)
    const begun = { beganMs: nowMs, failures: 1 }
    this.#windows.set(source, begun)
    return begun
  }

  async #hold(): Promise<void> {
    if (this.#held >= HELD_MAX) return
    this.#held++
    await new Promise((resolve) => setTimeout(resolve, HOLD_MS))
    this.#held--
  }
}

// Delays handlers so that a worker drains at a given rate.

/** Lets this many pass each second; earlier callers wait. */
export class Pacer {
  #perMs: number | null = null
  #tokens = 0
  #filledMs = 0
  #timer: NodeJS.Timeout | null = null
  readonly #waiting: (() => void)[] = []

  /** Sets the rate; null removes the limit. */
  setPace(perSecond: number | null): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    this.#perMs = perSecond === null ? null : perSecond / 1_000
    this.#tokens = 0
    this.#filledMs = performance.now()
    if (this.#perMs !== null) this.#timer = setInterval(() => this.#release(), 1)
    else for (const pass of this.#waiting.splice(0)) pass()
  }

  /** Returns when the caller may pass: immediately, or as a promise. */
  pass(): Promise<void> | undefined {
    if (this.#perMs === null) return undefined
    this.#fill(this.#perMs)
    if (this.#tokens < 1) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#tokens--
    return undefined
  }

  #release(): void {
    if (this.#perMs === null) return
    this.#fill(this.#perMs)
    while (this.#tokens >= 1 && this.#waiting.length > 0) {
      this.#tokens--
      this.#waiting.shift()!()
    }
  }

  #fill(perMs: number): void {
    const nowMs = performance.now()
    // Unused capacity of at most 20 ms is caught up: a pause must not be followed by a burst.
    this.#tokens = Math.min(this.#tokens + (nowMs - this.#filledMs) * perMs, Math.max(1, 20 * perMs))
    this.#filledMs = nowMs
  }
}

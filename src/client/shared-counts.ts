// Counts that many may ask for at the same time: one computation serves all who can do with an answer of a certain age. Counting a
// large store takes longer, and then its answers are shared for longer, so that counting never becomes what the store does most.

import type { Clock } from '../core/ports.js'

/** An answer that took 50 ms to compute is shared for at least half a second. */
const SHARED_FOR_COST = 10
/** But never for longer than this, unless the caller can do with it. */
const SHARED_MS_MAX = 10_000
const KEPT_MAX = 1_000

interface Kept {
  readonly value: Promise<unknown>
  readonly askedMs: number
  /** How long it took; infinite while it is being computed. */
  costMs: number
}

export class SharedCounts {
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The answer of that name, at most `maxAgeMs` old or ten times what it took to compute; or computed now, for all who ask meanwhile. */
  read<T>(name: string, maxAgeMs: number, compute: () => Promise<T>): Promise<T> {
    const nowMs = this.#clock.monotonic()
    const known = this.#kept.get(name)
    if (known !== undefined) {
      const goodMs = Math.max(maxAgeMs, Math.min(SHARED_MS_MAX, known.costMs * SHARED_FOR_COST))
      if (known.costMs === Number.POSITIVE_INFINITY || nowMs - known.askedMs < goodMs) return known.value as Promise<T>
    }
    const value = compute()
    const kept: Kept = { value, askedMs: nowMs, costMs: Number.POSITIVE_INFINITY }
    this.#kept.delete(name)
    this.#kept.set(name, kept)
    if (this.#kept.size > KEPT_MAX) this.#kept.delete([...this.#kept.keys()][0]!)
    value.then(
      () => {
        kept.costMs = this.#clock.monotonic() - nowMs
      },
      () => {
        if (this.#kept.get(name) === kept) this.#kept.delete(name)
      },
    )
    return value
  }
}

// API keys, remembered for a few seconds: every request asks for one, and the store should not have to answer each time.

import type { ApiKey } from '../core/operating.js'
import type { OperatorStore } from '../core/operator-store.js'
import type { Clock } from '../core/ports.js'

/** How long a key is taken as it was found. One that another process revokes holds this long at most. */
const KEY_KEPT_MS = 5_000
/** How long an id is known to belong to no key: short, because one may be made at any moment. */
const ABSENT_KEPT_MS = 1_000
const KEPT_MAX = 1_000

type FoundKey = ApiKey & { readonly hash: string }

interface Kept {
  readonly key: Promise<FoundKey | null>
  untilMs: number
}

export class KeyCache {
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The key of an id. Those who ask for the same one at the same time share a question to the store. */
  find(store: OperatorStore, id: string): Promise<FoundKey | null> {
    const nowMs = this.#clock.monotonic()
    const known = this.#kept.get(id)
    if (known !== undefined && known.untilMs > nowMs) return known.key
    const kept: Kept = { key: store.findKey(id), untilMs: nowMs + KEY_KEPT_MS }
    this.#keep(id, kept)
    kept.key.then(
      (key) => {
        if (key === null) kept.untilMs = Math.min(kept.untilMs, this.#clock.monotonic() + ABSENT_KEPT_MS)
      },
      () => this.#drop(id, kept),
    )
    return kept.key
  }

  /** Says that a key was used just now, so that the next look at it need not note it again. */
  touched(key: FoundKey, at: Date): void {
    const kept = this.#kept.get(key.id)
    if (kept !== undefined) {
      this.#kept.set(key.id, { key: Promise.resolve({ ...key, lastUsedAt: at }), untilMs: kept.untilMs })
    }
  }

  /** Forgets a key that was made or revoked here. */
  forget(id: string): void {
    this.#kept.delete(id)
  }

  #keep(id: string, kept: Kept): void {
    this.#kept.delete(id)
    this.#kept.set(id, kept)
    if (this.#kept.size <= KEPT_MAX) return
    const [oldest] = this.#kept.keys()
    this.#kept.delete(oldest!)
  }

  #drop(id: string, kept: Kept): void {
    if (this.#kept.get(id) === kept) this.#kept.delete(id)
  }
}

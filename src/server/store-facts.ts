// Facts about the store that are cached: its kind, the distance of its clock from ours, whether it answers.

import type { Client } from '../client/client.js'
import type { Health } from '../client/look.js'
import { HoldfastError } from '../core/errors.js'

const HEALTH_MS = 30_000
const READY_MS = 500
const PATIENCE_MS = 3_000
/** No job has this id: reading it costs one index lookup and no row. */
const NOBODY = '00000000-0000-7000-8000-000000000000'

interface Kept<T> {
  readonly untilMs: number
  readonly value: Promise<T>
}

export class StoreFacts {
  readonly #holdfast: Client
  readonly #now: () => number
  #health: Kept<Health> | null = null
  #ready: Kept<void> | null = null

  constructor(holdfast: Client, now: () => number) {
    this.#holdfast = holdfast
    this.#now = now
  }

  /** The store's health; at most half a minute old. */
  health(): Promise<Health> {
    if (this.#health === null || this.#health.untilMs <= this.#now()) {
      const value = this.#holdfast.health()
      this.#health = { untilMs: this.#now() + HEALTH_MS, value }
      value.catch(() => {
        this.#health = null
      })
    }
    return this.#health.value
  }

  /** The store's time in milliseconds, as far as it is known here. */
  async nowMs(): Promise<number> {
    return Date.now() + (await this.health()).clockOffsetMs
  }

  /** Resolves when the store answers in time. Concurrent calls share one query. */
  ready(): Promise<void> {
    if (this.#ready === null || this.#ready.untilMs <= this.#now()) {
      this.#ready = { untilMs: this.#now() + READY_MS, value: this.#probe() }
      this.#ready.value.catch(() => {})
    }
    return this.#ready.value
  }

  async #probe(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new HoldfastError('store_unavailable', 'no answer in time')), PATIENCE_MS)
    })
    try {
      await Promise.race([this.#holdfast.get(NOBODY), late])
    } finally {
      clearTimeout(timer)
    }
  }
}

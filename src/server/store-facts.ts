// Facts about the store that are cached: its kind, the distance of its clock from ours, whether it answers.

import type { Client } from '../client/client.js'
import type { Health } from '../client/look.js'
import { HoldfastError } from '../core/errors.js'
import type { OutboxHealth } from '../core/outbox.js'

const HEALTH_MS = 30_000
/** The figures of the outbox are looked at more often than the rest. */
const OUTBOX_MS = 2_000
const READY_MS = 500
const PATIENCE_MS = 3_000
/** No job has this id: reading it costs one index lookup and no row. */
const NOBODY = '00000000-0000-7000-8000-000000000000'

/** What `compute` gives, computed at most once in `keptMs` for all who ask. A failure is forgotten, unless it is kept too. */
export function remembered<T>(
  compute: () => Promise<T>,
  { keptMs, now, keepFailures = false }: { keptMs: number; now: () => number; keepFailures?: boolean },
): () => Promise<T> {
  let kept: { readonly untilMs: number; readonly value: Promise<T> } | null = null
  return () => {
    if (kept === null || kept.untilMs <= now()) {
      kept = { untilMs: now() + keptMs, value: compute() }
      kept.value.catch(() => {
        if (!keepFailures) kept = null
      })
    }
    return kept.value
  }
}

export class StoreFacts {
  readonly #holdfast: Client
  /** The store's health; at most half a minute old. */
  readonly health: () => Promise<Health>
  /** What waits in the outbox; null without one. At most two seconds old. */
  readonly outbox: () => Promise<OutboxHealth | null>
  /** Resolves when the store answers in time. Concurrent calls share one query. */
  readonly ready: () => Promise<void>

  constructor(holdfast: Client, now: () => number) {
    this.#holdfast = holdfast
    this.health = remembered(() => holdfast.health(), { keptMs: HEALTH_MS, now })
    this.outbox = remembered(() => this.#lookAtOutbox(), { keptMs: OUTBOX_MS, now })
    this.ready = remembered(() => this.#probe(), { keptMs: READY_MS, now, keepFailures: true })
  }

  /** The store's time in milliseconds, as far as it is known here. */
  async nowMs(): Promise<number> {
    return Date.now() + (await this.health()).clockOffsetMs
  }

  async #lookAtOutbox(): Promise<OutboxHealth | null> {
    if ((await this.health()).outbox === undefined) return null
    return (await this.#holdfast.health()).outbox ?? null
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

// When rescue must wait. A lease that ran out usually means that its worker is gone. After an outage, or a jump of the
// store's clock, it may only mean that a living worker could not extend: it gets the chance to do so first.

/** What a query for expired leases showed about the store itself. */
export interface Sight {
  /** This process's monotonic time. */
  readonly nowMs: number
  readonly storeNowMs: number
  readonly upMs: number | null
}

/** A hold and why. */
export interface Hold {
  readonly why: string
  readonly forMs: number
}

const JUMP_MS = 5_000

/** Remembers the last query, and decides whether rescue may act. */
export class RescueHold {
  readonly #holdMs: number
  /** Without contact for this long, leases may have run out that nobody could extend. */
  readonly #gapMs: number
  #last: { readonly nowMs: number; readonly storeNowMs: number } | null = null
  #hasFailed = false
  #untilMs = Number.NEGATIVE_INFINITY
  #why = ''

  constructor({ holdMs, gapMs }: { readonly holdMs: number; readonly gapMs: number }) {
    this.#holdMs = holdMs
    this.#gapMs = gapMs
  }

  /** The store could not be asked. */
  failed(): void {
    this.#hasFailed = true
  }

  /** Null when rescue may act now. */
  look(sight: Sight): Hold | null {
    const { nowMs, storeNowMs, upMs } = sight
    if (upMs !== null && upMs < this.#holdMs) this.#hold('the store has just come up', nowMs + this.#holdMs - upMs)
    if (this.#hasFailed) this.#hold('the store could not be reached', nowMs + this.#holdMs)
    else if (this.#last !== null && nowMs - this.#last.nowMs > this.#gapMs) {
      this.#hold('this process was away from the store', nowMs + this.#holdMs)
    }
    if (this.#last !== null && storeNowMs - this.#last.storeNowMs - (nowMs - this.#last.nowMs) > JUMP_MS) {
      this.#hold("the store's clock jumped forward", nowMs + this.#holdMs)
    }
    this.#hasFailed = false
    this.#last = { nowMs, storeNowMs }
    return nowMs < this.#untilMs ? { why: this.#why, forMs: Math.ceil(this.#untilMs - nowMs) } : null
  }

  #hold(why: string, untilMs: number): void {
    if (untilMs <= this.#untilMs) return
    this.#untilMs = untilMs
    this.#why = why
  }
}

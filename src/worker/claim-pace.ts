// How soon a wake-up is followed by a claim. A wake-up reaches every worker, and most of them would find that others were faster. So
// a worker whose claims come to nothing waits longer, one whose claims bring jobs less; and what it waits is a multiple of how long
// its claims take, so that claims get fewer and larger when the store is busy. After a quiet time nothing is waited for.

/** A worker claims for at most one part in so many of its time, when wake-ups never end. */
const FACTOR_MIN = 2
const FACTOR_MAX = 64
const WAIT_MS_MAX = 100
/** After so long without a claim, what was learned no longer tells anything. */
const FORGET_MS = 1_000

/** Follows what the claims of one worker bring. */
export class ClaimPace {
  #factor = FACTOR_MIN
  #notBeforeMs = Number.NEGATIVE_INFINITY

  /** How long a wake-up waits now. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#notBeforeMs - nowMs)
  }

  /** A round of claims that a wake-up began has ended, and was not full. */
  learn({ nowMs, tookMs, count }: { readonly nowMs: number; readonly tookMs: number; readonly count: number }): void {
    if (nowMs - this.#notBeforeMs > FORGET_MS) this.#factor = FACTOR_MIN
    this.#factor = count === 0 ? Math.min(FACTOR_MAX, this.#factor * 2) : Math.max(FACTOR_MIN, this.#factor * 0.7)
    this.#notBeforeMs = nowMs + Math.min(WAIT_MS_MAX, tookMs * this.#factor)
  }
}

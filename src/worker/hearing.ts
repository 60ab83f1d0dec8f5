// Whether a worker listens to the wake-ups of other processes. One NOTIFY costs every process that listens. A worker whose claims bring
// many jobs needs none: it claims again by itself, as its pace allows. When its claims find no jobs any more it listens again.

/** Claims must bring this many jobs, over this time or longer. */
const BUSY_JOBS = 50
const BUSY_MS = 500
/** This many claims in a row that find no jobs end it. */
const EMPTY_CLAIMS = 4

/** Follows what the claims of one worker bring. */
export class Hearing {
  readonly #mute: (isMuted: boolean) => Promise<void>
  #isMuted = false
  #sinceMs = Number.NEGATIVE_INFINITY
  #jobs = 0
  #emptyClaims = 0

  constructor(mute: (isMuted: boolean) => Promise<void>) {
    this.#mute = mute
  }

  /** True while the worker must claim without being woken. */
  get isMuted(): boolean {
    return this.#isMuted
  }

  /** A round of claims has brought this many jobs. Returns a promise when the worker listens again: once it resolves one more claim must
   *  follow, for what became ready before. */
  learn(count: number, nowMs: number): Promise<void> | null {
    const tookMs = nowMs - this.#sinceMs
    if (tookMs >= BUSY_MS) {
      const isBusy = this.#jobs * BUSY_MS >= BUSY_JOBS * tookMs
      this.#sinceMs = nowMs
      this.#jobs = 0
      if (isBusy && !this.#isMuted) {
        this.#isMuted = true
        void this.#mute(true)
      }
    }
    this.#jobs += count
    this.#emptyClaims = count > 0 ? 0 : this.#emptyClaims + 1
    if (!this.#isMuted || this.#emptyClaims < EMPTY_CLAIMS) return null
    this.#isMuted = false
    return this.#mute(false)
  }
}

// How many jobs one claim asks for. A large claim costs the least for each job and makes everything else at the store wait
// longer; so claims grow while they come too late, and otherwise shrink until they are answered quickly.

// A claim that is answered within this time disturbs nobody.
const SHORT_MS = 5
// Below this the way to the store and back costs more than the jobs.
const FEWEST = 64
// Growing slowly keeps one stumble of the store from making the next claims long as well.
const GROW = 1.15
const SHRINK = 0.75

/** Follows how long claims take and whether they come in time. */
export class ClaimSize {
  readonly #most: number
  #size: number

  /** `most` is the size that no claim may exceed; the first one has it. */
  constructor(most: number) {
    this.#most = most
    this.#size = most
  }

  get size(): number {
    return this.#size
  }

  /** A claim of this size was answered in full. `isLate`: all that waited for a slot had been started by then. */
  learn({ tookMs, isLate }: { readonly tookMs: number; readonly isLate: boolean }): void {
    if (isLate) this.#size = Math.min(this.#most, Math.ceil(this.#size * GROW))
    else if (tookMs > SHORT_MS) this.#size = Math.max(Math.min(FEWEST, this.#most), Math.floor(this.#size * SHRINK))
  }
}

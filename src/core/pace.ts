// How soon one call to the store follows another. Many processes make the same calls, and none knows how many are enough. So each
// one looks at the age of what its calls find. Fresh finds, or none, mean that enough calls are made, by any process: the gap
// grows. Stale finds mean that too few are made: the gap shrinks. A process that is alone calls often, and eight of them share the
// calls of one, without knowing of each other.
//
// The one law, for every row of the table below:
//
//   the gap counts from the start of one call to the start of the next
//   found nothing              gap × 2
//   fresh: age < freshMs       gap × 1.2    (or younger than the call took: then jobs wait for the store, not for more calls)
//   stale: age > staleMs       gap × 0.7    (and older than twice the time the call took)
//   always                     minMs ≤ gap ≤ maxMs, and at least `factor` times the time the call took, up to slowMs
//   after QUIET_MS without     the gap is minMs again, so nothing waits after a quiet time

const NOTHING_GROWS = 2
const FRESH_GROWS = 1.2
const STALE_SHRINKS = 0.7
/** After this time without a call, what was learned is no longer true. */
const QUIET_MS = 500

/** The numbers of one kind of call. */
export interface PaceRow {
  readonly minMs: number
  readonly maxMs: number
  readonly freshMs: number
  readonly staleMs: number
  /** The share of its time that a caller spends in this call is at most one in this many. */
  readonly factor: number
  /** The longest gap that a slow call can cause. */
  readonly slowMs: number
}

/** Every pace there is. */
export const PACES: Readonly<Record<'claim' | 'settle' | 'promote' | 'notify' | 'poll', PaceRow>> = {
  // Age: how long the longest-waiting job had been ready. A claim costs 0.7 ms of processor time and 0.02 for each job, so below 8 ms
  // of waiting more claims cost more than they bring. A tenth of a second bounds what a wake-up can wait for.
  claim: { minMs: 4, maxMs: 100, freshMs: 8, staleMs: 16, factor: 4, slowMs: 400 },
  // Age: the mean time between two jobs of the batch. Nobody waits for a settlement above 100 jobs/s as much as it costs to send it
  // alone: 0.9 ms, and 0.02 for each job. Below 50 jobs/s a job that others wait for is settled immediately.
  settle: { minMs: 4, maxMs: 50, freshMs: 10, staleMs: 20, factor: 3, slowMs: 100 },
  // Age: how long the first job had been due. Every process knows the same next due time; a retry that is 50 ms late is not late.
  promote: { minMs: 5, maxMs: 250, freshMs: 50, staleMs: 100, factor: 4, slowMs: 250 },
  // Age: the mean time between two jobs that became ready. One NOTIFY to 8 listening workers costs 1.5 ms of processor time. Above
  // 1,000 jobs/s of one process the workers are busy and claim without being woken; 40 jobs/s are never delayed.
  notify: { minMs: 10, maxMs: 50, freshMs: 1, staleMs: 2, factor: 0, slowMs: 0 },
  // An idle worker looks by itself, less and less often; wake-ups come sooner. The worker's options replace both bounds.
  poll: { minMs: 50, maxMs: 5_000, freshMs: 0, staleMs: 0, factor: 0, slowMs: 0 },
}

/** What one call did. Times are monotonic. */
export interface PacedCall {
  readonly startedMs: number
  readonly endedMs: number
  /** The age of what it found, as its row defines it; null when it found nothing. */
  readonly ageMs: number | null
}

/** The pace of one caller. */
export class Pace {
  readonly #row: PaceRow
  #maxMs: number
  #gapMs: number
  #nextMs = Number.NEGATIVE_INFINITY

  constructor(row: PaceRow) {
    this.#row = row
    this.#maxMs = row.maxMs
    this.#gapMs = row.minMs
  }

  /** How long the next call must wait, in whole milliseconds. */
  waitMs(nowMs: number): number {
    return Math.max(0, Math.ceil(this.#nextMs - nowMs))
  }

  /** A call has ended. */
  learn({ startedMs, endedMs, ageMs }: PacedCall): void {
    const { minMs, factor, slowMs } = this.#row
    const tookMs = endedMs - startedMs
    if (startedMs - this.#nextMs > QUIET_MS) this.#gapMs = minMs
    this.#gapMs = Math.max(minMs, Math.min(this.#maxMs, this.#gapMs * this.#change(ageMs, tookMs)))
    this.#nextMs = startedMs + Math.max(this.#gapMs, Math.min(slowMs, factor * tookMs))
  }

  #change(ageMs: number | null, tookMs: number): number {
    const { freshMs, staleMs } = this.#row
    if (ageMs === null) return NOTHING_GROWS
    if (ageMs < Math.max(freshMs, tookMs)) return FRESH_GROWS
    return ageMs > Math.max(staleMs, 2 * tookMs) ? STALE_SHRINKS : 1
  }

  /** Replaces the longest gap of its row. */
  cap(maxMs: number): void {
    this.#maxMs = maxMs
  }

  /** Forgets what was learned: the next call waits for nothing. */
  reset(): void {
    this.#gapMs = this.#row.minMs
    this.#nextMs = Number.NEGATIVE_INFINITY
  }
}

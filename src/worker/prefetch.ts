// Jobs that are claimed and wait for a slot, in order, and how many may wait. ◄── slots.ts · next: held-job.ts

import type { HeldJob } from './held-job.js'
import type { WorkerSettings } from './options.js'

// With long jobs a prefetched one would wait here while workers elsewhere are idle. So a worker claims only as many ahead as its
// slots are likely to start within this time.
const AHEAD_MS = 100
const AHEAD_AT_FIRST = 16
const MEAN_WEIGHT = 0.05

/** The jobs of one worker that wait for a slot. */
export class Prefetch {
  readonly #settings: WorkerSettings
  #jobs: HeldJob[] = []
  #head = 0
  #count = 0
  /** How long jobs run here, on average; null until one has ended. */
  #meanRanMs: number | null = null

  constructor(settings: WorkerSettings) {
    this.#settings = settings
  }

  get count(): number {
    return this.#count
  }

  add(held: HeldJob): void {
    this.#count++
    this.#jobs.push(held)
  }

  /** The longest-waiting job, which leaves the list, or null. */
  next(): HeldJob | null {
    while (this.#head < this.#jobs.length) {
      const held = this.#jobs[this.#head++]!
      // Others were cancelled, lost or released while they waited.
      if (held.phase === 'waiting') return held
    }
    this.#jobs = []
    this.#head = 0
    return null
  }

  /** One of them no longer waits: it started, or ended before that. */
  left(): void {
    this.#count--
  }

  all(): HeldJob[] {
    return this.#jobs.slice(this.#head).filter(({ phase }) => phase === 'waiting')
  }

  /** How many jobs may wait here: those that are likely to start within this time. */
  most(withinMs: number = AHEAD_MS): number {
    const { concurrency, prefetch } = this.#settings
    // Until one has ended it is not known how long jobs take.
    const meanMs = this.#meanRanMs ?? Math.min(AHEAD_MS, (concurrency * AHEAD_MS) / AHEAD_AT_FIRST)
    return Math.min(prefetch, Math.floor((concurrency * withinMs) / Math.max(meanMs, 0.1)))
  }

  /** A job has run for this long. */
  learn(ranMs: number): void {
    const meanMs = this.#meanRanMs ?? ranMs
    this.#meanRanMs = meanMs + (ranMs - meanMs) * MEAN_WEIGHT
  }

  /** A job has waited this long and got no slot. Jobs take longer than it seemed: fewer may wait here until they end quickly again. */
  learnOverdue(waitedMs: number): void {
    this.#meanRanMs = Math.max(this.#meanRanMs ?? 0, waitedMs)
  }
}

// Times counted in buckets 2 % wide: millions of them fit into a few kilobytes and can be sent between processes.

import type { Spread } from '../bench/statistics.js'

/** Counts by bucket, as they are sent. */
export interface PackedHistogram {
  readonly counts: readonly (readonly [index: number, count: number])[]
  readonly max: number
}

const SMALLEST_MS = 0.01
const STEP = Math.log(1.02)

export class Histogram {
  #counts = new Map<number, number>()
  #count = 0
  #max = 0

  /** How many values it holds. */
  get count(): number {
    return this.#count
  }

  /** Counts one value, in milliseconds. */
  add(ms: number): void {
    const index = Math.max(0, Math.ceil(Math.log(Math.max(ms, SMALLEST_MS) / SMALLEST_MS) / STEP))
    this.#counts.set(index, (this.#counts.get(index) ?? 0) + 1)
    this.#count++
    if (ms > this.#max) this.#max = ms
  }

  /** Adds another histogram's counts. */
  merge({ counts, max }: PackedHistogram): void {
    for (const [index, count] of counts) {
      this.#counts.set(index, (this.#counts.get(index) ?? 0) + count)
      this.#count += count
    }
    if (max > this.#max) this.#max = max
  }

  /** The counts since the last call, to be sent. */
  take(): PackedHistogram {
    const packed = { counts: [...this.#counts], max: this.#max }
    this.#counts = new Map()
    this.#count = 0
    this.#max = 0
    return packed
  }

  /** The value that `share` of all lie at or below, at most 2 % too high. NaN for none. */
  at(share: number): number {
    if (this.#count === 0) return Number.NaN
    let left = Math.max(1, Math.ceil(share * this.#count))
    for (const index of [...this.#counts.keys()].sort((a, b) => a - b)) {
      left -= this.#counts.get(index)!
      if (left <= 0) return Math.min(this.#max, SMALLEST_MS * Math.exp(index * STEP))
    }
    return this.#max
  }

  spread(): Spread {
    if (this.#count === 0) return { count: 0, p50: null, p99: null, max: null }
    return { count: this.#count, p50: this.at(0.5), p99: this.at(0.99), max: this.#max }
  }
}

// Sums over measurements.

/** The middle value; of an even count the lower of the two. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5)
}

/** The value that `share` of all lie at or below. NaN for none. */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!
}

/** The sum of all values; 0 for none. */
export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** A summary of times or sizes: count, median, 99th percentile, maximum. Null if there are none. */
export interface Spread {
  readonly count: number
  readonly p50: number | null
  readonly p99: number | null
  readonly max: number | null
}

/** The spread of values. */
export function spreadOf(values: readonly number[]): Spread {
  const at = (share: number) => (values.length === 0 ? null : percentile(values, share))
  return { count: values.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

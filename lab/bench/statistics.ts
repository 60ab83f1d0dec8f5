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

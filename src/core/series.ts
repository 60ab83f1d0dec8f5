// The steps of a series: when each begins.

import { invalidOption } from './errors.js'
import { BUCKET_MS, SERIES_POINTS_MAX, type SeriesRequest } from './operating.js'

/** The beginnings of the steps from `sinceMs` to now, oldest first. Raises `invalid_option` when they would be too many or
 *  do not fit the tallies. */
export function seriesSteps({ sinceMs, stepMs }: Omit<SeriesRequest, 'queue'>, nowMs: number): readonly number[] {
  const isStep = Number.isInteger(stepMs) && stepMs >= BUCKET_MS && stepMs % BUCKET_MS === 0
  if (!isStep || !Number.isFinite(sinceMs) || nowMs - sinceMs > stepMs * SERIES_POINTS_MAX) {
    throw invalidOption(
      `the step of a series must be a multiple of ${BUCKET_MS} ms that gives at most ${SERIES_POINTS_MAX} points, got ${stepMs} ms for ${nowMs - sinceMs} ms`,
    )
  }
  const steps: number[] = []
  for (let atMs = sinceMs - (sinceMs % stepMs); atMs <= nowMs; atMs += stepMs) steps.push(atMs)
  // A beginning between two steps makes one more.
  return steps.slice(-SERIES_POINTS_MAX)
}

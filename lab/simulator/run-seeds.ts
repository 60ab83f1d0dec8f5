// Runs a range of seeds in this thread.

import type { Aim } from './plan.js'
import { simulate } from './simulate.js'
import { addTotals, type Failure, failureOf, noTotals, type Totals, totalsOf } from './tally.js'
import type { SeedRange } from './thread.js'

/** The result of a range. */
export interface RangeResult extends SeedRange {
  readonly totals: Totals
  readonly failures: readonly Failure[]
}

/** The number of failing runs whose stories a range keeps. */
const FAILURES_MAX = 3

export async function runSeeds(
  { from, count }: SeedRange,
  options: { readonly stopAtFirst?: boolean; readonly aim?: Aim | null } = {},
): Promise<RangeResult> {
  const totals = noTotals()
  const failures: Failure[] = []
  for (let seed = from; seed < from + count; seed++) {
    const simulation = await simulate(seed, options.aim ?? null)
    addTotals(totals, totalsOf(simulation))
    const failure = failureOf(simulation)
    if (failure !== null && failures.length < FAILURES_MAX) failures.push(failure)
    if (failure !== null && options.stopAtFirst) break
  }
  return { from, count, totals, failures }
}

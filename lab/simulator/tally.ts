// The results of many runs, added up.

import { smallestOffender, writeStory } from '../history/story.js'
import type { Violation } from '../history/verdict.js'
import { isOrdinary } from './plan-faults.js'
import { hashOf, type Simulation } from './simulate.js'

/** Sums over runs. */
export interface Totals {
  schedules: number
  faultless: number
  steps: number
  virtualMs: number
  events: number
  jobs: number
  claims: number
  rescues: number
  lostLeases: number
  unknownAnswers: number
  answersLost: number
  ticks: number
  effectsInTransaction: number
  effectsOutside: number
  faults: Record<string, number>
}

/** A run with a violation. */
export interface Failure {
  readonly seed: number
  readonly hash: string
  readonly violations: readonly Violation[]
  /** The timeline of the job with the shortest story, or null when no violation names a job. */
  readonly story: string | null
}

const VIOLATIONS_SHOWN = 5

export function noTotals(): Totals {
  return {
    schedules: 0,
    faultless: 0,
    steps: 0,
    virtualMs: 0,
    events: 0,
    jobs: 0,
    claims: 0,
    rescues: 0,
    lostLeases: 0,
    unknownAnswers: 0,
    answersLost: 0,
    ticks: 0,
    effectsInTransaction: 0,
    effectsOutside: 0,
    faults: {},
  }
}

/** The totals of one run. */
export function totalsOf({ history, verdict, steps, virtualMs, plan }: Simulation): Totals {
  const { counts } = verdict
  const faults: Record<string, number> = { ...counts.faults }
  for (const kind of plan.harmful) faults[kind] = (faults[kind] ?? 0) + 1
  return {
    schedules: 1,
    faultless: plan.faults.every(({ kind }) => isOrdinary(kind)) && plan.harmful.length === 0 ? 1 : 0,
    steps,
    virtualMs: Math.round(virtualMs),
    events: history.length,
    jobs: counts.jobs,
    claims: counts.claims,
    rescues: counts.rescues,
    lostLeases: counts.lostLeases,
    unknownAnswers: counts.unknown,
    answersLost: counts.answersLost,
    ticks: counts.ticks,
    effectsInTransaction: counts.effectsInTransaction,
    effectsOutside: counts.effectsOutside,
    faults,
  }
}

/** Adds the second to the first. */
export function addTotals(totals: Totals, more: Totals): void {
  const { faults, ...sums } = more
  for (const key of Object.keys(sums) as (keyof typeof sums)[]) totals[key] += sums[key]
  for (const [kind, count] of Object.entries(faults)) totals.faults[kind] = (totals.faults[kind] ?? 0) + count
}

/** The violations of a run; null when there are none. */
export function failureOf({ plan, history, verdict, violations }: Simulation): Failure | null {
  if (violations.length === 0) return null
  const job = smallestOffender(history, { ...verdict, violations })
  return {
    seed: plan.seed,
    hash: hashOf(history),
    violations: violations.slice(0, VIOLATIONS_SHOWN),
    story: job === null ? null : writeStory(history, job),
  }
}

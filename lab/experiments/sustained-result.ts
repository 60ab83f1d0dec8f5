// The result of experiment 10: rows, aims and notes from the measured parts.

import { column, type GrowthRow } from '../bench/growth/measure.js'
import type { Column } from '../bench/table.js'
import { nameBound } from './bound.js'
import type { Evidence } from './evidence.js'
import { aimBelow, type Verdict } from './experiment.js'
import type { Stretch } from './sampler.js'
import { describeSplit, type SplitSummary } from './split.js'

/** A part of the run at one rate. */
export interface Step {
  /** Its name in the table. */
  readonly part: string
  readonly rate: number
  readonly stretch: Stretch
  readonly evidence: Evidence
  /** True when the fleet did not keep up. */
  readonly isGrowing: boolean
}

/** The measured parts of a run. */
export interface Parts {
  readonly steady: Step
  readonly steps: readonly Step[]
  /** At 80 % and at 50 % of the highest rate that was kept up with; empty when there was none. */
  readonly below: readonly Step[]
}

/** The highest rate that was kept up with, or null. */
export function highestOf(steps: readonly Step[]): number | null {
  const kept = steps.filter(({ isGrowing }) => !isGrowing).map(({ rate }) => rate)
  return kept.length === 0 ? null : Math.max(...kept)
}

/** The lowest rate that was not kept up with, or null. */
function lowestGrowingOf(steps: readonly Step[]): number | null {
  const lost = steps.filter(({ isGrowing }) => isGrowing).map(({ rate }) => rate)
  return lost.length === 0 ? null : Math.min(...lost)
}

export function aimsOf(asked: number, { steady, steps, below }: Parts): readonly Verdict[] {
  const { stretch } = steady
  const rate = (stretch.succeeded + stretch.dead) / stretch.seconds
  const highest = highestOf([steady, ...steps])
  const lowest = lowestGrowingOf([steady, ...steps])
  return [
    {
      kind: 'aim',
      about: `jobs done each second over ${(stretch.seconds / 60).toFixed(1)} minutes`,
      expected: `about ${asked}`,
      seen: rate.toFixed(0),
      holds: rate >= 0.98 * asked,
    },
    {
      kind: 'aim',
      about: 'depth stays flat',
      expected: 'backlog grown by less than a second of jobs, all accepted',
      seen: `${stretch.readyAtStart} → ${stretch.readyAtEnd}, at most ${stretch.readyMost}`,
      holds: !steady.isGrowing,
    },
    withOwn(aimBelow('claim p99', 10, stretch.claims.p99), stretch.claimSplit),
    withOwn(aimBelow('enqueue p99', 25, stretch.enqueues.p99), stretch.enqueueSplit),
    ...below.flatMap(({ part, stretch: { claims, enqueues, claimSplit, enqueueSplit } }) => [
      withOwn(aimBelow(`claim p99 ${part} of the ceiling`, 10, claims.p99), claimSplit),
      withOwn(aimBelow(`enqueue p99 ${part} of the ceiling`, 25, enqueues.p99), enqueueSplit),
    ]),
    aimBelow('timed jobs late, p99', 1_000, stretch.late.p99),
    {
      kind: 'aim',
      about: 'the ceiling',
      expected: 'a rate at which the backlog grows',
      seen:
        highest === null
          ? `below ${lowest} jobs/s, the steps ended there`
          : lowest === null
            ? `above ${highest} jobs/s, the steps ended there`
            : `between ${highest} and ${lowest} jobs/s`,
      holds: highest !== null && lowest !== null,
    },
  ]
}

/** The aim is for the whole time; how much of it was not waiting for a processor is shown beside it. */
function withOwn(verdict: Verdict, split: SplitSummary | null): Verdict {
  const own = split?.p99.own ?? null
  return own === null
    ? verdict
    : { ...verdict, seen: `${verdict.seen}; ${own.toFixed(1)} ms without waiting for a processor` }
}

export const COLUMNS: readonly Column<GrowthRow>[] = [
  column('part', 'part'),
  column('asked/s', 'rate'),
  column('accepted/s', 'acceptedPerSecond'),
  column('done/s', 'donePerSecond'),
  column('retried/s', 'retriedPerSecond'),
  column('ready at end', 'readyAtEnd'),
  column('most', 'readyMost'),
  column('running', 'running'),
  column('claim p50', 'claimP50Ms', 2),
  column('p99', 'claimP99Ms', 2),
  column('without CPU wait', 'claimOwnP99Ms', 2),
  column('enqueue p50', 'enqueueP50Ms', 2),
  column('p99', 'enqueueP99Ms', 2),
  column('without CPU wait', 'enqueueOwnP99Ms', 2),
  column('late p99', 'lateP99Ms', 1),
  column('server cores', 'serverCores', 2),
  column('WAL bytes/job', 'walBytesPerJob'),
]

export function rowOf({ part, rate, stretch, evidence }: Step): GrowthRow {
  const { seconds, accepted, succeeded, dead, retried, claims, enqueues, late, claimSplit, enqueueSplit } = stretch
  return {
    part,
    rate,
    seconds,
    acceptedPerSecond: accepted / seconds,
    donePerSecond: (succeeded + dead) / seconds,
    retriedPerSecond: retried / seconds,
    readyAtEnd: stretch.readyAtEnd,
    readyMost: stretch.readyMost,
    running: stretch.runningMean,
    claimP50Ms: claims.p50,
    claimP99Ms: claims.p99,
    claimOwnP99Ms: claimSplit?.p99.own ?? null,
    claimServerP99Ms: claimSplit?.p99.serverRun ?? null,
    enqueueP50Ms: enqueues.p50,
    enqueueP99Ms: enqueues.p99,
    enqueueOwnP99Ms: enqueueSplit?.p99.own ?? null,
    enqueueServerP99Ms: enqueueSplit?.p99.serverRun ?? null,
    lateP50Ms: late.p50,
    lateP99Ms: late.p99,
    lateMaxMs: late.max,
    serverCores: evidence.cpu.server,
    workerCores: evidence.cpu.workers,
    producerCores: evidence.cpu.producers,
    serverWaiting: evidence.waiting.server,
    workersWaiting: evidence.waiting.workers,
    producersWaiting: evidence.waiting.producers,
    walBytesPerJob: evidence.walBytesPerJob,
  }
}

/** What bounds a part, and where the time of its claims and enqueues went. */
export function notesOf({ part, rate, stretch, evidence, isGrowing }: Step, slots: number): readonly string[] {
  const { claimSplit, enqueueSplit, runningMean: running } = stretch
  const { server, workers, producers } = evidence.waiting
  const name = `${part[0]!.toUpperCase()}${part.slice(1)}, ${rate} jobs/s`
  const threads = (count: number | null) => (count === null ? 'unknown' : count.toFixed(2))
  const waiting = `${threads(workers)} main threads of workers, ${threads(producers)} of producers, ${threads(server)} processes of the server`
  return [
    `${name}${isGrowing ? ' (the backlog grows)' : ''}: ${nameBound(evidence, { running, slots })} Waiting for a processor, on average: ${waiting}.`,
    ...(claimSplit === null ? [] : [`${name}: ${describeSplit('claims', claimSplit)}`]),
    ...(enqueueSplit === null ? [] : [`${name}: ${describeSplit('enqueues', enqueueSplit)}`]),
  ]
}

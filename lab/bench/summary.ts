// Medians over the rounds, for the table and the document.

import type { Result } from './run.js'
import { median } from './statistics.js'
import type { Table } from './table.js'

/** A measure that a contender lacks, and why. */
export interface Absence {
  readonly measure: string
  readonly contender: string
  readonly why: string
}

/** The rounds of one measure and contender, summed up. Null where there is no value. */
export interface Summary {
  readonly measure: string
  readonly contender: string
  readonly rounds: number
  readonly jobs: number | null
  readonly jobsPerSecond: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
  readonly serverCpuUsPerJob: number | null
  readonly nodeCpuUsPerJob: number | null
  readonly walBytesPerJob: number | null
  readonly commitsPerJob: number | null
  readonly deadTuplesPerJob: number | null
  readonly waitingBytes: number | null
  readonly finishedBytes: number | null
}

/** Summaries in the order of the measures, then of the contenders. Absent ones are included without figures. */
export function summariseAll(
  results: readonly Result[],
  absences: readonly Absence[],
  order: { readonly measures: readonly string[]; readonly contenders: readonly string[] },
): readonly Summary[] {
  return order.measures.flatMap((measure) =>
    order.contenders.flatMap((contender) => {
      const isOfThese = (other: { measure: string; contender: string }) =>
        other.measure === measure && other.contender === contender
      const rounds = results.filter(isOfThese)
      return rounds.length > 0 || absences.some(isOfThese) ? [summarise(measure, contender, rounds)] : []
    }),
  )
}

function summarise(measure: string, contender: string, results: readonly Result[]): Summary {
  const of = (read: (result: Result) => number | null | undefined) => {
    const values = results.map(read).filter((value): value is number => typeof value === 'number')
    return values.length === 0 ? null : median(values)
  }
  const perJob = (read: (result: Result) => number | null) =>
    of((result) => {
      const value = read(result)
      return value === null ? null : value / result.jobs
    })
  return {
    measure,
    contender,
    rounds: results.length,
    jobs: of(({ jobs }) => jobs),
    jobsPerSecond: of(({ jobs, seconds }) => jobs / seconds),
    p50Ms: of(({ p50 }) => p50),
    p99Ms: of(({ p99 }) => p99),
    maxMs: of(({ max }) => max),
    serverCpuUsPerJob: perJob(({ serverCpuUs }) => serverCpuUs),
    nodeCpuUsPerJob: perJob(({ nodeCpuUs }) => nodeCpuUs),
    walBytesPerJob: perJob(({ walBytes }) => walBytes),
    commitsPerJob: perJob(({ commits }) => commits),
    deadTuplesPerJob: perJob(({ deadTuples }) => deadTuples),
    waitingBytes: of(({ waitingBytes }) => waitingBytes),
    finishedBytes: of(({ finishedBytes }) => finishedBytes),
  }
}

/** The table for people. */
export function summaryTable(summaries: readonly Summary[]): Table<Summary> {
  return {
    columns: [
      { title: 'measure', read: ({ measure }) => measure },
      { title: 'contender', read: ({ contender }) => contender },
      { title: 'jobs/s', read: ({ jobsPerSecond }) => jobsPerSecond },
      { title: 'p50 ms', read: ({ p50Ms }) => p50Ms, digits: 2 },
      { title: 'p99 ms', read: ({ p99Ms }) => p99Ms, digits: 2 },
      { title: 'server µs', read: ({ serverCpuUsPerJob }) => serverCpuUsPerJob, digits: 1 },
      { title: 'Node µs', read: ({ nodeCpuUsPerJob }) => nodeCpuUsPerJob, digits: 1 },
      { title: 'log B', read: ({ walBytesPerJob }) => walBytesPerJob },
      { title: 'commits', read: ({ commitsPerJob }) => commitsPerJob, digits: 4 },
      { title: 'dead', read: ({ deadTuplesPerJob }) => deadTuplesPerJob, digits: 2 },
      { title: 'waiting B', read: ({ waitingBytes }) => waitingBytes },
      { title: 'finished B', read: ({ finishedBytes }) => finishedBytes },
    ],
    rows: summaries,
  }
}

// Experiment 1: jobs a second by the total number of slots, and what stops it from growing.

import { column, type GrowthRow, pointsOf } from '../bench/growth/measure.js'
import { median } from '../bench/statistics.js'
import { say } from '../say.js'
import { type BacklogRun, runBacklog } from './backlog-run.js'
import { nameBound } from './bound.js'
import { defineExperiment, type Experiment, expectThat } from './experiment.js'

interface WorkersConfig {
  /** Processes and slots of each; their product matters. */
  readonly points: readonly (readonly [processes: number, slots: number])[]
  readonly jobs: number
  readonly warmupJobs: number
  readonly secondsMax: number
  readonly rounds: number
  /** The fast kind of the mix. */
  readonly plainMs: readonly [number, number]
  readonly profileMs: number
}

export const workers: Experiment = defineExperiment<WorkersConfig>({
  about: 'jobs/s by total concurrency, and where adding workers stops helping',
  longTakes: '15 minutes',
  short: {
    points: [
      [1, 4],
      [1, 32],
    ],
    jobs: 6_000,
    warmupJobs: 200,
    secondsMax: 1,
    rounds: 1,
    plainMs: [1, 5],
    profileMs: 500,
  },
  long: {
    points: [
      [1, 16],
      [2, 32],
      [4, 64],
      [8, 64],
      [8, 128],
    ],
    jobs: 800_000,
    warmupJobs: 10_000,
    secondsMax: 20,
    rounds: 3,
    plainMs: [1, 5],
    profileMs: 10_000,
  },
  async run({ place, config }) {
    const { points, rounds, plainMs, profileMs, jobs, warmupJobs, secondsMax } = config
    const runs = points.map((): BacklogRun[] => [])
    // Rounds are the outer loop, so that a slow minute of the machine affects every point.
    for (let round = 0; round < rounds; round++) {
      for (const [index, [processes, slots]] of points.entries()) {
        const isLast = round === rounds - 1 && index === points.length - 1
        const fleet = { processes, slots, plainMs }
        const common = { place, jobs, warmupJobs, secondsMax, profileMs: isLast ? profileMs : 0 }
        const run = await runBacklog({ ...common, fleet })
        say(`  ${processes} × ${slots}: ${Math.round(run.jobsPerSecond)} jobs/s`)
        runs[index]!.push(run)
      }
    }
    const rows = points.map((point, index) => rowOf(point, runs[index]!))
    const last = runs.at(-1)!.at(-1)!
    const isDone = runs.flat().every(({ jobs: done }) => done > 0)
    return {
      columns: COLUMNS,
      rows,
      verdicts: [expectThat('every size of fleet does jobs', 'yes', isDone ? 'yes' : 'no', isDone)],
      notes: [
        `Handlers wait ${plainMs[0]} to ${plainMs[1]} ms, as the fast jobs of the mix do; the backlog is there from the start.`,
        kneeOf(rows),
        ...rows.map(
          (row, index) =>
            `${row.concurrency}: ${nameBound(runs[index]!.at(-1)!.evidence, loadOf(points[index]!, runs[index]!.at(-1)!))}`,
        ),
        ...(last.profile.length === 0
          ? []
          : [
              `A worker's own time at ${rows.at(-1)!.concurrency}: ${last.profile
                .slice(0, 8)
                .map(({ name, place: where, share }) => `${name} ${where} ${(share * 100).toFixed(1)} %`)
                .join(' · ')}`,
            ]),
      ],
      figures: {
        workers: {
          title: 'Throughput by total concurrency',
          subtitle: `a backlog of jobs that wait ${plainMs[0]} to ${plainMs[1]} ms; the middle of ${rounds} runs`,
          x: { label: 'processes × slots', scale: 'log', ticks: rows.map(({ concurrency }) => Number(concurrency)) },
          panels: [
            { label: 'jobs/s', series: [{ name: 'jobs/s', points: pointsOf(rows, 'concurrency', 'jobsPerSecond') }] },
            {
              label: 'claim, ms',
              series: [
                { name: 'p50', points: pointsOf(rows, 'concurrency', 'claimP50Ms') },
                { name: 'p99', points: pointsOf(rows, 'concurrency', 'claimP99Ms') },
              ],
            },
          ],
        },
      },
      samples: runs.flat().map(({ evidence: _, ...run }) => run),
      evidence: Object.fromEntries(points.map(([a, b], index) => [`${a} × ${b}`, runs[index]!.at(-1)!.evidence])),
    }
  },
})

function loadOf([processes, slots]: readonly [number, number], { runningMean }: BacklogRun) {
  return { running: runningMean, slots: processes * slots }
}

const COLUMNS = [
  column('in all', 'concurrency'),
  column('processes', 'processes'),
  column('jobs/s', 'jobsPerSecond'),
  column('low', 'low'),
  column('high', 'high'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('p99 ms', 'claimP99Ms', 2),
  column('jobs/claim', 'jobsPerClaim', 1),
  column('running', 'running'),
  column('server cores', 'serverCores', 2),
  column('worker cores', 'workerCores', 2),
]

function rowOf([processes, slots]: readonly [number, number], runs: readonly BacklogRun[]): GrowthRow {
  const rates = runs.map(({ jobsPerSecond }) => jobsPerSecond)
  const last = runs.at(-1)!
  return {
    concurrency: processes * slots,
    processes,
    jobsPerSecond: median(rates),
    low: Math.min(...rates),
    high: Math.max(...rates),
    claimP50Ms: last.claims.p50,
    claimP99Ms: last.claims.p99,
    jobsPerClaim: last.jobsPerClaim,
    running: last.runningMean,
    serverCores: last.evidence.cpu.server,
    workerCores: last.evidence.cpu.workers,
  }
}

/** The size after which the next one brought less than a tenth more. */
function kneeOf(rows: readonly GrowthRow[]): string {
  for (const [index, row] of rows.entries()) {
    const next = rows[index + 1]
    if (next === undefined) break
    if (Number(next.jobsPerSecond) < 1.1 * Number(row.jobsPerSecond)) {
      return `Adding workers stops helping at ${row.concurrency}: ${next.concurrency} brought ${((Number(next.jobsPerSecond) / Number(row.jobsPerSecond) - 1) * 100).toFixed(0)} %.`
    }
  }
  return 'Every step brought more than a tenth: the sizes measured do not reach the end of it.'
}

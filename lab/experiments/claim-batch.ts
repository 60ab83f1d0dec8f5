// Experiment 2: how many jobs one claim takes. Larger claims cost less for each job. They take longer, and jobs that one process
// holds cannot run in another.

import { column, type GrowthRow, pointsOf } from '../bench/growth/measure.js'
import { median } from '../bench/statistics.js'
import { say } from '../say.js'
import { type BacklogRun, runBacklog } from './backlog-run.js'
import { nameBound } from './bound.js'
import { defineExperiment, type Experiment, expectThat } from './experiment.js'

interface ClaimBatchConfig {
  readonly batches: readonly number[]
  readonly processes: number
  readonly slots: number
  readonly plainMs: readonly [number, number]
  readonly jobs: number
  readonly warmupJobs: number
  readonly secondsMax: number
  readonly rounds: number
}

export const claimBatch: Experiment = defineExperiment<ClaimBatchConfig>({
  about: 'jobs/s, claim times and fairness by the size of a claim',
  longTakes: '15 minutes',
  short: {
    batches: [1, 200],
    processes: 2,
    slots: 16,
    plainMs: [1, 5],
    jobs: 4_000,
    warmupJobs: 100,
    secondsMax: 1,
    rounds: 1,
  },
  long: {
    batches: [1, 10, 50, 200, 1_000],
    processes: 4,
    slots: 128,
    plainMs: [1, 5],
    jobs: 600_000,
    warmupJobs: 5_000,
    secondsMax: 20,
    rounds: 3,
  },
  async run({ place, config }) {
    const { batches, rounds, processes, slots, plainMs, jobs, warmupJobs, secondsMax } = config
    const runs = batches.map((): BacklogRun[] => [])
    for (let round = 0; round < rounds; round++) {
      for (const [index, batch] of batches.entries()) {
        const fleet = { processes, slots, plainMs, claimBatch: batch }
        const run = await runBacklog({ place, jobs, warmupJobs, secondsMax, profileMs: 0, fleet })
        say(`  claims of ${batch}: ${Math.round(run.jobsPerSecond)} jobs/s`)
        runs[index]!.push(run)
      }
    }
    const rows = batches.map((batch, index) => rowOf(batch, runs[index]!))
    const isDone = runs.flat().every(({ jobs: done }) => done > 0)
    return {
      columns: COLUMNS,
      rows,
      verdicts: [expectThat('every size of claim does jobs', 'yes', isDone ? 'yes' : 'no', isDone)],
      notes: [
        `${processes} processes × ${slots} slots; handlers wait ${plainMs[0]} to ${plainMs[1]} ms. A worker shortens its claims by itself while they are long and jobs wait, so the size is the most it may take.`,
        'Fairness: the jobs of the process that did least over those of the one that did most; 1 is even.',
        ...rows.map((row, index) => `Claims of ${row.batch}: ${nameBound(runs[index]!.at(-1)!.evidence)}`),
      ],
      figures: {
        'claim-batch': {
          title: 'Throughput and claim time by the size of a claim',
          subtitle: `${processes} processes × ${slots} slots, jobs that wait ${plainMs[0]} to ${plainMs[1]} ms; the middle of ${rounds} runs`,
          x: { label: 'jobs a claim may take', scale: 'log', ticks: [...batches] },
          panels: [
            { label: 'jobs/s', series: [{ name: 'jobs/s', points: pointsOf(rows, 'batch', 'jobsPerSecond') }] },
            {
              label: 'claim, ms',
              series: [
                { name: 'p50', points: pointsOf(rows, 'batch', 'claimP50Ms') },
                { name: 'p99', points: pointsOf(rows, 'batch', 'claimP99Ms') },
              ],
            },
            { label: 'least over most', series: [{ name: 'fairness', points: pointsOf(rows, 'batch', 'fairness') }] },
          ],
        },
      },
      samples: runs.flat().map(({ evidence: _, ...run }) => run),
      evidence: Object.fromEntries(batches.map((batch, index) => [String(batch), runs[index]!.at(-1)!.evidence])),
    }
  },
})

const COLUMNS = [
  column('claim at most', 'batch'),
  column('jobs/s', 'jobsPerSecond'),
  column('low', 'low'),
  column('high', 'high'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('p99 ms', 'claimP99Ms', 2),
  column('jobs/claim', 'jobsPerClaim', 1),
  column('least/most', 'fairness', 3),
  column('server cores', 'serverCores', 2),
]

function rowOf(batch: number, runs: readonly BacklogRun[]): GrowthRow {
  const rates = runs.map(({ jobsPerSecond }) => jobsPerSecond)
  const last = runs.at(-1)!
  return {
    batch,
    jobsPerSecond: median(rates),
    low: Math.min(...rates),
    high: Math.max(...rates),
    claimP50Ms: median(runs.map(({ claims }) => claims.p50 ?? Number.NaN)),
    claimP99Ms: median(runs.map(({ claims }) => claims.p99 ?? Number.NaN)),
    jobsPerClaim: last.jobsPerClaim,
    fairness: median(runs.map(({ byProcess }) => Math.min(...byProcess) / Math.max(1, ...byProcess))),
    serverCores: last.evidence.cpu.server,
  }
}

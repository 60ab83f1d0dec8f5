// Does a claim get slower with a longer backlog? And how long does it take below full load?

import type { Figure } from '../../plot.js'
import type { Child } from '../children.js'
import { withClient } from '../database.js'
import { spreadOf } from '../statistics.js'
import { drainFigure } from './drain-figure.js'
import { askWindow, summariseWindows, USUAL_WORKER, withWorkers } from './drain-point.js'
import { column, type GrowthContext, type GrowthMeasure, type GrowthRow } from './measure.js'
import { prepareDatabase, seedReady } from './seed.js'
import type { Window } from './window.js'

interface BacklogScale {
  readonly sizes: readonly number[]
  /** Drained before anything is measured. */
  readonly warmupJobs: number
  /** How many jobs are measured. A smaller backlog is made and drained repeatedly. */
  readonly measuredJobs: number
  readonly refillsMax: number
  /** How long the worker is limited to a share of its speed, over the largest backlog. */
  readonly pacedSeconds: number
}

const FULL: BacklogScale = {
  sizes: [1_000, 100_000, 1_000_000, 5_000_000],
  warmupJobs: 5_000,
  measuredJobs: 100_000,
  refillsMax: 30,
  pacedSeconds: 20,
}
const QUICK: BacklogScale = {
  sizes: [1_000, 10_000, 120_000],
  warmupJobs: 1_000,
  measuredJobs: 10_000,
  refillsMax: 5,
  pacedSeconds: 1,
}

const PACE_SHARE = 0.8
const SECONDS_MAX = 60
const REST_SECONDS_MAX = 1_200
const TAIL_JOBS = 5_000

export const backlog: GrowthMeasure = {
  about: 'drain speed and claim time by the length of the backlog',
  async run(context) {
    const scale = context.isQuick ? QUICK : FULL
    const rows: GrowthRow[] = []
    let course: Figure | null = null
    for (const size of scale.sizes) {
      if (size < scale.measuredJobs) rows.push({ backlog: size, ...(await drainAgain(context, scale, size)) })
      else if (size < scale.sizes.at(-1)!) rows.push({ backlog: size, ...(await drainHead(context, scale, size)) })
      else {
        const whole = await drainWhole(context, scale, size)
        rows.push({ backlog: size, ...whole.row })
        course = courseFigure(whole.windows, size)
      }
    }
    return {
      columns: COLUMNS,
      rows,
      notes: notesOf(scale),
      figures: {
        backlog: drainFigure(rows, {
          title: 'Drain speed and claim time by the length of the backlog',
          label: 'jobs waiting at the start',
          field: 'backlog',
          scale: 'log',
        }),
        ...(course === null ? {} : { 'backlog-course': course }),
      },
    }
  },
}

const COLUMNS = [
  column('backlog', 'backlog'),
  column('jobs', 'jobs'),
  column('jobs/s', 'jobsPerSecond'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('p99 ms', 'claimP99Ms', 2),
  column('jobs/claim', 'jobsPerClaim', 1),
  column('paced jobs/s', 'pacedJobsPerSecond'),
  column('p50 ms', 'pacedClaimP50Ms', 2),
  column('p99 ms', 'pacedClaimP99Ms', 2),
  column('jobs/claim', 'pacedJobsPerClaim', 1),
  column('rest jobs', 'restJobs'),
  column('rest jobs/s', 'restJobsPerSecond'),
]

function notesOf({ measuredJobs, sizes, pacedSeconds }: BacklogScale): string[] {
  return [
    `The speed is that of the first ${measuredJobs.toLocaleString('en')} jobs after a warm-up. Smaller backlogs were made and drained several times by one worker: their speed is over the time from the first claim of each to its last settlement, so their last claims find little.`,
    `The server was started again after a backlog of ${measuredJobs.toLocaleString('en')} or more was written, so its cache was cold; the system's was not.`,
    `Paced: over the backlog of ${sizes.at(-1)!.toLocaleString('en')}, handlers were held to ${PACE_SHARE * 100} % of the speed just measured for ${pacedSeconds} s. Then the rest was drained at full speed.`,
  ]
}

/** A backlog too short for one measurement: it is filled and drained repeatedly. */
async function drainAgain(context: GrowthContext, scale: BacklogScale, size: number): Promise<GrowthRow> {
  const url = await prepareDatabase(context, (client) => seedReady(client, scale.warmupJobs))
  const refills = Math.min(scale.refillsMax, Math.ceil(scale.measuredJobs / size))
  const windows = await withWorkers({ postgresUrl: url, workers: [USUAL_WORKER] }, (child) =>
    withClient(url, async (client) => {
      await askWindow(child, { jobs: scale.warmupJobs, secondsMax: SECONDS_MAX })
      const measured: Window[] = []
      for (let count = 0; count < refills; count++) {
        // Opened before the jobs are written: the worker may claim at any moment, and the jobs appear together.
        const window = askWindow(child, { jobs: size, secondsMax: SECONDS_MAX, fromClaim: true })
        await seedReady(client, size)
        await child.ask({ kind: 'wake' })
        measured.push(await window)
      }
      return measured
    }),
  )
  return summariseWindows(windows)
}

/** The first jobs of a long backlog. */
async function drainHead(context: GrowthContext, scale: BacklogScale, size: number): Promise<GrowthRow> {
  const window = await withColdWorker(context, scale, size, (child) =>
    askWindow(child, { jobs: scale.measuredJobs, secondsMax: SECONDS_MAX }),
  )
  return summariseWindows([window])
}

/** The longest backlog: its first jobs at full speed, then some at a limited rate, then the rest. */
async function drainWhole(
  context: GrowthContext,
  scale: BacklogScale,
  size: number,
): Promise<{ readonly row: GrowthRow; readonly windows: readonly Window[] }> {
  return withColdWorker(context, scale, size, async (child) => {
    const head = await askWindow(child, { jobs: scale.measuredJobs, secondsMax: SECONDS_MAX })
    const jobsPerSecond = PACE_SHARE * (head.jobs / head.seconds)
    // In the first second the worker slows down.
    const slowing = await askWindow(child, { secondsMax: 1, jobsPerSecond })
    const paced = await askWindow(child, { secondsMax: scale.pacedSeconds, jobsPerSecond })
    const jobs = size - head.jobs - slowing.jobs - paced.jobs
    if (jobs <= 0) throw new Error(`a backlog of ${size} is too short for ${scale.pacedSeconds} s at a pace`)
    const rest = await askWindow(child, { jobs, secondsMax: REST_SECONDS_MAX })
    const claims = spreadOf(paced.claimsMs)
    const row: GrowthRow = {
      ...summariseWindows([head]),
      pacedJobsPerSecond: paced.jobs / paced.seconds,
      pacedClaimP50Ms: claims.p50,
      pacedClaimP99Ms: claims.p99,
      pacedClaimMaxMs: claims.max,
      pacedJobsPerClaim: paced.claimedJobs / paced.claimsMs.length,
      restJobs: rest.jobs,
      restJobsPerSecond: rest.jobs / rest.seconds,
      restClaimP99Ms: spreadOf(rest.claimsMs).p99,
    }
    return { row, windows: [head, rest] }
  })
}

async function withColdWorker<T>(
  context: GrowthContext,
  { warmupJobs }: BacklogScale,
  size: number,
  work: (child: Child) => Promise<T>,
): Promise<T> {
  // More than are drained, so that a window never waits for missing jobs.
  const jobs = warmupJobs + size + TAIL_JOBS
  const url = await prepareDatabase(context, (client) => seedReady(client, jobs), { isCold: true })
  return withWorkers({ postgresUrl: url, workers: [USUAL_WORKER] }, async (child) => {
    await askWindow(child, { jobs: warmupJobs, secondsMax: SECONDS_MAX })
    return work(child)
  })
}

/** Speed second by second over the longest drain, without the limited part. */
function courseFigure(windows: readonly Window[], size: number): Figure {
  const points: [number, number][] = []
  let before = 0
  for (const { course, jobs } of windows) {
    let [lastSeconds, lastJobs] = [0, 0]
    for (const [seconds, done] of course) {
      // The rest at the end of a window is too short for a speed.
      if (seconds - lastSeconds < 0.5) continue
      points.push([before + done, (done - lastJobs) / (seconds - lastSeconds)])
      ;[lastSeconds, lastJobs] = [seconds, done]
    }
    before += jobs
  }
  return {
    title: `Drain speed over the course of ${size.toLocaleString('en')} jobs`,
    subtitle: 'one process, 64 slots, prefetch 1,000, jobs that do nothing; second by second',
    x: { label: 'jobs drained', scale: 'linear' },
    panels: [{ label: 'jobs/s', series: [{ name: 'drained', points }] }],
  }
}

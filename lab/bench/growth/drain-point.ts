// One point of a curve: a database filled for it, a fresh process with workers, and windows over their drain.

import { Child } from '../children.js'
import { median, spreadOf, sum } from '../statistics.js'
import type { Column } from '../table.js'
import { column, type GrowthContext, type GrowthRow } from './measure.js'
import type { Window, WindowRequest } from './window.js'
import type { WorkerAssignment, WorkerSpec } from './worker-child.js'

const WORKER = new URL('./worker-child.js', import.meta.url)
const DEADLINE_MS = 30 * 60_000

/** The worker of most points, as in the comparison of contenders. */
export const USUAL_WORKER: WorkerSpec = { queues: ['default'], slots: 64, prefetch: 1_000 }

export interface PointScale {
  /** Drained before the measurement, so that code is compiled and connections are open. */
  readonly warmupJobs: number
  readonly windowJobs: number
  readonly windows: number
  /** A window ends after this long, however few jobs it has. */
  readonly secondsMax: number
}

/** The scale of a point. */
export function pointScale({ isQuick }: GrowthContext): PointScale {
  return isQuick
    ? { warmupJobs: 1_000, windowJobs: 5_000, windows: 2, secondsMax: 5 }
    : { warmupJobs: 5_000, windowJobs: 50_000, windows: 3, secondsMax: 10 }
}

/** How many ready jobs a point of this scale needs, with a reserve so that its last window is full. */
export function jobsOf({ warmupJobs, windowJobs, windows }: PointScale): number {
  return warmupJobs + windows * windowJobs + Math.max(5_000, warmupJobs)
}

/** Starts a process with workers, lets `work` measure, stops it. */
export async function withWorkers<T>(assignment: WorkerAssignment, work: (child: Child) => Promise<T>): Promise<T> {
  const child = new Child(WORKER, assignment, { name: 'the worker', deadlineMs: DEADLINE_MS })
  try {
    await child.hear('ready')
    child.send({ kind: 'start' })
    const result = await work(child)
    child.send({ kind: 'stop' })
    await child.hear('stopped')
    await child.ended()
    return result
  } finally {
    await child.kill()
  }
}

/** Opens a window and checks that it has jobs. */
export async function askWindow(
  child: Child,
  request: Partial<Omit<WindowRequest, 'kind'>> & { readonly secondsMax: number },
): Promise<Window> {
  const window = await child.ask<Window>({
    kind: 'window',
    jobs: null,
    jobsPerSecond: null,
    fromClaim: false,
    ...request,
  } as WindowRequest)
  if (window.jobs === 0) throw new Error(`no job succeeded within ${request.secondsMax} s`)
  if (window.claimsMs.length === 0) {
    throw new Error(
      'jobs succeeded and no claim was seen: the store has another way to claim, which watched-store.ts must observe',
    )
  }
  return window
}

/** The windows of a point, after its warm-up. */
export async function measureWindows(
  url: string,
  workers: readonly WorkerSpec[],
  scale: PointScale,
): Promise<Window[]> {
  const { warmupJobs, windowJobs, windows, secondsMax } = scale
  return withWorkers({ postgresUrl: url, workers }, async (child) => {
    await askWindow(child, { jobs: warmupJobs, secondsMax })
    const measured: Window[] = []
    for (let count = 0; count < windows; count++) {
      measured.push(await askWindow(child, { jobs: windowJobs, secondsMax }))
    }
    return measured
  })
}

/** A summary of windows: median, lowest and highest rate, and the claims of all of them. */
export function summariseWindows(windows: readonly Window[]): GrowthRow {
  const rates = windows.map(({ jobs, seconds }) => jobs / seconds)
  const claims = spreadOf(windows.flatMap(({ claimsMs }) => claimsMs))
  const claimedJobs = sum(windows.map((window) => window.claimedJobs))
  return {
    jobs: sum(windows.map(({ jobs }) => jobs)),
    jobsPerSecond: median(rates),
    jobsPerSecondLow: Math.min(...rates),
    jobsPerSecondHigh: Math.max(...rates),
    claimP50Ms: claims.p50,
    claimP99Ms: claims.p99,
    claimMaxMs: claims.max,
    claims: claims.count,
    jobsPerClaim: claims.count === 0 ? null : claimedJobs / claims.count,
  }
}

/** The columns that every drained point has. */
export const DRAIN_COLUMNS: readonly Column<GrowthRow>[] = [
  column('jobs', 'jobs'),
  column('jobs/s', 'jobsPerSecond'),
  column('low', 'jobsPerSecondLow'),
  column('high', 'jobsPerSecondHigh'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('p99 ms', 'claimP99Ms', 2),
  column('jobs/claim', 'jobsPerClaim', 1),
]

// Drains a seeded backlog with a fleet and measures a part of it. Experiments on speed share this.

import { seedReady } from '../bench/growth/seed.js'
import type { Spread } from '../bench/statistics.js'
import { type Evidence, EvidenceCollector } from './evidence.js'
import { type FleetOptions, withFleet } from './fleet.js'
import { Histogram } from './histogram.js'
import { type Place, withGround } from './place.js'
import type { TopFunction } from './profile.js'
import { pause } from './proof.js'

export interface BacklogRunOptions {
  readonly place: Place
  readonly fleet: Omit<FleetOptions, 'url'>
  readonly jobs: number
  /** Drained before the measurement, so that code is compiled and connections are open. */
  readonly warmupJobs: number
  /** The measured part ends after this long, or when a tenth of the jobs are left. */
  readonly secondsMax: number
  /** How long one of the workers is profiled; 0 for never. */
  readonly profileMs: number
}

export interface BacklogRun {
  readonly jobs: number
  readonly seconds: number
  readonly jobsPerSecond: number
  readonly claims: Spread
  readonly jobsPerClaim: number | null
  /** The jobs of each process. */
  readonly byProcess: readonly number[]
  readonly runningMean: number
  readonly evidence: Evidence
  readonly profile: readonly TopFunction[]
}

const LOOK_MS = 200
const WARMUP_DEADLINE_MS = 300_000

/** One fleet over one fresh backlog of plain jobs. */
export function runBacklog(options: BacklogRunOptions): Promise<BacklogRun> {
  const { place, jobs } = options
  return withGround(
    place,
    (client) => seedReady(client, jobs),
    ({ url }) => withFleet({ ...options.fleet, url }, (fleet) => measure(options, { fleet, url })),
  )
}

type Measured = { readonly fleet: Parameters<Parameters<typeof withFleet>[1]>[0]; readonly url: string }

async function measure(options: BacklogRunOptions, { fleet, url }: Measured): Promise<BacklogRun> {
  const { place, jobs, warmupJobs, secondsMax, profileMs } = options
  fleet.start()
  const deadlineMs = performance.now() + WARMUP_DEADLINE_MS
  let first = await fleet.sample()
  while (first.counts.succeeded < warmupJobs) {
    if (performance.now() > deadlineMs) throw new Error(`only ${first.counts.succeeded} jobs succeeded in five minutes`)
    await pause(LOOK_MS)
    first = await fleet.sample()
  }
  const collector = await EvidenceCollector.open(url, await place.serverPid())
  // Opening took time. What happened meanwhile is not measured.
  first = await fleet.sample()
  const beganMs = performance.now()
  const profiling = profileMs === 0 ? Promise.resolve([]) : fleet.profile(profileMs)
  const claims = new Histogram()
  let last = first
  let endedMs = beganMs
  let running = 0
  let looks = 0
  do {
    await pause(LOOK_MS)
    last = await fleet.sample()
    endedMs = performance.now()
    claims.merge(last.claims.take())
    running += last.running
    looks++
  } while (endedMs - beganMs < secondsMax * 1_000 && last.counts.succeeded < 0.9 * jobs)
  const done = last.counts.succeeded - first.counts.succeeded
  const claimed = last.counts.claims - first.counts.claims
  const workersCpuUs = last.cpuUs - first.cpuUs
  const evidence = await collector.end({ jobs: done, workersCpuUs, producersCpuUs: null })
  return {
    jobs: done,
    seconds: (endedMs - beganMs) / 1_000,
    jobsPerSecond: (done * 1_000) / (endedMs - beganMs),
    claims: claims.spread(),
    jobsPerClaim: claimed === 0 ? null : (last.counts.claimedJobs - first.counts.claimedJobs) / claimed,
    byProcess: last.settledByProcess.map((count, index) => count - (first.settledByProcess[index] ?? 0)),
    runningMean: running / looks,
    evidence,
    profile: await profiling,
  }
}

// What does a forgotten transaction do? It holds a snapshot, so that rows deleted since cannot be vacuumed, while jobs come and go
// at a fixed rate. This is how queues on PostgreSQL fail in production.

import type pg from 'pg'
import { connect } from '../../../src/index.js'
import type { Figure } from '../../plot.js'
import { say } from '../../say.js'
import type { Child } from '../children.js'
import { withClient } from '../database.js'
import { USUAL_WORKER, withWorkers } from './drain-point.js'
import { column, type GrowthContext, type GrowthMeasure, type GrowthResult, type GrowthRow } from './measure.js'
import { withProducer } from './producer.js'
import type { ProduceRequest, ProducerSample } from './producer-child.js'
import { prepareDatabase } from './seed.js'
import type { WorkerSample } from './worker-child.js'

const JOBS_PER_SECOND = 8_000
const DEFAULT_MINUTES = 5

interface Phases {
  readonly beforeSeconds: number
  readonly heldSeconds: number
  readonly afterSeconds: number
}

/** What comes and goes. */
interface SnapshotLoad {
  readonly jobsPerSecond: number
  /** How many groups of limit 1 the jobs belong to; null for plain jobs. */
  readonly groups: number | null
  /** The tables whose dead rows are counted. */
  readonly tables: readonly string[]
}

const PLAIN: SnapshotLoad = { jobsPerSecond: JOBS_PER_SECOND, groups: null, tables: ['ready'] }
const GROUPED: SnapshotLoad = { jobsPerSecond: 2_000, groups: 1_000, tables: ['held', 'arrivals'] }

export const snapshot: GrowthMeasure = measureOf(PLAIN)
/** The same with jobs in groups: npm run bench -- flow --snapshot. */
export const groupedSnapshot: GrowthMeasure = measureOf(GROUPED)

function measureOf(load: SnapshotLoad): GrowthMeasure {
  const what = load.groups === null ? 'jobs/s' : `jobs/s of ${load.groups.toLocaleString('en')} groups of limit 1`
  return {
    about: `${load.jobsPerSecond.toLocaleString('en')} ${what} in and out while a snapshot is held open`,
    run: (context) => measure(context, load),
  }
}

async function measure(context: GrowthContext, load: SnapshotLoad): Promise<GrowthResult> {
  const phases = phasesOf(context)
  const url = await prepareDatabase(context, async () => {})
  if (load.groups !== null) await limitGroups(url)
  const deadlineMs = 60_000 + 1_000 * (phases.beforeSeconds + phases.heldSeconds + phases.afterSeconds)
  const samples = await withWorkers({ postgresUrl: url, workers: [USUAL_WORKER], listens: true }, (worker) =>
    withProducer(url, deadlineMs, (producer) =>
      withClient(url, (monitor) =>
        withClient(url, (holder) => observe({ worker, producer, monitor, holder, load }, phases)),
      ),
    ),
  )
  const warnings = [...new Set(samples.flatMap((sample) => sample.warnings))]
  return {
    columns: COLUMNS,
    rows: summarise(samples, phases),
    notes: [
      `Held for ${phases.heldSeconds} s after ${phases.beforeSeconds} s without; ${phases.afterSeconds} s more after it ended. Worker, producer and server share the machine; the worker's events are listened to.`,
      warnings.length === 0
        ? 'The worker gave no warning.'
        : `The worker warned (${warnings.length} kinds): ${warnings.slice(0, 5).join(' · ')}`,
    ],
    figures: { snapshot: figureOf(samples, phases, load) },
    samples,
  }
}

async function limitGroups(url: string): Promise<void> {
  const client = await connect(url)
  await client.setQueue('default', { groups: { concurrency: 1 } })
  await client.close()
}

function phasesOf({ isQuick, minutes }: GrowthContext): Phases {
  const heldSeconds = minutes === null ? (isQuick ? 6 : DEFAULT_MINUTES * 60) : Math.round(minutes * 60)
  return isQuick
    ? { beforeSeconds: 3, heldSeconds, afterSeconds: 3 }
    : { beforeSeconds: 15, heldSeconds, afterSeconds: 30 }
}

interface Cast {
  readonly worker: Child
  readonly producer: Child
  readonly monitor: pg.Client
  readonly holder: pg.Client
  readonly load: SnapshotLoad
}

interface Sample {
  readonly seconds: number
  /** Jobs that were accepted and have not succeeded: ready and running. */
  readonly depth: number
  readonly jobsPerSecond: number
  readonly acceptedPerSecond: number
  readonly refused: number
  readonly claimP50Ms: number | null
  readonly claimP99Ms: number | null
  readonly enqueueP50Ms: number | null
  readonly enqueueP99Ms: number | null
  /** How long the oldest snapshot has been open, in seconds. */
  readonly horizonAgeS: number
  /** How many dead rows the server counts where jobs wait. */
  readonly deadInLine: number
  readonly warnings: readonly string[]
}

async function observe(cast: Cast, { beforeSeconds, heldSeconds, afterSeconds }: Phases): Promise<Sample[]> {
  const { worker, producer, holder, load } = cast
  const request: ProduceRequest = { kind: 'produce', jobsPerSecond: load.jobsPerSecond, groups: load.groups }
  producer.send(request)
  // The first second opens connections.
  await pause(1_000)
  await Promise.all([worker.ask({ kind: 'sample' }), producer.ask({ kind: 'sample' })])
  const beganMs = performance.now()
  const samples: Sample[] = []
  let last = { atMs: beganMs, ...(await readCounts(cast)) }
  for (let second = 1; second <= beforeSeconds + heldSeconds + afterSeconds; second++) {
    if (second === beforeSeconds + 1) {
      // The first statement takes the snapshot. Rows deleted from now on cannot be vacuumed.
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await holder.query('SELECT 1')
    }
    if (second === beforeSeconds + heldSeconds + 1) await holder.query('COMMIT')
    await pause(beganMs + second * 1_000 - performance.now())
    const counts = await readCounts(cast)
    const now = { atMs: performance.now(), ...counts }
    samples.push(compare(last, now, beganMs))
    last = now
    if (second % 30 === 0) say(`  ${second} s: ${showSample(samples.at(-1)!)}`)
  }
  return samples
}

interface Counts {
  readonly worker: WorkerSample
  readonly producer: ProducerSample
  readonly horizonAgeS: number
  readonly deadInLine: number
}

const MONITOR = `
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)), 0)::float8 AS age,
       (SELECT sum(n_dead_tup)::float8 FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND relname = ANY ($1)) AS dead
  FROM pg_stat_activity
 WHERE backend_xmin IS NOT NULL
   AND pid <> pg_backend_pid()`

async function readCounts({ worker, producer, monitor, load }: Cast): Promise<Counts> {
  const [workerSample, producerSample, { rows }] = await Promise.all([
    worker.ask<WorkerSample>({ kind: 'sample' }),
    producer.ask<ProducerSample>({ kind: 'sample' }),
    monitor.query(MONITOR, [load.tables]),
  ])
  return { worker: workerSample, producer: producerSample, horizonAgeS: rows[0].age, deadInLine: rows[0].dead }
}

type Moment = Counts & { readonly atMs: number }

function compare(last: Moment, now: Moment, beganMs: number): Sample {
  const seconds = (now.atMs - last.atMs) / 1_000
  const { worker, producer } = now
  return {
    seconds: (now.atMs - beganMs) / 1_000,
    depth: Math.max(0, producer.accepted - worker.succeeded),
    jobsPerSecond: (worker.succeeded - last.worker.succeeded) / seconds,
    acceptedPerSecond: (producer.accepted - last.producer.accepted) / seconds,
    refused: producer.refused - last.producer.refused,
    claimP50Ms: worker.claims.p50,
    claimP99Ms: worker.claims.p99,
    enqueueP50Ms: producer.enqueues.p50,
    enqueueP99Ms: producer.enqueues.p99,
    horizonAgeS: now.horizonAgeS,
    deadInLine: now.deadInLine,
    warnings: worker.warnings,
  }
}

function showSample({ depth, jobsPerSecond, claimP99Ms, horizonAgeS }: Sample): string {
  const rate = Math.round(jobsPerSecond).toLocaleString('en')
  return `${rate} jobs/s, depth ${depth.toLocaleString('en')}, claim p99 ${claimP99Ms?.toFixed(1) ?? '–'} ms, horizon ${Math.round(horizonAgeS)} s`
}

const COLUMNS = [
  column('phase', 'phase'),
  column('seconds', 'seconds'),
  column('jobs/s', 'jobsPerSecond'),
  column('accepted/s', 'acceptedPerSecond'),
  column('refused', 'refused'),
  column('depth at end', 'depthAtEnd'),
  column('most', 'depthMost'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('worst p99 ms', 'claimP99Ms', 2),
  column('enqueue worst p99 ms', 'enqueueP99Ms', 2),
  column('dead rows', 'deadInLine'),
]

function summarise(samples: readonly Sample[], { beforeSeconds, heldSeconds }: Phases): GrowthRow[] {
  const phases = [
    ['before', samples.slice(0, beforeSeconds)],
    ['held, first half', samples.slice(beforeSeconds, beforeSeconds + Math.floor(heldSeconds / 2))],
    ['held, second half', samples.slice(beforeSeconds + Math.floor(heldSeconds / 2), beforeSeconds + heldSeconds)],
    ['after', samples.slice(beforeSeconds + heldSeconds)],
  ] as const
  return phases.map(([phase, part]) => {
    const most = (read: (sample: Sample) => number | null) => Math.max(...part.map((sample) => read(sample) ?? 0))
    const mean = (read: (sample: Sample) => number | null) =>
      part.reduce((total, sample) => total + (read(sample) ?? 0), 0) / Math.max(1, part.length)
    return {
      phase,
      seconds: part.length,
      jobsPerSecond: mean(({ jobsPerSecond }) => jobsPerSecond),
      acceptedPerSecond: mean(({ acceptedPerSecond }) => acceptedPerSecond),
      refused: part.reduce((total, { refused }) => total + refused, 0),
      depthAtEnd: part.at(-1)?.depth ?? null,
      depthMost: most(({ depth }) => depth),
      claimP50Ms: mean(({ claimP50Ms }) => claimP50Ms),
      claimP99Ms: most(({ claimP99Ms }) => claimP99Ms),
      enqueueP99Ms: most(({ enqueueP99Ms }) => enqueueP99Ms),
      deadInLine: most(({ deadInLine }) => deadInLine),
    }
  })
}

function figureOf(
  samples: readonly Sample[],
  { beforeSeconds, heldSeconds }: Phases,
  { jobsPerSecond }: SnapshotLoad,
): Figure {
  const line = (name: string, read: (sample: Sample) => number | null) => ({
    name,
    points: samples.map((sample) => [sample.seconds, read(sample) ?? Number.NaN] as const),
  })
  return {
    title: 'A snapshot held open elsewhere',
    subtitle: `${jobsPerSecond.toLocaleString('en')} jobs/s enqueued whether the queue keeps up or not; one worker process, 64 slots`,
    x: { label: 'seconds', scale: 'linear' },
    marks: [
      { x: beforeSeconds, label: 'snapshot taken' },
      { x: beforeSeconds + heldSeconds, label: 'given up' },
    ],
    panels: [
      {
        label: 'jobs/s',
        series: [
          line('done', (sample) => sample.jobsPerSecond),
          line('accepted', (sample) => sample.acceptedPerSecond),
        ],
      },
      { label: 'ready and running', series: [line('depth', ({ depth }) => depth)] },
      {
        label: 'claim, ms',
        series: [line('p50', ({ claimP50Ms }) => claimP50Ms), line('p99', ({ claimP99Ms }) => claimP99Ms)],
      },
    ],
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}

// What do idle workers cost?

import type pg from 'pg'
import { Child } from '../children.js'
import { withClient } from '../database.js'
import { residentBytes, serverCpuUs } from '../resources.js'
import { median, sum } from '../statistics.js'
import { USUAL_WORKER } from './drain-point.js'
import { column, type GrowthContext, type GrowthMeasure, type GrowthRow, megabytes } from './measure.js'
import { prepareDatabase } from './seed.js'
import type { WorkerAssignment, WorkerSample } from './worker-child.js'

const WORKER = new URL('./worker-child.js', import.meta.url)
const DEADLINE_MS = 300_000

interface IdleScale {
  readonly workers: number
  readonly seconds: number
  /** Until polls are at their longest interval and the server's counters are current. */
  readonly settleSeconds: number
}

const FULL: IdleScale = { workers: 10, seconds: 20, settleSeconds: 15 }
const QUICK: IdleScale = { workers: 3, seconds: 4, settleSeconds: 3 }

export const idle: GrowthMeasure = {
  about: 'queries and processor time of idle workers',
  async run(context) {
    const scale = context.isQuick ? QUICK : FULL
    const url = await prepareDatabase(context, async () => {})
    return withClient(url, async (client) => {
      // Work left from creating the database, such as a checkpoint, is over by then.
      await pause(scale.settleSeconds * 1_000)
      const without = await observe(context, client, scale, [])
      const workers = await startWorkers(url, scale)
      try {
        await pause(scale.settleSeconds * 1_000)
        const withThem = await observe(context, client, scale, workers)
        const connections = await countConnections(client)
        return describe(scale, without, withThem, {
          connections,
          memory: median(workers.map(({ pid }) => residentBytes(pid) ?? 0)),
        })
      } finally {
        for (const worker of workers) worker.send({ kind: 'stop' })
        await Promise.race([Promise.all(workers.map((worker) => worker.ended())), pause(20_000)])
        await Promise.all(workers.map((worker) => worker.kill()))
      }
    })
  },
}

async function startWorkers(postgresUrl: string, { workers }: IdleScale): Promise<Child[]> {
  const assignment: WorkerAssignment = { postgresUrl, workers: [{ ...USUAL_WORKER, prefetch: null }] }
  const children = Array.from(
    { length: workers },
    (_, index) => new Child(WORKER, assignment, { name: `idle worker ${index + 1}`, deadlineMs: DEADLINE_MS }),
  )
  try {
    await Promise.all(children.map((child) => child.hear('ready')))
  } catch (error) {
    await Promise.all(children.map((child) => child.kill()))
    throw error
  }
  for (const child of children) child.send({ kind: 'start' })
  return children
}

interface Observed {
  readonly seconds: number
  readonly commits: number
  readonly serverCpuUs: number
  readonly nodeCpuUs: number
  /** Commits in each second. */
  readonly course: readonly (readonly [number, number])[]
}

/** Samples once a second with one statement, with and without workers, so that the cost of sampling cancels out. */
async function observe(
  { postgres }: GrowthContext,
  client: pg.Client,
  { seconds }: IdleScale,
  workers: readonly Child[],
): Promise<Observed> {
  const nodeCpu = async () =>
    sum(
      (await Promise.all(workers.map((child) => child.ask<WorkerSample>({ kind: 'sample' })))).map(
        ({ cpuUs }) => cpuUs,
      ),
    )
  const cpuBefore = await nodeCpu()
  const serverBefore = serverCpuUs(postgres.pid)
  const beganMs = performance.now()
  const first = await readCommits(client)
  const course: [number, number][] = []
  for (let [second, last] = [1, first]; second <= seconds; second++) {
    await pause(beganMs + second * 1_000 - performance.now())
    const commits = await readCommits(client)
    course.push([second, commits - last])
    last = commits
  }
  return {
    seconds: (performance.now() - beganMs) / 1_000,
    commits: sum(course.map(([, commits]) => commits)),
    serverCpuUs: serverCpuUs(postgres.pid) - serverBefore,
    nodeCpuUs: (await nodeCpu()) - cpuBefore,
    course,
  }
}

async function readCommits(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    'SELECT xact_commit::float8 AS commits FROM pg_stat_database WHERE datname = current_database()',
  )
  return rows[0].commits as number
}

async function countConnections(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    "SELECT count(*)::integer AS count FROM pg_stat_activity WHERE application_name LIKE 'holdfast %'",
  )
  return rows[0].count as number
}

function describe(
  { workers, settleSeconds }: IdleScale,
  without: Observed,
  withThem: Observed,
  more: { readonly connections: number; readonly memory: number },
) {
  const each = (read: (observed: Observed) => number) =>
    (read(withThem) / withThem.seconds - read(without) / without.seconds) / workers
  const row: GrowthRow = {
    workers,
    seconds: withThem.seconds,
    queriesPerSecond: each(({ commits }) => commits),
    serverCpuMsPerSecond: each(({ serverCpuUs: us }) => us / 1_000),
    nodeCpuMsPerSecond: each(({ nodeCpuUs }) => nodeCpuUs / 1_000),
    connections: more.connections / workers,
    memoryMb: megabytes(more.memory),
  }
  return {
    columns: [
      column('idle workers', 'workers'),
      column('queries/s each', 'queriesPerSecond', 2),
      column('server ms/s each', 'serverCpuMsPerSecond', 2),
      column('Node ms/s each', 'nodeCpuMsPerSecond', 2),
      column('connections each', 'connections', 1),
      column('memory MB each', 'memoryMb', 1),
    ],
    rows: [row],
    notes: [
      `Each in a process of its own, after ${settleSeconds} s. Queries are commits of the database; what the server does with no worker there, counted for as long, is taken off.`,
    ],
    figures: {
      idle: {
        title: `Queries of ${workers} idle workers`,
        subtitle: 'each in a process of its own; the server counts late, so read the height, not the shape',
        x: { label: 'seconds', scale: 'linear' as const },
        panels: [
          {
            label: 'queries/s, all together',
            series: [
              { name: `${workers} workers`, points: withThem.course },
              { name: 'no worker', points: without.course },
            ],
          },
        ],
      },
    },
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}

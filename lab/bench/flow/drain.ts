// Drains one backlog with a number of processes, in a database of its own.

import { connect, defineJob } from '../../../src/index.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { Child } from '../children.js'
import { freshDatabase } from '../database.js'
import type { Stopped } from '../drainer.js'
import { allHandled } from '../drains.js'
import { PAYLOAD } from '../payloads.js'
import { readCounters, serverCpuUs } from '../resources.js'
import { sum } from '../statistics.js'
import type { FlowDrainAssignment } from './drain-child.js'
import { FLOW_QUEUE, groupOf, type Load } from './loads.js'

const BATCH = 500
const CHILD = new URL('./drain-child.js', import.meta.url)
const DEADLINE_MS = 600_000

export interface DrainScale {
  readonly jobs: number
  /** Of all processes together. */
  readonly slots: number
}

/** What one drain took. */
export interface Drained {
  readonly load: string
  readonly processes: number
  readonly round: number
  readonly jobs: number
  readonly seconds: number
  /** Processor time for each job, in microseconds: of the server and of Node. */
  readonly enqueueServerUs: number
  readonly enqueueNodeUs: number
  readonly serverUs: number
  readonly nodeUs: number
  readonly walBytes: number
  readonly jobsPerCommit: number
}

/** Fills a fresh database with a load, and drains it. */
export async function drainLoad(
  postgres: PostgresServer,
  turn: { readonly load: Load; readonly processes: number; readonly round: number },
  scale: DrainScale,
): Promise<Drained> {
  const { load, processes, round } = turn
  const postgresUrl = await freshDatabase(postgres.url)
  const filled = await fill(postgres, postgresUrl, load, Math.max(scale.jobs, load.groups ?? 0))
  const before = await readCounters(postgresUrl)
  const drained = await drain(
    postgres,
    { postgresUrl, slots: Math.ceil(scale.slots / processes) },
    { processes, jobs: scale.jobs },
  )
  const after = await readCounters(postgresUrl)
  const walBytes = (after.walBytes - before.walBytes) / drained.jobs
  const jobsPerCommit = drained.jobs / (after.commits - before.commits)
  return { load: load.name, processes, round, ...filled, ...drained, walBytes, jobsPerCommit }
}

async function fill(postgres: PostgresServer, url: string, load: Load, jobs: number) {
  const client = await connect(url)
  try {
    await load.setUp(client)
    const noop = defineJob<object>('noop', { queue: FLOW_QUEUE })
    const [server, node] = [serverCpuUs(postgres.pid), process.cpuUsage()]
    for (let from = 0; from < jobs; from += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, jobs - from) }, (_, index) => from + index)
      await client.enqueueMany(
        numbers.map((n) => {
          const group = groupOf(load, n)
          return group === null ? ([noop, PAYLOAD] as const) : ([noop, PAYLOAD, { group }] as const)
        }),
      )
    }
    const { user, system } = process.cpuUsage(node)
    return {
      enqueueServerUs: (serverCpuUs(postgres.pid) - server) / jobs,
      enqueueNodeUs: (user + system) / jobs,
    }
  } finally {
    await client.close()
  }
}

async function drain(
  postgres: PostgresServer,
  assignment: FlowDrainAssignment,
  { processes, jobs }: { readonly processes: number; readonly jobs: number },
) {
  const children = Array.from(
    { length: processes },
    (_, index) => new Child(CHILD, assignment, { name: `drainer ${index + 1}`, deadlineMs: DEADLINE_MS }),
  )
  try {
    await Promise.all(children.map((child) => child.hear('ready')))
    const all = allHandled(children, jobs)
    const before = serverCpuUs(postgres.pid)
    const began = performance.now()
    for (const child of children) child.send({ kind: 'start' })
    const stopped = Promise.all(children.map((child) => child.hear<Stopped>('stopped')))
    await Promise.race([all, stopped])
    for (const child of children) child.send({ kind: 'stop' })
    const reports = await stopped
    const seconds = (performance.now() - began) / 1_000
    const serverUs = serverCpuUs(postgres.pid) - before
    for (const child of children) child.send({ kind: 'close' })
    await Promise.all(children.map((child) => child.ended()))
    const handled = sum(reports.map((report) => report.handled))
    return {
      jobs: handled,
      seconds,
      serverUs: serverUs / handled,
      nodeUs: sum(reports.map(({ nodeCpuUs }) => nodeCpuUs)) / handled,
    }
  } finally {
    await Promise.all(children.map((child) => child.kill()))
  }
}

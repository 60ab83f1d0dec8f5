// One measurement: a fresh database, a process of its own, and what the servers spent on it.

import { say } from '../say.js'
import type { PostgresServer } from '../servers/postgres.js'
import type { RedisServer } from '../servers/redis.js'
import type { Assignment, Report } from './child.js'
import { Child } from './children.js'
import { CONTENDERS } from './contenders/all.js'
import { freshDatabase } from './database.js'
import { MEASURES, type Scale } from './measures.js'
import { readCounters, serverCpuUs } from './resources.js'

const CHILD = new URL('./child.js', import.meta.url)
const DEADLINE_MS = 300_000
const DRAIN_JOBS_STEP = 500

export interface TestServers {
  readonly postgres: PostgresServer
  readonly redis: RedisServer | null
}

interface Turn {
  readonly contender: string
  readonly measure: string
  readonly round: number
  readonly scale: Scale
}

export interface Result extends Omit<Report, 'kind'> {
  readonly measure: string
  readonly contender: string
  readonly round: number
  readonly serverCpuUs: number
  readonly walBytes: number | null
  readonly commits: number | null
  readonly deadTuples: number | null
}

/** A failed measurement. */
export interface Failure {
  readonly measure: string
  readonly contender: string
  readonly round: number
  readonly error: string
}

/** Measures and returns the result. A failure is a value, so that one failure does not lose the other results. */
export async function measureOnce(servers: TestServers, turn: Turn): Promise<Result | Failure> {
  const { contender, measure, round } = turn
  const label = `round ${round} · ${measure} · ${contender}`
  try {
    const result = await measureOne(servers, turn)
    say(`${label}: ${show(result)}`)
    return result
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown.message : String(thrown)
    say(`${label}: FAILED: ${error}`)
    return { measure, contender, round, error }
  }
}

async function measureOne({ postgres, redis }: TestServers, turn: Turn): Promise<Result> {
  const { contender, measure, round } = turn
  const isPostgres = CONTENDERS[contender]!.note.store === 'postgres'
  const serverPid = isPostgres ? postgres.pid : redis!.pid
  // A separate database for each, so that no contender pays for another's dead rows.
  const postgresUrl = await freshDatabase(postgres.url)
  redis?.emptyWithLog()
  const servers = { postgresUrl, redisPort: redis?.port ?? null }
  const cpuBefore = serverCpuUs(serverPid)
  const counters = () => (isPostgres ? readCounters(postgresUrl) : { ...NOT_THERE, walBytes: redis!.logBytes() })
  const before = await counters()
  const { kind: _, ...measured } = await runChild({ contender, measure, servers, scale: scaleOf(turn) })
  const after = await counters()
  return {
    ...measured,
    measure,
    contender,
    round,
    serverCpuUs: serverCpuUs(serverPid) - cpuBefore,
    walBytes: after.walBytes - before.walBytes,
    commits: isPostgres ? after.commits - before.commits : null,
    deadTuples: isPostgres ? after.deadTuples - before.deadTuples : null,
  }
}

/** Redis counts neither commits nor dead rows. */
const NOT_THERE = { commits: 0, deadTuples: 0 }

function scaleOf({ contender, measure, scale }: Turn): Scale {
  const jobs = scale.drainJobs * CONTENDERS[contender]!.drainShare(MEASURES[measure]!.feature)
  return { ...scale, drainJobs: Math.max(1, Math.round(jobs / DRAIN_JOBS_STEP)) * DRAIN_JOBS_STEP }
}

async function runChild(assignment: Assignment): Promise<Report> {
  const { contender, measure } = assignment
  const child = new Child(CHILD, assignment, { name: `${contender} in "${measure}"`, deadlineMs: DEADLINE_MS })
  const report = await child.hear<Report>('report')
  await child.ended()
  return report
}

function show({ jobs, seconds, p50, p99, nodeCpuUs, serverCpuUs: cpu, waitingBytes, finishedBytes }: Result): string {
  const latency = typeof p50 !== 'number' ? '' : ` · p50 ${p50.toFixed(2)} ms, p99 ${p99!.toFixed(2)} ms`
  const cost = `${(cpu / jobs).toFixed(1)} µs server + ${(nodeCpuUs / jobs).toFixed(1)} µs Node a job`
  const memory =
    waitingBytes === undefined ? '' : ` · ${waitingBytes.toFixed(0)} B waiting, ${finishedBytes!.toFixed(0)} B finished`
  return `${Math.round(jobs / seconds).toLocaleString('en')} jobs/s${latency} · ${cost}${memory}`
}

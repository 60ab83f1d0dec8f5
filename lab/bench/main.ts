// npm run bench: measures Holdfast, the limit of its layout and its peers on the same servers, one after the other in turns,
// and prints a table for people on stderr and, with --json, one document on stdout.

import { fork, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { PostgresServer } from '../servers/postgres.js'
import { RedisServer } from '../servers/redis.js'
import type { Assignment, Report } from './child.js'
import type { Servers } from './contender.js'
import { CONTENDERS } from './contenders/all.js'
import { MEASURES, type Scale } from './measures.js'
import { readCounters, serverCpuUs } from './resources.js'
import { median } from './statistics.js'

const { values: flags } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    contenders: { type: 'string' },
  },
})

// The settings of the embedded server that matter here; durability stays on.
const POSTGRES_SETTINGS = {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  autovacuum_naptime: '5s',
}

interface Result extends Report {
  readonly measure: string
  readonly contender: string
  readonly round: number
  readonly serverCpuUs: number
  readonly walBytes: number | null
  readonly commits: number | null
  readonly deadTuples: number | null
}

const say = (text: string) => process.stderr.write(`${text}\n`)

async function main(): Promise<void> {
  installPeers()
  const scale: Scale = flags.quick
    ? { seconds: 1, drainJobs: 20_000, latencySamples: 50 }
    : { seconds: 4, drainJobs: 100_000, latencySamples: 300 }
  const postgres = await PostgresServer.open({ settings: POSTGRES_SETTINGS })
  const redis = await RedisServer.open()
  try {
    const results = await measureAll({ postgres, redis }, scale)
    report(results, scale)
  } finally {
    await postgres.close()
    await redis?.close()
  }
}

function installPeers(): void {
  const folder = join('lab', 'peers')
  if (existsSync(join(folder, 'node_modules'))) return
  say('installing the peers…')
  spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'ignore' })
}

async function measureAll(
  { postgres, redis }: { postgres: PostgresServer; redis: RedisServer | null },
  scale: Scale,
): Promise<Result[]> {
  const measures = pick(Object.keys(MEASURES), flags.only)
  const contenders = pick(Object.keys(CONTENDERS), flags.contenders).filter(
    (name) => CONTENDERS[name]!.note.store !== 'redis' || redis !== null,
  )
  if (redis === null) say('Redis is not installed, so BullMQ is left out: apt-get install redis-server')
  const results: Result[] = []
  for (let round = 1; round <= Number(flags.rounds); round++) {
    for (const measure of measures) {
      // Turns: nobody always comes first, when the machine is cool, or last.
      const order = contenders.map((_, index) => contenders[(index + round) % contenders.length]!)
      for (const contender of order) {
        const result = await measureOne({ postgres, redis }, { contender, measure, round, scale })
        results.push(result)
        say(`round ${round} · ${measure} · ${contender}: ${show(result)}`)
      }
    }
  }
  return results
}

function pick(all: readonly string[], wanted: string | undefined): string[] {
  if (wanted === undefined) return [...all]
  return all.filter((name) => wanted.split(';').some((part) => name.includes(part.trim())))
}

async function measureOne(
  { postgres, redis }: { postgres: PostgresServer; redis: RedisServer | null },
  { contender, measure, round, scale }: { contender: string; measure: string; round: number; scale: Scale },
): Promise<Result> {
  const isPostgres = CONTENDERS[contender]!.note.store === 'postgres'
  const serverPid = isPostgres ? postgres.pid : redis!.pid
  // A database of its own for each, so that nobody pays for another's dead rows.
  const postgresUrl = await freshDatabase(postgres.url)
  redis?.empty()
  const servers: Servers = { postgresUrl, redisPort: redis?.port ?? null }
  const cpuBefore = serverCpuUs(serverPid)
  const before = isPostgres ? await readCounters(postgresUrl) : null
  const measured = await runChild({ contender, measure, servers, scale })
  const after = isPostgres ? await readCounters(postgresUrl) : null
  return {
    ...measured,
    measure,
    contender,
    round,
    serverCpuUs: serverCpuUs(serverPid) - cpuBefore,
    walBytes: before && after ? after.walBytes - before.walBytes : null,
    commits: before && after ? after.commits - before.commits : null,
    deadTuples: before && after ? after.deadTuples - before.deadTuples : null,
  }
}

async function freshDatabase(serverUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  await client.query('DROP DATABASE IF EXISTS bench WITH (FORCE)')
  await client.query('CREATE DATABASE bench')
  await client.query('CHECKPOINT')
  await client.end()
  return serverUrl.replace(/\/postgres$/, '/bench')
}

function runChild(assignment: Assignment): Promise<Report> {
  const child = fork(new URL('./child.js', import.meta.url), [JSON.stringify(assignment)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  return new Promise((resolve, reject) => {
    let report: Report | null = null
    child.on('message', (message) => {
      report = message as Report
    })
    const timer = setTimeout(() => child.kill('SIGKILL'), 300_000)
    child.on('exit', (code) => {
      clearTimeout(timer)
      if (report !== null) resolve(report)
      else reject(new Error(`${assignment.contender} ended with ${code} in "${assignment.measure}"`))
    })
  })
}

function show({ jobs, seconds, p50, p99, nodeCpuUs, serverCpuUs: cpu }: Result): string {
  const latency = typeof p50 !== 'number' ? '' : ` · p50 ${p50.toFixed(2)} ms, p99 ${p99!.toFixed(2)} ms`
  const cost = `${(cpu / jobs).toFixed(1)} µs server + ${(nodeCpuUs / jobs).toFixed(1)} µs Node a job`
  return `${Math.round(jobs / seconds).toLocaleString('en')} jobs/s${latency} · ${cost}`
}

/** Medians over the rounds of one measure and contender. */
function summarise(results: readonly Result[]) {
  const of = (read: (result: Result) => number | null | undefined) => {
    const values = results.map(read).filter((value): value is number => typeof value === 'number')
    return values.length === 0 ? null : median(values)
  }
  return {
    measure: results[0]!.measure,
    contender: results[0]!.contender,
    rounds: results.length,
    jobsPerSecond: of(({ jobs, seconds }) => jobs / seconds),
    p50Ms: of(({ p50 }) => p50),
    p99Ms: of(({ p99 }) => p99),
    maxMs: of(({ max }) => max),
    serverCpuUsPerJob: of((result) => result.serverCpuUs / result.jobs),
    nodeCpuUsPerJob: of((result) => result.nodeCpuUs / result.jobs),
    walBytesPerJob: of((result) => (result.walBytes === null ? null : result.walBytes / result.jobs)),
    commitsPerJob: of((result) => (result.commits === null ? null : result.commits / result.jobs)),
    deadTuplesPerJob: of((result) => (result.deadTuples === null ? null : result.deadTuples / result.jobs)),
  }
}

function report(results: readonly Result[], scale: Scale): void {
  const groups = new Map<string, Result[]>()
  for (const result of results) {
    const key = `${result.measure}\n${result.contender}`
    groups.set(key, [...(groups.get(key) ?? []), result])
  }
  const summaries = [...groups.values()].map(summarise)
  const notes = [...new Set(results.map(({ contender }) => contender))].map((name) => CONTENDERS[name]!.note)
  printTable(summaries)
  for (const note of notes) {
    say(`${note.name} ${note.version}: ${note.settings}. Does less: ${note.lacks}.`)
  }
  if (!flags.json) return
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, memoryBytes: totalmem(), node: process.version }
  const document = {
    schemaVersion: 1,
    date: new Date().toISOString(),
    machine,
    postgres: POSTGRES_SETTINGS,
    scale,
    notes,
    summaries,
    results,
  }
  process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
}

function printTable(summaries: readonly ReturnType<typeof summarise>[]): void {
  const cell = (value: number | null, digits: number) =>
    value === null ? '–' : value.toLocaleString('en', { maximumFractionDigits: digits })
  const columns = [
    'measure',
    'contender',
    'jobs/s',
    'p50 ms',
    'p99 ms',
    'server µs',
    'Node µs',
    'WAL B',
    'commits',
    'dead',
  ]
  const rows = summaries.map((row) => [
    row.measure,
    row.contender,
    cell(row.jobsPerSecond, 0),
    cell(row.p50Ms, 2),
    cell(row.p99Ms, 2),
    cell(row.serverCpuUsPerJob, 1),
    cell(row.nodeCpuUsPerJob, 1),
    cell(row.walBytesPerJob, 0),
    cell(row.commitsPerJob, 4),
    cell(row.deadTuplesPerJob, 2),
  ])
  const widths = columns.map((name, index) => Math.max(name.length, ...rows.map((row) => row[index]!.length)))
  const line = (row: readonly string[]) =>
    row.map((text, index) => (index < 2 ? text.padEnd(widths[index]!) : text.padStart(widths[index]!))).join('  ')
  say('')
  say(line(columns))
  for (const row of rows) say(line(row))
  say('')
}

await main()

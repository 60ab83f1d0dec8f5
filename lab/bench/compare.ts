// Compares contenders: every measure in rounds, contenders in turn, medians at the end.

import { createRequire } from 'node:module'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import { type RedisFlags, RedisServer } from '../servers/redis.js'
import type { CompareArguments } from './arguments.js'
import { CONTENDERS, isPeer } from './contenders/all.js'
import { installPeers } from './contenders/peers.js'
import { POSTGRES_SETTINGS } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { MEASURES, type Scale } from './measures.js'
import { ratiosOf, ratioTable } from './ratios.js'
import { type Failure, measureOnce, type Result, type TestServers } from './run.js'
import { type Absence, summariseAll, summaryTable } from './summary.js'
import { printTable } from './table.js'

// Chosen so that everything takes about half an hour on two cores.
const FULL: Scale = {
  ...{ seconds: 3, drainJobs: 150_000, latencySamples: 250 },
  depths: { short: 60_000, deep: 1_000_000 },
}
const QUICK: Scale = {
  ...{ seconds: 1, drainJobs: 20_000, latencySamples: 50 },
  depths: { short: 20_000, deep: 100_000 },
}

/** Runs the comparison and returns the exit code: 1 when a measurement failed. */
export async function compare(chosen: CompareArguments): Promise<number> {
  const scale = chosen.isQuick ? QUICK : FULL
  const stores = new Set(chosen.contenders.map((name) => CONTENDERS[name]!.note.store))
  if (chosen.contenders.some(isPeer)) installPeers()
  const [servers, close] = await openAndCloseForSure(
    async () => ({
      postgres: await PostgresServer.open({ settings: POSTGRES_SETTINGS }),
      redis: stores.has('redis') ? await RedisServer.open(redisSettings(chosen)) : null,
    }),
    ({ postgres, redis }) => Promise.all([postgres.close(), redis?.close()]),
  )
  try {
    const outcome = await measureAll(servers, chosen, scale)
    await report(outcome, servers, chosen, scale)
    return outcome.failures.length === 0 ? 0 : 1
  } finally {
    await close()
  }
}

/** What differs from the server's own defaults. The log is written anew between measurements and never in one. */
function redisSettings({ appendfsync }: CompareArguments): RedisFlags {
  return { appendonly: 'yes', appendfsync, 'auto-aof-rewrite-percentage': '0' }
}

interface Outcome {
  readonly results: readonly Result[]
  readonly failures: readonly Failure[]
  readonly absences: readonly Absence[]
}

const NEED_DRIVER: ReadonlySet<string> = new Set(['holdfast-redis', 'redis-stream', 'redis-list'])

/** Whether the driver for Redis can be loaded. */
function hasDriver(): boolean {
  try {
    createRequire(import.meta.url).resolve('@redis/client')
    return true
  } catch {
    return false
  }
}

async function measureAll(servers: TestServers, chosen: CompareArguments, scale: Scale): Promise<Outcome> {
  const onServer = chosen.contenders.filter(
    (name) => CONTENDERS[name]!.note.store !== 'redis' || servers.redis !== null,
  )
  if (onServer.length < chosen.contenders.length) {
    say('Redis is not installed, so what runs on it is left out: apt-get install redis-server')
  }
  const contenders = hasDriver() ? onServer : onServer.filter((name) => !NEED_DRIVER.has(name))
  if (contenders.length < onServer.length) {
    say(
      '@redis/client is not installed, so Holdfast, the stream and the list on Redis are left out: npm install @redis/client',
    )
  }
  const results: Result[] = []
  const failures: Failure[] = []
  for (let round = 1; round <= chosen.rounds; round++) {
    for (const measure of chosen.measures) {
      // In turns, so that no contender is always first, when the machine is cool, or last.
      const order = contenders.map((_, index) => contenders[(index + round) % contenders.length]!)
      for (const contender of order) {
        if (!isFor(measure, contender) || whyAbsent(measure, contender) !== null) continue
        const result = await measureOnce(servers, { contender, measure, round, scale })
        if ('error' in result) failures.push(result)
        else results.push(result)
      }
    }
  }
  const absences = chosen.measures.flatMap((measure) =>
    contenders.flatMap((contender) => {
      const why = isFor(measure, contender) ? whyAbsent(measure, contender) : null
      return why === null ? [] : [{ measure, contender, why }]
    }),
  )
  return { results, failures, absences }
}

function isFor(measure: string, contender: string): boolean {
  const { store, only } = MEASURES[measure]!
  const isOnIt = store === undefined || store === CONTENDERS[contender]!.note.store
  return isOnIt && (only === undefined || only.includes(contender))
}

function whyAbsent(measure: string, contender: string): string | null {
  const { feature } = MEASURES[measure]!
  return feature === null ? null : (CONTENDERS[contender]!.cannot[feature] ?? null)
}

async function report(
  { results, failures, absences }: Outcome,
  servers: TestServers,
  chosen: CompareArguments,
  scale: Scale,
): Promise<void> {
  const summaries = summariseAll(results, absences, chosen)
  const notes = chosen.contenders.map((name) => CONTENDERS[name]!.note)
  printTable(summaryTable(summaries))
  const ratios = ratiosOf(results)
  if (ratios.length > 0) printTable(ratioTable(ratios))
  say('µs of processor time, log, commits, dead rows and bytes of memory are for each job, its enqueue included.')
  if (servers.redis !== null) say(`Redis: appendonly yes, appendfsync ${chosen.appendfsync}.`)
  say('')
  for (const note of notes) say(`${note.name} ${note.version}: ${note.settings}. Does less: ${note.lacks}.`)
  for (const { measure, contender, why } of absences) say(`– ${contender} has no "${measure}": ${why}.`)
  for (const { measure, contender, round, error } of failures) {
    say(`FAILED: ${contender}, "${measure}", round ${round}: ${error}`)
  }
  if (!chosen.isJson) return
  writeDocument({
    schemaVersion: 2,
    program: 'bench',
    date: new Date().toISOString(),
    machine: describeMachine(),
    versions: await versionsOf(servers),
    settings: { postgres: POSTGRES_SETTINGS, redis: servers.redis === null ? null : redisSettings(chosen) },
    scale,
    remark:
      'Rates are compared, so slow contenders drain a smaller backlog: how many jobs each had is in its results. The cost of a job includes its enqueue.',
    notes,
    summaries,
    ratios,
    absences,
    failures,
    results,
  })
}

// One chaos run: a server, producers, workers and a plan of faults. Then all faults are ended, and the run is drained, collected
// and checked.

import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Store } from '../../src/core/store.js'
import { openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Recorder } from '../gen/recorder.js'
import { checkHistory } from '../history/check.js'
import type { HistoryEvent, RunBegun } from '../history/events.js'
import { smallestOffender, writeStory } from '../history/story.js'
import type { Verdict } from '../history/verdict.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import type { FillableDisk } from '../servers/fillable-disk.js'
import type { PostgresServer } from '../servers/postgres.js'
import { readChanges, readFinal } from './collect.js'
import { FILLABLE, makeFault, type Scene } from './faults.js'
import { readRecords, writeHistory } from './files.js'
import { type FleetWorker, startFleet } from './fleet.js'
import { allowUsual, operateFlow } from './flow-load.js'
import { Producer } from './load.js'
import { Machine } from './machine.js'
import { Neighbour } from './neighbour.js'
import { enqueueOldJobs, hasOldDays, makeOldDays, readOldDays } from './old-days.js'
import { onServer, sleep } from './on-server.js'
import { type PlannedFault, planFaults } from './plan.js'
import { plantImports } from './plants.js'
import { probe } from './probe.js'
import { FaultProxy } from './proxy.js'
import { type ChaosSettings, has } from './settings.js'
import { Stranger } from './stranger.js'
import { watchSchema } from './watch.js'
import { FLOW_QUEUES, QUEUES, SPECIAL } from './work.js'

const RETENTION_MS = 7 * 86_400_000
const PRUNES_MAX = 100
const SCHEMA = 'holdfast'
// With a planted mistake some jobs may never end, and the others have shown enough.
const DRAIN_PLANTED_MS = 5_000
// Workers poll every second at the latest, and a call that hangs ends after three. The rest allows for a machine under other load.
const LATENESS = { boundMs: 10_000, graceMs: 1_500, recoverMs: 4_000, noticeMs: 8_000 }
// A commit waits for the standby before others see it. A worker polls every second, and recovers from a fault within four.
const FLOW = { visibleMs: 2_000, heldMs: 1_000, allowanceMs: 4_000 }
const EVERY_SECOND = '* * * * * *'
const SCHEDULES = [
  { name: 'each', catchUp: 'all', catchUpMax: 1_000, overlap: 'allow' },
  { name: 'latest', catchUp: 'latest', overlap: 'skip' },
] as const
/** In a run with flow control one more, whose jobs have a group and a limit. */
const FLOW_SCHEDULE = { name: 'grouped', catchUp: 'all', catchUpMax: 1_000, overlap: 'allow' } as const
const GROUPED = { queue: 'mail', group: 'ticks', limits: ['wide'] }

export interface ChaosResult {
  readonly seed: number
  /** The commit of the code that ran; null if unknown. */
  readonly commit: string | null
  readonly seconds: number
  readonly verdict: Verdict
  /** The smallest offending job's timeline, or null. */
  readonly story: string | null
  /** Where the histories are; kept for runs that failed. */
  readonly folder: string
  readonly restarts: number
  /** The output of worker processes that ended on their own with an error. */
  readonly complaints: readonly string[]
}

/** Runs it. Progress goes to stderr. Everything it starts is removed at the end. */
export async function runChaos(
  wanted: ChaosSettings,
  options: { readonly folder: string | null },
): Promise<ChaosResult> {
  const began = performance.now()
  const open: Open = { fleet: [], others: [] }
  const [machine, close] = await openAndCloseForSure(
    () => Machine.open(wanted),
    async (opened) => {
      await Promise.allSettled([
        ...open.fleet.map((worker) => worker.stop()),
        ...open.others.map((other) => other.close()),
      ])
      await opened.close()
    },
  )
  try {
    const settings = machine.disk === null ? withoutDisk(wanted) : wanted
    const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'holdfast-chaos-')))
    await mkdir(folder, { recursive: true })
    const plan = planFaults(settings)
    await writeFile(join(folder, 'plan.json'), JSON.stringify({ settings, plan }, null, 1))
    await prepare(machine.server, machine.disk, settings)
    const scene = await openScene(machine, folder, settings, open)
    say(`chaos: ${settings.workers} workers are up; ${plan.length} faults are planned`)
    const run = await play(scene, plan, settings)
    await Promise.all([...open.fleet.map((worker) => worker.stop()), ...open.others.map((other) => other.close())])
    open.others = []
    scene.recorder.close()
    const events = await collect(machine.server, folder, { run, settings })
    await writeHistory(folder, events)
    say(`chaos: checking ${events.length} events`)
    const verdict = checkHistory(events)
    const job = verdict.ok ? null : smallestOffender(events, verdict)
    return {
      ...{ seed: settings.seed, commit: run.commit, seconds: (performance.now() - began) / 1_000, verdict, folder },
      story: job === null ? null : writeStory(events, job),
      restarts: scene.fleet.reduce((sum, { restarts }) => sum + restarts, 0),
      complaints: scene.fleet.flatMap(({ complaints }) => complaints),
    }
  } finally {
    await close()
  }
}

/** The same without faults that can't be made here. */
function withoutDisk(settings: ChaosSettings): ChaosSettings {
  if (!has(settings, 'disk full')) return settings
  say('chaos: no disk is filled: that takes root on Linux and the right to mount')
  return { ...settings, faults: { ...settings.faults, 'disk full': 0 } }
}

async function pruneUntilDone(store: Store): Promise<void> {
  for (let calls = 0; calls < PRUNES_MAX; calls++) {
    if ((await store.prune({ retentionMs: RETENTION_MS })).isDone) return
  }
  throw new Error(`pruning a new schema did not end within ${PRUNES_MAX} calls`)
}

async function prepare(server: PostgresServer, disk: FillableDisk | null, settings: ChaosSettings): Promise<void> {
  if (disk !== null) {
    await server.adopt(disk.folder)
    const sql = new pg.Client({ connectionString: server.url })
    await sql.connect()
    await sql.query(`CREATE TABLESPACE ${FILLABLE} LOCATION '${disk.folder}'`)
    await sql.query(`ALTER ROLE holdfast SET default_tablespace = ${FILLABLE}`)
    await sql.end()
  }
  const store = await postgresStore(server.url, { schema: SCHEMA })
  // With a set clock, lock timeouts do not end on time (test/stores/clock-set-back.test.ts shows it). So the one step of the day
  // that takes locks which others wait for is done before.
  if (server.clock !== null) await pruneUntilDone(store)
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  // The history table is on a disk that always has room.
  await sql.query("SET default_tablespace = ''")
  if (settings.hasOldDays) await makeOldDays(sql, SCHEMA)
  await watchSchema(sql, SCHEMA)
  await sql.end()
  const holdfast = await openHoldfast(store, { upkeep: false })
  for (const { name, ...policy } of SCHEDULES) {
    await holdfast.schedule(name, { cron: EVERY_SECOND, job: SPECIAL.tick, payload: null, ...policy })
  }
  if (settings.hasFlow) {
    await allowUsual(holdfast)
    const { name, ...policy } = FLOW_SCHEDULE
    await holdfast.schedule(name, { cron: EVERY_SECOND, job: SPECIAL.tick, payload: null, ...policy, ...GROUPED })
  }
  await holdfast.close()
}

/** What is to be closed at the end, whatever happens. */
interface Open {
  fleet: FleetWorker[]
  others: { close(): Promise<void> }[]
}

async function openScene(machine: Machine, folder: string, settings: ChaosSettings, open: Open): Promise<Scene> {
  const { leaseMs, concurrency, prefetch, processes, workers, pooled, plant } = settings
  const { server } = machine
  const place = { port: server.port, schema: SCHEMA, folder }
  const recorder = new Recorder(join(folder, 'chaos.jsonl'), { process: 'chaos', processRun: 1 })
  const pooler = machine.pooler === null ? null : { port: machine.pooler.port, workers: pooled }
  const imports = plantImports(plant)
  if (settings.hasOldDays) await enqueueOldJobs(server, SCHEMA, { recorder, settings })
  const queues = settings.hasFlow ? [...QUEUES, ...FLOW_QUEUES] : QUEUES
  const each = { leaseMs, concurrency, prefetch, processes, queues, imports }
  open.fleet = await startFleet(workers, { ...place, ...each, pooler, recorder })
  const producers: Producer[] = []
  for (let number = 1; number <= settings.producers; number++) {
    const producer = await Producer.open(number, { ...place, settings })
    producers.push(producer)
    open.others.push(producer)
  }
  const stranger = await openStranger(server, folder, settings.hasFlow)
  open.others.push(stranger)
  if (machine.pooler !== null) open.others.push(await Neighbour.open(machine.pooler.url))
  await Promise.all(open.fleet.map((worker) => worker.ready()))
  return {
    ...{ machine, schema: SCHEMA, fleet: open.fleet, producers, stranger, recorder },
    get server() {
      return machine.server
    },
  }
}

async function openStranger(server: PostgresServer, folder: string, hasFlow: boolean): Promise<Stranger> {
  const proxy = await FaultProxy.open(server.port)
  const store = await postgresStore(proxy.url, { schema: SCHEMA, deadlineMs: 3_000, connectMs: 3_000 })
  const holdfast = await openHoldfast(store, { upkeep: false, name: 'stranger' })
  const recorder = new Recorder(join(folder, 'stranger.jsonl'), { process: 'stranger', processRun: 1 })
  return new Stranger(holdfast, proxy, { recorder, hasFlow })
}

/** From when on the machine counts as overloaded. Flow jobs must start within a second, which takes several calls, so that it must be faster. */
function slowMsOf({ hasFlow }: ChaosSettings): number {
  return hasFlow ? 200 : 1_000
}

/** The faults and the load, then the time after them. Returns the plan of the run. */
async function play(scene: Scene, plan: readonly PlannedFault[], settings: ChaosSettings): Promise<RunBegun> {
  const from = await storeTime(scene.server)
  const enough = new AbortController()
  const over = new AbortController()
  const probing = probe(() => scene.server, scene.recorder, { signal: over.signal, slowMs: slowMsOf(settings) })
  const producing = Promise.all(scene.producers.map((producer) => producer.run(enough.signal)))
  const accepted = () => scene.producers.reduce((sum, producer) => sum + producer.accepted, 0)
  const operating = settings.hasFlow ? operateFlow(scene.stranger.operator, settings.seed, enough.signal) : null
  await Promise.all([...lanesOf(plan).values()].map((lane) => playLane(scene, lane)))
  await scene.machine.settled()
  say(`chaos: ${plan.length} faults made, ${accepted()} jobs accepted`)
  const deadline = performance.now() + settings.seconds * 2_000 + 60_000
  while (accepted() < settings.jobs && performance.now() < deadline) await sleep(100)
  enough.abort()
  for (const { proxy } of [...scene.fleet, ...scene.producers, scene.stranger]) proxy.heal()
  await Promise.all([producing, operating])
  await Promise.all(scene.fleet.map((worker) => worker.ready()))
  const healedAt = await storeTime(scene.server)
  say(`chaos: everything is whole, ${accepted()} jobs accepted; draining`)
  await drain(scene, healedAt, settings)
  over.abort()
  await probing
  return describe(settings, plan, { from, healedAt })
}

function lanesOf(plan: readonly PlannedFault[]): Map<string, PlannedFault[]> {
  const lanes = new Map<string, PlannedFault[]>()
  for (const fault of plan) lanes.set(fault.target, [...(lanes.get(fault.target) ?? []), fault])
  return lanes
}

async function playLane(scene: Scene, lane: readonly PlannedFault[]): Promise<void> {
  const began = performance.now()
  for (const fault of lane) {
    await sleep(Math.max(0, began + fault.atMs - performance.now()))
    // The plan goes on. A fault that could not be made is missing in the records, and the run does not count.
    await makeFault(scene, fault).catch((error) => say(`chaos: fault ${fault.index} (${fault.kind}) failed: ${error}`))
  }
}

function drainMsOf({ plant, drainSeconds }: ChaosSettings): number {
  return plant === null ? drainSeconds * 1_000 : DRAIN_PLANTED_MS
}

/** Schedules fire until the covered span is over; then the run drains. */
async function drain({ server, schema }: Scene, healedAt: number, settings: ChaosSettings): Promise<void> {
  const deadline = performance.now() + drainMsOf(settings)
  await until(deadline, async () => {
    const { rows } = await query<{ done: boolean }>(
      server,
      `SELECT coalesce(bool_and(last_at >= to_timestamp($1 / 1000.0)), true) AS done FROM "${schema}".schedules`,
      [Math.floor(healedAt / 1_000) * 1_000],
    )
    return rows[0]?.done === true
  })
  await query(server, `DELETE FROM "${schema}".schedules`, [])
  const tables = ['ready', 'held', 'running', 'scheduled', 'blocked'].map(
    (table) => `(SELECT count(*) FROM "${schema}".${table})`,
  )
  let left = Number.POSITIVE_INFINITY
  await until(deadline, async () => {
    const { rows } = await query<{ left: number }>(server, `SELECT (${tables.join(' + ')})::float8 AS left`, [])
    left = rows[0]?.left ?? left
    return left === 0
  })
  say(`chaos: ${left} jobs left`)
  if (!settings.hasOldDays) return
  await until(deadline, async () => (await onServer(server, (sql) => hasOldDays(sql, schema))) === false)
}

async function until(deadline: number, isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone()) && performance.now() < deadline) await sleep(200)
}

async function query<R extends pg.QueryResultRow>(
  server: PostgresServer,
  text: string,
  values: unknown[],
): Promise<{ rows: R[] }> {
  const result = await onServer(server, (sql) => sql.query<R>(text, values))
  return result ?? { rows: [] }
}

async function storeTime(server: PostgresServer): Promise<number> {
  const { rows } = await query<{ now: number }>(
    server,
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
    [],
  )
  return rows[0]!.now
}

function describe(
  settings: ChaosSettings,
  plan: readonly PlannedFault[],
  span: { from: number; healedAt: number },
): RunBegun {
  const { from, healedAt } = span
  const isOfClock = ({ kind }: PlannedFault) => kind === 'clock ahead' || kind === 'clock back'
  const least = plan.every(isOfClock) ? 0 : 1
  return {
    ev: 'run',
    seed: String(settings.seed),
    commit: commitOf(),
    leaseMs: settings.leaseMs,
    rescueMs: 30_000,
    hasChildren: settings.processes > 0,
    faults: plan.map(({ index, kind }) => ({ index, kind })),
    healedAt,
    drainMs: drainMsOf(settings),
    schedules: [...SCHEDULES, ...(settings.hasFlow ? [FLOW_SCHEDULE] : [])].map(({ name, catchUp }) => ({
      name,
      everyMs: 1_000,
      from: from + 1_000,
      to: healedAt,
      catchUp,
    })),
    // A clock that jumps makes every wait look longer.
    priorityWindowMs: plan.some(isOfClock) ? null : 30_000,
    abortMarginMs: 1_000,
    lateness: plan.some(isOfClock) ? null : LATENESS,
    ...(settings.hasFlow ? { flow: FLOW } : {}),
    busy: { jobs: settings.jobs, expiries: least, unknownAnswers: least },
  }
}

/** The commit of the code that ran; null where it is not known. */
function commitOf(): string | null {
  try {
    const { dirname: cwd } = import.meta
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd, stdio: ['ignore', 'pipe', 'ignore'], timeout: 5_000 })
      .toString()
      .trim()
  } catch {
    return null
  }
}

async function collect(
  server: PostgresServer,
  folder: string,
  { run, settings }: { run: RunBegun; settings: ChaosSettings },
): Promise<HistoryEvent[]> {
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  const events: HistoryEvent[] = [run]
  for await (const event of readChanges(sql)) events.push(event)
  for (const event of await readFinal(sql, SCHEMA)) events.push(event)
  if (settings.hasOldDays) events.push(...(await readOldDays(sql, SCHEMA)))
  await sql.end()
  for (const event of await readRecords(folder)) events.push(event)
  return events
}

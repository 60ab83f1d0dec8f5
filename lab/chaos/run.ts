// One chaos run: a server, producers, workers and a plan of faults; then everything is made whole, drained, collected and checked.

import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Recorder } from '../gen/recorder.js'
import { checkHistory } from '../history/check.js'
import type { HistoryEvent, RunBegun } from '../history/events.js'
import { smallestOffender, tellStory } from '../history/story.js'
import type { Verdict } from '../history/verdict.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { FillableDisk } from '../servers/fillable-disk.js'
import { PostgresServer } from '../servers/postgres.js'
import { readChanges, readFinal } from './collect.js'
import { FILLABLE, makeFault, onServer, type Scene, sleep } from './faults.js'
import { readTold, writeHistory } from './files.js'
import { type FleetWorker, startFleet } from './fleet.js'
import { Producer } from './load.js'
import { type PlannedFault, planFaults } from './plan.js'
import { plantImports } from './plants.js'
import type { ChaosSettings, FaultKind } from './settings.js'
import { watchSchema } from './watch.js'
import { SPECIAL } from './work.js'

const SCHEMA = 'holdfast'
// With a mistake planted some jobs may never end, and the rest has told enough.
const DRAIN_PLANTED_MS = 5_000
const EVERY_SECOND = '* * * * * *'
const SCHEDULES = [
  { name: 'each', catchUp: 'all', catchUpMax: 1_000, overlap: 'allow' },
  { name: 'latest', catchUp: 'latest', overlap: 'skip' },
] as const

export interface ChaosResult {
  readonly seed: number
  /** Of the code that ran; null where it is not known. */
  readonly commit: string | null
  readonly seconds: number
  readonly verdict: Verdict
  /** The smallest offending job's timeline, or null. */
  readonly story: string | null
  /** Where the histories are; kept for runs that failed. */
  readonly folder: string
  readonly restarts: number
  /** What worker processes said that ended on their own with an error. */
  readonly complaints: readonly string[]
}

/** Runs it. Progress goes to stderr; everything it starts is gone at the end. */
export async function runChaos(
  wanted: ChaosSettings,
  options: { readonly folder: string | null },
): Promise<ChaosResult> {
  const began = performance.now()
  const open: { fleet: FleetWorker[]; producers: Producer[] } = { fleet: [], producers: [] }
  const [{ server, disk }, close] = await openAndCloseForSure(
    () => openMachine(wanted),
    async (machine) => {
      await Promise.allSettled([
        ...open.fleet.map((worker) => worker.stop()),
        ...open.producers.map((producer) => producer.close()),
      ])
      await machine.server.close()
      await machine.disk?.close()
    },
  )
  try {
    const settings = disk === null ? withoutDisk(wanted) : wanted
    const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'holdfast-chaos-')))
    await mkdir(folder, { recursive: true })
    const plan = planFaults(settings)
    await writeFile(join(folder, 'plan.json'), JSON.stringify({ settings, plan }, null, 1))
    await prepare(server, disk)
    const scene = { ...(await openScene(server, folder, settings, open)), disk }
    say(`chaos: ${settings.workers} workers are up; ${plan.length} faults are to come`)
    const run = await play(scene, plan, settings)
    await Promise.all([
      ...scene.fleet.map((worker) => worker.stop()),
      ...scene.producers.map((producer) => producer.close()),
    ])
    scene.recorder.close()
    const events = await collect(server, folder, run)
    await writeHistory(folder, events)
    say(`chaos: checking ${events.length} events`)
    const verdict = checkHistory(events)
    const job = verdict.ok ? null : smallestOffender(events, verdict)
    return {
      ...{ seed: settings.seed, commit: run.commit, seconds: (performance.now() - began) / 1_000, verdict, folder },
      story: job === null ? null : tellStory(events, job),
      restarts: scene.fleet.reduce((sum, { restarts }) => sum + restarts, 0),
      complaints: scene.fleet.flatMap(({ complaints }) => complaints),
    }
  } finally {
    await close()
  }
}

/** The server, and the disk it can run out of where there is one. */
async function openMachine(
  settings: ChaosSettings,
): Promise<{ readonly server: PostgresServer; readonly disk: FillableDisk | null }> {
  const disk = has(settings, 'disk full') ? await FillableDisk.open() : null
  const hasClock = has(settings, 'clock ahead') || has(settings, 'clock back')
  try {
    return { server: await PostgresServer.open({ settings: { log_min_messages: 'log' }, hasClock }), disk }
  } catch (error) {
    await disk?.close()
    throw error
  }
}

function has({ faults }: ChaosSettings, kind: FaultKind): boolean {
  return (faults[kind] ?? 0) > 0
}

/** The same without faults that can't be made here. */
function withoutDisk(settings: ChaosSettings): ChaosSettings {
  if (!has(settings, 'disk full')) return settings
  say('chaos: no disk is filled: that takes root on Linux and the right to mount')
  return { ...settings, faults: { ...settings.faults, 'disk full': 0 } }
}

async function prepare(server: PostgresServer, disk: FillableDisk | null): Promise<void> {
  if (disk !== null) {
    await server.adopt(disk.folder)
    const sql = new pg.Client({ connectionString: server.url })
    await sql.connect()
    await sql.query(`CREATE TABLESPACE ${FILLABLE} LOCATION '${disk.folder}'`)
    await sql.query(`ALTER ROLE holdfast SET default_tablespace = ${FILLABLE}`)
    await sql.end()
  }
  const store = await postgresStore(server.url, { schema: SCHEMA })
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  // The witness writes where there always is room.
  await sql.query("SET default_tablespace = ''")
  await watchSchema(sql, SCHEMA)
  await sql.end()
  const holdfast = await openHoldfast(store, { upkeep: false })
  for (const { name, ...policy } of SCHEDULES) {
    await holdfast.schedule(name, { cron: EVERY_SECOND, job: SPECIAL.tick, payload: null, ...policy })
  }
  await holdfast.close()
}

async function openScene(
  server: PostgresServer,
  folder: string,
  settings: ChaosSettings,
  open: { fleet: FleetWorker[]; producers: Producer[] },
): Promise<Omit<Scene, 'disk'>> {
  const { leaseMs, concurrency, prefetch, workers, plant } = settings
  const place = { port: server.port, schema: SCHEMA, folder }
  open.fleet = await startFleet(workers, { ...place, leaseMs, concurrency, prefetch, imports: plantImports(plant) })
  for (let number = 1; number <= settings.producers; number++) {
    open.producers.push(await Producer.open(number, { ...place, settings }))
  }
  await Promise.all(open.fleet.map((worker) => worker.ready()))
  const recorder = new Recorder(join(folder, 'chaos.jsonl'), { process: 'chaos', incarnation: 1 })
  return { server, schema: SCHEMA, fleet: open.fleet, producers: open.producers, recorder }
}

/** The faults and the load, then the time after them; answers with what the run was to be. */
async function play(scene: Scene, plan: readonly PlannedFault[], settings: ChaosSettings): Promise<RunBegun> {
  const from = await storeTime(scene.server)
  const enough = new AbortController()
  const producing = Promise.all(scene.producers.map((producer) => producer.run(enough.signal)))
  const accepted = () => scene.producers.reduce((sum, producer) => sum + producer.accepted, 0)
  await Promise.all([...lanesOf(plan).values()].map((lane) => playLane(scene, lane)))
  say(`chaos: ${plan.length} faults made, ${accepted()} jobs accepted`)
  const deadline = performance.now() + settings.seconds * 2_000 + 60_000
  while (accepted() < settings.jobs && performance.now() < deadline) await sleep(100)
  enough.abort()
  for (const { proxy } of [...scene.fleet, ...scene.producers]) proxy.heal()
  await producing
  await Promise.all(scene.fleet.map((worker) => worker.ready()))
  const healedAt = await storeTime(scene.server)
  say(`chaos: everything is whole, ${accepted()} jobs accepted; draining`)
  await drain(scene, healedAt, drainMsOf(settings))
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
    // The plan goes on: a fault that could not be made is missing in the record, and the run does not count.
    await makeFault(scene, fault).catch((error) => say(`chaos: fault ${fault.index} (${fault.kind}) failed: ${error}`))
  }
}

function drainMsOf({ plant, drainSeconds }: ChaosSettings): number {
  return plant === null ? drainSeconds * 1_000 : DRAIN_PLANTED_MS
}

/** Schedules fire until the covered span is over; then until nothing is left. */
async function drain({ server, schema }: Scene, healedAt: number, drainMs: number): Promise<void> {
  const deadline = performance.now() + drainMs
  await until(deadline, async () => {
    const { rows } = await query<{ done: boolean }>(
      server,
      `SELECT coalesce(bool_and(last_at >= to_timestamp($1 / 1000.0)), true) AS done FROM "${schema}".schedules`,
      [Math.floor(healedAt / 1_000) * 1_000],
    )
    return rows[0]?.done === true
  })
  await query(server, `DELETE FROM "${schema}".schedules`, [])
  const tables = ['ready', 'running', 'scheduled', 'blocked'].map(
    (table) => `(SELECT count(*) FROM "${schema}".${table})`,
  )
  let left = Number.POSITIVE_INFINITY
  await until(deadline, async () => {
    const { rows } = await query<{ left: number }>(server, `SELECT (${tables.join(' + ')})::float8 AS left`, [])
    left = rows[0]?.left ?? left
    return left === 0
  })
  say(`chaos: ${left} jobs left`)
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
    faults: plan.map(({ index, kind }) => ({ index, kind })),
    healedAt,
    drainMs: drainMsOf(settings),
    schedules: SCHEDULES.map(({ name, catchUp }) => ({
      name,
      everyMs: 1_000,
      from: from + 1_000,
      to: healedAt,
      catchUp,
    })),
    limits: [],
    // A clock that jumps makes every wait look longer.
    priorityWindowMs: plan.some(isOfClock) ? null : 30_000,
    abortMarginMs: 1_000,
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

async function collect(server: PostgresServer, folder: string, run: RunBegun): Promise<HistoryEvent[]> {
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  const events: HistoryEvent[] = [run]
  for await (const event of readChanges(sql)) events.push(event)
  for (const event of await readFinal(sql, SCHEMA)) events.push(event)
  await sql.end()
  for (const event of await readTold(folder)) events.push(event)
  return events
}

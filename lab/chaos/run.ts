// One chaos run: a server, producers, workers and a plan of faults. Then all faults are ended, and the run is drained, collected
// and checked.

import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Store } from '../../src/core/store.js'
import { openHoldfast } from '../../src/holdfast.js'
import { Recorder } from '../gen/recorder.js'
import { checkHistory } from '../history/check.js'
import type { HistoryEvent, RunBegun } from '../history/events.js'
import { smallestOffender, writeStory } from '../history/story.js'
import type { Verdict } from '../history/verdict.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { makeFault } from './faults.js'
import { readRecords, writeHistory } from './files.js'
import { type FleetWorker, startFleet } from './fleet.js'
import { allowUsual, operateFlow } from './flow-load.js'
import { Producer } from './load.js'
import { openStage } from './open-stage.js'
import { type PlannedFault, planFaults } from './plan.js'
import { plantImports } from './plants.js'
import { probe } from './probe.js'
import { type ChaosSettings, has } from './settings.js'
import { sleep } from './sleep.js'
import type { Scene, Stage } from './stage.js'
import { within } from './within.js'
import { FLOW_QUEUES, QUEUES, queueOf, SPECIAL } from './work.js'

/** How long each part of a run may take beyond what it waits for by itself. A part that takes longer hangs. */
const FAULT_MS = 180_000
const ANSWERS_MS = 60_000
const STOP_MS = 60_000
const COLLECT_MS = 300_000
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
  const [stage, close] = await openAndCloseForSure(
    () => openStage(wanted),
    async (opened) => {
      await within('all workers and producers have stopped', STOP_MS, stopAll(open)).catch(complain)
      await opened.close()
    },
  )
  try {
    const settings = stage.hasDisk ? wanted : withoutDisk(wanted)
    const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'holdfast-chaos-')))
    await mkdir(folder, { recursive: true })
    const plan = planFaults(settings)
    await writeFile(join(folder, 'plan.json'), JSON.stringify({ settings, plan }, null, 1))
    await stage.prepare((store) => setUp(store, settings))
    const scene = await openScene(stage, folder, settings, open)
    say(`chaos: ${settings.workers} workers are up; ${plan.length} faults are planned`)
    const verdict = await judged(scene, plan, { settings, folder, open })
    return {
      ...{ seed: settings.seed, commit: commitOf(), seconds: (performance.now() - began) / 1_000, ...verdict, folder },
      restarts: scene.fleet.reduce((sum, { restarts }) => sum + restarts, 0),
      complaints: scene.fleet.flatMap(({ complaints }) => complaints),
    }
  } finally {
    await close()
  }
}

interface Judging {
  readonly settings: ChaosSettings
  readonly folder: string
  readonly open: Open
}

/** Plays the plan and checks what came of it. A part that did not come to its end leaves a verdict too: a run that does not count, and why. */
async function judged(
  scene: Scene,
  plan: readonly PlannedFault[],
  { settings, folder, open }: Judging,
): Promise<Pick<ChaosResult, 'verdict' | 'story'>> {
  const missing: string[] = []
  let events: HistoryEvent[] = []
  try {
    const run = await play(scene, plan, { settings, missing })
    await within('all workers and producers have stopped', STOP_MS, stopAll(open))
    open.others = []
    scene.recorder.close()
    events = await within('the history is read', COLLECT_MS, collect(scene.stage, folder, run))
    await writeHistory(folder, events)
  } catch (error) {
    missing.push(error instanceof Error ? error.message : String(error))
    complain(error)
  }
  say(`chaos: checking ${events.length} events`)
  const verdict = withMissing(checkHistory(events), missing)
  const job = verdict.ok ? null : smallestOffender(events, verdict)
  return { verdict, story: job === null ? null : writeStory(events, job) }
}

/** A run in which something did not come does not count. */
function withMissing(verdict: Verdict, missing: readonly string[]): Verdict {
  if (missing.length === 0) return verdict
  return { ...verdict, counted: { ok: false, reasons: [...missing, ...verdict.counted.reasons] } }
}

async function stopAll({ fleet, others }: Open): Promise<void> {
  const ends = [...fleet.map((worker) => worker.stop()), ...others.map((other) => other.close())]
  const failed = (await Promise.allSettled(ends)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

function complain(error: unknown): void {
  say(`chaos: ${error}`)
}

/** The same without faults that can't be made here. */
function withoutDisk(settings: ChaosSettings): ChaosSettings {
  if (!has(settings, 'disk full')) return settings
  say('chaos: no disk is filled: that takes root on Linux and the right to mount')
  return { ...settings, faults: { ...settings.faults, 'disk full': 0 } }
}

/** What the store has before the first worker is up. */
async function setUp(store: Store, { hasFlow }: ChaosSettings): Promise<void> {
  const holdfast = await openHoldfast(store, { upkeep: false })
  for (const { name, ...policy } of SCHEDULES) {
    await holdfast.schedule(name, { cron: EVERY_SECOND, job: SPECIAL.tick, payload: null, ...policy })
  }
  if (hasFlow) {
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

async function openScene(stage: Stage, folder: string, settings: ChaosSettings, open: Open): Promise<Scene> {
  const { leaseMs, concurrency, prefetch, processes, workers, plant, durability } = settings
  const recorder = new Recorder(join(folder, 'chaos.jsonl'), { process: 'chaos', processRun: 1 })
  const imports = plantImports(plant)
  const each = { durability, leaseMs, concurrency, prefetch, processes, queues: queuesOf(settings), imports }
  await stage.enter({ folder, recorder })
  open.others.push({ close: () => stage.leave() })
  open.fleet = await startFleet(workers, { stage, folder, ...each, recorder })
  const producers: Producer[] = []
  for (let number = 1; number <= settings.producers; number++) {
    const producer = await Producer.open(number, { stage, folder, settings })
    producers.push(producer)
    open.others.push(producer)
  }
  await Promise.all(open.fleet.map((worker) => worker.ready()))
  return { stage, fleet: open.fleet, producers, recorder }
}

function queuesOf({ hasFlow, spread }: ChaosSettings): readonly string[] {
  const more = Array.from({ length: spread - 1 }, (_, index) => queueOf(index + 1))
  return [...QUEUES, ...more, ...(hasFlow ? FLOW_QUEUES : [])]
}

/** From when on the machine counts as overloaded. Flow jobs must start within a second, which takes several calls, so that it must be faster. */
function slowMsOf({ hasFlow }: ChaosSettings): number {
  return hasFlow ? 200 : 1_000
}

interface Playing {
  readonly settings: ChaosSettings
  /** What did not come, for the verdict. */
  readonly missing: string[]
}

/** The faults and the load, then the time after them. Returns the plan of the run. */
async function play(scene: Scene, plan: readonly PlannedFault[], { settings, missing }: Playing): Promise<RunBegun> {
  const { stage } = scene
  const from = await stage.now()
  const enough = new AbortController()
  const over = new AbortController()
  const probing = probe(stage, scene.recorder, { signal: over.signal, slowMs: slowMsOf(settings) })
  const producing = Promise.all(scene.producers.map((producer) => producer.run(enough.signal)))
  const accepted = () => scene.producers.reduce((sum, producer) => sum + producer.accepted, 0)
  const { operator } = stage
  const operating = settings.hasFlow && operator !== null ? operateFlow(operator, settings.seed, enough.signal) : null
  const load = Promise.all([producing, operating])
  try {
    missing.push(...(await playLanes(scene, plan)))
    say(`chaos: ${plan.length} faults planned and over, ${accepted()} jobs accepted`)
    const deadline = performance.now() + settings.seconds * 2_000 + 60_000
    while (accepted() < settings.jobs && performance.now() < deadline) await sleep(100)
    enough.abort()
    for (const { proxy } of [...scene.fleet, ...scene.producers]) proxy?.heal()
    stage.heal()
    await within('every call of the producers is answered', ANSWERS_MS, load)
    await Promise.all(scene.fleet.map((worker) => worker.ready()))
    const healedAt = await stage.now()
    say(`chaos: everything is whole, ${accepted()} jobs accepted; draining`)
    await drain(scene, healedAt, settings)
    return describe(settings, plan, { from, healedAt })
  } finally {
    // Whatever failed, nothing of it goes on.
    enough.abort()
    over.abort()
    await within('the last probe', ANSWERS_MS, Promise.allSettled([probing, load])).catch(complain)
  }
}

/** Plays all lanes, and waits until the servers are complete again. Returns what did not come. */
async function playLanes(scene: Scene, plan: readonly PlannedFault[]): Promise<string[]> {
  const lanes = [...lanesOf(plan).values()].map((lane) => playLane(scene, lane))
  const ends = await Promise.allSettled([...lanes])
  const last = await Promise.allSettled([scene.stage.settled()])
  const failed = [...ends, ...last].flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []))
  return [...new Set(failed)]
}

function lanesOf(plan: readonly PlannedFault[]): Map<string, PlannedFault[]> {
  const lanes = new Map<string, PlannedFault[]>()
  for (const fault of plan) lanes.set(fault.target, [...(lanes.get(fault.target) ?? []), fault])
  return lanes
}

/** Raises when servers are not complete again after a fault: then none of the others can be made. */
async function playLane(scene: Scene, lane: readonly PlannedFault[]): Promise<void> {
  const began = performance.now()
  for (const fault of lane) {
    await sleep(Math.max(0, began + fault.atMs - performance.now()))
    // A server from which another is being copied is not disturbed.
    if (fault.target === 'server') await scene.stage.settled()
    // The plan goes on. A fault that could not be made is missing in the records, and the run does not count.
    const what = `fault ${fault.index} (${fault.kind}) is over`
    await within(what, FAULT_MS, makeFault(scene, fault)).catch((error) => {
      say(`chaos: fault ${fault.index} (${fault.kind}) failed: ${error}`)
    })
  }
}

function drainMsOf({ plant, drainSeconds }: ChaosSettings): number {
  return plant === null ? drainSeconds * 1_000 : DRAIN_PLANTED_MS
}

/** Schedules fire until the covered span is over; then the run drains. */
async function drain({ stage }: Scene, healedAt: number, settings: ChaosSettings): Promise<void> {
  const deadline = performance.now() + drainMsOf(settings)
  await until(deadline, () => stage.hasFired(Math.floor(healedAt / 1_000) * 1_000))
  await stage.removeSchedules()
  let left = Number.POSITIVE_INFINITY
  await until(deadline, async () => {
    left = (await stage.left()) ?? left
    return left === 0
  })
  say(`chaos: ${left} jobs left`)
  await until(deadline, () => stage.isPruned())
}

async function until(deadline: number, isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone()) && performance.now() < deadline) await sleep(200)
}

function describe(
  settings: ChaosSettings,
  plan: readonly PlannedFault[],
  span: { from: number; healedAt: number },
): RunBegun {
  const { from, healedAt } = span
  const isOfClock = ({ kind }: PlannedFault) => kind === 'clock ahead' || kind === 'clock back'
  const expiries = plan.every(isOfClock) ? 0 : 1
  const unknownAnswers = plan.some(({ kind }) => kind.startsWith('lose answer')) ? 1 : 0
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
    busy: { jobs: settings.jobs, expiries, unknownAnswers },
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

async function collect(stage: Stage, folder: string, run: RunBegun): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [run]
  for await (const event of stage.events(run)) events.push(event)
  for (const event of await readRecords(folder)) events.push(event)
  return events
}

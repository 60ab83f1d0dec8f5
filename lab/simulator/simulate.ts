// One run: a seed's whole plan, from the first process's start to the last one's end, and the verdict.

import { createHash } from 'node:crypto'
import { isHoldfastError } from '../../src/core/errors.js'
import { isFinished } from '../../src/core/states.js'
import { checkHistory } from '../history/check.js'
import type { HistoryEvent, RunBegun } from '../history/events.js'
import type { Verdict, Violation } from '../history/verdict.js'
import { Actors, LATE_MS } from './acts.js'
import { DEFINITIONS } from './behaviours.js'
import { Chance } from './chance.js'
import { FlowActors } from './flow-acts.js'
import { injectFaults } from './injector.js'
import type { FaultPlan } from './link.js'
import { type Aim, drawPlan, type Plan } from './plan.js'
import { isOrdinary } from './plan-faults.js'
import { Server } from './server.js'
import { SimulatedProcess } from './simulated-process.js'
import { Timeline } from './timeline.js'

/** The result of a run. */
export interface Simulation {
  readonly plan: Plan
  readonly history: readonly HistoryEvent[]
  readonly verdict: Verdict
  /** Violations found by the checker and by the watchers of claim order and of the ends of processes. */
  readonly violations: readonly Violation[]
  /** How many events of virtual time happened, and how much of it passed. */
  readonly steps: number
  readonly virtualMs: number
}

/** How long after the heal every job must have finished, in virtual time, without the time that the jobs of ticks take. */
const DRAIN_MS = 120_000
/** How long an expired lease may remain after that: a hold, one round of rescue, and processes that poison crashes again. */
const RESCUE_MS = 30_000
/** How long schedules go on after the heal. Ticks due before the last round must have fired. */
const SCHEDULES_MS = 11_500
/** A worker polls every five seconds at the latest, and a call without an answer ends after 1.5 s. */
const LATENESS = { boundMs: 15_000, graceMs: 1_000, recoverMs: 8_000, noticeMs: 6_000 }
const CLOSE_MS = 60_000
const LOOK_MS = 200

/** Runs the schedule of a seed. The same seed gives the same history, bit for bit. */
export async function simulate(seed: number, aim: Aim | null = null): Promise<Simulation> {
  return new Run(drawPlan(seed, aim)).run()
}

/** A hash of a history. */
export function hashOf(history: readonly HistoryEvent[]): string {
  const hash = createHash('sha256')
  for (const event of history) hash.update(`${JSON.stringify(event)}\n`)
  return hash.digest('hex')
}

class Run {
  readonly #plan: Plan
  readonly #timeline: Timeline
  readonly #server: Server
  readonly #processes: readonly SimulatedProcess[]
  readonly #actors: Actors
  readonly #flow: FlowActors | null
  readonly #faultPlan: FaultPlan
  readonly #history: HistoryEvent[] = []
  readonly #violations: Violation[] = []
  readonly #spans = new Map<string, { from: number; to: number }>()
  readonly #drainMs: number
  #healedAt: number | null = null
  #isOver = false

  constructor(plan: Plan) {
    const chance = new Chance(`run ${plan.seed}`)
    const write = (event: HistoryEvent) => void this.#history.push(event)
    this.#plan = plan
    this.#drainMs = DRAIN_MS + tickWorkMs(plan) + (plan.flow === null ? 0 : jobWorkMs(plan))
    this.#timeline = new Timeline(chance.fork('timeline'))
    this.#server = new Server(this.#timeline, write)
    this.#faultPlan = {
      legMs: plan.legMs,
      slow: { share: 0, maxMs: 0 },
      requestLoss: 0,
      answerLoss: 0,
      wakeLoss: plan.wakeLoss,
      cutOff: new Set(),
    }
    const deps = { timeline: this.#timeline, server: this.#server, faultPlan: this.#faultPlan, plan, chance, write }
    this.#processes = plan.processes.map((planned) => new SimulatedProcess(deps, planned))
    this.#actors = new Actors({ timeline: this.#timeline, server: this.#server, processes: this.#processes, plan })
    const flowDeps = { ...deps, processes: this.#processes, actors: this.#actors }
    this.#flow = plan.flow === null ? null : new FlowActors(flowDeps, plan.flow)
    injectFaults({ ...deps, processes: this.#processes }, plan.faults)
  }

  async run(): Promise<Simulation> {
    const { healMs, acts, schedules } = this.#plan
    const timeline = this.#timeline
    this.#flow?.begin()
    for (const process of this.#processes) process.start()
    for (const act of acts) this.#actors.plan(act)
    for (const schedule of schedules) this.#setSchedule(schedule)
    timeline.after(healMs, () => this.#heal())
    await timeline.run(() => this.#isOver)
    this.#server.truth.finish()
    this.#checkLate()
    const history = [this.#begun(), ...this.#history]
    const verdict = checkHistory(history)
    const { order, blame, flow } = this.#server.truth
    const watched = [...order.violations, ...blame.violations, ...flow.violations]
    const violations = [...verdict.violations, ...watched, ...this.#violations]
    return { plan: this.#plan, history, verdict, violations, steps: timeline.count, virtualMs: timeline.nowMs }
  }

  #setSchedule({ name, everyMs, catchUp, overlap, queue, ms }: Plan['schedules'][number]): void {
    const job = DEFINITIONS.get('tick')!
    const payload = { key: name, effect: 'outside', ms, times: 0 } as const
    const options = { cron: `*/${everyMs / 1_000} * * * * *`, job, payload, queue, catchUp, overlap, maxAttempts: 5 }
    this.#actors.insist(async ({ holdfast }) => {
      const { nextAt } = await holdfast.schedule(name, options)
      // The call may have been repeated after a lost answer. The first one that was applied counts from its own time on.
      this.#spans.set(name, { from: nextAt!.getTime(), to: Number.POSITIVE_INFINITY })
    })
  }

  /** From here on no fault happens, except by remaining poison. */
  #heal(): void {
    this.#healedAt = this.#server.nowMs
    const timeline = this.#timeline
    if (this.#plan.schedules.length > 0) timeline.after(SCHEDULES_MS, () => this.#endSchedules())
    timeline.after(this.#drainMs, () => this.#end())
    timeline.after(LATE_MS, () => this.#resumeQueues())
    this.#flow?.heal(LATE_MS)
    timeline.after(LOOK_MS, () => this.#watch())
  }

  /** A delayed pause may arrive after its own resume. */
  #resumeQueues(): void {
    for (const act of this.#plan.acts) {
      if (act.act === 'pause') this.#actors.insist(({ holdfast }) => holdfast.resume(act.queue))
    }
  }

  #endSchedules(): void {
    for (const { name } of this.#plan.schedules) {
      const span = this.#spans.get(name)
      // Schedules are read every ten seconds at the latest, and most ticks fire on time.
      if (span !== undefined) this.#spans.set(name, { from: span.from, to: this.#server.nowMs - SCHEDULES_MS })
      this.#actors.insist(({ holdfast }) => holdfast.unschedule(name).catch(unlessGone))
    }
  }

  /** Ends the run once everything has finished. */
  #watch(): void {
    const isDrained = [...this.#server.memory.jobs.values()].every(({ state }) => isFinished(state))
    const isIdle = !this.#actors.isBusy && this.#server.memory.schedules.size === 0
    if (isDrained && isIdle) this.#end()
    else this.#timeline.after(LOOK_MS, () => this.#watch())
  }

  #end(): void {
    for (const process of this.#processes) process.end()
    const byMs = this.#timeline.nowMs + CLOSE_MS
    const look = () => {
      const open = this.#processes.filter(({ isDown }) => !isDown)
      this.#isOver = open.length === 0 || this.#timeline.nowMs > byMs
      if (!this.#isOver) this.#timeline.after(LOOK_MS, look)
      else for (const { name } of open) this.#hangs(name)
    }
    look()
  }

  #hangs(name: string): void {
    const message = `${name} was asked to stop ${CLOSE_MS / 1_000} s ago and has not ended`
    this.#violations.push({ invariant: 'I14', job: null, message })
  }

  /** In a run without faults no lease may expire, noticed or not. */
  #checkLate(): void {
    const { late } = this.#server.truth
    if (late === null || this.#faults().length > 0) return
    const message = `its lease had run out ${late.byMs} ms before it was extended or settled, in a run without faults`
    this.#violations.push({ invariant: 'I12', job: late.job, message })
  }

  #faults(): RunBegun['faults'] {
    const { faults, harmful } = this.#plan
    const struck = faults.filter(({ kind }) => !isOrdinary(kind)).map(({ index, kind }) => ({ index, kind }))
    const byJobs = harmful.map((kind, index) => ({ index: faults.length + index, kind }))
    return [...struck, ...byJobs]
  }

  #begun(): RunBegun {
    const { seed, leaseMs, schedules } = this.#plan
    return {
      ev: 'run',
      seed: String(seed),
      commit: null,
      leaseMs,
      rescueMs: RESCUE_MS,
      faults: this.#faults(),
      healedAt: this.#healedAt,
      drainMs: this.#drainMs,
      schedules: schedules
        .filter(({ name }) => this.#spans.has(name))
        .map(({ name, everyMs, catchUp }) => ({ name, everyMs, catchUp, ...this.#spans.get(name)! })),
      // What is held beside a free slot is found by the watch of flow control, which sees the store itself.
      flow: { visibleMs: 0, heldMs: null, allowanceMs: 0 },
      lateness: this.#plan.faults.some(({ kind }) => kind.startsWith('clock')) ? null : LATENESS,
      busy: { jobs: 1, expiries: 0, unknownAnswers: 0 },
    }
  }
}

/**
 * How long the jobs of all ticks take one after another. A clock jump makes a minute's worth of them due together. If their worker
 * is lost with them, they run one at a time.
 */
function tickWorkMs({ schedules, faults, healMs }: Plan): number {
  const jumped = faults.reduce((sumMs, { kind, degree }) => sumMs + (kind === 'clock forward' ? degree : 0), 0)
  return schedules.reduce((sumMs, { everyMs, ms }) => sumMs + ((healMs + SCHEDULES_MS + jumped) / everyMs) * ms, 0)
}

/** How long a run's jobs take when flow control lets them run one after the other, with all their retries. */
function jobWorkMs({ acts }: Plan): number {
  const jobs = acts.flatMap((act) =>
    act.act === 'enqueue' ? [...act.jobs, ...(act.child === null ? [] : [act.child])] : [],
  )
  return jobs.reduce(
    (sumMs, { payload, maxAttempts, retry }) => sumMs + (payload.ms + Number(retry.cap) + 1_000) * maxAttempts,
    0,
  )
}

/** A call that is repeated after a lost answer may find its work done. */
function unlessGone(error: unknown): void {
  if (!isHoldfastError(error, 'schedule_not_found')) throw error
}

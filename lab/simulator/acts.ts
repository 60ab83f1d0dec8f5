// What producers and operators do in a run, through any process that is up.

import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { allows } from '../../src/core/states.js'
import { DEFINITIONS } from './behaviours.js'
import type { Plan } from './plan.js'
import type { PlannedAct, PlannedJob } from './plan-jobs.js'
import type { ProcessRun } from './process-run.js'
import type { Server } from './server.js'
import type { Living, SimulatedProcess } from './simulated-process.js'
import type { Timeline } from './timeline.js'

export interface ActorDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly processes: readonly SimulatedProcess[]
  readonly plan: Plan
}

const TRY_AGAIN_MS = 300
const WATCH_MS = 1_000
/** A call that has not arrived after this long never will. */
export const LATE_MS = 3_000

/** Does the planned acts, each at its time. */
export class Actors {
  readonly #deps: ActorDeps
  /** Processes that wait for the answer to an enqueue. */
  readonly #asking = new Set<{ readonly processRun: ProcessRun }>()
  #waiting = 0
  #operatedMs = Number.NEGATIVE_INFINITY

  constructor(deps: ActorDeps) {
    this.#deps = deps
  }

  /** True while a planned call was not sent, or a living process waits for its answer, or an operator's call may still arrive. An
   *  operator's call can make a finished job unfinished again. */
  get isBusy(): boolean {
    if (this.#waiting > 0 || this.#deps.timeline.nowMs - this.#operatedMs < LATE_MS) return true
    return [...this.#asking].some(({ processRun }) => !processRun.isDead)
  }

  plan(act: PlannedAct): void {
    this.#later(act.atMs, act.process, (living) => this.#do(living, act))
  }

  /** Calls `ask` with a living process until it succeeds. If the process dies during the call, another one tries. */
  insist(ask: (living: Living) => Promise<void>): void {
    this.#later(0, 0, (living) => {
      let isDone = false
      const again = () => this.#later(TRY_AGAIN_MS, 0, () => this.insist(ask))
      const watch = () => {
        if (isDone) return
        if (living.processRun.isDead) again()
        else this.#deps.timeline.after(WATCH_MS, watch)
      }
      ask(living)
        .catch(again)
        .finally(() => {
          isDone = true
        })
      this.#deps.timeline.after(WATCH_MS, watch)
    })
  }

  /** Lets an operator do something at a time, who ignores a failed call. */
  operate(atMs: number, process: number, run: (living: Living) => Promise<unknown>): void {
    this.#later(atMs, process, (living) => {
      this.#operatedMs = this.#deps.timeline.nowMs
      void run(living).catch(() => {})
    })
  }

  /** Does something after a while, as often as it takes. */
  later(ms: number, ask: (living: Living) => Promise<void>): void {
    this.#later(ms, 0, () => this.insist(ask))
  }

  #later(ms: number, process: number, run: (living: Living) => void): void {
    this.#waiting++
    this.#deps.timeline.after(ms, () => {
      this.#waiting--
      const living = this.#find(process)
      if (living === null) this.#later(TRY_AGAIN_MS, process, run)
      else run(living)
    })
  }

  #find(process: number): Living | null {
    const { processes } = this.#deps
    for (let step = 0; step < processes.length; step++) {
      const living = processes[(process + step) % processes.length]!.living
      if (living !== null) return living
    }
    return null
  }

  #do(living: Living, act: PlannedAct): void {
    if (act.act === 'enqueue') {
      const asking = { processRun: living.processRun }
      this.#asking.add(asking)
      void this.#enqueue(living, act).then(() => this.#asking.delete(asking))
    } else this.#operatedMs = this.#deps.timeline.nowMs
    if (act.act === 'pause') this.#pause(living, act)
    // An operator ignores a failed call.
    else if (act.act !== 'enqueue') void this.#operate(living, act).catch(() => {})
  }

  async #enqueue(living: Living, act: Extract<PlannedAct, { act: 'enqueue' }>): Promise<void> {
    const { jobs, isTogether, child } = act
    const accepted = isTogether
      ? await this.#enqueueTogether(living, jobs)
      : await Promise.all(jobs.map((job) => this.#enqueueOne(living, job, [])))
    if (child === null) return
    const after = accepted.filter((id) => id !== null)
    if (after.length > 0) await this.#enqueueOne(living, child, after)
  }

  async #enqueueOne({ holdfast, processRun }: Living, job: PlannedJob, after: string[]): Promise<string | null> {
    const { key } = job.payload
    this.#invoke({ holdfast, processRun }, job)
    try {
      const definition = DEFINITIONS.get(job.kind)!
      const { id, created } = await holdfast.enqueue(definition, job.payload, optionsOf(job, after))
      processRun.record({ ev: 'enqueue.ok', key, job: id, created })
      return id
    } catch (error) {
      processRun.record({ ev: mayBeWritten(error) ? 'enqueue.info' : 'enqueue.fail', key, job: null })
      return null
    }
  }

  async #enqueueTogether({ holdfast, processRun }: Living, jobs: readonly PlannedJob[]): Promise<(string | null)[]> {
    for (const job of jobs) this.#invoke({ holdfast, processRun }, job)
    try {
      const entries = jobs.map((job) => [DEFINITIONS.get(job.kind)!, job.payload, optionsOf(job, [])] as const)
      const answers = await holdfast.enqueueMany(entries)
      answers.forEach(({ id, created }, index) => {
        processRun.record({ ev: 'enqueue.ok', key: jobs[index]!.payload.key, job: id, created })
      })
      return answers.map(({ id }) => id)
    } catch (error) {
      const ev = mayBeWritten(error) ? 'enqueue.info' : 'enqueue.fail'
      for (const { payload } of jobs) processRun.record({ ev, key: payload.key, job: null })
      return []
    }
  }

  #invoke({ processRun }: Living, { payload, idempotencyKey }: PlannedJob): void {
    const key = typeof idempotencyKey === 'string' ? idempotencyKey : (idempotencyKey?.key ?? null)
    // When the store's clock is set back, a past time comes again.
    const isBack = this.#deps.plan.faults.some(({ kind }) => kind === 'clock back')
    const after = isBack ? {} : { after: this.#deps.server.nowMs }
    processRun.record({ ev: 'enqueue.invoke', key: payload.key, idempotencyKey: key, ...after })
  }

  #pause({ holdfast }: Living, { queue, forMs }: Extract<PlannedAct, { act: 'pause' }>): void {
    holdfast.pause(queue).catch(() => {})
    this.#later(forMs, 0, () => this.insist((living) => living.holdfast.resume(queue)))
  }

  async #operate({ holdfast }: Living, act: Extract<PlannedAct, { which: number }>): Promise<void> {
    const all = [...this.#deps.server.memory.jobs.values()]
    // A requeued parent is unfinished again while its children have moved on. That is allowed, so parents are left out.
    const parents = new Set(all.flatMap(({ facts }) => facts.after))
    const jobs = all.filter(
      // Requeued poison would keep the run from ending, and requeueing restarts a key that holds for a duration.
      ({ state, facts }) =>
        allows(state, act.act) &&
        facts.type !== 'poison' &&
        !parents.has(facts.id) &&
        (facts.idempotencyKey?.ttlMs ?? null) === null,
    )
    const id = jobs[Math.floor(act.which * jobs.length)]?.facts.id
    if (id === undefined) return
    if (act.act === 'update') await holdfast.update(id, { priority: act.priority })
    else await holdfast[act.act](id)
  }
}

function optionsOf(job: PlannedJob, after: readonly string[]): EnqueueOptions {
  const { queue, priority, maxAttempts, retry, timeout, delayMs, maxAgeMs, idempotencyKey, onParentDead } = job
  return {
    queue,
    priority,
    maxAttempts,
    retry,
    ...(timeout === null ? {} : { timeout }),
    ...(delayMs === null ? {} : { delay: delayMs }),
    ...(maxAgeMs === null ? {} : { maxAge: maxAgeMs }),
    ...(idempotencyKey === null ? {} : { idempotencyKey }),
    ...(after.length === 0 ? {} : { after, onParentDead }),
    ...flowOf(job),
  }
}

function flowOf({ flow }: PlannedJob): EnqueueOptions {
  if (flow === undefined || (flow.group === null && flow.limits.length === 0)) return {}
  return { limits: flow.limits, ...(flow.group === null ? {} : { group: flow.group }) }
}

/** Whether a failed call may have been written anyway. */
function mayBeWritten(error: unknown): boolean {
  if (isHoldfastError(error, 'store_unavailable')) return error.details.written !== 'no'
  return false
}

// What producers and operators do in a run, through whichever process is there.

import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { allows } from '../../src/core/states.js'
import { DEFINITIONS } from './behaviours.js'
import type { Incarnation } from './incarnation.js'
import type { Plan } from './plan.js'
import type { PlannedAct, PlannedJob } from './plan-jobs.js'
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
/** By when a call has arrived, however slow, or never will. */
export const LATE_MS = 3_000

/** Does what the plan says, at its time. */
export class Actors {
  readonly #deps: ActorDeps
  /** Those who wait for the answer to an enqueue. */
  readonly #asking = new Set<{ readonly incarnation: Incarnation }>()
  #waiting = 0
  #operatedMs = Number.NEGATIVE_INFINITY

  constructor(deps: ActorDeps) {
    this.#deps = deps
  }

  /** True while something was planned that has not been asked yet, or not been answered to somebody who lives, and while what an
   *  operator asked may still arrive: it can bring a finished job back. */
  get isBusy(): boolean {
    if (this.#waiting > 0 || this.#deps.timeline.nowMs - this.#operatedMs < LATE_MS) return true
    return [...this.#asking].some(({ incarnation }) => !incarnation.isDead)
  }

  plan(act: PlannedAct): void {
    this.#later(act.atMs, act.process, (living) => this.#do(living, act))
  }

  /** Calls `ask` with a living process until it succeeds, also when a process dies over it. */
  insist(ask: (living: Living) => Promise<void>): void {
    this.#later(0, 0, (living) => {
      let isDone = false
      const again = () => this.#later(TRY_AGAIN_MS, 0, () => this.insist(ask))
      const watch = () => {
        if (isDone) return
        if (living.incarnation.isDead) again()
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
      const asking = { incarnation: living.incarnation }
      this.#asking.add(asking)
      void this.#enqueue(living, act).then(() => this.#asking.delete(asking))
    } else this.#operatedMs = this.#deps.timeline.nowMs
    if (act.act === 'pause') this.#pause(living, act)
    // An operator whose call fails looks again some other time.
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

  async #enqueueOne({ holdfast, incarnation }: Living, job: PlannedJob, after: string[]): Promise<string | null> {
    const { key } = job.payload
    this.#invoke({ holdfast, incarnation }, job)
    try {
      const definition = DEFINITIONS.get(job.kind)!
      const { id, created } = await holdfast.enqueue(definition, job.payload, optionsOf(job, after))
      incarnation.tell({ ev: 'enqueue.ok', key, job: id, created })
      return id
    } catch (error) {
      incarnation.tell({ ev: mayBeWritten(error) ? 'enqueue.info' : 'enqueue.fail', key, job: null })
      return null
    }
  }

  async #enqueueTogether({ holdfast, incarnation }: Living, jobs: readonly PlannedJob[]): Promise<(string | null)[]> {
    for (const job of jobs) this.#invoke({ holdfast, incarnation }, job)
    try {
      const entries = jobs.map((job) => [DEFINITIONS.get(job.kind)!, job.payload, optionsOf(job, [])] as const)
      const answers = await holdfast.enqueueMany(entries)
      answers.forEach(({ id, created }, index) => {
        incarnation.tell({ ev: 'enqueue.ok', key: jobs[index]!.payload.key, job: id, created })
      })
      return answers.map(({ id }) => id)
    } catch (error) {
      const ev = mayBeWritten(error) ? 'enqueue.info' : 'enqueue.fail'
      for (const { payload } of jobs) incarnation.tell({ ev, key: payload.key, job: null })
      return []
    }
  }

  #invoke({ incarnation }: Living, { payload, idempotencyKey }: PlannedJob): void {
    const key = typeof idempotencyKey === 'string' ? idempotencyKey : (idempotencyKey?.key ?? null)
    // Where the store's clock goes back, a time that has passed may come again.
    const isBack = this.#deps.plan.faults.some(({ kind }) => kind === 'clock back')
    const after = isBack ? {} : { after: this.#deps.server.nowMs }
    incarnation.tell({ ev: 'enqueue.invoke', key: payload.key, idempotencyKey: key, ...after })
  }

  #pause({ holdfast }: Living, { queue, forMs }: Extract<PlannedAct, { act: 'pause' }>): void {
    holdfast.pause(queue).catch(() => {})
    this.#later(forMs, 0, () => this.insist((living) => living.holdfast.resume(queue)))
  }

  async #operate({ holdfast }: Living, act: Extract<PlannedAct, { which: number }>): Promise<void> {
    const all = [...this.#deps.server.memory.jobs.values()]
    // A parent that is revived is unfinished again, and its children have gone on: nothing to hold against anybody.
    const parents = new Set(all.flatMap(({ facts }) => facts.after))
    const jobs = all.filter(
      // Poison that is revived again and again would keep the run from ending, and a key that lasts for a time begins anew.
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
  }
}

/** Whether a call that failed may have been written all the same. */
function mayBeWritten(error: unknown): boolean {
  if (isHoldfastError(error, 'store_unavailable')) return error.details.written !== 'no'
  return false
}

// Fire: ticks of schedules that are due become jobs. Any number of processes may try; the store lets one of them through.

import { parseCron } from '../core/cron.js'
import type { Emit } from '../core/events.js'
import { idMaker } from '../core/id.js'
import type { NewJob, Schedule } from '../core/job.js'
import type { TallySink } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import { jobOfSchedule, ticksDue } from '../core/schedule.js'
import type { DueSchedules, Fired, Store } from '../core/store.js'
import { jittered } from './loop.js'

const BATCH = 50
const CALLS_MAX = 20
const WAIT_MS = 10_000
const WAIT_MS_MIN = 5
const BROKEN_TOLD_AGAIN_MS = 60_000
const BROKEN_MAX = 1_000

type DueSchedule = DueSchedules['schedules'][number]

export interface FireDeps {
  readonly store: Store
  readonly ports: Ports
  readonly emit: Emit
  readonly tally?: TallySink
}

/** The fire step of one process. */
export class Fire {
  readonly #deps: FireDeps
  readonly #makeId: () => string
  /** Schedules that cannot be read here, and when that was last told. */
  readonly #broken = new Map<string, number>()
  #storeNowMs = 0

  constructor(deps: FireDeps) {
    this.#deps = deps
    this.#makeId = idMaker(() => this.#storeNowMs, deps.ports.random)
  }

  /** Fires what is due and returns how long until the next is. */
  async step(): Promise<number> {
    let nextMs = jittered(WAIT_MS, this.#deps.ports)
    for (let calls = 0; calls < CALLS_MAX; calls++) {
      // Broken ones stay due and come first: ask for so many more that they cannot crowd out the others.
      const brokenCount = this.#broken.size
      const { schedules, nowMs, nextDueMs } = await this.#deps.store.due(BATCH + brokenCount)
      this.#storeNowMs = nowMs
      let firedCount = 0
      for (const schedule of schedules) {
        const nextAtMs = await this.#fire(schedule, nowMs)
        if (nextAtMs === undefined) continue
        firedCount++
        if (nextAtMs !== null) nextMs = Math.min(nextMs, nextAtMs - nowMs)
      }
      nextMs = Math.min(nextMs, nextDueMs ?? nextMs)
      const hasMoved = firedCount > 0 || this.#broken.size > brokenCount
      if (schedules.length < BATCH + brokenCount || !hasMoved) break
    }
    return Math.max(WAIT_MS_MIN, nextMs)
  }

  /** When the schedule is due again, or undefined when it could not be fired. */
  async #fire(schedule: DueSchedule, nowMs: number): Promise<number | null | undefined> {
    const { name, nextAtMs: expectedNextAtMs } = schedule
    const firing = this.#readTicks(schedule, nowMs)
    if (firing === null) return undefined
    const ticks = firing.ticks.map((tickMs) => ({ tickMs, job: jobOfSchedule(schedule, this.#makeId()) }))
    const { nextAtMs } = firing
    const answer = await this.#deps.store.fire({ name, expectedNextAtMs, ticks, nextAtMs })
    if (answer.fired) this.#tell(schedule, ticks, answer)
    return nextAtMs
  }

  #readTicks(schedule: DueSchedule, nowMs: number): ReturnType<typeof ticksDue> | null {
    try {
      const firing = ticksDue(parseCron(schedule.cron, schedule.zone), schedule, schedule.nextAtMs, nowMs)
      this.#broken.delete(schedule.name)
      return firing
    } catch (error) {
      this.#tellBroken(schedule.name, error as Error)
      return null
    }
  }

  #tellBroken(name: string, error: Error): void {
    const nowMs = this.#deps.ports.clock.monotonic()
    const toldMs = this.#broken.get(name)
    if (toldMs !== undefined && nowMs - toldMs < BROKEN_TOLD_AGAIN_MS) return
    if (this.#broken.size >= BROKEN_MAX) this.#broken.clear()
    this.#broken.set(name, nowMs)
    this.#deps.emit({ name: 'schedule.broken', schedule: name, error })
  }

  #tell({ name, queue }: Schedule, ticks: readonly { tickMs: number; job: NewJob }[], { jobs }: Fired): void {
    if (jobs.length > 0) this.#deps.store.wake([queue])
    this.#deps.tally?.enqueued(queue, jobs.length)
    const made = new Set(jobs)
    for (const { tickMs, job } of ticks) {
      const jobId = made.has(job.id) ? job.id : null
      this.#deps.emit({ name: 'schedule.fired', schedule: name, tick: new Date(tickMs), jobId })
    }
  }
}

// Fire: ticks of schedules that are due become jobs. Any number of processes may try; the store lets one of them through.

import { parseCron } from '../core/cron.js'
import type { Emit } from '../core/events.js'
import { idMaker } from '../core/id.js'
import type { NewJob } from '../core/job.js'
import type { TallySink } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { Schedule } from '../core/schedule.js'
import { jitterOf, jobOfSchedule, LATE_AFTER_MS, ticksDue } from '../core/schedule.js'
import type { DueSchedules, Fired, UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

const BATCH = 50
const ROUNDS_MAX = 20
// A round fires what was due when it began. One that takes longer ends, so that what became due meanwhile gets its turn.
const ROUND_MS = 500
// A stop waits for a step to end, so steps are short. If there is more to do, the next step follows immediately.
const STEP_MS = 2_000
const WAIT_MS = 10_000
const WAIT_MS_MIN = 5
const BROKEN_AGAIN_MS = 60_000
const BROKEN_MAX = 1_000
const LATE_AGAIN_MS = 60_000
const LATE_QUEUES_MAX = 100

type DueSchedule = DueSchedules['schedules'][number]

export interface FireDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
  readonly tally?: TallySink
}

/** The fire step of one process. */
export class Fire {
  readonly #deps: FireDeps
  readonly #makeId: (queue: string) => string
  /** Schedules that cannot be read here, and when that was last reported. */
  readonly #broken = new Map<string, number>()
  /** Queues whose ticks are late: when that was last reported, and how many firings there were since. */
  readonly #late = new Map<string, { reportedMs: number; count: number }>()
  /** The queue that was served last. The next round begins with the queue after it. */
  #afterQueue = ''
  #storeNowMs = 0

  constructor(deps: FireDeps) {
    this.#deps = deps
    const makeId = idMaker(() => this.#storeNowMs, deps.ports.random)
    const { parts } = deps.store
    this.#makeId = parts === undefined ? makeId : (queue) => parts.mark(makeId(), queue)
  }

  /** Fires what is due and returns how long until the next is. */
  async step(): Promise<number> {
    const { ports } = this.#deps
    const endMs = ports.clock.monotonic() + STEP_MS
    let nextMs = jittered(WAIT_MS, ports)
    for (let rounds = 0; rounds < ROUNDS_MAX; rounds++) {
      const round = await this.#round()
      nextMs = Math.min(nextMs, round.nextMs)
      if (!round.hasMore || ports.clock.monotonic() >= endMs) break
    }
    return Math.max(WAIT_MS_MIN, nextMs)
  }

  /** Fires a batch, or as much of it as there is time for. Queues take turns, from one round to the next as well. */
  async #round(): Promise<{ readonly nextMs: number; readonly hasMore: boolean }> {
    const { store, ports } = this.#deps
    const endMs = ports.clock.monotonic() + ROUND_MS
    // Broken schedules stay due. Ask for that many more, so that they do not take the place of others.
    const brokenCount = this.#broken.size
    const limit = BATCH + brokenCount
    const { schedules, nowMs, nextDueMs } = await store.due(limit, this.#afterQueue)
    this.#storeNowMs = nowMs
    let nextMs = nextDueMs ?? Number.POSITIVE_INFINITY
    let hasFired = false
    for (const schedule of schedules) {
      if (hasFired && ports.clock.monotonic() >= endMs) return { nextMs: 0, hasMore: true }
      const nextAtMs = await this.#fire(schedule, nowMs)
      if (nextAtMs === undefined) continue
      hasFired = true
      this.#afterQueue = schedule.queue
      if (nextAtMs !== null) nextMs = Math.min(nextMs, nextAtMs - nowMs)
    }
    const hasMoved = hasFired || this.#broken.size > brokenCount
    return { nextMs, hasMore: schedules.length === limit && hasMoved }
  }

  /** When the schedule is due again, or undefined when it could not be fired. */
  async #fire(schedule: DueSchedule, nowMs: number): Promise<number | null | undefined> {
    const { name, nextAtMs: expectedNextAtMs } = schedule
    const firing = this.#readTicks(schedule, nowMs)
    if (firing === null) return undefined
    const { jitterMs } = firing
    const ticks = firing.ticks.map((tickMs) => {
      const runAtMs = jitterMs === 0 ? null : tickMs + jitterOf(name, tickMs, jitterMs)
      return { tickMs, job: jobOfSchedule(schedule, this.#makeId(schedule.queue), runAtMs) }
    })
    const { nextAtMs } = firing
    const answer = await this.#deps.store.fire({ name, expectedNextAtMs, ticks, nextAtMs })
    if (answer.fired) {
      this.#report(schedule, ticks, answer)
      this.#reportLate(schedule, Math.round(nowMs - expectedNextAtMs))
    }
    return nextAtMs
  }

  #readTicks(
    schedule: DueSchedule,
    nowMs: number,
  ): (ReturnType<typeof ticksDue> & { readonly jitterMs: number }) | null {
    try {
      const times = parseCron(schedule.cron, schedule.zone)
      const firing = { ...ticksDue(times, schedule, schedule.nextAtMs, nowMs), jitterMs: times.jitterMs }
      this.#broken.delete(schedule.name)
      return firing
    } catch (error) {
      this.#reportBroken(schedule.name, error as Error)
      return null
    }
  }

  #reportLate({ name, queue }: DueSchedule, lateMs: number): void {
    if (lateMs <= LATE_AFTER_MS) return
    const nowMs = this.#deps.ports.clock.monotonic()
    if (this.#late.size >= LATE_QUEUES_MAX) this.#forgetLate(nowMs)
    const late = this.#late.get(queue)
    if (late === undefined && this.#late.size >= LATE_QUEUES_MAX) return
    const count = (late?.count ?? 0) + 1
    const isReported = late !== undefined && nowMs - late.reportedMs < LATE_AGAIN_MS
    this.#late.set(queue, isReported ? { ...late, count } : { reportedMs: nowMs, count: 0 })
    if (!isReported) this.#deps.emit({ name: 'schedule.late', schedule: name, queue, lateMs, count })
  }

  #forgetLate(nowMs: number): void {
    for (const [queue, { reportedMs }] of this.#late) {
      if (nowMs - reportedMs >= LATE_AGAIN_MS) this.#late.delete(queue)
    }
  }

  #reportBroken(name: string, error: Error): void {
    const nowMs = this.#deps.ports.clock.monotonic()
    const reportedMs = this.#broken.get(name)
    if (reportedMs !== undefined && nowMs - reportedMs < BROKEN_AGAIN_MS) return
    if (this.#broken.size >= BROKEN_MAX) this.#broken.clear()
    this.#broken.set(name, nowMs)
    this.#deps.emit({ name: 'schedule.broken', schedule: name, error })
  }

  #report({ name, queue }: Schedule, ticks: readonly { tickMs: number; job: NewJob }[], { jobs }: Fired): void {
    this.#deps.tally?.enqueued(queue, jobs.length)
    const made = new Set(jobs)
    for (const { tickMs, job } of ticks) {
      const jobId = made.has(job.id) ? job.id : null
      this.#deps.emit({ name: 'schedule.fired', schedule: name, tick: new Date(tickMs), jobId })
    }
  }
}

// Checks schedules: each tick is recorded once, not early, with the job it names, and none is missed unless the catch-up policy
// allows it.

import { MISSED_AFTER_MS } from '../../src/core/schedule.js'
import { isFinished } from '../../src/core/states.js'
import type { RunBegun, TickFired } from './events.js'
import { type Life, type Reading, ROOM_MS, report } from './life.js'
import { shown } from './steps.js'

type CheckedSchedule = RunBegun['schedules'][number]

/** How long before its record a transaction may have read the state it decides by, on an overloaded machine. */
const LOOK_MS = 2_000

export class Ticks {
  readonly #reading: Reading
  readonly #fired = new Map<string, Map<number, TickFired>>()
  readonly #lastJob = new Map<string, string>()
  #latestAt = Number.NEGATIVE_INFINITY

  constructor(reading: Reading) {
    this.#reading = reading
  }

  /** The store's clock showed this time. Setting it back does not undo what was due before. */
  saw(at: number): void {
    if (at > this.#latestAt) this.#latestAt = at
  }

  /** Takes a tick, in the store's order. */
  fired(event: TickFired): void {
    this.#reading.counts.ticks++
    const { schedule, tick, at, job, strayed } = event
    let ticks = this.#fired.get(schedule)
    if (ticks === undefined) {
      ticks = new Map()
      this.#fired.set(schedule, ticks)
    }
    if (ticks.has(tick)) report(this.#reading, 'I7', job, `${schedule} fired its tick ${shown(tick)} twice`)
    if (strayed !== true && this.#latestAt < tick - ROOM_MS) {
      report(this.#reading, 'I7', job, `${schedule} fired its tick ${shown(tick)} at ${shown(at)}, before its time`)
    }
    if (job !== null) this.#lastJob.set(schedule, job)
    else if (strayed !== true) this.#checkSkipped(event)
    ticks.set(tick, { ...event, at: Math.max(at, this.#latestAt) })
  }

  /** A tick has no job only while the job of an earlier tick is unfinished. A job that is not stored yet belongs to the same
   *  firing. */
  #checkSkipped({ schedule, tick, at, tx, began }: TickFired): void {
    const last = this.#lastJob.get(schedule)
    const life = last === undefined ? undefined : this.#reading.lives.get(last)
    if (last !== undefined && !(life !== undefined && isFinished(life.state))) return
    // A transaction writes its record after it has read. A job that ended in between was unfinished when it read.
    const lookedAt = Math.min(began ?? at, tx === undefined ? at : at - LOOK_MS)
    if (life?.finishedAt != null && life.finishedAt >= lookedAt) return
    report(
      this.#reading,
      'I7',
      null,
      `${schedule} made no job for its tick ${shown(tick)}, though none of its jobs was unfinished`,
    )
  }

  /** Called once all lives are known. */
  check(): void {
    this.#checkJobs()
    for (const schedule of this.#reading.run?.schedules ?? []) this.#checkSpan(schedule)
  }

  #checkJobs(): void {
    const jobs = new Map<string, Life>()
    for (const life of this.#reading.lives.values()) {
      const tick = life.stored?.tick ?? null
      if (tick === null) continue
      const name = `${tick.schedule} ${tick.at}`
      const other = jobs.get(name)
      jobs.set(name, life)
      const record = this.#fired.get(tick.schedule)?.get(tick.at)
      const what = `is a job of ${tick.schedule} for its tick ${shown(tick.at)}`
      if (other !== undefined) report(this.#reading, 'I7', life.job, `${what}, as ${other.job} is`)
      else if (record === undefined) report(this.#reading, 'I7', life.job, `${what}, which was never recorded`)
      else if (record.job !== life.job) report(this.#reading, 'I7', life.job, `${what}, which records ${record.job}`)
    }
    for (const ticks of this.#fired.values()) {
      for (const { schedule, tick, job } of ticks.values()) {
        if (job === null || jobs.has(`${schedule} ${tick}`)) continue
        report(
          this.#reading,
          'I7',
          job,
          `${schedule} recorded its tick ${shown(tick)} with a job that was never stored`,
        )
      }
    }
  }

  #checkSpan({ name, everyMs, from, to, catchUp }: CheckedSchedule): void {
    const ticks = this.#fired.get(name) ?? new Map<number, TickFired>()
    // From the last to the first, so that the next fired tick is known at each step.
    let later: TickFired | null = null
    for (const tick of ticks.values()) if (tick.tick >= to && (later === null || tick.tick < later.tick)) later = tick
    const first = Math.ceil(from / everyMs) * everyMs
    for (let tick = Math.ceil(to / everyMs) * everyMs - everyMs; tick >= first; tick -= everyMs) {
      const record = ticks.get(tick)
      if (record !== undefined) later = record
      else if (!isLetGo(tick, catchUp, later)) {
        report(
          this.#reading,
          'I7',
          null,
          `${name} missed its tick ${shown(tick)}; the next it fired is ${nextOf(later)}`,
        )
      }
    }
  }
}

/** A tick may be skipped if the policy does not catch up on all, and only when it was late enough to count as missed. */
function isLetGo(tick: number, catchUp: CheckedSchedule['catchUp'], later: TickFired | null): boolean {
  return catchUp !== 'all' && later !== null && later.at - tick > MISSED_AFTER_MS - ROOM_MS
}

function nextOf(later: TickFired | null): string {
  return later === null ? 'none' : `${shown(later.tick)}, at ${shown(later.at)}`
}

// The warnings that an operator sees, each with what to do about it.

import type { Client } from '../client/client.js'
import type { Health } from '../client/look.js'
import type { ScheduleStatus } from '../client/schedules.js'
import { showMs } from '../core/duration.js'
import { describeHorizon } from '../core/horizon.js'
import type { WorkerView } from '../core/job.js'
import { type Overview, type QueueOverview, WORKER_LIVE_MS } from '../core/operating.js'
import { LATE_AFTER_MS } from '../core/schedule.js'
import type { Warning } from './schemas/operating.js'
import type { StoreFacts } from './store-facts.js'

const KEPT_MS = 4_000
const WARNINGS_MAX = 100
/** A job that has been ready for longer than this is reported. */
const OLDEST_AGE_S = 300
const HORIZON_MS = 60_000
/** A worker sends a heartbeat every 10 s. After this long without one it was stopped, not lost, and is not reported. */
const HEARTBEAT_GAP_MS = 600_000

/** Computes the warnings at most once every few seconds, for all requests. */
export class WarningBoard {
  readonly #holdfast: Client
  readonly #facts: StoreFacts
  readonly #now: () => number
  #kept: { readonly untilMs: number; readonly value: Promise<readonly Warning[]> } | null = null

  constructor(holdfast: Client, facts: StoreFacts, now: () => number) {
    this.#holdfast = holdfast
    this.#facts = facts
    this.#now = now
  }

  read(): Promise<readonly Warning[]> {
    if (this.#kept === null || this.#kept.untilMs <= this.#now()) {
      const value = this.#look()
      this.#kept = { untilMs: this.#now() + KEPT_MS, value }
      value.catch(() => {
        this.#kept = null
      })
    }
    return this.#kept.value
  }

  async #look(): Promise<readonly Warning[]> {
    const [overview, workers, schedules, health] = await Promise.all([
      this.#holdfast.overview({ maxAge: '1s' }),
      this.#holdfast.workers(),
      this.#holdfast.schedules(),
      this.#facts.health(),
    ])
    return warningsOf({ overview, workers, schedules, health })
  }
}

interface Seen {
  readonly overview: Overview
  readonly workers: readonly WorkerView[]
  readonly schedules: readonly ScheduleStatus[]
  readonly health: Health
}

/** The warnings for this state of the system, the worst first. */
export function warningsOf({ overview, workers, schedules, health }: Seen): readonly Warning[] {
  const all = [
    ...ofStore(health),
    ...overview.queues.flatMap((queue) => [...ofQueue(queue, overview.isExact)]),
    ...workers.flatMap((worker) => [...ofWorker(worker, overview.nowMs)]),
    ...schedules.flatMap((schedule) => [...ofSchedule(schedule, overview.nowMs)]),
  ]
  const order = ['error', 'warning', 'note']
  return all.sort((one, other) => order.indexOf(one.level) - order.indexOf(other.level)).slice(0, WARNINGS_MAX)
}

function* ofQueue(queue: QueueOverview, isExact: boolean): Generator<Warning> {
  const { name, ready, paused, workers, oldestAgeS, rates } = queue
  if (ready > 0 && paused) {
    yield {
      code: 'paused_backlog',
      level: 'note',
      text: `${name} is paused and ${count(ready, isExact)}`,
      queue: name,
      next: `Resume it: holdfast queues resume ${name}`,
    }
  } else if (ready > 0 && workers === 0) {
    yield {
      code: 'no_worker',
      level: 'error',
      text: `${count(ready, isExact)} in ${name} and no worker serves it`,
      queue: name,
      next: `Start one: holdfast worker ./jobs.js --queues ${name}`,
    }
  } else if (oldestAgeS > OLDEST_AGE_S && ready > 0) {
    yield {
      code: 'oldest_age',
      level: 'warning',
      text: `the oldest ready job of ${name} has waited ${showMs(oldestAgeS * 1_000)}`,
      queue: name,
      next: 'Add workers or raise their concurrency',
    }
  }
  if (rates.dead > 0) {
    const died = Math.max(1, Math.round(rates.dead * 60))
    yield {
      code: 'dead_growing',
      level: 'warning',
      text: `${readable(died)} ${died === 1 ? 'job' : 'jobs'} of ${name} died in the last minute`,
      queue: name,
      next: 'Fix the cause, then requeue them',
    }
  }
}

function count(ready: number, isExact: boolean): string {
  if (ready === 1) return '1 job is ready'
  // An estimate has about three exact digits.
  const text = isExact ? readable(ready) : `about ${readable(Number(ready.toPrecision(3)))}`
  return `${text} jobs are ready`
}

function readable(number: number): string {
  return number.toLocaleString('en')
}

function* ofWorker(worker: WorkerView, nowMs: number): Generator<Warning> {
  const ageMs = nowMs - worker.seenAt.getTime()
  if (ageMs <= WORKER_LIVE_MS || ageMs > HEARTBEAT_GAP_MS) return
  yield {
    code: 'heartbeat_gap',
    level: 'warning',
    text: `worker ${worker.id} was last seen ${showMs(ageMs)} ago`,
    queue: null,
    next: `Check process ${worker.pid} on ${worker.host}. Other workers get its jobs when their leases end`,
  }
}

function* ofSchedule(schedule: ScheduleStatus, nowMs: number): Generator<Warning> {
  const { name, paused, nextAt, queue } = schedule
  if (paused) return
  if (nextAt === null) {
    yield {
      code: 'schedule_broken',
      level: 'warning',
      text: `schedule ${name} will never run again`,
      queue,
      next: 'Correct its expression, or remove it',
    }
  } else if (nowMs - nextAt.getTime() > LATE_AFTER_MS) {
    yield {
      code: 'schedule_late',
      level: 'error',
      text: `schedule ${name} should have fired ${showMs(nowMs - nextAt.getTime())} ago`,
      queue,
      next: 'Start a worker, or a server with upkeep: one of them fires schedules. If one is running, it has more schedules than it can fire',
    }
  }
}

function* ofStore({ postgres, isDurable }: Health): Generator<Warning> {
  const store = { queue: null, next: 'holdfast doctor' } as const
  if (postgres === null) return
  const { settings, horizon, inRecovery } = postgres
  if (settings.synchronousCommit === 'off' || !isDurable) {
    const text = 'synchronous_commit or fsync is off: a crash of the database can lose jobs that were accepted'
    yield { code: 'not_durable', level: 'error', text, ...store }
  }
  if (inRecovery || settings.readOnlyByDefault) {
    yield {
      code: 'read_only',
      level: 'error',
      text: 'the database is read-only: no job can be enqueued or run',
      ...store,
    }
  }
  if (horizon !== undefined && horizon.ageMs > HORIZON_MS) {
    const text = describeHorizon(horizon)
    yield { code: 'horizon_held', level: 'warning', text, ...store }
  }
}

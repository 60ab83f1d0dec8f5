// The warnings that an operator sees, each with what to do about it.

import type { Client } from '../client/client.js'
import type { Health } from '../client/look.js'
import type { ScheduleStatus } from '../client/schedules.js'
import { describeReducedRedis } from '../core/durability.js'
import { showMs } from '../core/duration.js'
import type { LimitView, StoppedGroup } from '../core/flow/views.js'
import { describeHorizon } from '../core/horizon.js'
import { isLiveAfter, type Overview, type QueueOverview } from '../core/operating.js'
import type { OutboxHealth } from '../core/outbox.js'
import { LATE_AFTER_MS } from '../core/schedule.js'
import type { WorkerView } from '../core/views.js'
import type { Warning } from './schemas/operating.js'
import { remembered, type StoreFacts } from './store-facts.js'

const KEPT_MS = 4_000
const WARNINGS_MAX = 100
const STOPPED_MAX = 100
/** This many groups of a queue are reported one by one. */
const STOPPED_SHOWN = 3
/** A job that has been ready for longer than this is reported. */
const OLDEST_AGE_S = 300
const HORIZON_MS = 60_000
/** A row of the outbox that waits for longer is reported. */
const OUTBOX_MS = 30_000
/** A worker sends a heartbeat every 10 s. After this long without one it was stopped, not lost, and is not reported. */
const HEARTBEAT_GAP_MS = 600_000

/** Computes the warnings at most once every few seconds, for all requests. */
export class WarningBoard {
  readonly #holdfast: Client
  readonly #facts: StoreFacts
  readonly read: () => Promise<readonly Warning[]>

  constructor(holdfast: Client, facts: StoreFacts, now: () => number) {
    this.#holdfast = holdfast
    this.#facts = facts
    this.read = remembered(() => this.#look(), { keptMs: KEPT_MS, now })
  }

  async #look(): Promise<readonly Warning[]> {
    const [overview, workers, schedules, health, limits, stopped] = await Promise.all([
      this.#holdfast.overview({ maxAge: '1s' }),
      this.#holdfast.workers(),
      this.#holdfast.schedules(),
      this.#facts.health(),
      this.#holdfast.limits(),
      this.#holdfast.stoppedGroups({ limit: STOPPED_MAX }),
    ])
    return warningsOf({ overview, workers, schedules, health, limits, stopped })
  }
}

interface Seen {
  readonly overview: Overview
  readonly workers: readonly WorkerView[]
  readonly schedules: readonly ScheduleStatus[]
  readonly health: Health
  readonly limits?: readonly LimitView[]
  readonly stopped?: readonly StoppedGroup[]
}

/** The warnings for this state of the system, the worst first. */
export function warningsOf({
  overview,
  workers,
  schedules,
  health,
  limits = [],
  stopped = [],
}: Seen): readonly Warning[] {
  const all = [
    ...ofStore(health),
    ...(health.outbox === undefined ? [] : ofOutbox(health.outbox)),
    ...limits.flatMap((limit) => [...ofLimit(limit, overview.nowMs)]),
    ...ofStopped(stopped),
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

function* ofLimit({ name, breaker }: LimitView, nowMs: number): Generator<Warning> {
  if (breaker === null || breaker.position === 'closed') return
  const { position, forced, since, probeAt, opens } = breaker
  const about = { queue: null, limit: name } as const
  const forMs = showMs(Math.max(0, nowMs - since.getTime()))
  if (forced === 'open') {
    yield {
      code: 'breaker_forced',
      level: 'note',
      text: `the breaker of limit ${name} has been held open for ${forMs}: its jobs wait`,
      ...about,
      next: `Release it: holdfast limits release ${name}`,
    }
    return
  }
  const waitMs = probeAt === null ? 0 : probeAt.getTime() - nowMs
  const when =
    position === 'half_open' || waitMs <= 0 ? 'a few jobs try it out now' : `it is probed in ${showMs(waitMs)}`
  yield {
    code: 'breaker_open',
    level: 'warning',
    text: `the breaker of limit ${name} is open${opens > 1 ? ` for the ${ordinal(opens)} time in a row` : ''}: its jobs wait, ${when}`,
    ...about,
    next: 'Fix what these jobs call. It closes by itself when they succeed again',
  }
}

function ordinal(number: number): string {
  const ending = number % 100 > 10 && number % 100 < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th')
  return `${readable(number)}${ending}`
}

function* ofStopped(stopped: readonly StoppedGroup[]): Generator<Warning> {
  for (const queue of new Set(stopped.map((one) => one.queue))) {
    const groups = stopped.filter((one) => one.queue === queue)
    const named = groups.slice(0, STOPPED_SHOWN).map(({ group }) => JSON.stringify(group))
    const more = groups.length > STOPPED_SHOWN ? ` and ${groups.length - STOPPED_SHOWN} more` : ''
    const isOne = groups.length === 1
    yield {
      code: 'group_stopped',
      level: 'warning',
      text: `group${isOne ? '' : 's'} ${named.join(', ')}${more} of ${queue} stopped because a job died`,
      queue,
      next: `Requeue or discard the dead job, then resume the group${isOne ? '' : 's'}`,
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
  if (isLiveAfter(ageMs, worker) || ageMs > HEARTBEAT_GAP_MS) return
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

function* ofOutbox({ isReachable, waiting, isExact, oldestMs, refused }: OutboxHealth): Generator<Warning> {
  const about = { queue: null, next: 'holdfast doctor' } as const
  if (!isReachable) {
    const text = 'the outbox cannot be reached: jobs of transactions are not sent, and workers may not claim'
    yield { code: 'outbox_away', level: 'error', text, ...about }
    return
  }
  if (oldestMs > OUTBOX_MS) {
    const many = isExact ? readable(waiting) : `more than ${readable(waiting)}`
    const text = `${many} of the outbox ${waiting === 1 ? 'waits' : 'wait'} to be sent, the oldest for ${showMs(oldestMs)}`
    yield { code: 'outbox_waiting', level: 'warning', text, ...about }
  }
  if (refused > 0) {
    const text = `${readable(refused)} ${refused === 1 ? 'job' : 'jobs'} of the outbox could never be created in the last seven days`
    yield {
      code: 'outbox_refused',
      level: 'warning',
      text,
      queue: null,
      next: 'holdfast audit --action outbox_refused',
    }
  }
}

function* ofStore({ postgres, redis, isDurable }: Health): Generator<Warning> {
  const store = { queue: null, next: 'holdfast doctor' } as const
  const reduced = redis === undefined ? null : describeReducedRedis(redis)
  if (reduced !== null) yield { code: 'not_durable', level: 'error', text: reduced, ...store }
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

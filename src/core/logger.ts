// Where log lines go, and which line each event becomes. Payloads are no part of an event, and so of no line.

import { invalidOption } from './errors.js'
import type { HoldfastEvent } from './events.js'

/** From the most talkative to the most urgent. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Takes log lines: facts for programs, a sentence for people. A pino logger is one. */
export type Logger = Readonly<Record<LogLevel, (facts: Readonly<Record<string, unknown>>, message: string) => void>>

/** Raises `invalid_option` unless `value` takes lines of every level. */
export function checkLogger(value: unknown): Logger {
  const isLogger =
    typeof value === 'object' &&
    value !== null &&
    LOG_LEVELS.every((level) => typeof (value as Partial<Logger>)[level] === 'function')
  if (isLogger) return value as Logger
  throw invalidOption(`logger must have the functions ${LOG_LEVELS.join(', ')}, as a pino logger does`, value)
}

/** Writes the events of one process to a logger. */
export class EventLog {
  readonly #logger: Logger
  readonly #failing = new Set<string>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  readonly receive = (event: HoldfastEvent): void => {
    this.#logger[this.#levelOf(event)]({ event: event.name, ...factsOf(event) }, messageOf(event))
  }

  // Each activity fails again with every try while the store is away; only its first failure is news.
  #levelOf(event: HoldfastEvent): LogLevel {
    if (event.name === 'store.recovered') this.#failing.delete(event.during)
    if (event.name !== 'store.failed') return levelOf(event)
    const isNews = !this.#failing.has(event.during)
    this.#failing.add(event.during)
    return isNews ? 'error' : 'debug'
  }
}

/** The events whose level depends on what they say. */
export const JOB_EVENT_NAMES = ['job.ended', 'job.settled', 'child.ended'] as const

/** How urgent every other event is. */
export const LEVELS: Readonly<Record<Exclude<HoldfastEvent['name'], (typeof JOB_EVENT_NAMES)[number]>, LogLevel>> = {
  'job.enqueued': 'debug',
  'enqueue.answered': 'debug',
  'job.claimed': 'debug',
  'job.started': 'debug',
  'job.promoted': 'debug',
  'job.stuck': 'warn',
  'job.rescued': 'warn',
  'hook.failed': 'error',
  'lease.lost': 'warn',
  'lease.extended': 'debug',
  'rescue.held': 'info',
  'schedule.fired': 'debug',
  'schedule.late': 'warn',
  'schedule.broken': 'error',
  'bulk.stepped': 'info',
  'horizon.held': 'warn',
  'horizon.freed': 'info',
  'durability.reduced': 'error',
  'prune.done': 'debug',
  'prune.postponed': 'warn',
  'timeline.changed': 'warn',
  'failover.said': 'warn',
  'store.failed_over': 'warn',
  'outbox.sent': 'debug',
  'outbox.deduplicated': 'info',
  'outbox.refused': 'error',
  'outbox.completion_lost': 'error',
  'outbox.repeating': 'warn',
  'failover.missing': 'warn',
  'store.failed': 'error',
  'store.recovered': 'info',
  'loop.blocked': 'warn',
  'breaker.opened': 'warn',
  'breaker.probed': 'info',
  'breaker.closed': 'info',
  'limit.closed': 'info',
  'limit.opened': 'info',
  'job.held': 'debug',
  'flow.repaired': 'warn',
  'queue.full': 'warn',
  'child.started': 'debug',
  'worker.started': 'info',
  'worker.draining': 'info',
  'worker.stopped': 'info',
}

/** How urgent an event is: `debug` for what happens all the time, `error` for what somebody has to fix. */
export function levelOf(event: HoldfastEvent): LogLevel {
  if (event.name === 'job.ended') return event.error === null ? 'debug' : 'warn'
  if (event.name === 'child.ended') return event.why === 'recycled' || event.why === 'stopped' ? 'debug' : 'warn'
  if (event.name !== 'job.settled') return LEVELS[event.name]
  if (event.state === 'dead') return 'error'
  return event.state === 'succeeded' || event.state === 'scheduled' ? 'debug' : 'info'
}

/** Plain values, few of them: a call that enqueued thousands is shown by their number. */
function factsOf(event: HoldfastEvent): Readonly<Record<string, unknown>> {
  const { name, ...facts } = event
  if (name === 'enqueue.answered') return { count: event.jobs.length, tookMs: event.tookMs }
  if (name === 'horizon.held') return { ageMs: event.horizon.ageMs, xids: event.horizon.xids }
  if ('error' in facts && facts.error instanceof Error) return { ...facts, error: facts.error.message }
  return facts
}

function messageOf(event: HoldfastEvent): string {
  switch (event.name) {
    case 'job.ended':
      return `attempt ${event.attempt} of ${event.type} ended: ${event.outcome}`
    case 'job.settled':
      return `${event.type} is ${event.state}${event.reason === null ? '' : ` (${event.reason})`}`
    case 'job.rescued':
      return `${event.type} was rescued from ${event.worker}: ${event.state}`
    case 'lease.lost':
      return `the lease of a job of ${event.type} is lost: it ran out and the job runs elsewhere`
    case 'hook.failed':
      return `${event.hook} of ${event.jobType} threw`
    case 'job.stuck':
      return `a handler of ${event.type} goes on though it was asked to stop`
    case 'horizon.held':
    case 'durability.reduced':
      return event.text
    case 'prune.postponed':
      return `retention passes over ${event.day}: ${event.why}`
    case 'schedule.late':
      return `the schedule ${event.schedule} of ${event.queue} fired ${Math.round(event.lateMs / 1_000)} s late`
    case 'schedule.broken':
      return `the schedule ${event.schedule} cannot be read`
    case 'store.failed':
      return `the store failed during ${event.during}`
    case 'store.recovered':
      return `the store is back: ${event.during}`
    case 'store.failed_over':
      return `a replica has taken over ${event.keys}*: what it did not have is lost unless it was accepted as replicated`
    case 'outbox.deduplicated':
      return `a job of ${event.type} from the outbox was not created: job ${event.holder} has its idempotency key${event.replaced ? ' and took its payload' : ''}`
    case 'outbox.refused':
      return `a job of ${event.type} from the outbox will never be created: ${event.why}`
    case 'outbox.completion_lost':
      return `job ${event.id} was completed in a transaction, and is ${event.state} in the store`
    case 'outbox.repeating':
      return 'Redis restarted or failed over: what the outbox sent to it lately is sent again'
    case 'timeline.changed':
      return `the store has changed hands: timeline ${event.from} is over, timeline ${event.to} goes on`
    case 'failover.said':
      return `said again after a failover: ${event.jobs} jobs, ${event.claims} claims, ${event.settlements} settlements, ${event.operations} operations; ${event.inside} jobs of callers' transactions are not there`
    case 'failover.missing':
      return event.clients === 0
        ? 'after the failover every process that was there has spoken: nothing is missing that anybody knows of'
        : `at most about ${event.jobsMax} jobs may be missing after the failover: ${event.clients} processes have not spoken since (${event.processes}); window ${event.from?.toISOString() ?? 'unknown'} to ${event.until.toISOString()}`
    case 'limit.closed':
      return `limit ${event.limit} gives no jobs: ${event.why}`
    case 'flow.repaired':
      return `${event.count} groups had been forgotten and go on now: is a process of an older version running?`
    case 'queue.full':
      return `${event.group === null ? `queue ${event.queue}` : `a group of queue ${event.queue}`} is full: ${event.count} enqueues were refused or wait`
    case 'child.ended':
      return childEnded(event)
    case 'worker.started':
    case 'worker.draining':
    case 'worker.stopped':
      return `${event.worker} ${event.name.slice('worker.'.length)}`
    default:
      return event.name
  }
}

/** A sentence about a child that ended. */
export function childEnded(event: Extract<HoldfastEvent, { name: 'child.ended' }>): string {
  const { isolate, pid, why, code, signal, jobs, error } = event
  const how = signal === null ? `code ${code}` : signal
  const inHand = jobs === 0 ? '' : `; ${jobs} ${jobs === 1 ? 'job' : 'jobs'} in hand`
  return `a child ${isolate === 'thread' ? 'thread' : `process (${pid})`} ended: ${why}, ${how}${inHand}${error === null ? '' : `: ${error}`}`
}

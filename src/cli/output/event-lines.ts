// Turns the library's events into lines for people.

import type { Handler, JobContext } from '../../core/definition.js'
import type { HoldfastEvent } from '../../core/events.js'
import { childEnded, levelOf } from '../../core/logger.js'
import type { Line, Tone } from './lines.js'
import { visible } from './terminal.js'
import { clockText, spanText } from './times.js'

type EventOf<Name extends HoldfastEvent['name']> = Extract<HoldfastEvent, { name: Name }>
type JobEvent = Extract<HoldfastEvent, { type: string }>

const MESSAGE_LENGTH_MAX = 300

const WHY_DEAD: Readonly<Record<string, string>> = {
  attempts: 'all its attempts are used up',
  dropped: 'its handler dropped it',
  expired: 'it is older than its max age',
  crashed: 'its worker crashed too often while it ran',
  invalid: 'its payload does not fit its schema',
}

/** Makes lines from the events of one process. */
export class EventLines {
  readonly #print: (line: Line) => void
  /** Attempts that have ended and are not settled yet. The first event has the error, the second the job's new state. */
  readonly #ended = new Map<string, EndedAttempt>()
  /** Of the attempts that run now, by job id. */
  readonly #maxAttempts = new Map<string, number>()
  /** What fails while the store is unavailable: claim, settle and so on. */
  readonly #failing = new Set<string>()

  constructor(print: (line: Line) => void) {
    this.#print = print
  }

  /** Wraps a handler so that lines about its jobs can say how many attempts they have. */
  watch(handler: Handler): Handler {
    const run = (payload: never, ctx: JobContext) => {
      this.#maxAttempts.set(ctx.id, ctx.maxAttempts)
      return handler.run(payload, ctx)
    }
    return { definition: handler.definition, run }
  }

  readonly onEvent = (event: HoldfastEvent): void => {
    const parts = 'type' in event ? this.#aboutJob(event) : this.#aboutOther(event)
    if (parts === null) return
    const { subject, id = null, text, tone = 'plain', isRoutine = false } = parts
    this.#print({ subject, id, text: visible(text), tone, isRoutine })
  }

  #aboutJob(event: JobEvent): Parts | null {
    const job = { subject: event.type, id: event.id }
    switch (event.name) {
      case 'job.started':
        return { ...job, text: startedText(event.attempt), tone: 'quiet', isRoutine: true }
      case 'job.ended':
        this.#keepEnd(event)
        return null
      case 'job.settled':
        return { ...job, ...this.#settled(event) }
      case 'lease.lost':
        this.#ended.delete(event.id)
        return { ...job, text: 'lease lost: it expired, and another worker may run the job', tone: 'warning' }
      case 'job.stuck':
        return { ...job, text: 'its handler keeps running after it was asked to stop', tone: 'warning' }
      case 'outbox.deduplicated':
        return { ...job, text: `not created: job ${event.holder} has its key`, tone: 'quiet' }
      case 'outbox.refused':
        return { ...job, text: short(`refused: ${event.why}`), tone: 'bad' }
      case 'job.rescued':
        return { ...job, text: `rescued: ${event.worker} is gone · ${event.state}`, tone: 'warning' }
    }
  }

  #keepEnd(event: EventOf<'job.ended'>): void {
    const maxAttempts = this.#maxAttempts.get(event.id) ?? null
    this.#maxAttempts.delete(event.id)
    // An attempt that lost its lease is not settled here.
    if (event.outcome !== 'lost') this.#ended.set(event.id, { ...event, maxAttempts })
  }

  #settled(event: EventOf<'job.settled'>): Outcome {
    const ended = this.#ended.get(event.id)
    this.#ended.delete(event.id)
    return settledText(event, ended)
  }

  #aboutOther(event: Exclude<HoldfastEvent, JobEvent>): Parts | null {
    switch (event.name) {
      case 'schedule.fired': {
        const text = event.jobId === null ? 'skipped: an earlier job is unfinished' : firedText(event.tick)
        return { subject: event.schedule, id: event.jobId, text, tone: 'quiet', isRoutine: true }
      }
      case 'schedule.late': {
        const text = `${event.schedule} of ${event.queue} fired ${spanText(event.lateMs)} late`
        return { subject: 'schedule', text, tone: 'warning' }
      }
      case 'schedule.broken': {
        const text = `${event.schedule} cannot be read: ${short(event.error.message)}`
        return { subject: 'schedule', text, tone: 'bad' }
      }
      case 'rescue.held':
        return { subject: 'worker', text: `waits ${spanText(event.forMs)} before it rescues lost jobs: ${event.why}` }
      case 'horizon.held':
      case 'durability.reduced':
        return { subject: 'store', text: short(event.text), tone: 'bad' }
      case 'timeline.changed': {
        const text = `the store has changed hands: timeline ${event.from} is over, timeline ${event.to} goes on`
        return { subject: 'store', text, tone: 'warning' }
      }
      case 'outbox.repeating': {
        const text = 'Redis restarted or failed over: what the outbox sent lately is sent again'
        return { subject: 'store', text, tone: 'warning' }
      }
      case 'outbox.completion_lost': {
        const text = `job ${event.id} was completed in a transaction, and is ${event.state} in Redis`
        return { subject: 'store', text, tone: 'bad' }
      }
      case 'failover.said': {
        const text = `said again after the failover: ${event.jobs} jobs, ${event.claims} claims, ${event.settlements} settlements, ${event.operations} operations`
        return { subject: 'store', text, tone: 'good' }
      }
      case 'failover.missing': {
        const text = `after the failover at most about ${event.jobsMax} jobs may be missing, of ${event.clients} silent processes`
        return { subject: 'store', text, tone: event.clients === 0 ? 'good' : 'bad' }
      }
      case 'horizon.freed':
        return { subject: 'store', text: 'no transaction holds an old snapshot any more', tone: 'good' }
      case 'prune.postponed':
        return { subject: 'store', text: short(`retention skips ${event.day}: ${event.why}`), tone: 'warning' }
      case 'loop.blocked':
        return { subject: 'worker', text: `the event loop was blocked for ${spanText(event.forMs)}`, tone: 'warning' }
      case 'limit.closed':
        return { subject: 'worker', text: `limit ${event.limit} gives no jobs: ${event.why}`, tone: 'warning' }
      case 'limit.opened':
        return { subject: 'worker', text: `limit ${event.limit} gives jobs again`, tone: 'good' }
      case 'queue.full': {
        const text = `queue ${event.queue} is full: ${event.count} enqueues were refused or wait`
        return { subject: 'worker', text, tone: 'warning' }
      }
      case 'flow.repaired':
        return { subject: 'worker', text: `${event.count} groups had been forgotten and go on`, tone: 'warning' }
      case 'breaker.opened': {
        const text = `the breaker of limit ${event.limit} opened: ${event.failed} of ${event.ok + event.failed} failed`
        return { subject: 'worker', text, tone: 'bad' }
      }
      case 'breaker.probed':
        return { subject: 'worker', text: `jobs try out whether limit ${event.limit} works again` }
      case 'breaker.closed':
        return { subject: 'worker', text: `the breaker of limit ${event.limit} closed`, tone: 'good' }
      case 'child.ended': {
        const isRoutine = levelOf(event) === 'debug'
        return { subject: 'worker', text: short(childEnded(event)), tone: isRoutine ? 'quiet' : 'warning', isRoutine }
      }
      case 'store.failed':
        return this.#failed(event)
      case 'store.recovered':
        return this.#recovered(event)
      default:
        return null
    }
  }

  // Each activity notices for itself that the store is unavailable, and again with every try. One line is enough.
  #failed({ during, error }: EventOf<'store.failed'>): Parts | null {
    const isFirst = this.#failing.size === 0
    this.#failing.add(during)
    return isFirst ? { subject: 'store', text: `${short(error.message)} · trying again`, tone: 'bad' } : null
  }

  #recovered({ during, afterMs }: EventOf<'store.recovered'>): Parts | null {
    if (!this.#failing.delete(during) || this.#failing.size > 0) return null
    return { subject: 'store', text: `back after ${spanText(afterMs)}`, tone: 'good' }
  }
}

/** An attempt that has ended. How many attempts its job has is known if its handler ran. */
type EndedAttempt = EventOf<'job.ended'> & { readonly maxAttempts: number | null }

/** What a line says about the end of an attempt. */
interface Outcome {
  readonly text: string
  readonly tone?: Tone
  readonly isRoutine?: boolean
}

interface Parts extends Outcome {
  readonly subject: string
  readonly id?: string | null
}

function settledText({ state, reason, delayMs }: EventOf<'job.settled'>, ended: EndedAttempt | undefined): Outcome {
  const error = ended?.error == null ? null : short(ended.error)
  switch (state) {
    case 'succeeded': {
      const text = ended?.ranMs == null ? 'succeeded' : `succeeded in ${spanText(ended.ranMs)}`
      return { text, tone: 'good', isRoutine: true }
    }
    case 'retrying': {
      const attempt = ended === undefined ? '' : ` (attempt ${ended.attempt}${ofMax(ended.maxAttempts)})`
      const text = `failed: ${error ?? 'no error was stored'} · retry in ${spanText(delayMs ?? 0)}${attempt}`
      return { text, tone: 'warning' }
    }
    case 'dead': {
      const why = WHY_DEAD[reason ?? ''] ?? reason
      return { text: `dead: ${error === null ? why : `${error} · ${why}`}`, tone: 'bad' }
    }
    case 'scheduled': {
      const what = ended?.outcome === 'released' ? 'released' : 'snoozed'
      return { text: `${what}: runs again at ${clockText(new Date(Date.now() + (delayMs ?? 0)))}`, isRoutine: true }
    }
    case 'ready':
      if (ended?.outcome === 'crashed') return { text: `${error ?? 'its child ended'} · runs again`, tone: 'warning' }
      return { text: 'released unfinished; the attempt is not counted', tone: 'warning' }
    default:
      return { text: state }
  }
}

function startedText(attempt: number): string {
  return attempt === 1 ? 'started' : `started again, attempt ${attempt}`
}

// Later than this, no process was running to fire it in time.
const LATE_MS = 2_000

function firedText(tick: Date): string {
  const lateMs = Date.now() - tick.getTime()
  return `enqueued by its schedule${lateMs < LATE_MS ? '' : `, ${spanText(lateMs)} late`}`
}

function ofMax(maxAttempts: number | null): string {
  return maxAttempts === null ? '' : ` of ${maxAttempts}`
}

function short(message: string): string {
  const line = message.trim().split('\n')[0] ?? ''
  return line.length <= MESSAGE_LENGTH_MAX ? line : `${line.slice(0, MESSAGE_LENGTH_MAX)}…`
}

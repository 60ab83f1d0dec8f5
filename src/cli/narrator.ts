// Tells what happens to jobs: events of the library in, lines for people out.

import type { Handler, JobContext } from '../core/definition.js'
import type { HoldfastEvent } from '../core/events.js'
import { childEnded, levelOf } from '../core/logger.js'
import { visible } from './terminal.js'
import { clockText, spanText } from './times.js'

/** What a line means to its reader; a terminal shows it as a colour. */
export type Tone = 'quiet' | 'plain' | 'good' | 'warning' | 'bad'

/** One line: about a job, or about the worker, the store or a schedule. */
export interface Line {
  /** The type of the job, or who speaks. */
  readonly subject: string
  readonly id: string | null
  readonly text: string
  readonly tone: Tone
  /** True for what happens all the time and needs nobody's attention. */
  readonly isRoutine: boolean
}

type EventOf<Name extends HoldfastEvent['name']> = Extract<HoldfastEvent, { name: Name }>
type JobEvent = Extract<HoldfastEvent, { type: string }>

const MESSAGE_LENGTH_MAX = 300

const WHY_DEAD: Readonly<Record<string, string>> = {
  attempts: 'all its attempts are used up',
  dropped: 'its handler dropped it',
  expired: 'it is older than its max age',
  crashed: 'it took its worker down too often',
  invalid: 'its payload does not fit its schema',
}

/** Puts the events of one process together into lines. */
export class Narrator {
  readonly #tell: (line: Line) => void
  /** Attempts that have ended and are not settled yet: the one event knows why, the other what became of it. */
  readonly #ended = new Map<string, EndedAttempt>()
  /** Of attempts that run. */
  readonly #maxAttempts = new Map<string, number>()
  readonly #failing = new Set<string>()

  constructor(tell: (line: Line) => void) {
    this.#tell = tell
  }

  /** The handler, watched: lines about its jobs can say how many attempts they have. For a worker whose events are heard. */
  watch(handler: Handler): Handler {
    const run = (payload: never, ctx: JobContext) => {
      this.#maxAttempts.set(ctx.id, ctx.maxAttempts)
      return handler.run(payload, ctx)
    }
    return { definition: handler.definition, run }
  }

  readonly hear = (event: HoldfastEvent): void => {
    const said = 'type' in event ? this.#aboutJob(event) : this.#aboutSurroundings(event)
    if (said === null) return
    const { subject, id = null, text, tone = 'plain', isRoutine = false } = said
    this.#tell({ subject, id, text: visible(text), tone, isRoutine })
  }

  #aboutJob(event: JobEvent): Said | null {
    const job = { subject: event.type, id: event.id }
    switch (event.name) {
      case 'job.started':
        return { ...job, text: startedText(event.attempt), tone: 'quiet', isRoutine: true }
      case 'job.ended':
        this.#noteEnd(event)
        return null
      case 'job.settled':
        return { ...job, ...this.#settled(event) }
      case 'lease.lost':
        this.#ended.delete(event.id)
        return { ...job, text: 'lease lost: it ran out and the job runs elsewhere', tone: 'warning' }
      case 'job.stuck':
        return { ...job, text: 'its handler goes on though it was told to stop', tone: 'warning' }
      case 'job.rescued':
        return { ...job, text: `rescued: ${event.worker} is gone · ${event.state}`, tone: 'warning' }
    }
  }

  #noteEnd(event: EventOf<'job.ended'>): void {
    const maxAttempts = this.#maxAttempts.get(event.id) ?? null
    this.#maxAttempts.delete(event.id)
    // One whose lease is gone is not settled here.
    if (event.outcome !== 'lost') this.#ended.set(event.id, { ...event, maxAttempts })
  }

  #settled(event: EventOf<'job.settled'>): Outcome {
    const ended = this.#ended.get(event.id)
    this.#ended.delete(event.id)
    return settledText(event, ended)
  }

  #aboutSurroundings(event: Exclude<HoldfastEvent, JobEvent>): Said | null {
    switch (event.name) {
      case 'schedule.fired': {
        const text = event.jobId === null ? 'skipped: an earlier one is unfinished' : firedText(event.tick)
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
      case 'horizon.freed':
        return { subject: 'store', text: 'nobody holds an old snapshot any more', tone: 'good' }
      case 'prune.postponed':
        return { subject: 'store', text: short(`retention passes over ${event.day}: ${event.why}`), tone: 'warning' }
      case 'loop.blocked':
        return { subject: 'worker', text: `the event loop was blocked for ${spanText(event.forMs)}`, tone: 'warning' }
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

  // Each activity finds out for itself that the store is away, again with every try; a reader wants to know it once.
  #failed({ during, error }: EventOf<'store.failed'>): Said | null {
    const isNews = this.#failing.size === 0
    this.#failing.add(during)
    return isNews ? { subject: 'store', text: `${short(error.message)} · trying again`, tone: 'bad' } : null
  }

  #recovered({ during, afterMs }: EventOf<'store.recovered'>): Said | null {
    if (!this.#failing.delete(during) || this.#failing.size > 0) return null
    return { subject: 'store', text: `back after ${spanText(afterMs)}`, tone: 'good' }
  }
}

/** An attempt that has ended; how many its job has is known when its handler ran. */
type EndedAttempt = EventOf<'job.ended'> & { readonly maxAttempts: number | null }

/** What is said about the end of an attempt. */
interface Outcome {
  readonly text: string
  readonly tone?: Tone
  readonly isRoutine?: boolean
}

interface Said extends Outcome {
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
      const text = `failed: ${error ?? 'no error was kept'} · retry in ${spanText(delayMs ?? 0)}${attempt}`
      return { text, tone: 'warning' }
    }
    case 'dead': {
      const why = WHY_DEAD[reason ?? ''] ?? reason
      return { text: `dead: ${error === null ? why : `${error} · ${why}`}`, tone: 'bad' }
    }
    case 'scheduled': {
      const what = ended?.outcome === 'released' ? 'given back' : 'snoozed'
      return { text: `${what}: runs again at ${clockText(new Date(Date.now() + (delayMs ?? 0)))}`, isRoutine: true }
    }
    case 'ready':
      if (ended?.outcome === 'crashed') return { text: `${error ?? 'its child ended'} · runs again`, tone: 'warning' }
      return { text: 'given back unfinished, its attempt is not counted', tone: 'warning' }
    default:
      return { text: state }
  }
}

function startedText(attempt: number): string {
  return attempt === 1 ? 'started' : `started again, attempt ${attempt}`
}

// Later than this, nobody was there to fire it in time.
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

// The events of jobs that run in other processes, as an async iterator. What the store keeps of a job is its history, so a reader that was away, or whose
// store was, misses nothing that is kept. Nothing is read before the reader asks for the next event, so nothing piles up.
// ◄── operator-calls.ts · which jobs have changed: followed-jobs.ts · what is new about one: job-history.ts

import { checkChoice, checkDate, checkId, checkKeys } from '../core/check.js'
import { Contact } from '../core/contact.js'
import { invalidOption, isHoldfastError } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import { readFilter } from '../core/filter.js'
import type { JobStore } from '../core/job-store.js'
import { type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import { type Ports, sleep } from '../core/ports.js'
import { checkSignal } from './enqueue-options.js'
import type { Events } from './events.js'
import { type EventsDropped, FollowedByFilter, FollowedById, type FollowedJobs } from './followed-jobs.js'
import { JOB_EVENTS, type JobEvent } from './job-history.js'

/** Which jobs are followed: `job`, or `queues`, `types` or both. */
export interface JobEventsOptions {
  /** The id of a job, or up to 200 ids. Their events come from their enqueue on, and the iteration ends when all have finished. Raises
   *  `job_not_found` for one that is not there. */
  readonly job?: string | readonly string[]
  /** Jobs of these queues, from the call on; `*` stands for any run of characters. */
  readonly queues?: readonly string[]
  /** Jobs of these types, as with `queues`. */
  readonly types?: readonly string[]
  /** With `job`: leaves out what happened before this time, for a reader that has read up to there. */
  readonly since?: Date | string
  /** The names of the events that are wanted. Default all. `events.dropped` comes in any case. */
  readonly names?: readonly JobEvent['name'][]
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal
}

// A job by its id is looked at as often as by wait(). Queues are lists, which cost more.
const ID_POLL_MS = { min: 25, max: 500 } as const
const FILTER_POLL_MS = { min: 500, max: 1_000 } as const

interface FollowDeps {
  readonly store: () => JobStore & OperatorStore
  readonly ports: Ports
  readonly events: Events
}

interface Plan {
  readonly ids: readonly string[] | null
  readonly names: ReadonlySet<string>
  readonly sinceMs: number
  readonly signal: AbortSignal | undefined
  readonly jobs: () => FollowedJobs
}

/** Checks the options now, and reads when it is iterated. */
export function followJobs(deps: FollowDeps, options: JobEventsOptions): AsyncIterable<JobEvent | EventsDropped> {
  const plan = checkOptions(deps, options)
  return { [Symbol.asyncIterator]: () => follow(deps, plan) }
}

function checkOptions({ store }: FollowDeps, options: JobEventsOptions): Plan {
  checkKeys('jobEvents', options, ['job', 'queues', 'types', 'since', 'names', 'signal'])
  const { job, queues, types, signal } = options
  checkSignal(signal)
  const names = new Set<string>(checkNames(options.names))
  const sinceMs = options.since === undefined ? 0 : checkDate('since', options.since).getTime()
  const hasFilter = queues !== undefined || types !== undefined
  if ((job === undefined) !== hasFilter) {
    throw invalidOption(
      'jobEvents takes either job, the ids of jobs, or queues and types, one of the two at least',
      options,
    )
  }
  if (job === undefined) {
    if (options.since !== undefined)
      throw invalidOption('since goes with job: queues and types are followed from the call on', options.since)
    const filter = readFilter({ ...(queues && { queues }), ...(types && { types }) })
    return {
      ids: null,
      names,
      sinceMs,
      signal,
      jobs: () => new FollowedByFilter(store, filter, names.has('job.progress')),
    }
  }
  const ids = checkIds(job)
  return { ids, names, sinceMs, signal, jobs: () => new FollowedById(store, ids) }
}

function checkIds(job: unknown): readonly string[] {
  const ids: unknown = typeof job === 'string' ? [job] : job
  if (!Array.isArray(ids) || ids.length === 0 || ids.length > PAGE_MAX) {
    throw invalidOption(`job must be the id of a job, or 1 to ${PAGE_MAX} ids`, job)
  }
  return [...new Set(ids.map((id) => checkId('job', id)))]
}

function checkNames(names: readonly JobEvent['name'][] = JOB_EVENTS): readonly string[] {
  if (!Array.isArray(names) || names.length === 0)
    throw invalidOption('names must be an array of names of events', names)
  return ['events.dropped', ...names.map((name) => checkChoice('names', name, JOB_EVENTS))]
}

async function* follow(deps: FollowDeps, plan: Plan): AsyncGenerator<JobEvent | EventsDropped, void, undefined> {
  const { signal, names } = plan
  const { ports, events } = deps
  const contact = new Contact({ ports, emit: events.emit }, 'events')
  const pace = plan.ids === null ? FILTER_POLL_MS : ID_POLL_MS
  const nudges = new Nudges(deps, plan)
  const jobs = plan.jobs()
  const isAborted = () => signal?.aborted === true
  let waitMs: number = pace.min
  try {
    while (!isAborted()) {
      try {
        for await (const event of jobs.look()) {
          waitMs = pace.min
          if (isAborted()) return
          if (names.has(event.name) && isSince(event, plan.sinceMs)) yield event
        }
        contact.found()
      } catch (error) {
        if (!isHoldfastError(error) || !error.retryable) throw error
        waitMs = contact.lost(error)
      }
      if (jobs.isOver) return
      await nudges.pause(waitMs)
      waitMs = Math.min(pace.max, waitMs * 1.5)
    }
  } finally {
    nudges.end()
  }
}

function isSince(event: JobEvent | EventsDropped, sinceMs: number): boolean {
  return event.name === 'events.dropped' || event.at === null || event.at.getTime() >= sinceMs
}

/** Ends the pauses of a reader early when one of its jobs begins or ends in this very process, and when the reader is stopped. */
class Nudges {
  readonly #events: Events
  readonly #ids: ReadonlySet<string>
  readonly #timers: Ports['timers']
  readonly #signal: AbortSignal | undefined
  #isNudged = false
  #pausing: AbortController | null = null

  constructor({ events, ports }: FollowDeps, { ids, signal }: Plan) {
    this.#events = events
    this.#timers = ports.timers
    this.#ids = new Set(ids)
    this.#signal = signal
    if (this.#ids.size > 0) events.on(this.#listener)
    signal?.addEventListener('abort', this.#nudge)
  }

  readonly #listener = (event: HoldfastEvent): void => {
    if ((event.name === 'job.settled' || event.name === 'job.started') && this.#ids.has(event.id)) this.#nudge()
  }

  readonly #nudge = (): void => {
    this.#isNudged = true
    this.#pausing?.abort()
  }

  async pause(ms: number): Promise<void> {
    if (!this.#isNudged) {
      this.#pausing = new AbortController()
      await sleep(this.#timers, ms, this.#pausing.signal)
    }
    this.#isNudged = false
    this.#pausing = null
  }

  end(): void {
    this.#events.off(this.#listener)
    this.#signal?.removeEventListener('abort', this.#nudge)
  }
}

// Waiting for jobs to finish. One poller serves every waiting call of a client, wakes immediately for jobs that are settled
// in this process, and no call outlives its timeout, whatever the store does.

import { checkId, checkKeys } from '../core/check.js'
import { Contact } from '../core/contact.js'
import type { JobDefinition } from '../core/definition.js'
import { type Duration, durationMs, showMs } from '../core/duration.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import type { JobStore } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import { readResult } from '../core/result.js'
import { isFinished } from '../core/states.js'
import type { Ending } from '../core/views.js'
import { checkSignal } from './enqueue-options.js'
import type { Events } from './events.js'

const POLL_MS_MIN = 25
const POLL_MS_MAX = 500
const POLL_GROWTH = 1.5
/** Ids asked for in one call of the store. */
const ENDINGS_MAX = 1_000
/** Jobs looked up in one round to see whether they exist at all. */
const LOOKUPS_MAX = 16
const WAITS_MAX = 10_000
const TIMEOUT_MS_DEFAULT = 60_000
const TIMEOUT_MS_MAX = 7 * 86_400_000

/** How long and until when to wait. */
export interface WaitOptions {
  /** How long to wait before rejecting with `wait_timeout`. Default '60s', at most '7d'. */
  readonly timeout?: Duration
  /** Stops waiting: the call rejects with `aborted`. The job goes on. */
  readonly signal?: AbortSignal
  /** The job's definition: the result is read by its output schema. Default: the result is given as it is stored. */
  readonly job?: JobDefinition
}

/** Waiting for a job whose definition says what its result is. */
export interface TypedWaitOptions<Result> extends Omit<WaitOptions, 'job'> {
  readonly job: JobDefinition<unknown, unknown, Result, unknown>
}

interface WaitDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly events: Events
}

/** Ends one waiting call, with the job's ending or with why there is none. */
type End = (ending: Ending | HoldfastError) => void

/** The waiting calls of one client. */
export class Waits {
  readonly #deps: WaitDeps
  readonly #contact: Contact
  readonly #ends = new Map<string, Set<End>>()
  /** Ids that may not exist: nobody has looked yet. */
  readonly #unseen = new Set<string>()
  #count = 0
  #isPolling = false
  #isClosed = false
  #isWoken = false
  #wake: (() => void) | null = null
  #pollMs = POLL_MS_MIN

  constructor(deps: WaitDeps) {
    this.#deps = deps
    this.#contact = new Contact({ ports: deps.ports, emit: deps.events.emit }, 'wait')
  }

  /** Resolves with the handler's result; rejects as `Client.wait` says. */
  async wait(id: string, options: WaitOptions = {}): Promise<unknown> {
    checkId('id', id)
    checkKeys('wait', options, ['timeout', 'signal', 'job'])
    const timeoutMs = durationMs(options.timeout ?? TIMEOUT_MS_DEFAULT, { name: 'timeout', maxMs: TIMEOUT_MS_MAX })
    checkSignal(options.signal)
    const { job } = options
    if (job !== undefined && typeof job?.handle !== 'function') {
      throw invalidOption('wait: job must be what defineJob(…) gives', job)
    }
    this.#checkRoom(id)
    const stored = resultOf(await this.#ending(id, timeoutMs, options.signal))
    return job === undefined ? stored : readResult(job, stored)
  }

  /** Ends every waiting call with `closed`. */
  close(): void {
    this.#isClosed = true
    for (const [id, ends] of this.#ends) {
      for (const end of [...ends]) end(closed(id))
    }
  }

  #checkRoom(id: string): void {
    if (this.#isClosed) throw closed(id)
    if (this.#count < WAITS_MAX) return
    throw new HoldfastError(
      'buffer_full',
      `${this.#count} calls already wait for jobs, the limit is ${WAITS_MAX}: retry when some have ended`,
      { retryable: true },
    )
  }

  #ending(id: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<Ending> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw aborted(id)
      const abort = () => end(aborted(id))
      const end: End = (ending) => {
        timer.cancel()
        signal?.removeEventListener('abort', abort)
        this.#remove(id, end)
        if (ending instanceof Error) reject(ending)
        else resolve(ending)
      }
      const timer: Timer = this.#deps.ports.timers.after(timeoutMs, () => end(timedOut(id, timeoutMs)), {
        keepAlive: true,
      })
      signal?.addEventListener('abort', abort, { once: true })
      this.#add(id, end)
    })
  }

  #add(id: string, end: End): void {
    const ends = this.#ends.get(id)
    if (ends === undefined) {
      this.#ends.set(id, new Set([end]))
      this.#unseen.add(id)
    } else ends.add(end)
    this.#count++
    this.#lookNow()
    if (this.#isPolling) return
    this.#isPolling = true
    this.#deps.events.on(this.#listener)
    void this.#poll()
  }

  #remove(id: string, end: End): void {
    const ends = this.#ends.get(id)
    if (!ends?.delete(end)) return
    this.#count--
    if (ends.size > 0) return
    this.#ends.delete(id)
    this.#unseen.delete(id)
    if (this.#ends.size === 0) this.#wake?.()
  }

  readonly #listener = (event: HoldfastEvent): void => {
    if (event.name !== 'job.settled' || !isFinished(event.state)) return
    if (this.#ends.has(event.id)) this.#lookNow()
  }

  #lookNow(): void {
    this.#pollMs = POLL_MS_MIN
    this.#isWoken = true
    this.#wake?.()
  }

  async #poll(): Promise<void> {
    // Calls that were made together are looked up together.
    await new Promise<void>((resolve) => this.#deps.ports.timers.soon(resolve))
    while (this.#ends.size > 0) {
      this.#isWoken = false
      try {
        await this.#look()
        this.#contact.found()
      } catch (error) {
        this.#pollMs = this.#contact.lost(error)
      }
      if (this.#ends.size > 0 && !this.#isWoken) await this.#pause()
    }
    this.#isPolling = false
    this.#deps.events.off(this.#listener)
  }

  async #look(): Promise<void> {
    const ids = [...this.#ends.keys()]
    for (let from = 0; from < ids.length; from += ENDINGS_MAX) {
      for (const ending of await this.#deps.store.endings(ids.slice(from, from + ENDINGS_MAX))) {
        this.#endAll(ending.id, ending)
      }
    }
    await this.#lookForUnseen()
  }

  async #lookForUnseen(): Promise<void> {
    const ids = [...this.#unseen].slice(0, LOOKUPS_MAX)
    const jobs = await Promise.all(ids.map((id) => this.#deps.store.get(id)))
    ids.forEach((id, index) => {
      this.#unseen.delete(id)
      if (jobs[index] === null) this.#endAll(id, notFound(id))
    })
    if (this.#unseen.size > 0) this.#isWoken = true
  }

  #endAll(id: string, ending: Ending | HoldfastError): void {
    for (const end of [...(this.#ends.get(id) ?? [])]) end(ending)
  }

  async #pause(): Promise<void> {
    const pollMs = this.#pollMs
    this.#pollMs = Math.min(POLL_MS_MAX, pollMs * POLL_GROWTH)
    await new Promise<void>((resolve) => {
      const timer = this.#deps.ports.timers.after(pollMs, resolve)
      this.#wake = () => {
        timer.cancel()
        resolve()
      }
    })
    this.#wake = null
  }
}

function resultOf(ending: Ending): unknown {
  if (ending.state === 'succeeded') return ending.result === null ? null : JSON.parse(ending.result)
  const { id, reason, error } = ending
  if (ending.state === 'cancelled')
    throw new HoldfastError('job_cancelled', `job ${id} was cancelled`, { details: { id } })
  const why = error === null ? '' : `: ${error.name}: ${error.message}`
  throw new HoldfastError('job_dead', `job ${id} is dead (${reason})${why}`, { details: { id, reason, error } })
}

function notFound(id: string): HoldfastError {
  return new HoldfastError('job_not_found', `there is no job ${id} to wait for`, { details: { id } })
}

function timedOut(id: string, timeoutMs: number): HoldfastError {
  return new HoldfastError(
    'wait_timeout',
    `job ${id} was not seen to finish within ${showMs(timeoutMs)}: it may still run, look at it with get() or wait longer`,
    { retryable: true, details: { id, timeoutMs } },
  )
}

function aborted(id: string): HoldfastError {
  return new HoldfastError('aborted', `waiting for job ${id} was aborted by its caller; the job goes on`, {
    details: { id },
  })
}

function closed(id: string): HoldfastError {
  return new HoldfastError('closed', `this client is closed: it no longer waits for job ${id}`, { details: { id } })
}

// Group commit: concurrent enqueue calls are written together. While one flush is in flight the next one gathers, so
// nobody waits for a timer, and a call that resolves is as durable as one written by itself.

import { Contact } from '../core/contact.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Enqueued, NewJob } from '../core/job.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import type { Store } from '../core/store.js'
import { aborted, gaveUp } from './store-retry.js'

/** A flush is cut here, so that one statement stays short and its memory bounded. */
const FLUSH_JOBS_MAX = 1_000
const FLUSH_BYTES_MAX = 8 * 1024 * 1024

export interface GroupCommitOptions {
  /** The most calls that may wait at once. */
  readonly bufferJobsMax: number
  /** The most bytes of payload that may wait at once. */
  readonly bufferBytesMax: number
  /** How long a call waits for a store that cannot be reached. */
  readonly timeoutMs: number
}

interface GroupCommitDeps {
  readonly store: Store
  readonly ports: Ports
  readonly emit: Emit
}

/** One call that waits. */
interface Entry {
  readonly job: NewJob
  readonly bytes: number
  readonly deadlineMs: number
  /** True once it was part of a flush, after which nobody but the store knows whether it was written. */
  isSent: boolean
  /** Answers the call, once; later answers find it done. */
  end: ((result: Enqueued | Error) => void) | null
}

/** Gathers jobs and writes them in groups. */
export class GroupCommit {
  readonly #deps: GroupCommitDeps
  readonly #options: GroupCommitOptions
  readonly #contact: Contact
  #gathered: Entry[] = []
  #inFlight: Entry[] = []
  #waitingJobs = 0
  #waitingBytes = 0
  #isRunning = false
  #isClosed = false
  #deadline: Timer | null = null
  #lastError: unknown = null
  readonly #whenIdle: (() => void)[] = []

  constructor(deps: GroupCommitDeps, options: GroupCommitOptions) {
    this.#deps = deps
    this.#options = options
    this.#contact = new Contact(deps, 'enqueue')
  }

  /**
   * Resolves when the job is durable. Rejects with `buffer_full` or `closed` at once, with `aborted` when the signal
   * fires, with `store_unavailable` after the timeout, and with what the store says about this job alone.
   */
  enqueue(job: NewJob, signal?: AbortSignal): Promise<Enqueued> {
    const bytes = Buffer.byteLength(job.payload)
    return new Promise((resolve, reject) => {
      this.#checkRoom(bytes)
      if (signal?.aborted) throw aborted([job], 'no')
      const entry: Entry = { job, bytes, deadlineMs: this.#nowMs() + this.#options.timeoutMs, isSent: false, end: null }
      entry.end = (result) => {
        entry.end = null
        this.#leave(bytes)
        if (result instanceof Error) reject(result)
        else resolve(result)
      }
      if (signal !== undefined) endOnAbort(entry, signal)
      this.#join(entry)
    })
  }

  /** Refuses new calls and resolves when those that wait have been answered. */
  close(): Promise<void> {
    this.#isClosed = true
    if (!this.#isRunning) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  #checkRoom(bytes: number): void {
    if (this.#isClosed) throw new HoldfastError('closed', 'this client is closed: nothing was enqueued')
    const { bufferJobsMax, bufferBytesMax } = this.#options
    const isFull = this.#waitingJobs >= bufferJobsMax || this.#waitingBytes + bytes > bufferBytesMax
    if (!isFull || this.#waitingJobs === 0) return
    throw new HoldfastError(
      'buffer_full',
      `${this.#waitingJobs} jobs (${this.#waitingBytes} bytes) already wait to be written, the limits are ${bufferJobsMax} and ${bufferBytesMax}: nothing was enqueued, retry when earlier calls have been answered, or enqueue less at once`,
      { retryable: true, details: { waiting: this.#waitingJobs, bytes: this.#waitingBytes } },
    )
  }

  #join(entry: Entry): void {
    // Aborted calls leave a gap behind; without this they would pile up while the store is away.
    if (this.#gathered.length > 2 * this.#waitingJobs + FLUSH_JOBS_MAX) this.#dropEnded()
    this.#gathered.push(entry)
    this.#waitingJobs++
    this.#waitingBytes += entry.bytes
    this.#deadline ??= this.#watchDeadline(this.#options.timeoutMs)
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#run()
  }

  #leave(bytes: number): void {
    this.#waitingJobs--
    this.#waitingBytes -= bytes
    if (this.#waitingJobs > 0) return
    this.#deadline?.cancel()
    this.#deadline = null
  }

  async #run(): Promise<void> {
    while (this.#gathered.length > 0) {
      // Callers that were answered together ask again together: a turn of the loop lets all of them into one flush.
      await new Promise<void>((resolve) => this.#deps.ports.timers.soon(resolve))
      this.#inFlight = this.#take()
      await this.#flush(this.#inFlight)
      this.#inFlight = []
    }
    this.#isRunning = false
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** The longest-waiting calls that fit into one flush; at least one. */
  #take(): Entry[] {
    let bytes = 0
    let count = 0
    for (const entry of this.#gathered) {
      bytes += entry.bytes
      if (count === FLUSH_JOBS_MAX || (count > 0 && bytes > FLUSH_BYTES_MAX)) break
      count++
    }
    const taken = this.#gathered.slice(0, count)
    this.#gathered = this.#gathered.slice(count)
    return taken
  }

  /** Writes a group and answers its calls. Never raises. */
  async #flush(group: readonly Entry[]): Promise<void> {
    for (;;) {
      const open = group.filter((entry) => entry.end !== null)
      if (open.length === 0) return
      try {
        await this.#write(open)
        return
      } catch (error) {
        if (!isHoldfastError(error) || !error.retryable) return this.#refuse(open, error as Error)
        this.#lastError = error
        await sleep(this.#deps.ports.timers, this.#contact.lost(error))
      }
    }
  }

  async #write(open: readonly Entry[]): Promise<void> {
    const startedMs = this.#nowMs()
    for (const entry of open) entry.isSent = true
    const answers = await this.#deps.store.enqueue(open.map((entry) => entry.job))
    this.#lastError = null
    this.#contact.found()
    open.forEach((entry, index) => {
      entry.end?.(answers[index]!)
    })
    this.#deps.emit({ name: 'job.enqueued', count: open.length, tookMs: this.#nowMs() - startedMs })
  }

  /** The store wrote none of them. Cut in halves until the job it minds is alone, so that its neighbours are unharmed. */
  async #refuse(open: readonly Entry[], error: Error): Promise<void> {
    if (open.length === 1 || !isHoldfastError(error, 'store_refused')) {
      for (const entry of open) entry.end?.(error)
      return
    }
    const middle = Math.ceil(open.length / 2)
    await this.#flush(open.slice(0, middle))
    await this.#flush(open.slice(middle))
  }

  // One timer for all: calls join in the order of their deadlines.
  #watchDeadline(ms: number): Timer {
    return this.#deps.ports.timers.after(ms, () => this.#endOverdue(), { keepAlive: true })
  }

  #endOverdue(): void {
    this.#deadline = null
    const nowMs = this.#nowMs()
    let nextMs: number | null = null
    for (const entry of [...this.#inFlight, ...this.#gathered]) {
      if (entry.end === null) continue
      if (entry.deadlineMs <= nowMs) {
        const written = entry.isSent ? 'unknown' : 'no'
        entry.end(gaveUp([entry.job], written, this.#options.timeoutMs, this.#lastError))
      } else nextMs ??= entry.deadlineMs - nowMs
    }
    this.#dropEnded()
    if (nextMs !== null) this.#deadline = this.#watchDeadline(nextMs)
  }

  #dropEnded(): void {
    this.#gathered = this.#gathered.filter((entry) => entry.end !== null)
  }

  #nowMs(): number {
    return this.#deps.ports.clock.monotonic()
  }
}

function endOnAbort(entry: Entry, signal: AbortSignal): void {
  const end = entry.end!
  const abort = () => entry.end?.(aborted([entry.job], entry.isSent ? 'unknown' : 'no'))
  signal.addEventListener('abort', abort, { once: true })
  entry.end = (result) => {
    signal.removeEventListener('abort', abort)
    end(result)
  }
}

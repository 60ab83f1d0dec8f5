// Group commit: concurrent enqueue calls are written together. While one flush is in flight the next one gathers, so no call waits for
// a timer, and a call that resolves is as durable as one written alone. The jobs of one call are always in one flush.
// ◄── client.ts · next: ../core/job-store.ts

import { Contact } from '../core/contact.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'
import type { LocalWorkers } from '../core/reserve.js'
import { CallLimits } from './call-limits.js'
import { aborted, gaveUp } from './enqueue-errors.js'
import { countFitting, readyFirst } from './flush.js'

/** Calls that have ended are dropped once they outnumber those that wait by this many. */
const ENDED_MAX = 1_000
// From this many calls on: callers that resolve together call again together, and two half-batches keep client and server busy.
const HALVE_FROM = 16
/** This long after the last answer, a new call comes from a new caller, and not from one that was just answered. */
const QUIET_MS = 5
/** How often a call in doubt is looked at. */
const LOOK_AGAIN_MS = 20

export interface GroupCommitOptions {
  /** The most jobs that may wait. */
  readonly bufferJobsMax: number
  /** The most bytes of payload that may wait. */
  readonly bufferBytesMax: number
  /** How long a call waits for a store that cannot be reached. */
  readonly timeoutMs: number
}

export interface GroupCommitDeps<Result> {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  /** What a call resolves with; what this throws it rejects with. */
  accept(jobs: readonly NewJob[], answers: readonly Enqueued[]): Result | PromiseLike<Result>
  readonly workers: LocalWorkers
}

/** One call that waits. */
export interface Call<Result> {
  /** One job, or those of an enqueueMany, which are written together or not at all. */
  readonly jobs: readonly NewJob[]
  readonly bytes: number
  readonly deadlineMs: number
  /** True once it was part of a flush: from then on only the store knows whether it was written. */
  isSent: boolean
  isEnded: boolean
  /** The job of it whose key it waits for, see keyed-group-commit.ts. */
  held: NewJob | null
  onEnd: (() => void) | null
  readonly resolve: (result: Result | PromiseLike<Result>) => void
  readonly reject: (error: Error) => void
}

/** Gathers calls and writes their jobs in groups. */
export class GroupCommit<Result> {
  protected readonly deps: GroupCommitDeps<Result>
  readonly #options: GroupCommitOptions
  readonly #contact: Contact
  #gathered: Call<Result>[] = []
  readonly #inFlight = new Set<readonly Call<Result>[]>()
  #lastCount = 0
  #answeredAtMs = Number.NEGATIVE_INFINITY
  readonly #limits: CallLimits
  #isScheduled = false
  #isClosed = false
  #lastError: unknown = null
  readonly #whenIdle: (() => void)[] = []

  constructor(deps: GroupCommitDeps<Result>, options: GroupCommitOptions) {
    this.deps = deps
    this.#options = options
    this.#contact = new Contact(deps, 'enqueue')
    this.#limits = new CallLimits(options, deps.ports, () => this.#endOverdue())
  }

  /**
   * Resolves when the jobs are durable, all of them or none. Rejects with `buffer_full` or `closed` immediately, with `aborted` when
   * the signal fires, with `store_unavailable` after the timeout, and with what the store raises about these jobs alone.
   */
  enqueue(jobs: readonly NewJob[], signal?: AbortSignal): Promise<Result> {
    let bytes = 0
    for (const { payload } of jobs) bytes += Buffer.byteLength(payload)
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new HoldfastError('closed', 'this client is closed: nothing was enqueued')
      this.#limits.checkRoom(bytes)
      if (signal?.aborted) throw aborted(jobs, 'no')
      const deadlineMs = this.#nowMs() + this.#options.timeoutMs
      const call: Call<Result> = {
        jobs,
        bytes,
        deadlineMs,
        isSent: false,
        isEnded: false,
        held: null,
        onEnd: null,
        resolve,
        reject,
      }
      if (signal !== undefined) this.#endOnAbort(call, signal)
      this.#join(call)
    })
  }

  /** Refuses new calls and resolves when those that wait have been answered. */
  close(): Promise<void> {
    this.#isClosed = true
    if (this.isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  protected get isIdle(): boolean {
    return this.#inFlight.size === 0 && this.#gathered.length === 0
  }

  #endOnAbort(call: Call<Result>, signal: AbortSignal): void {
    const abort = () => this.end(call, aborted(call.jobs, call.isSent ? 'unknown' : 'no'))
    signal.addEventListener('abort', abort, { once: true })
    call.onEnd = () => signal.removeEventListener('abort', abort)
  }

  #join(call: Call<Result>): void {
    // Aborted calls stay in the list; without this they would pile up while the store is away.
    if (this.#gathered.length > 2 * this.#limits.jobs + ENDED_MAX) this.#dropEnded()
    this.#limits.joined(call)
    this.gather(call)
    this.schedule()
  }

  protected gather(call: Call<Result>): void {
    this.#gathered.push(call)
  }

  // A turn of the event loop lets all callers that were just answered into the same flush. A call after a quiet moment goes as soon as
  // those of the same turn have joined it.
  protected schedule(): void {
    if (this.#isScheduled || this.#gathered.length === 0) return
    if (this.#inFlight.size >= this.#flushesMax()) return
    this.#isScheduled = true
    const flush = () => {
      const wait = this.deps.workers.claimInFlight()
      if (wait === null) this.#start()
      else void wait.then(() => this.#start())
    }
    const isQuiet = this.#inFlight.size === 0 && this.#nowMs() - this.#answeredAtMs > QUIET_MS
    if (isQuiet) void Promise.resolve().then(flush)
    else this.deps.ports.timers.soon(flush)
  }

  // A second flush beside the first only for many calls or a large one, and only while the store answers. A worker in this process uses
  // the server meanwhile, so two flushes would only be smaller ones.
  #flushesMax(): number {
    const isFew = this.#gathered.length < HALVE_FROM && this.#gathered.every(({ jobs }) => jobs.length < HALVE_FROM)
    return isFew || this.#contact.isLost || this.deps.workers.isWorking() ? 1 : 2
  }

  #start(): void {
    this.#isScheduled = false
    void this.#run(this.#take())
    this.schedule()
  }

  async #run(group: readonly Call<Result>[]): Promise<void> {
    this.#inFlight.add(group)
    await this.#flush(group)
    this.#inFlight.delete(group)
    this.#answeredAtMs = this.#nowMs()
    this.schedule()
    this.reportIdle()
  }

  protected reportIdle(): void {
    if (this.isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** The longest-waiting calls that fit into one flush; at least one, unless all have ended meanwhile. */
  #take(): readonly Call<Result>[] {
    const waiting = this.#gathered.length
    // About as many as in the last flush: the same callers again.
    const isSame = waiting >= 2 * HALVE_FROM && Math.abs(waiting - this.#lastCount) * 4 <= waiting
    const isHalved = isSame && this.#inFlight.size === 0 && !this.deps.workers.isWorking()
    const count = countFitting(this.#gathered, isHalved ? waiting >> 1 : waiting)
    this.#lastCount = isHalved ? waiting : count
    const taken = this.#gathered.slice(0, count)
    this.#gathered = this.#gathered.slice(count)
    return taken
  }

  /** Writes a group and answers its calls. Never raises. */
  async #flush(group: readonly Call<Result>[]): Promise<void> {
    for (;;) {
      const open = group.filter((call) => !call.isEnded && call.held === null)
      if (open.length === 0) return
      try {
        await this.write(open)
        return
      } catch (error) {
        if (this.holdBack(open, error)) continue
        if (!isHoldfastError(error) || !error.retryable) return this.#refuse(open, error as Error)
        this.#lastError = error
        await sleep(this.deps.ports.timers, this.#contact.lost(error))
      }
    }
  }

  /** Whether some of the calls were taken out because of this failure, so that the others can be sent again immediately. */
  protected holdBack(_open: readonly Call<Result>[], _error: unknown): boolean {
    return false
  }

  /** Writes calls in one transaction and answers them. Raises what the store raises. */
  protected async write(calls: readonly Call<Result>[]): Promise<void> {
    const startedMs = this.#nowMs()
    const open = readyFirst(calls)
    const jobs = open.flatMap((call) => call.jobs)
    const wereHeld = open.flatMap(({ held }) => held ?? [])
    const unsent = open.filter((call) => !call.isSent)
    // What was sent before may have been written, and claimed, already.
    const reservation = unsent.length < open.length ? null : this.deps.workers.reserve(jobs)
    for (const call of unsent) call.isSent = true
    let answers: readonly Enqueued[]
    try {
      answers = await this.deps.store.enqueue(jobs, {
        wereHeld,
        ...(reservation === null ? {} : { claim: reservation.claim }),
      })
    } catch (error) {
      reservation?.failed()
      if (this.isUnwritten(error)) for (const call of unsent) call.isSent = false
      throw error
    }
    this.#lastError = null
    this.#contact.found()
    let at = 0
    for (const call of open) {
      this.end(call, answers.slice(at, at + call.jobs.length))
      at += call.jobs.length
    }
    reservation?.claimed(answers.flatMap((answer) => ('claimed' in answer ? (answer.claimed ?? []) : [])))
    this.deps.emit({ name: 'job.enqueued', count: jobs.length, tookMs: this.#nowMs() - startedMs })
  }

  /** Whether a failure of the store proves that nothing was written. */
  protected isUnwritten(_error: unknown): boolean {
    return false
  }

  /** The store refused the group and wrote none of it. Halves it until the refused job is alone, so that its neighbours are written. */
  async #refuse(open: readonly Call<Result>[], error: Error): Promise<void> {
    if (open.length === 1 || !isHoldfastError(error, 'store_refused')) {
      for (const call of open) this.end(call, error)
      return
    }
    const middle = Math.ceil(open.length / 2)
    await this.#flush(open.slice(0, middle))
    await this.#flush(open.slice(middle))
  }

  /** Answers a call. Does nothing for one that was answered before. */
  protected end(call: Call<Result>, answer: readonly Enqueued[] | Error): void {
    if (call.isEnded) return
    call.isEnded = true
    call.onEnd?.()
    this.#limits.left(call)
    if (answer instanceof Error) {
      call.reject(answer)
      return
    }
    try {
      call.resolve(this.deps.accept(call.jobs, answer))
    } catch (error) {
      call.reject(error as Error)
    }
  }

  /** Ends the calls whose time is over. Returns how long until it must look again; null when no call waits. */
  #endOverdue(): number | null {
    const nowMs = this.#nowMs()
    let nextMs: number | null = null
    for (const call of this.waiting()) {
      if (call.isEnded) continue
      const leftMs = call.deadlineMs - nowMs
      if (leftMs > -this.patienceMs(call)) {
        nextMs = Math.min(nextMs ?? Number.POSITIVE_INFINITY, leftMs > 0 ? leftMs : LOOK_AGAIN_MS)
        continue
      }
      const written = call.isSent ? 'unknown' : 'no'
      this.end(call, gaveUp(call.jobs, written, this.#options.timeoutMs, this.causeOf(call)))
    }
    this.#dropEnded()
    return nextMs
  }

  /** Every call that has no answer. */
  protected waiting(): Call<Result>[] {
    return [...[...this.#inFlight].flat(), ...this.#gathered]
  }

  /** How long after its deadline a call is left without an answer. */
  protected patienceMs(_call: Call<Result>): number {
    return 0
  }

  /** Why a call has no answer. */
  protected causeOf(_call: Call<Result>): unknown {
    return this.#lastError
  }

  /** Gathers every call again that no flush has taken. */
  protected regather(): void {
    for (const call of this.#gathered.splice(0)) if (!call.isEnded) this.gather(call)
  }

  #dropEnded(): void {
    this.#gathered = this.#gathered.filter((call) => !call.isEnded)
  }

  #nowMs(): number {
    return this.deps.ports.clock.monotonic()
  }
}

// Group commit: concurrent enqueue calls are written together. While one flush is in flight the next one gathers, so
// nobody waits for a timer, and a call that resolves is as durable as one written by itself.

import { Contact } from '../core/contact.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { ClaimedJob, Enqueued, NewJob } from '../core/job.js'
import { isPlain, type LocalWorkers } from '../core/offer.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import type { Store } from '../core/store.js'
import { aborted, gaveUp } from './store-retry.js'

/** A flush is cut here, so that one statement stays short and its memory bounded. */
const FLUSH_JOBS_MAX = 1_000
const FLUSH_BYTES_MAX = 8 * 1024 * 1024
// Callers that are answered together ask again together, and then the store is idle while this process makes their jobs
// ready, and this process while the store writes them. From this many calls on they are kept in two halves that take turns.
const HALVE_FROM = 16
// Plain jobs are written by a statement of their own that costs half as much. A few others among many must not keep them from it.
const APART_FROM = 32
/** Nobody has been answered for so long: whoever asks now did not wait for that. */
const QUIET_MS = 5

export interface GroupCommitOptions {
  /** The most calls that may wait at once. */
  readonly bufferJobsMax: number
  /** The most bytes of payload that may wait at once. */
  readonly bufferBytesMax: number
  /** How long a call waits for a store that cannot be reached. */
  readonly timeoutMs: number
}

interface GroupCommitDeps<Result> {
  readonly store: Store
  readonly ports: Ports
  readonly emit: Emit
  /** What a call resolves with; what this throws it rejects with. */
  accept(job: NewJob, answer: Enqueued): Result
  readonly workers: LocalWorkers
}

/** One call that waits. */
class Call<Result> {
  readonly job: NewJob
  readonly bytes: number
  readonly deadlineMs: number
  /** True once it was part of a flush, after which nobody but the store knows whether it was written. */
  isSent = false
  isEnded = false
  onEnd: (() => void) | null = null
  readonly resolve: (result: Result) => void
  readonly reject: (error: Error) => void

  constructor(
    job: NewJob,
    { bytes, deadlineMs }: { readonly bytes: number; readonly deadlineMs: number },
    resolve: (result: Result) => void,
    reject: (error: Error) => void,
  ) {
    this.job = job
    this.bytes = bytes
    this.deadlineMs = deadlineMs
    this.resolve = resolve
    this.reject = reject
  }
}

/** Gathers jobs and writes them in groups. */
export class GroupCommit<Result> {
  readonly #deps: GroupCommitDeps<Result>
  readonly #options: GroupCommitOptions
  readonly #contact: Contact
  #gathered: Call<Result>[] = []
  readonly #inFlight = new Set<readonly Call<Result>[]>()
  #lastCount = 0
  #answeredAtMs = Number.NEGATIVE_INFINITY
  #waitingJobs = 0
  #waitingBytes = 0
  #isScheduled = false
  #isClosed = false
  #deadline: Timer | null = null
  #lastError: unknown = null
  readonly #whenIdle: (() => void)[] = []

  constructor(deps: GroupCommitDeps<Result>, options: GroupCommitOptions) {
    this.#deps = deps
    this.#options = options
    this.#contact = new Contact(deps, 'enqueue')
  }

  /**
   * Resolves when the job is durable. Rejects with `buffer_full` or `closed` at once, with `aborted` when the signal
   * fires, with `store_unavailable` after the timeout, and with what the store says about this job alone.
   */
  enqueue(job: NewJob, signal?: AbortSignal): Promise<Result> {
    const bytes = Buffer.byteLength(job.payload)
    return new Promise((resolve, reject) => {
      this.#checkRoom(bytes)
      if (signal?.aborted) throw aborted([job], 'no')
      const deadlineMs = this.#nowMs() + this.#options.timeoutMs
      const call = new Call(job, { bytes, deadlineMs }, resolve, reject)
      if (signal !== undefined) this.#endOnAbort(call, signal)
      this.#join(call)
    })
  }

  #endOnAbort(call: Call<Result>, signal: AbortSignal): void {
    const abort = () => this.#end(call, aborted([call.job], call.isSent ? 'unknown' : 'no'))
    signal.addEventListener('abort', abort, { once: true })
    call.onEnd = () => signal.removeEventListener('abort', abort)
  }

  /** Refuses new calls and resolves when those that wait have been answered. */
  close(): Promise<void> {
    this.#isClosed = true
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  get #isIdle(): boolean {
    return this.#inFlight.size === 0 && this.#gathered.length === 0
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

  #join(call: Call<Result>): void {
    // Aborted calls leave a gap behind; without this they would pile up while the store is away.
    if (this.#gathered.length > 2 * this.#waitingJobs + FLUSH_JOBS_MAX) this.#dropEnded()
    this.#gathered.push(call)
    this.#waitingJobs++
    this.#waitingBytes += call.bytes
    this.#deadline ??= this.#watchDeadline(this.#options.timeoutMs)
    this.#schedule()
  }

  /** Answers a call, once; later answers find it done. */
  #end(call: Call<Result>, answer: Enqueued | Error): void {
    if (call.isEnded) return
    call.isEnded = true
    call.onEnd?.()
    this.#leave(call.bytes)
    if (answer instanceof Error) {
      call.reject(answer)
      return
    }
    try {
      call.resolve(this.#deps.accept(call.job, answer))
    } catch (error) {
      call.reject(error as Error)
    }
  }

  #leave(bytes: number): void {
    this.#waitingJobs--
    this.#waitingBytes -= bytes
    if (this.#waitingJobs > 0) return
    this.#deadline?.cancel()
    this.#deadline = null
  }

  // A turn of the event loop lets everybody who asks again at the same time into the same flush. A call that comes after a
  // quiet moment is nobody's answer, and goes as soon as those made in the same breath have joined it.
  #schedule(): void {
    if (this.#isScheduled || this.#gathered.length === 0) return
    if (this.#inFlight.size >= this.#flushesMax()) return
    this.#isScheduled = true
    const flush = () => {
      const wait = this.#deps.workers.soonIdle()
      if (wait === null) this.#start()
      else void wait.then(() => this.#start())
    }
    const isQuiet = this.#inFlight.size === 0 && this.#nowMs() - this.#answeredAtMs > QUIET_MS
    if (isQuiet) void Promise.resolve().then(flush)
    else this.#deps.ports.timers.soon(flush)
  }

  // A second flush beside the first only for many calls, and not to a store in trouble. A worker in this process fills the
  // gaps anyway, and two flushes would only be smaller ones.
  #flushesMax(): number {
    const isOne = this.#gathered.length < HALVE_FROM || this.#contact.isLost || this.#deps.workers.isWorking()
    return isOne ? 1 : 2
  }

  #start(): void {
    this.#isScheduled = false
    void this.#run(this.#take())
    this.#schedule()
  }

  async #run(group: readonly Call<Result>[]): Promise<void> {
    this.#inFlight.add(group)
    await Promise.all(apart(group).map((part) => this.#flush(part)))
    this.#inFlight.delete(group)
    this.#answeredAtMs = this.#nowMs()
    this.#schedule()
    if (this.#isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** The longest-waiting calls that fit into one flush; at least one, unless all have ended meanwhile. */
  #take(): readonly Call<Result>[] {
    const waiting = this.#gathered.length
    // As many as went together the last time: the same callers, in step.
    const isInStep = waiting >= 2 * HALVE_FROM && Math.abs(waiting - this.#lastCount) * 4 <= waiting
    const isHalved = isInStep && this.#inFlight.size === 0 && !this.#deps.workers.isWorking()
    const most = Math.min(FLUSH_JOBS_MAX, isHalved ? waiting >> 1 : waiting)
    let bytes = 0
    let count = 0
    while (count < most) {
      bytes += this.#gathered[count]!.bytes
      if (count > 0 && bytes > FLUSH_BYTES_MAX) break
      count++
    }
    this.#lastCount = isHalved ? waiting : count
    const taken = this.#gathered.slice(0, count)
    this.#gathered = this.#gathered.slice(count)
    return taken
  }

  /** Writes a group and answers its calls. Never raises. */
  async #flush(group: readonly Call<Result>[]): Promise<void> {
    for (;;) {
      const open = group.filter((call) => !call.isEnded)
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

  async #write(open: readonly Call<Result>[]): Promise<void> {
    const startedMs = this.#nowMs()
    const jobs = open.map((call) => call.job)
    // What was sent before may have been written, and claimed, already.
    const offer = open.some((call) => call.isSent) ? null : this.#deps.workers.offer(jobs)
    for (const call of open) call.isSent = true
    let answers: readonly Enqueued[]
    try {
      answers = await this.#deps.store.enqueue(jobs, offer === null ? {} : { claim: offer.claim })
    } catch (error) {
      offer?.failed()
      throw error
    }
    this.#lastError = null
    this.#contact.found()
    for (let index = 0; index < open.length; index++) this.#end(open[index]!, answers[index]!)
    offer?.claimed(claimedOf(answers))
    this.#deps.emit({ name: 'job.enqueued', count: open.length, tookMs: this.#nowMs() - startedMs })
  }

  /** The store wrote none of them. Cut in halves until the job it minds is alone, so that its neighbours are unharmed. */
  async #refuse(open: readonly Call<Result>[], error: Error): Promise<void> {
    if (open.length === 1 || !isHoldfastError(error, 'store_refused')) {
      for (const call of open) this.#end(call, error)
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
    for (const call of [...[...this.#inFlight].flat(), ...this.#gathered]) {
      if (call.isEnded) continue
      if (call.deadlineMs <= nowMs) {
        const written = call.isSent ? 'unknown' : 'no'
        this.#end(call, gaveUp([call.job], written, this.#options.timeoutMs, this.#lastError))
      } else nextMs ??= call.deadlineMs - nowMs
    }
    this.#dropEnded()
    if (nextMs !== null) this.#deadline = this.#watchDeadline(nextMs)
  }

  #dropEnded(): void {
    this.#gathered = this.#gathered.filter((call) => !call.isEnded)
  }

  #nowMs(): number {
    return this.#deps.ports.clock.monotonic()
  }
}

/** The group in the parts that are written each by itself. */
function apart<Result>(group: readonly Call<Result>[]): readonly (readonly Call<Result>[])[] {
  const plain = group.filter(({ job }) => isPlain(job))
  if (plain.length === group.length || plain.length < APART_FROM) return [group]
  return [plain, group.filter(({ job }) => !isPlain(job))]
}

function claimedOf(answers: readonly Enqueued[]): ClaimedJob[] {
  const claimed: ClaimedJob[] = []
  for (const answer of answers) if ('claimed' in answer && answer.claimed !== undefined) claimed.push(answer.claimed)
  return claimed
}

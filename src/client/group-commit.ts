// Group commit: concurrent enqueue calls are written together. While one flush is in flight the next one gathers, so
// nobody waits for a timer, and a call that resolves is as durable as one written by itself. The jobs of one call, which are
// several for enqueueMany, are in the same flush.

import { Contact } from '../core/contact.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { heldIn, heldKeys } from '../core/held-keys.js'
import type { ClaimedJob, Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { isPlain, type LocalWorkers } from '../core/offer.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import { HeldCalls } from './held-calls.js'
import { aborted, gaveUp } from './store-retry.js'
import { Call, FlushRoom } from './waiting-call.js'

/** Calls that have ended are dropped once there are so many more of them than of those that wait. */
const ENDED_MAX = 1_000
// Callers that are answered together ask again together, and then the store is idle while this process makes their jobs
// ready, and this process while the store writes them. From this many calls on they are kept in two halves that take turns.
const HALVE_FROM = 16
// Plain jobs are written by a statement of their own that costs half as much. A few others among many must not keep them from it.
const APART_FROM = 32
/** Nobody has been answered for so long: whoever asks now did not wait for that. */
const QUIET_MS = 5
/** How long after its deadline a call that is asking for a held key is left in doubt, and how often it is looked at. */
const ASKING_MS = 500
const LOOK_AGAIN_MS = 20

export interface GroupCommitOptions {
  /** The most jobs that may wait. */
  readonly bufferJobsMax: number
  /** The most bytes of payload that may wait. */
  readonly bufferBytesMax: number
  /** The most jobs that may wait for held keys, and the most bytes of payload. */
  readonly heldJobsMax: number
  readonly heldBytesMax: number
  /** How long a call waits for a store that cannot be reached. */
  readonly timeoutMs: number
}

interface GroupCommitDeps<Result> {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  /** What a call resolves with; what this throws it rejects with. */
  accept(jobs: readonly NewJob[], answers: readonly Enqueued[]): Result
  readonly workers: LocalWorkers
}

/** Gathers jobs and writes them in groups. */
export class GroupCommit<Result> {
  readonly #deps: GroupCommitDeps<Result>
  readonly #options: GroupCommitOptions
  readonly #contact: Contact
  #gathered: Call<Result>[] = []
  readonly #inFlight = new Set<readonly Call<Result>[]>()
  readonly #held: HeldCalls<Call<Result>>
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
    this.#held = new HeldCalls({
      ports: deps.ports,
      jobsMax: options.heldJobsMax,
      bytesMax: options.heldBytesMax,
      write: (calls) => this.#write(calls),
      giveBack: (calls) => this.#giveBack(calls),
      onEmpty: () => this.#tellIdle(),
    })
  }

  /**
   * Resolves when the jobs are durable, all of them or none. Rejects with `buffer_full` or `closed` immediately, with `aborted` when
   * the signal fires, with `store_unavailable` after the timeout, and with what the store says about these jobs alone.
   */
  enqueue(jobs: readonly NewJob[], signal?: AbortSignal): Promise<Result> {
    let bytes = 0
    for (const { payload } of jobs) bytes += Buffer.byteLength(payload)
    return new Promise((resolve, reject) => {
      this.#checkRoom(bytes)
      if (signal?.aborted) throw aborted(jobs, 'no')
      const deadlineMs = this.#nowMs() + this.#options.timeoutMs
      const call = new Call(jobs, { bytes, deadlineMs }, resolve, reject)
      if (signal !== undefined) this.#endOnAbort(call, signal)
      this.#join(call)
    })
  }

  #endOnAbort(call: Call<Result>, signal: AbortSignal): void {
    const abort = () => this.#end(call, aborted(call.jobs, call.isSent ? 'unknown' : 'no'))
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
    return this.#inFlight.size === 0 && this.#gathered.length === 0 && this.#held.isEmpty
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
    if (this.#gathered.length > 2 * this.#waitingJobs + ENDED_MAX) this.#dropEnded()
    this.#waitingJobs += call.jobs.length
    this.#waitingBytes += call.bytes
    this.#deadline ??= this.#watchDeadline(this.#options.timeoutMs)
    this.#gather(call)
    this.#schedule()
  }

  #gather(call: Call<Result>): void {
    const held = this.#held.find(call.jobs)
    if (held === null) this.#gathered.push(call)
    else this.#hold(call, held)
  }

  /** Has a call wait apart, for the key of this job of it. */
  #hold(call: Call<Result>, job: NewJob): void {
    const refusal = this.#held.add(call, job)
    if (refusal !== null) this.#end(call, refusal)
  }

  #giveBack(calls: readonly Call<Result>[]): void {
    for (const call of calls) this.#gather(call)
    this.#schedule()
  }

  /** Answers a call, once; later answers find it done. */
  #end(call: Call<Result>, answer: readonly Enqueued[] | Error): void {
    if (call.isEnded) return
    call.isEnded = true
    call.onEnd?.()
    this.#held.leave(call)
    this.#leave(call)
    if (answer instanceof Error) {
      call.reject(answer)
      return
    }
    try {
      call.resolve(this.#deps.accept(call.jobs, answer))
    } catch (error) {
      call.reject(error as Error)
    }
  }

  #leave({ jobs, bytes }: Call<Result>): void {
    this.#waitingJobs -= jobs.length
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

  // A second flush beside the first only for many calls or a large one, and not to a store in trouble. A worker in this process fills the
  // gaps anyway, and two flushes would only be smaller ones.
  #flushesMax(): number {
    const isFew = this.#gathered.length < HALVE_FROM && this.#gathered.every(({ jobs }) => jobs.length < HALVE_FROM)
    return isFew || this.#contact.isLost || this.#deps.workers.isWorking() ? 1 : 2
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
    this.#tellIdle()
  }

  #tellIdle(): void {
    if (this.#isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** The longest-waiting calls that fit into one flush; at least one, unless all have ended meanwhile. */
  #take(): readonly Call<Result>[] {
    const waiting = this.#gathered.length
    // As many as went together the last time: the same callers, in step.
    const isInStep = waiting >= 2 * HALVE_FROM && Math.abs(waiting - this.#lastCount) * 4 <= waiting
    const isHalved = isInStep && this.#inFlight.size === 0 && !this.#deps.workers.isWorking()
    const most = isHalved ? waiting >> 1 : waiting
    const room = new FlushRoom()
    let count = 0
    while (count < most && room.takes(this.#gathered[count]!)) count++
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
        await this.#write(open)
        return
      } catch (error) {
        if (this.#holdSome(open, error)) continue
        if (!isHoldfastError(error) || !error.retryable) return this.#refuse(open, error as Error)
        this.#lastError = error
        await sleep(this.#deps.ports.timers, this.#contact.lost(error))
      }
    }
  }

  /** Whether the failure was about keys that are held. Their calls wait apart; the others can go immediately. Where so many are
   *  held that not all were looked at, the others of the same queues wait there too, for a moment: nobody else is to wait for that. */
  #holdSome(open: readonly Call<Result>[], error: unknown): boolean {
    const found = heldIn(error)
    if (found === null) return false
    const isHeld = ({ id }: NewJob) => found.ids.has(id)
    const heldJobs = open.flatMap(({ jobs }) => jobs.filter(isHeld))
    const queues = new Set(found.areAll ? [] : heldJobs.map(({ queue }) => queue))
    const isUnsure = ({ queue, idempotencyKey }: NewJob) => idempotencyKey !== null && queues.has(queue)
    for (const call of open) {
      const held = call.jobs.find(isHeld) ?? call.jobs.find(isUnsure)
      if (held !== undefined) this.#hold(call, held)
    }
    // Calls that have gathered meanwhile may name the same keys.
    for (const call of this.#gathered.splice(0)) if (!call.isEnded) this.#gather(call)
    return heldJobs.length > 0
  }

  async #write(open: readonly Call<Result>[]): Promise<void> {
    const startedMs = this.#nowMs()
    const jobs = jobsOf(open)
    const wereHeld = open.flatMap(({ held }) => held ?? [])
    const unsent = open.filter((call) => !call.isSent)
    // What was sent before may have been written, and claimed, already.
    const offer = unsent.length < open.length ? null : this.#deps.workers.offer(jobs)
    for (const call of unsent) call.isSent = true
    let answers: readonly Enqueued[]
    try {
      answers = await this.#deps.store.enqueue(jobs, { wereHeld, ...(offer === null ? {} : { claim: offer.claim }) })
    } catch (error) {
      offer?.failed()
      if (heldIn(error) !== null) for (const call of unsent) call.isSent = false
      throw error
    }
    this.#lastError = null
    this.#contact.found()
    let at = 0
    for (const call of open) {
      this.#end(call, answers.slice(at, at + call.jobs.length))
      at += call.jobs.length
    }
    offer?.claimed(claimedOf(answers))
    this.#deps.emit({ name: 'job.enqueued', count: jobs.length, tookMs: this.#nowMs() - startedMs })
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

  // One timer for all, for the first deadline of those that wait.
  #watchDeadline(ms: number): Timer {
    return this.#deps.ports.timers.after(ms, () => this.#endOverdue(), { keepAlive: true })
  }

  #endOverdue(): void {
    this.#deadline = null
    const nowMs = this.#nowMs()
    let nextMs: number | null = null
    for (const call of [...[...this.#inFlight].flat(), ...this.#gathered, ...this.#held.all()]) {
      if (call.isEnded) continue
      const leftMs = call.deadlineMs - nowMs
      // One that asks for a held key at this moment is answered within milliseconds: then it is known.
      const isAsking = call.held !== null && call.isSent && leftMs > -ASKING_MS
      if (leftMs > 0 || isAsking) {
        nextMs = Math.min(nextMs ?? Number.POSITIVE_INFINITY, leftMs > 0 ? leftMs : LOOK_AGAIN_MS)
        continue
      }
      const written = call.isSent ? 'unknown' : 'no'
      const cause = call.held === null ? this.#lastError : heldKeys([call.held], true)
      this.#end(call, gaveUp(call.jobs, written, this.#options.timeoutMs, cause))
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
  const plain = group.filter(({ jobs }) => jobs.every(isPlain))
  if (plain.length === group.length || plain.length < APART_FROM) return [group]
  return [plain, group.filter(({ jobs }) => !jobs.every(isPlain))]
}

function jobsOf<Result>(calls: readonly Call<Result>[]): readonly NewJob[] {
  const jobs: NewJob[] = []
  for (const call of calls) for (const job of call.jobs) jobs.push(job)
  return jobs
}

function claimedOf(answers: readonly Enqueued[]): ClaimedJob[] {
  const claimed: ClaimedJob[] = []
  for (const answer of answers) if ('claimed' in answer && answer.claimed !== undefined) claimed.push(answer.claimed)
  return claimed
}

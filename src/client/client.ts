// The client: enqueue jobs, wait for them, and operate on them (operations.ts).

import { NAME_LENGTH_MAX } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { idMaker } from '../core/id.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { LocalWorkers } from '../core/offer.js'
import type { TallySink } from '../core/operating.js'
import type { OperatorStore } from '../core/operator-store.js'
import type { Ports } from '../core/ports.js'
import type { JobTracer, TracedEnqueue } from '../core/tracer.js'
import { DEFAULT_QUEUE } from './define-job.js'
import {
  acceptMany,
  acceptOne,
  type EnqueueEntries,
  type EnqueueManyOptions,
  type EnqueueResult,
  type EnqueueTogetherOptions,
  type Many,
  prepareMixed,
  prepareSame,
} from './enqueue-many.js'
import type { EnqueueOptions, JobTarget } from './enqueue-options.js'
import type { Events } from './events.js'
import { GroupCommit, type GroupCommitOptions } from './group-commit.js'
import { type ByOption, resolveBy } from './operate.js'
import { Operations } from './operations.js'
import { type Preparation, prepareJob } from './prepare.js'
import { scheduledJob } from './schedules.js'
import { aborted, writeWithRetries } from './store-retry.js'
import type { StoreTime } from './store-time.js'
import { type WaitOptions, Waits } from './wait.js'

/** What a client stands on. */
export interface ClientDeps {
  readonly store: JobStore & OperatorStore
  readonly ports: Ports
  readonly events: Events
  readonly time: StoreTime
  /** Told when a job was given a time here, so that whoever promotes can wake for it. */
  onTimed(delayMs: number): void
  readonly workers: LocalWorkers
  /** Told when a schedule was made, changed or resumed here. */
  onScheduled(): void
  /** Told when a bulk action was asked for here. */
  onBulk?(): void
  /** Counts what is enqueued here. */
  readonly tally?: TallySink
  readonly tracer?: JobTracer | null
}

/** A client's settings, complete. */
export interface ClientSettings {
  readonly payloadBytesMax: number
  readonly enqueueTimeoutMs: number
  readonly bufferJobsMax: number
}

/** The most bytes of payload that may wait for a flush. */
const BUFFER_BYTES_MAX = 64 * 1024 * 1024

/** Everything a program can ask of a queue, short of running its jobs. */
export class Client extends Operations {
  readonly #deps: ClientDeps
  readonly #settings: ClientSettings
  readonly #preparation: Preparation
  readonly #group: GroupCommit<EnqueueResult>
  readonly #keyedGroup: GroupCommit<EnqueueResult>
  readonly #keyedManyGroup: GroupCommit<readonly Enqueued[]>
  /** Calls of enqueueMany without keys that are not answered yet. */
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #waits: Waits

  constructor(deps: ClientDeps, settings: ClientSettings) {
    const { store, ports, events, time } = deps
    const { payloadBytesMax } = settings
    const nextId = idMaker(() => time.nowMs(), ports.random)
    super({ ...deps, payloadBytesMax, nextId })
    this.#deps = deps
    this.#settings = settings
    this.#preparation = { nextId, payloadBytesMax, trace: null }
    const bufferBytesMax = Math.max(BUFFER_BYTES_MAX, payloadBytesMax)
    const options: GroupCommitOptions = {
      bufferJobsMax: settings.bufferJobsMax,
      bufferBytesMax,
      // Half of the room is for the others.
      heldJobsMax: Math.ceil(settings.bufferJobsMax / 2),
      heldBytesMax: bufferBytesMax / 2,
      timeoutMs: settings.enqueueTimeoutMs,
    }
    const common = { store, ports, emit: events.emit }
    const accept = ([job]: readonly NewJob[], [answer]: readonly Enqueued[]) => this.#note(job!, acceptOne(answer!))
    this.#group = new GroupCommit({ ...common, accept, workers: deps.workers }, options)
    // A key may be held by a transaction that is open elsewhere: only calls with keys wait for it.
    const workers: LocalWorkers = { ...deps.workers, soonIdle: () => null, offer: () => null }
    this.#keyedGroup = new GroupCommit({ ...common, accept, workers }, options)
    this.#keyedManyGroup = new GroupCommit(
      { ...common, accept: (_, answers) => answers, workers },
      // Their number is bounded only while they wait for held keys: whoever calls enqueueMany has all of its jobs in memory anyway.
      { ...options, bufferJobsMax: Number.POSITIVE_INFINITY, bufferBytesMax: Number.POSITIVE_INFINITY },
    )
    this.#waits = new Waits({ store, ports, events })
  }

  /**
   * Enqueues one job and resolves when it is durable. With an idempotency key that is taken, `created` is false and the
   * id is that of the job that has it. Raises `invalid_option`, `invalid_payload`, `payload_too_large`, `unknown_parent`,
   * `buffer_full`, or `store_unavailable` when the store did not answer in time.
   */
  enqueue<Input>(
    definition: JobDefinition<Input, unknown>,
    payload: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<EnqueueResult>
  enqueue(type: string, payload?: unknown, options?: EnqueueOptions): Promise<EnqueueResult>
  enqueue(target: JobTarget, payload?: unknown, options?: EnqueueOptions): Promise<EnqueueResult> {
    const { tracer } = this.#deps
    if (!tracer) return this.#prepareOne(this.#preparation, target, payload, options)
    return tracer.enqueue(tracedTarget(target, 1, options?.queue), (trace) =>
      this.#prepareOne({ ...this.#preparation, trace }, target, payload, options),
    )
  }

  #prepareOne(
    preparation: Preparation,
    target: JobTarget,
    payload: unknown,
    options: EnqueueOptions | undefined,
  ): Promise<EnqueueResult> {
    // Not an async function: of an enqueue that is written at once the promise of the group is all there is to wait for.
    try {
      this.open()
      this.#deps.time.refresh()
      const made = prepareJob(preparation, target, payload, options)
      if (!(made instanceof Promise)) return this.#enqueueOne(made, options)
      return made.then((job) => this.#enqueueOne(job, options))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #enqueueOne(job: NewJob, options: EnqueueOptions | undefined): Promise<EnqueueResult> {
    if (this.#deps.events.isHeard) return this.#enqueueHeard(job, options)
    return this.#send(job, options)
  }

  async #enqueueHeard(job: NewJob, options: EnqueueOptions | undefined): Promise<EnqueueResult> {
    const startedMs = this.#deps.ports.clock.monotonic()
    const result = await this.#send(job, options)
    this.#tell([job], [result], startedMs)
    return result
  }

  #send(job: NewJob, options: EnqueueOptions | undefined): Promise<EnqueueResult> {
    if (options?.tx !== undefined) return this.#enqueueInside(job, options)
    return (job.idempotencyKey === null ? this.#group : this.#keyedGroup).enqueue([job], options?.signal)
  }

  async #enqueueInside(job: NewJob, { tx, signal }: EnqueueOptions): Promise<EnqueueResult> {
    const [answer] = await this.#write({ jobs: [job], tx, signal })
    return this.#note(job, acceptOne(answer!))
  }

  /**
   * Enqueues up to 5,000 jobs in one call and one transaction; answers in order. Raises as `enqueue` does, and then
   * nothing was written, with one exception: `unknown_parent` leaves out just the jobs whose parent does not exist, and
   * its details list the others.
   */
  enqueueMany<Input>(
    definition: JobDefinition<Input, unknown>,
    payloads: readonly NoInfer<Input>[],
    options?: EnqueueManyOptions,
  ): Promise<readonly EnqueueResult[]>
  enqueueMany(
    type: string,
    payloads: readonly unknown[],
    options?: EnqueueManyOptions,
  ): Promise<readonly EnqueueResult[]>
  enqueueMany<const Inputs extends readonly unknown[]>(
    jobs: EnqueueEntries<Inputs>,
    options?: EnqueueTogetherOptions,
  ): Promise<readonly EnqueueResult[]>
  async enqueueMany(
    first: JobTarget | EnqueueEntries<readonly unknown[]>,
    second?: readonly unknown[] | EnqueueTogetherOptions,
    third?: EnqueueManyOptions,
  ): Promise<readonly EnqueueResult[]> {
    this.open()
    const prepare = (preparation: Preparation) =>
      Array.isArray(first)
        ? prepareMixed(preparation, first, second as EnqueueTogetherOptions)
        : prepareSame(preparation, first as JobTarget, second, third)
    const { tracer } = this.#deps
    if (!tracer) return this.#writeMany(prepare(this.#preparation))
    const count = Array.isArray(first) ? first.length : Array.isArray(second) ? second.length : 0
    const target = Array.isArray(first) ? null : (first as JobTarget)
    return tracer.enqueue(tracedTarget(target, count, third?.queue), (trace) =>
      this.#writeMany(prepare({ ...this.#preparation, trace })),
    )
  }

  async #writeMany(prepared: Promise<Many>): Promise<readonly EnqueueResult[]> {
    const startedMs = this.#deps.ports.clock.monotonic()
    const many = await prepared
    // It may have been closed meanwhile.
    this.open()
    if (many.jobs.length === 0) return []
    const results = acceptMany(await this.#write(many))
    this.#deps.time.refresh()
    many.jobs.forEach((job, index) => {
      this.#note(job, results[index]!)
    })
    if (this.#deps.events.isHeard) this.#tell(many.jobs, results, startedMs)
    return results
  }

  #tell(jobs: readonly NewJob[], results: readonly EnqueueResult[], startedMs: number): void {
    this.#deps.events.emit({
      name: 'enqueue.answered',
      tookMs: this.#deps.ports.clock.monotonic() - startedMs,
      jobs: jobs.map(({ type, queue }, index) => {
        const { id, created } = results[index]!
        return { id, type, queue, created }
      }),
    })
  }

  async #write({ jobs, tx, signal }: Many): ReturnType<JobStore['enqueue']> {
    const { store, ports, events } = this.#deps
    if (tx !== undefined) {
      // The transaction is the caller's: after a failure it is the caller who begins it again.
      if (signal?.aborted) throw aborted(jobs, 'no')
      return store.enqueue(jobs, { tx })
    }
    if (jobs.some(({ idempotencyKey }) => idempotencyKey !== null)) return this.#keyedManyGroup.enqueue(jobs, signal)
    const timeoutMs = this.#settings.enqueueTimeoutMs
    const written = writeWithRetries({ store, ports, emit: events.emit }, jobs, { timeoutMs, signal })
    this.#underWay.add(written)
    return written.finally(() => this.#underWay.delete(written))
  }

  #note(job: NewJob, result: EnqueueResult): EnqueueResult {
    if (result.created) this.#deps.tally?.enqueued(job.queue, 1)
    if (result.state !== 'scheduled' || job.when === null) return result
    const delayMs = 'delayMs' in job.when ? job.when.delayMs : job.when.runAtMs - this.#deps.time.nowMs()
    this.#deps.onTimed(Math.max(0, delayMs))
    return result
  }

  /**
   * Resolves with what the job's handler returned (null for nothing). Rejects with `job_dead`, `job_cancelled`,
   * `job_not_found`, `wait_timeout`, `aborted` or `closed`. It cannot hang, also when the store is away.
   */
  async wait<Result = unknown>(id: string, options?: WaitOptions): Promise<Result> {
    this.open()
    return (await this.#waits.wait(id, options)) as Result
  }

  /** Enqueues one job with the schedule's settings now, tagged `schedule:<name>`; its times stay as they are. */
  async runSchedule(name: string, options?: ByOption): Promise<EnqueueResult> {
    const by = resolveBy('runSchedule', options)
    const store = this.open()
    const job = await scheduledJob(store, name, this.#preparation.nextId())
    // First: a run that is not written down is worse than a line about a run that did not come about.
    await store.record({ actor: by, action: 'run schedule', job: job.id, target: name })
    return this.#group.enqueue([job])
  }

  /** Calls `listener` for what happens in this process from now on. Returns the function that ends it. */
  on(listener: Emit): () => void {
    if (typeof listener !== 'function') {
      throw new HoldfastError('invalid_option', `a listener must be a function, got ${show(listener)}`)
    }
    this.#deps.events.on(listener)
    return () => this.off(listener)
  }

  off(listener: Emit): void {
    this.#deps.events.off(listener)
  }

  /** Writes what was enqueued, ends the calls that wait with `closed`, and refuses every later call. */
  async close(): Promise<void> {
    this.shut()
    this.#waits.close()
    await Promise.all([this.#group, this.#keyedGroup, this.#keyedManyGroup].map((group) => group.close()))
    await Promise.allSettled(this.#underWay)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** What a tracer is told about a call before its jobs are made; what is wrong with them is found later. */
function tracedTarget(target: JobTarget | null, count: number, queue: unknown): TracedEnqueue {
  const short = (name: unknown) => (typeof name === 'string' ? name.slice(0, NAME_LENGTH_MAX) : null)
  if (target === null) return { count, type: null, queue: null }
  const definition = typeof target === 'object' ? target : null
  return { count, type: short(definition?.type ?? target), queue: short(queue ?? definition?.queue ?? DEFAULT_QUEUE) }
}

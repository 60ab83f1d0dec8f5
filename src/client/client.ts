// The client: takes the call, has the job made, and hands it to a group. operator-calls.ts has the calls of operators.
// ◄── the caller · next: prepare.ts

import type { JobDefinition } from '../core/definition.js'
import { idMaker } from '../core/id.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { LocalWorkers } from '../core/reserve.js'
import { type BatchDeps, type EnqueueBatchOptions, enqueueBatch } from './batch.js'
import type { ClientDeps, ClientSettings } from './client-deps.js'
import { type EnqueueEntries, type EnqueueManyOptions, type EnqueueTogetherOptions, ManyCalls } from './enqueue-many.js'
import type { EnqueueOptions } from './enqueue-options.js'
import { EnqueueReports, tracedTarget } from './enqueue-reports.js'
import { FullWaits } from './full-waits.js'
import { GroupCommit } from './group-commit.js'
import { acceptOne, type JobHandle, withOutput } from './job-handle.js'
import { jobIds } from './job-ids.js'
import { KeyedGroupCommit } from './keyed-group-commit.js'
import { OperatorCalls } from './operator-calls.js'
import { PartGroups } from './part-groups.js'
import { type JobTarget, type Preparation, prepareJob } from './prepare.js'
import { type TypedWaitOptions, type WaitOptions, Waits } from './wait.js'

/** The most bytes of payload that may wait for a flush. */
const BUFFER_BYTES_MAX = 64 * 1024 * 1024

/** Everything a program can ask of a queue, short of running its jobs. */
export class Client extends OperatorCalls {
  readonly #deps: ClientDeps
  readonly #preparation: Preparation
  readonly #group: GroupCommit<JobHandle>
  readonly #keyedGroup: KeyedGroupCommit<JobHandle>
  /** The groups of a store that keeps queues apart. */
  readonly #partGroups: PartGroups<JobHandle> | null
  readonly #many: ManyCalls
  readonly #reports: EnqueueReports
  readonly #waits: Waits
  readonly #full: FullWaits

  constructor(deps: ClientDeps, settings: ClientSettings) {
    const { store, ports, events, time } = deps
    const { payloadBytesMax, bufferJobsMax } = settings
    const makeId = idMaker(() => time.nowMs(), ports.random)
    const { parts } = store
    super({ ...deps, payloadBytesMax, nextId: makeId, enqueue: (job) => this.#groupOf(job).enqueue([job]) })
    this.#deps = deps
    this.#preparation = { nextId: jobIds(makeId, parts), payloadBytesMax, trace: null }
    this.#reports = new EnqueueReports(deps)
    const bufferBytesMax = Math.max(BUFFER_BYTES_MAX, payloadBytesMax)
    const options = {
      bufferJobsMax,
      bufferBytesMax,
      // Half of the room is for calls whose keys are free.
      heldJobsMax: Math.ceil(bufferJobsMax / 2),
      heldBytesMax: bufferBytesMax / 2,
      timeoutMs: settings.enqueueTimeoutMs,
    }
    const common = { store, ports, emit: events.emit }
    this.#waits = new Waits({ store, ports, events })
    this.#full = new FullWaits({ store, ports, reports: this.#reports, wait: this.#waitFor })
    const accept = ([job]: readonly NewJob[], [answer]: readonly Enqueued[]) => this.#full.accept(job!, answer!)
    const plain = () => new GroupCommit({ ...common, accept, workers: deps.workers }, options)
    this.#group = plain()
    // A job with a key or parents may have to wait for other jobs. Such jobs have a group of their own, so that plain jobs never wait.
    const workers: LocalWorkers = { ...deps.workers, claimInFlight: () => null, reserve: () => null }
    const keyed = () => new KeyedGroupCommit({ ...common, accept, workers }, options)
    this.#keyedGroup = keyed()
    this.#partGroups = parts === undefined ? null : new PartGroups(parts, { plain, keyed })
    const { tracer = null } = deps
    const open = () => void this.open()
    this.#many = new ManyCalls(
      {
        ...common,
        workers,
        time,
        tracer,
        open,
        wait: this.#waitFor,
        preparation: this.#preparation,
        reports: this.#reports,
      },
      options,
    )
  }

  /**
   * Enqueues one job and resolves when it is durable. With an idempotency key that is taken, `created` is false and the
   * id is that of the job that has it. Raises `invalid_option`, `invalid_payload`, `payload_too_large`, `unknown_parent`,
   * `buffer_full`, or `store_unavailable` when the store did not answer in time.
   */
  enqueue<Payload, Result>(
    definition: JobDefinition<Payload, unknown, Result, unknown>,
    payload: NoInfer<Payload>,
    options?: EnqueueOptions,
  ): Promise<JobHandle<Result>>
  enqueue(type: string, payload?: unknown, options?: EnqueueOptions): Promise<JobHandle>
  enqueue(target: JobTarget, payload?: unknown, options?: EnqueueOptions): Promise<JobHandle> {
    const { tracer } = this.#deps
    if (!tracer) return withOutput(target, this.#enqueueOne(this.#preparation, target, payload, options))
    const sent = tracer.enqueue(tracedTarget(target, 1, options?.queue), (trace) =>
      this.#enqueueOne({ ...this.#preparation, trace }, target, payload, options),
    )
    return withOutput(target, sent)
  }

  #enqueueOne(
    preparation: Preparation,
    target: JobTarget,
    payload: unknown,
    options: EnqueueOptions | undefined,
  ): Promise<JobHandle> {
    // Not an async function: that would add a promise to each enqueue.
    try {
      this.open()
      this.#deps.time.refresh()
      const startedMs = this.#deps.events.isHeard ? this.#deps.ports.clock.monotonic() : null
      const made = prepareJob(preparation, target, payload, options)
      if (!(made instanceof Promise)) return this.#sendOne(made, options, startedMs)
      return made.then((job) => this.#sendOne(job, options, startedMs))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #sendOne(job: NewJob, options: EnqueueOptions | undefined, startedMs: number | null): Promise<JobHandle> {
    if (options !== undefined) this.#full.note(job, options)
    const sent =
      options?.tx === undefined ? this.#groupOf(job).enqueue([job], options?.signal) : this.#writeInside(job, options)
    return startedMs === null ? sent : sent.then((result) => this.#reports.answered([job], [result], startedMs)[0]!)
  }

  #groupOf(job: NewJob): GroupCommit<JobHandle> {
    const isPlain = job.idempotencyKey === null && job.after.length === 0
    if (this.#partGroups !== null) return this.#partGroups.of(job, isPlain)
    return isPlain ? this.#group : this.#keyedGroup
  }

  async #writeInside(job: NewJob, { tx, signal }: EnqueueOptions): Promise<JobHandle> {
    const [answer] = await this.#many.write({ jobs: [job], tx, signal })
    return this.#reports.written(job, acceptOne(this.#reports.refused(answer!), this.#waitFor))
  }

  /**
   * Enqueues up to 5,000 jobs in one call and one transaction; answers in order. Raises as `enqueue` does, and then
   * nothing was written, with one exception: `unknown_parent` leaves out just the jobs whose parent does not exist, and
   * its details list the others.
   */
  enqueueMany<Payload, Result>(
    definition: JobDefinition<Payload, unknown, Result, unknown>,
    payloads: readonly NoInfer<Payload>[],
    options?: EnqueueManyOptions,
  ): Promise<readonly JobHandle<Result>[]>
  enqueueMany(type: string, payloads: readonly unknown[], options?: EnqueueManyOptions): Promise<readonly JobHandle[]>
  enqueueMany<const Inputs extends readonly unknown[]>(
    jobs: EnqueueEntries<Inputs>,
    options?: EnqueueTogetherOptions,
  ): Promise<readonly JobHandle[]>
  enqueueMany(
    first: JobTarget | EnqueueEntries<readonly unknown[]>,
    second?: readonly unknown[] | EnqueueTogetherOptions,
    third?: EnqueueManyOptions,
  ): Promise<readonly JobHandle[]> {
    return this.#many.enqueue(first, second, third)
  }

  /**
   * Enqueues up to a million jobs, and one more that runs when all of them have ended, whether they succeeded or not: `onEnd`. Resolves with that one. A
   * worker of its queue needs `batchHandler` among its handlers. Raises as `enqueueMany` does; a call that was cut off is repeated with the same `id`.
   */
  enqueueBatch<Payload>(
    definition: JobDefinition<Payload, unknown, unknown, unknown>,
    payloads: readonly NoInfer<Payload>[],
    options: EnqueueBatchOptions,
  ): Promise<JobHandle>
  enqueueBatch(type: string, payloads: readonly unknown[], options: EnqueueBatchOptions): Promise<JobHandle>
  enqueueBatch<const Inputs extends readonly unknown[]>(
    jobs: EnqueueEntries<Inputs>,
    options: EnqueueBatchOptions,
  ): Promise<JobHandle>
  async enqueueBatch(
    first: JobTarget | EnqueueEntries<readonly unknown[]>,
    second: readonly unknown[] | EnqueueBatchOptions,
    third?: EnqueueBatchOptions,
  ): Promise<JobHandle> {
    this.open()
    const deps: BatchDeps = {
      nextId: () => this.#preparation.nextId({ queue: '', idempotencyKey: null }, undefined, undefined),
      enqueueMany: (entries, options) => this.enqueueMany(entries as EnqueueEntries<readonly unknown[]>, options),
      enqueue: (job, payload, options) => this.enqueue(job as JobDefinition, payload, options),
    }
    return enqueueBatch(deps, first, second, third)
  }

  /**
   * Resolves with what the job's handler returned (null for nothing). Rejects with `job_dead`, `job_cancelled`,
   * `job_not_found`, `wait_timeout`, `aborted` or `closed`. It cannot hang, also when the store is away. With `job`, its definition, the
   * result has that one's type and is read by its output schema; `invalid_result` when it does not fit.
   */
  wait<Result>(id: string, options: TypedWaitOptions<Result>): Promise<Result>
  wait<Result = unknown>(id: string, options?: WaitOptions): Promise<Result>
  wait(id: string, options?: WaitOptions): Promise<unknown> {
    return this.#waitFor(id, options)
  }

  readonly #waitFor = async (id: string, options?: WaitOptions): Promise<unknown> => {
    this.open()
    return this.#waits.wait(id, options)
  }

  /** Writes what was enqueued, ends the calls that wait with `closed`, and refuses every later call. */
  async close(): Promise<void> {
    this.shut()
    this.#waits.close()
    this.#full.close()
    await Promise.all([this.#group, this.#keyedGroup, this.#many, this.#partGroups].map((group) => group?.close()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

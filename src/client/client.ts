// The client: takes the call, has the job made, and hands it to a group. operator-calls.ts has the calls of operators.
// ◄── the caller · next: prepare.ts

import type { JobDefinition } from '../core/definition.js'
import { idMaker } from '../core/id.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { TallySink } from '../core/operating.js'
import type { LocalWorkers } from '../core/reserve.js'
import type { JobTracer } from '../core/tracer.js'
import { type EnqueueEntries, type EnqueueManyOptions, type EnqueueTogetherOptions, ManyCalls } from './enqueue-many.js'
import type { EnqueueOptions } from './enqueue-options.js'
import { EnqueueReports, tracedTarget } from './enqueue-reports.js'
import { FullWaits } from './full-waits.js'
import { GroupCommit } from './group-commit.js'
import { KeyedGroupCommit } from './keyed-group-commit.js'
import { OperatorCalls, type OperatorCallsDeps } from './operator-calls.js'
import { acceptOne, type EnqueueResult, type JobTarget, type Preparation, prepareJob } from './prepare.js'
import { type WaitOptions, Waits } from './wait.js'

/** What a client needs. */
export interface ClientDeps extends Omit<OperatorCallsDeps, 'payloadBytesMax' | 'nextId' | 'enqueue'> {
  readonly workers: LocalWorkers
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
export class Client extends OperatorCalls {
  readonly #deps: ClientDeps
  readonly #preparation: Preparation
  readonly #group: GroupCommit<EnqueueResult>
  readonly #keyedGroup: KeyedGroupCommit<EnqueueResult>
  readonly #many: ManyCalls
  readonly #reports: EnqueueReports
  readonly #waits: Waits
  readonly #full: FullWaits

  constructor(deps: ClientDeps, settings: ClientSettings) {
    const { store, ports, events, time } = deps
    const { payloadBytesMax, bufferJobsMax } = settings
    const nextId = idMaker(() => time.nowMs(), ports.random)
    super({ ...deps, payloadBytesMax, nextId, enqueue: (job) => this.#group.enqueue([job]) })
    this.#deps = deps
    this.#preparation = { nextId, payloadBytesMax, trace: null }
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
    this.#full = new FullWaits({ store, ports, reports: this.#reports })
    const accept = ([job]: readonly NewJob[], [answer]: readonly Enqueued[]) => this.#full.accept(job!, answer!)
    this.#group = new GroupCommit({ ...common, accept, workers: deps.workers }, options)
    // A job with a key or parents may have to wait for other jobs. Such jobs have a group of their own, so that plain jobs never wait.
    const workers: LocalWorkers = { ...deps.workers, claimInFlight: () => null, reserve: () => null }
    this.#keyedGroup = new KeyedGroupCommit({ ...common, accept, workers }, options)
    const { tracer = null } = deps
    const open = () => void this.open()
    this.#many = new ManyCalls(
      { ...common, workers, time, tracer, open, preparation: this.#preparation, reports: this.#reports },
      options,
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
    if (!tracer) return this.#enqueueOne(this.#preparation, target, payload, options)
    return tracer.enqueue(tracedTarget(target, 1, options?.queue), (trace) =>
      this.#enqueueOne({ ...this.#preparation, trace }, target, payload, options),
    )
  }

  #enqueueOne(
    preparation: Preparation,
    target: JobTarget,
    payload: unknown,
    options: EnqueueOptions | undefined,
  ): Promise<EnqueueResult> {
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

  #sendOne(job: NewJob, options: EnqueueOptions | undefined, startedMs: number | null): Promise<EnqueueResult> {
    if (options !== undefined) this.#full.note(job, options)
    const sent =
      options?.tx === undefined ? this.#groupOf(job).enqueue([job], options?.signal) : this.#writeInside(job, options)
    return startedMs === null ? sent : sent.then((result) => this.#reports.answered([job], [result], startedMs)[0]!)
  }

  #groupOf({ idempotencyKey, after }: NewJob): GroupCommit<EnqueueResult> {
    return idempotencyKey === null && after.length === 0 ? this.#group : this.#keyedGroup
  }

  async #writeInside(job: NewJob, { tx, signal }: EnqueueOptions): Promise<EnqueueResult> {
    const [answer] = await this.#many.write({ jobs: [job], tx, signal })
    return this.#reports.written(job, acceptOne(this.#reports.refused(answer!)))
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
  enqueueMany(
    first: JobTarget | EnqueueEntries<readonly unknown[]>,
    second?: readonly unknown[] | EnqueueTogetherOptions,
    third?: EnqueueManyOptions,
  ): Promise<readonly EnqueueResult[]> {
    return this.#many.enqueue(first, second, third)
  }

  /**
   * Resolves with what the job's handler returned (null for nothing). Rejects with `job_dead`, `job_cancelled`,
   * `job_not_found`, `wait_timeout`, `aborted` or `closed`. It cannot hang, also when the store is away.
   */
  async wait<Result = unknown>(id: string, options?: WaitOptions): Promise<Result> {
    this.open()
    return (await this.#waits.wait(id, options)) as Result
  }

  /** Writes what was enqueued, ends the calls that wait with `closed`, and refuses every later call. */
  async close(): Promise<void> {
    this.shut()
    this.#waits.close()
    this.#full.close()
    await Promise.all([this.#group, this.#keyedGroup, this.#many].map((group) => group.close()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

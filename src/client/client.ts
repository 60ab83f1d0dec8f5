// The client: enqueues jobs and waits for them; operator-calls.ts has the rest. ◄── the caller · next: prepare.ts, group-commit.ts

import { NAME_LENGTH_MAX } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { idMaker } from '../core/id.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { TallySink } from '../core/operating.js'
import type { OperatorStore } from '../core/operator-store.js'
import type { Ports } from '../core/ports.js'
import type { LocalWorkers } from '../core/reserve.js'
import type { JobTracer, TracedEnqueue } from '../core/tracer.js'
import { DEFAULT_QUEUE } from './define-job.js'
import {
  acceptMany,
  type EnqueueEntries,
  type EnqueueManyOptions,
  type EnqueueTogetherOptions,
  type Many,
  ManyWriter,
  prepareMixed,
  prepareSame,
} from './enqueue-many.js'
import type { Events } from './events.js'
import { GroupCommit } from './group-commit.js'
import { type ByOption, resolveBy } from './job-actions.js'
import { KeyedGroupCommit } from './keyed-group-commit.js'
import { OperatorCalls } from './operator-calls.js'
import {
  acceptOne,
  type EnqueueOptions,
  type EnqueueResult,
  type JobTarget,
  type Preparation,
  prepareJob,
} from './prepare.js'
import { scheduledJob } from './schedules.js'
import type { StoreTime } from './store-time.js'
import { type WaitOptions, Waits } from './wait.js'

/** What a client stands on. */
export interface ClientDeps {
  readonly store: JobStore & OperatorStore
  readonly ports: Ports
  readonly events: Events
  readonly time: StoreTime
  /** Called when a job was given a time here, so that promote can wake for it. */
  onTimed(delayMs: number): void
  readonly workers: LocalWorkers
  /** Called when a schedule was made, changed or resumed here. */
  onScheduled(): void
  /** Called when a bulk action was asked for here. */
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
export class Client extends OperatorCalls {
  readonly #deps: ClientDeps
  readonly #preparation: Preparation
  readonly #group: GroupCommit<EnqueueResult>
  readonly #keyedGroup: KeyedGroupCommit<EnqueueResult>
  readonly #many: ManyWriter
  readonly #waits: Waits

  constructor(deps: ClientDeps, settings: ClientSettings) {
    const { store, ports, events, time } = deps
    const { payloadBytesMax, bufferJobsMax } = settings
    const nextId = idMaker(() => time.nowMs(), ports.random)
    super({ ...deps, payloadBytesMax, nextId })
    this.#deps = deps
    this.#preparation = { nextId, payloadBytesMax, trace: null }
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
    const accept = ([job]: readonly NewJob[], [answer]: readonly Enqueued[]) => this.#note(job!, acceptOne(answer!))
    this.#group = new GroupCommit({ ...common, accept, workers: deps.workers }, options)
    // Jobs that refer to others, by a key or as their parents, may have to wait for them. They are written apart, so that no other waits.
    const workers: LocalWorkers = { ...deps.workers, claimInFlight: () => null, reserve: () => null }
    this.#keyedGroup = new KeyedGroupCommit({ ...common, accept, workers }, options)
    this.#many = new ManyWriter({ ...common, workers }, options)
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
    // Not an async function: it returns the group's own promise, and adds none to each enqueue.
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
    const sent =
      options?.tx === undefined ? this.#groupOf(job).enqueue([job], options?.signal) : this.#writeInside(job, options)
    return startedMs === null ? sent : sent.then((result) => this.#report([job], [result], startedMs)[0]!)
  }

  #groupOf({ idempotencyKey, after }: NewJob): GroupCommit<EnqueueResult> {
    return idempotencyKey === null && after.length === 0 ? this.#group : this.#keyedGroup
  }

  async #writeInside(job: NewJob, { tx, signal }: EnqueueOptions): Promise<EnqueueResult> {
    const [answer] = await this.#many.write({ jobs: [job], tx, signal })
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
    if (!tracer) return this.#enqueueAll(prepare(this.#preparation))
    const count = Array.isArray(first) ? first.length : Array.isArray(second) ? second.length : 0
    const target = Array.isArray(first) ? null : (first as JobTarget)
    return tracer.enqueue(tracedTarget(target, count, third?.queue), (trace) =>
      this.#enqueueAll(prepare({ ...this.#preparation, trace })),
    )
  }

  async #enqueueAll(prepared: Promise<Many>): Promise<readonly EnqueueResult[]> {
    const startedMs = this.#deps.ports.clock.monotonic()
    const many = await prepared
    // It may have been closed meanwhile.
    this.open()
    if (many.jobs.length === 0) return []
    const results = acceptMany(await this.#many.write(many))
    this.#deps.time.refresh()
    many.jobs.forEach((job, index) => {
      this.#note(job, results[index]!)
    })
    return this.#deps.events.isHeard ? this.#report(many.jobs, results, startedMs) : results
  }

  #report(jobs: readonly NewJob[], results: readonly EnqueueResult[], startedMs: number): readonly EnqueueResult[] {
    const tookMs = this.#deps.ports.clock.monotonic() - startedMs
    const answered = jobs.map(({ type, queue }, index) => {
      const { id, created } = results[index]!
      return { id, type, queue, created }
    })
    this.#deps.events.emit({ name: 'enqueue.answered', tookMs, jobs: answered })
    return results
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
    // First: a run that is not recorded is worse than a line about a run that did not happen.
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
    await Promise.all([this.#group, this.#keyedGroup, this.#many].map((group) => group.close()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** What a tracer gets about a call before its jobs are made; what is wrong with them is found later. */
function tracedTarget(target: JobTarget | null, count: number, queue: unknown): TracedEnqueue {
  const short = (name: unknown) => (typeof name === 'string' ? name.slice(0, NAME_LENGTH_MAX) : null)
  if (target === null) return { count, type: null, queue: null }
  const definition = typeof target === 'object' ? target : null
  return { count, type: short(definition?.type ?? target), queue: short(queue ?? definition?.queue ?? DEFAULT_QUEUE) }
}

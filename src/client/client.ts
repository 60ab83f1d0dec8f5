// The client: enqueue jobs, look at them, wait for them, operate on them. Each call checks its arguments, asks the store,
// and says as an error what the store refused. The parts are in the files around it.

import { checkId, checkName } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { idMaker } from '../core/id.js'
import type { JobView, NewJob, QueueStats, QueueView, WorkerView } from '../core/job.js'
import type { LocalWorkers } from '../core/offer.js'
import type { Ports } from '../core/ports.js'
import type { Store } from '../core/store.js'
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
import { GroupCommit } from './group-commit.js'
import * as operate from './operate.js'
import { type Preparation, prepareJob } from './prepare.js'
import * as schedules from './schedules.js'
import { aborted, writeWithRetries } from './store-retry.js'
import type { StoreTime } from './store-time.js'
import { type WaitOptions, Waits } from './wait.js'

/** What a client stands on. */
export interface ClientDeps {
  readonly store: Store
  readonly ports: Ports
  readonly events: Events
  readonly time: StoreTime
  /** Told when a job was given a time here, so that whoever promotes can wake for it. */
  onTimed(delayMs: number): void
  readonly workers: LocalWorkers
  /** Told when a schedule was made, changed or resumed here. */
  onScheduled(): void
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
export class Client {
  readonly #deps: ClientDeps
  readonly #settings: ClientSettings
  readonly #preparation: Preparation
  readonly #group: GroupCommit<EnqueueResult>
  readonly #keyedGroup: GroupCommit<EnqueueResult>
  readonly #waits: Waits
  #isClosed = false

  constructor(deps: ClientDeps, settings: ClientSettings) {
    const { store, ports, events, time } = deps
    this.#deps = deps
    this.#settings = settings
    this.#preparation = {
      nextId: idMaker(() => time.nowMs(), ports.random),
      payloadBytesMax: settings.payloadBytesMax,
    }
    const gather = (workers: LocalWorkers) =>
      new GroupCommit<EnqueueResult>(
        {
          store,
          ports,
          emit: events.emit,
          accept: (job, answer) => this.#noteTime(job, acceptOne(answer)),
          workers,
        },
        {
          bufferJobsMax: settings.bufferJobsMax,
          bufferBytesMax: Math.max(BUFFER_BYTES_MAX, settings.payloadBytesMax),
          timeoutMs: settings.enqueueTimeoutMs,
        },
      )
    this.#group = gather(deps.workers)
    // A key may be held by a transaction that is open elsewhere: only calls with keys wait for it.
    this.#keyedGroup = gather({ ...deps.workers, soonIdle: () => null, offer: () => null })
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
    // Not an async function: of an enqueue that is written at once the promise of the group is all there is to wait for.
    try {
      this.#open()
      this.#deps.time.refresh()
      const made = prepareJob(this.#preparation, target, payload, options)
      if (!(made instanceof Promise)) return this.#enqueueOne(made, options)
      return made.then((job) => this.#enqueueOne(job, options))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #enqueueOne(job: NewJob, options: EnqueueOptions | undefined): Promise<EnqueueResult> {
    if (options?.tx !== undefined) return this.#enqueueInside(job, options)
    return (job.idempotencyKey === null ? this.#group : this.#keyedGroup).enqueue(job, options?.signal)
  }

  async #enqueueInside(job: NewJob, { tx, signal }: EnqueueOptions): Promise<EnqueueResult> {
    const [answer] = await this.#write({ jobs: [job], tx, signal })
    return this.#noteTime(job, acceptOne(answer!))
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
    this.#open()
    const many = Array.isArray(first)
      ? await prepareMixed(this.#preparation, first, second as EnqueueTogetherOptions)
      : await prepareSame(this.#preparation, first as JobTarget, second, third)
    if (many.jobs.length === 0) return []
    const results = acceptMany(await this.#write(many))
    this.#deps.time.refresh()
    many.jobs.forEach((job, index) => {
      this.#noteTime(job, results[index]!)
    })
    return results
  }

  async #write({ jobs, tx, signal }: Many): ReturnType<Store['enqueue']> {
    const { store, ports, events } = this.#deps
    const timeoutMs = this.#settings.enqueueTimeoutMs
    if (tx === undefined) return writeWithRetries({ store, ports, emit: events.emit }, jobs, { timeoutMs, signal })
    // The transaction is the caller's: after a failure it is the caller who begins it again.
    if (signal?.aborted) throw aborted(jobs, 'no')
    return store.enqueue(jobs, { tx })
  }

  #noteTime(job: NewJob, result: EnqueueResult): EnqueueResult {
    if (result.state !== 'scheduled' || job.when === null) return result
    const delayMs = 'delayMs' in job.when ? job.when.delayMs : job.when.runAtMs - this.#deps.time.nowMs()
    this.#deps.onTimed(Math.max(0, delayMs))
    return result
  }

  /** Everything about one job, or null when there is none of that id. */
  async get(id: string): Promise<JobView | null> {
    return this.#open().get(checkId('id', id))
  }

  /** A page of jobs, newest first. */
  async list(options?: operate.ListOptions): Promise<operate.JobList> {
    return operate.list(this.#open(), options)
  }

  /**
   * Resolves with what the job's handler returned (null for nothing). Rejects with `job_dead`, `job_cancelled`,
   * `job_not_found`, `wait_timeout`, `aborted` or `closed`. It cannot hang, also when the store is away.
   */
  async wait<Result = unknown>(id: string, options?: WaitOptions): Promise<Result> {
    this.#open()
    return (await this.#waits.wait(id, options)) as Result
  }

  /** Cancels a job: at once while it waits; while it runs its worker is told and its signal fires. Raises `wrong_state`
   *  for one that has succeeded or is dead, `job_not_found`. */
  async cancel(id: string, options?: operate.ByOption): Promise<operate.Cancelled> {
    return operate.cancel(this.#open(), id, options)
  }

  /** Revives a dead job, or many by filter: attempts start again at 0, the idempotency key is taken again. Raises for one
   *  `wrong_state`, `job_not_found` or `key_conflict`; of many it lists those that stay dead. */
  requeue(id: string, options?: operate.ByOption): Promise<operate.Requeued>
  requeue(many: operate.RequeueMany, options?: operate.ByOption): Promise<operate.RequeuedMany>
  async requeue(
    target: string | operate.RequeueMany,
    options?: operate.ByOption,
  ): Promise<operate.Requeued | operate.RequeuedMany> {
    const store = this.#open()
    return operate.isRequeueMany(target)
      ? operate.requeueMany(store, target, options)
      : operate.requeueOne(store, target, options)
  }

  /** Takes a dead job out of the dead-letter queue: it becomes cancelled. */
  async discard(id: string, options?: operate.ByOption): Promise<void> {
    return operate.discard(this.#open(), id, options)
  }

  /** Changes the priority, time or payload of a job that waits. Raises `wrong_state` for one that does not. */
  async update(id: string, changes: operate.UpdateOptions, options?: operate.ByOption): Promise<operate.Updated> {
    const { payloadBytesMax } = this.#settings
    const by = operate.resolveBy('update', options)
    const updated = await operate.update(this.#open(), id, changes, { by, payloadBytesMax })
    if (updated.dueInMs !== null) this.#deps.onTimed(updated.dueInMs)
    return updated
  }

  /** Stops a queue from giving jobs; it goes on taking them. Holds for every process until `resume`. */
  async pause(queue: string, options?: operate.ByOption): Promise<void> {
    return this.#open().pause(checkName('queue', queue), operate.resolveBy('pause', options))
  }

  async resume(queue: string, options?: operate.ByOption): Promise<void> {
    return this.#open().resume(checkName('queue', queue), operate.resolveBy('resume', options))
  }

  /** Replaces a queue's settings, which hold for its jobs that set nothing themselves. */
  async setQueue(queue: string, settings: operate.QueueOptions, options?: operate.ByOption): Promise<void> {
    const by = operate.resolveBy('setQueue', options)
    return this.#open().setQueue(checkName('queue', queue), operate.resolveQueueSettings(settings), by)
  }

  /** Every queue that was ever enqueued to or set, by name. */
  async queues(): Promise<readonly QueueView[]> {
    return this.#open().queues()
  }

  /** How many jobs stand where, in one queue or in all. */
  async stats(queue?: string): Promise<QueueStats> {
    return this.#open().stats(queue === undefined ? null : checkName('queue', queue))
  }

  /** The workers that live, in every process. */
  async workers(): Promise<readonly WorkerView[]> {
    return this.#open().workers()
  }

  /** Has workers look for jobs now; for after the commit of a transaction that enqueued with `tx`. */
  wake(...queues: readonly string[]): void {
    this.#open().wake(queues.map((queue) => checkName('queue', queue)))
  }

  /** Creates a schedule, or changes the one of that name. */
  async schedule<Input>(
    name: string,
    schedule: schedules.ScheduleOptions<Input>,
    options?: operate.ByOption,
  ): Promise<schedules.ScheduleStatus> {
    const by = operate.resolveBy('schedule', options)
    const { payloadBytesMax } = this.#settings
    const status = await schedules.setSchedule(this.#open(), name, schedule, { by, payloadBytesMax })
    this.#deps.onScheduled()
    return status
  }

  /** Every schedule, by name. */
  async schedules(): Promise<readonly schedules.ScheduleStatus[]> {
    return schedules.schedules(this.#open())
  }

  /** Removes a schedule; the jobs it made stay. Raises `schedule_not_found`, as do those below. */
  async unschedule(name: string, options?: operate.ByOption): Promise<void> {
    return schedules.removeSchedule(this.#open(), name, operate.resolveBy('unschedule', options))
  }

  async pauseSchedule(name: string, options?: operate.ByOption): Promise<void> {
    return schedules.pauseSchedule(this.#open(), name, operate.resolveBy('pauseSchedule', options))
  }

  /** Lets a paused schedule fire again, from its next time on: the ticks of the pause are not made up for. */
  async resumeSchedule(name: string, options?: operate.ByOption): Promise<void> {
    await schedules.resumeSchedule(this.#open(), name, operate.resolveBy('resumeSchedule', options))
    this.#deps.onScheduled()
  }

  /** Enqueues one job with the schedule's settings now, tagged `schedule:<name>`; its times stay as they are. */
  async runSchedule(name: string): Promise<EnqueueResult> {
    const job = await schedules.scheduledJob(this.#open(), name, this.#preparation.nextId())
    return acceptOne(await this.#group.enqueue(job))
  }

  /** The next times of a schedule, or of an expression, from the store's time on. `count` is from 1 to 1,000, default 5. */
  async nextRuns(source: string | schedules.CronOptions, count?: number): Promise<readonly Date[]> {
    return schedules.nextRuns(this.#open(), source, count)
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
    this.#isClosed = true
    this.#waits.close()
    await Promise.all([this.#group.close(), this.#keyedGroup.close()])
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #open(): Store {
    if (this.#isClosed) throw new HoldfastError('closed', 'this client is closed: connect again')
    return this.#deps.store
  }
}

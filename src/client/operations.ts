// What operators ask of a queue: looking at jobs, changing them one by one or in bulk, queues, schedules, keys. Each call
// checks its arguments, asks the store, and says as an error what the store refused. The parts are in the files around it.

import { checkId, checkName, isId } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import type { Explanation } from '../core/explain.js'
import type { JobView, QueueStats, QueueView, WorkerView } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { ApiKey, AuditPage, BulkView, CountResult, DeadGroup, Overview, SeriesPoint } from '../core/operating.js'
import type { OperatorStore, ScheduleBound } from '../core/operator-store.js'
import type { Ports } from '../core/ports.js'
import * as bulk from './bulk.js'
import { KeyCache } from './key-cache.js'
import * as keys from './keys.js'
import * as look from './look.js'
import * as operate from './operate.js'
import * as schedules from './schedules.js'
import { SharedCounts } from './shared-counts.js'
import type { StoreTime } from './store-time.js'

/** What these calls stand on. */
export interface OperationsDeps {
  readonly store: JobStore & OperatorStore
  readonly ports: Ports
  readonly time: StoreTime
  readonly payloadBytesMax: number
  nextId(): string
  /** Told when a job was given a time here, so that whoever promotes can wake for it. */
  onTimed(delayMs: number): void
  /** Told when a schedule was made, changed or resumed here. */
  onScheduled(): void
  /** Told when a bulk action was asked for here. */
  onBulk?(): void
}

/** The part of a client that operators use. */
export class Operations {
  readonly #deps: OperationsDeps
  readonly #keys: KeyCache
  readonly #counts: SharedCounts
  #isClosed = false

  constructor(deps: OperationsDeps) {
    this.#deps = deps
    this.#keys = new KeyCache(deps.ports.clock)
    this.#counts = new SharedCounts(deps.ports.clock)
  }

  /** The store, unless this is closed. */
  protected open(): JobStore & OperatorStore {
    if (this.#isClosed) throw new HoldfastError('closed', 'this client is closed: connect again')
    return this.#deps.store
  }

  /** Refuses every later call. */
  protected shut(): void {
    this.#isClosed = true
  }

  /** Everything about one job, or null when there is none of that id, whatever text the id is. */
  async get(id: string): Promise<JobView | null> {
    const store = this.open()
    // No job has such an id. What is no text at all is a mistake in the program that calls.
    if (typeof id === 'string' && !isId(id)) return null
    return store.get(checkId('id', id))
  }

  /** A page of jobs, newest first. Raises `invalid_filter` for a filter that cannot be read. */
  async list(options?: look.ListOptions): Promise<look.JobList> {
    return look.list(this.open(), options)
  }

  /** How many jobs match. Answers soon: where not every job could be looked at, the count says so. */
  async count(options?: look.CountOptions): Promise<CountResult> {
    return look.count(this.open(), options)
  }

  /** Those of the ids, at most 5,000, that are of jobs in these queues. */
  async among(ids: readonly string[], queues: readonly string[]): Promise<readonly string[]> {
    const checked = ids.map((id) => checkId('id', id))
    return this.open().among(
      checked,
      queues.map((queue) => checkName('queue', queue)),
    )
  }

  /** A random text that every process on this store knows, and nobody else: for what one server seals and another opens. */
  async sharedSecret(): Promise<string> {
    return this.open().sharedSecret()
  }

  /** Why a job stands where it does, and what would move it on, in plain words. Raises `job_not_found`. */
  async explain(id: string, options?: look.ExplainOptions): Promise<Explanation> {
    return look.explain(this.open(), id, options)
  }

  /** Cancels a job: at once while it waits; while it runs its worker is told and its signal fires. Raises `wrong_state`
   *  for one that has succeeded or is dead, `job_not_found`. */
  async cancel(id: string, options?: operate.ByOption): Promise<operate.Cancelled> {
    return operate.cancel(this.open(), id, options)
  }

  /** Revives a dead job, or many by filter: attempts start again at 0, the idempotency key is taken again. Raises for one
   *  `wrong_state`, `job_not_found` or `key_conflict`; of many it lists those that stay dead. */
  requeue(id: string, options?: operate.ByOption): Promise<operate.Requeued>
  requeue(many: operate.RequeueMany, options?: operate.ByOption): Promise<operate.RequeuedMany>
  async requeue(
    target: string | operate.RequeueMany,
    options?: operate.ByOption,
  ): Promise<operate.Requeued | operate.RequeuedMany> {
    const store = this.open()
    return operate.isRequeueMany(target)
      ? operate.requeueMany(store, target, options)
      : operate.requeueOne(store, target, options)
  }

  /** Takes a dead job out of the dead-letter queue: it becomes cancelled. */
  async discard(id: string, options?: operate.ByOption): Promise<void> {
    return operate.discard(this.open(), id, options)
  }

  /** Changes the priority, time or payload of a job that waits. Raises `wrong_state` for one that does not. */
  async update(id: string, changes: operate.UpdateOptions, options?: operate.ByOption): Promise<operate.Updated> {
    const { payloadBytesMax } = this.#deps
    const by = operate.resolveBy('update', options)
    const updated = await operate.update(this.open(), id, changes, { by, payloadBytesMax })
    if (updated.dueInMs !== null) this.#deps.onTimed(updated.dueInMs)
    return updated
  }

  /** Stops a queue from giving jobs; it goes on taking them. Holds for every process until `resume`. */
  async pause(queue: string, options?: operate.ByOption): Promise<void> {
    return this.open().pause(checkName('queue', queue), operate.resolveBy('pause', options))
  }

  async resume(queue: string, options?: operate.ByOption): Promise<void> {
    return this.open().resume(checkName('queue', queue), operate.resolveBy('resume', options))
  }

  /** Replaces a queue's settings, which hold for its jobs that set nothing themselves. */
  async setQueue(queue: string, settings: operate.QueueOptions, options?: operate.ByOption): Promise<void> {
    const by = operate.resolveBy('setQueue', options)
    return this.open().setQueue(checkName('queue', queue), operate.resolveQueueSettings(settings), by)
  }

  /** Every queue that was ever enqueued to or set, by name. */
  async queues(): Promise<readonly QueueView[]> {
    return this.open().queues()
  }

  /** Makes queues known before they are used, as made by `by`. False, and none is made, when `by` would have made more than
   *  `most`. Raises `too_many_queues`. */
  async openQueues(
    names: readonly string[],
    options: { readonly by: string; readonly most: number },
  ): Promise<boolean> {
    const checked = names.map((name) => checkName('queue', name))
    return this.open().openQueues(checked, options)
  }

  /** Removes a queue with its settings. Raises `queue_not_empty` while it has jobs that are unfinished or dead, and
   *  `queue_not_found`. Whoever enqueues to it makes it anew. */
  async removeQueue(name: string, options?: operate.ByOption): Promise<void> {
    const by = operate.resolveBy('removeQueue', options)
    const result = await this.open().removeQueue(checkName('queue', name), by)
    if (result === 'removed') return
    if (result === 'missing')
      throw new HoldfastError('queue_not_found', `there is no queue ${name}`, { details: { name } })
    throw new HoldfastError(
      'queue_not_empty',
      `queue ${name} cannot be removed: it has jobs that are unfinished or dead; finish, cancel or discard them first`,
      { details: { name } },
    )
  }

  /** How many jobs stand where, in one queue or in all. */
  async stats(queue?: string, options: look.SharedOptions = {}): Promise<QueueStats> {
    const store = this.open()
    const name = queue === undefined ? null : checkName('queue', queue)
    const maxAgeMs = look.resolveMaxAge('stats', options)
    if (maxAgeMs === null) return store.stats(name)
    return this.#counts.read(`stats ${name ?? ''}`, maxAgeMs, () => store.stats(name))
  }

  /** Queues with their counts, workers and rates of the last minute, at most 1,000: first those that are paused, set or served,
   *  then those known longest. */
  async overview(options: look.OverviewOptions = {}): Promise<Overview> {
    const store = this.open()
    const { maxAgeMs, request } = look.resolveOverview(options)
    if (maxAgeMs === null) return store.overview(request)
    return this.#counts.read(`overview ${JSON.stringify(request)}`, maxAgeMs, () => store.overview(request))
  }

  /** What happened and how much was where, in steps, oldest first. Kept for three days. */
  async series(options?: look.SeriesOptions): Promise<readonly SeriesPoint[]> {
    return look.series(this.open(), options)
  }

  /** Dead jobs by what killed them, the most first. */
  async deadGroups(options?: look.DeadGroupsOptions): Promise<readonly DeadGroup[]> {
    return look.deadGroups(this.open(), options)
  }

  /** The workers that live, in every process. */
  async workers(): Promise<readonly WorkerView[]> {
    return this.open().workers()
  }

  /** Has workers look for jobs now; for after the commit of a transaction that enqueued with `tx`. */
  wake(...queues: readonly string[]): void {
    this.open().wake(queues.map((queue) => checkName('queue', queue)))
  }

  /** Creates a schedule, or changes the one of that name. `bound` counts those that one maker has made. Raises
   *  `too_many_schedules`. */
  async schedule<Input>(
    name: string,
    schedule: schedules.ScheduleOptions<Input>,
    { bound, ...options }: operate.ByOption & { readonly bound?: ScheduleBound } = {},
  ): Promise<schedules.ScheduleStatus> {
    const by = operate.resolveBy('schedule', options)
    const { payloadBytesMax } = this.#deps
    const status = await schedules.setSchedule(this.open(), name, schedule, { by, payloadBytesMax, bound })
    this.#deps.onScheduled()
    return status
  }

  /** Every schedule, by name. */
  async schedules(): Promise<readonly schedules.ScheduleStatus[]> {
    return schedules.schedules(this.open())
  }

  /** Removes a schedule; the jobs it made stay. Raises `schedule_not_found`, as do those below. */
  async unschedule(name: string, options?: operate.ByOption): Promise<void> {
    return schedules.removeSchedule(this.open(), name, operate.resolveBy('unschedule', options))
  }

  async pauseSchedule(name: string, options?: operate.ByOption): Promise<void> {
    return schedules.pauseSchedule(this.open(), name, operate.resolveBy('pauseSchedule', options))
  }

  /** Lets a paused schedule fire again, from its next time on: the ticks of the pause are not made up for. */
  async resumeSchedule(name: string, options?: operate.ByOption): Promise<void> {
    await schedules.resumeSchedule(this.open(), name, operate.resolveBy('resumeSchedule', options))
    this.#deps.onScheduled()
  }

  /** The next times of a schedule, or of an expression, from the store's time on. `count` is from 1 to 1,000, default 5. */
  async nextRuns(source: string | schedules.CronOptions, count?: number): Promise<readonly Date[]> {
    return schedules.nextRuns(this.open(), source, count)
  }

  /**
   * Does something to many jobs: writes it down and answers at once; upkeep does it, batch by batch, whatever becomes of
   * this process. With `dryRun` it says how many jobs that would be and does nothing.
   */
  bulk(request: bulk.BulkRequest & { readonly dryRun: true }, options?: operate.ByOption): Promise<bulk.BulkPreview>
  bulk(request: bulk.BulkRequest & { readonly dryRun?: false }, options?: operate.ByOption): Promise<BulkView>
  bulk(request: bulk.BulkRequest, options?: operate.ByOption): Promise<BulkView | bulk.BulkPreview>
  async bulk(request: bulk.BulkRequest, options?: operate.ByOption): Promise<BulkView | bulk.BulkPreview> {
    const by = operate.resolveBy('bulk', options)
    const answer = await bulk.bulk(this.open(), request, { id: this.#deps.nextId(), by })
    if ('id' in answer) this.#deps.onBulk?.()
    return answer
  }

  /** The newest bulk actions and how far they have come, newest first. */
  async bulks(options?: bulk.BulksOptions): Promise<readonly BulkView[]> {
    return bulk.bulks(this.open(), options)
  }

  /** One bulk action, or null when there is none of that id. */
  async getBulk(id: string): Promise<BulkView | null> {
    return this.open().getBulk(checkId('id', id))
  }

  /** Ends a bulk action; what it has done stays done. Raises `bulk_not_found`. */
  async cancelBulk(id: string, options?: operate.ByOption): Promise<BulkView> {
    return bulk.cancelBulk(this.open(), id, operate.resolveBy('cancelBulk', options))
  }

  /** A page of the audit log, newest first: who changed what. */
  async audit(options?: look.AuditOptions): Promise<AuditPage> {
    return look.audit(this.open(), options)
  }

  /** Writes a line into the audit log, for what is done beside this client. */
  async record(note: look.AuditNote, options?: operate.ByOption): Promise<void> {
    return look.record(this.open(), note, operate.resolveBy('record', options))
  }

  /** Makes an API key. Its secret is in the answer and nowhere else. */
  async createKey(key: keys.KeyOptions, options?: operate.ByOption): Promise<keys.CreatedKey> {
    const by = operate.resolveBy('createKey', options)
    const made = await keys.createKey(this.open(), key, by, this.#deps.ports.random)
    this.#keys.forget(made.key.id)
    return made
  }

  /** Every API key, newest first, without what lets anybody in. */
  async keys(): Promise<readonly ApiKey[]> {
    return this.open().keys()
  }

  /** Ends an API key, here immediately and in other processes within 5 s. Raises `key_not_found`. */
  async revokeKey(id: string, options?: operate.ByOption): Promise<ApiKey> {
    const revoked = await keys.revokeKey(this.open(), id, operate.resolveBy('revokeKey', options))
    this.#keys.forget(revoked.id)
    return revoked
  }

  /** The API key a secret belongs to, or null when it belongs to none that holds. Keys are remembered for 5 s. */
  async authenticate(secret: string): Promise<ApiKey | null> {
    return keys.authenticate(this.open(), secret, { cache: this.#keys, nowMs: this.#deps.time.nowMs() })
  }

  /** What the store says about itself, and how far its clock is from ours. */
  async health(): Promise<look.Health> {
    return look.health(this.open(), this.#deps.ports)
  }
}

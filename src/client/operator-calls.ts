// What operators ask of a queue: looking at jobs and events, changing jobs one by one or in bulk, queues, schedules, keys. Each call
// checks its arguments, asks the store, and says as an error what the store refused. The parts are in the files around it.

import { checkBoolean, checkId, checkName, isId } from '../core/check.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Explanation } from '../core/explain.js'
import type { FlowCounts } from '../core/flow/counts.js'
import type { GroupOverrideOptions, NamedLimitOptions } from '../core/flow/resolve.js'
import type { LimitView, StoppedGroup, TrackView } from '../core/flow/views.js'
import type { NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { OutputChunk } from '../core/kept/kept.js'
import type {
  ApiKey,
  AuditPage,
  BulkView,
  CountResult,
  DeadGroup,
  Overview,
  SeriesPoint,
  TallySink,
} from '../core/operating.js'
import type { OperatorStore, ScheduleBound } from '../core/operator-store.js'
import type { Ports } from '../core/ports.js'
import type { JobView, QueueStats, QueueView, WorkerView } from '../core/views.js'
import { type ApplyFlowOptions, applyFlow, type FlowApplied, readFlow } from './apply-flow.js'
import * as backfills from './backfill.js'
import * as bulk from './bulk.js'
import * as effects from './doubtful.js'
import { type EventsOptions, iterateEvents } from './event-iterator.js'
import type { Events } from './events.js'
import * as flow from './flow-calls.js'
import type { FlowDocument } from './flow-document.js'
import type { EventsDropped } from './followed-jobs.js'
import * as actions from './job-actions.js'
import { followJobs, type JobEventsOptions } from './job-events.js'
import type { EnqueueResult } from './job-handle.js'
import type { JobEvent } from './job-history.js'
import * as keys from './keys.js'
import { KeyCache } from './keys.js'
import * as look from './look.js'
import { type EventName, type EventNamed, listenByName } from './named-events.js'
import * as output from './read-output.js'
import { RemoteWork } from './remote-work.js'
import { runAgain } from './run-again.js'
import * as schedules from './schedules.js'
import { SharedCounts } from './shared-counts.js'
import { type SignalOptions, type SignalSent, Signals } from './signals.js'
import type { StoreTime } from './store-time.js'

/** What these calls stand on. */
export interface OperatorCallsDeps {
  readonly store: JobStore & OperatorStore
  readonly ports: Ports
  readonly events: Events
  readonly time: StoreTime
  /** Counts what ends here. */
  readonly tally?: TallySink
  readonly payloadBytesMax: number
  nextId(): string
  /** Enqueues a job that is complete. */
  enqueue(job: NewJob): Promise<EnqueueResult>
  /** Called when a job was given a time here, so that promote can wake for it. */
  onTimed(delayMs: number): void
  /** Called when a schedule was made, changed or resumed here. */
  onScheduled(): void
  /** Called when a bulk action was asked for here. */
  onBulk?(): void
}

/** The part of a client that operators use. */
export class OperatorCalls {
  readonly #deps: OperatorCallsDeps
  readonly #keys: KeyCache
  readonly #counts: SharedCounts
  readonly #signals: Signals
  #remoteWork: RemoteWork | null = null
  #isClosed = false

  constructor(deps: OperatorCallsDeps) {
    this.#deps = deps
    this.#keys = new KeyCache(deps.ports.clock)
    this.#counts = new SharedCounts(deps.ports.clock)
    this.#signals = new Signals(deps)
  }

  /** The store, unless this is closed. */
  protected open(): JobStore & OperatorStore {
    if (this.#isClosed) throw new HoldfastError('closed', 'this client is closed: connect again')
    return this.#deps.store
  }

  /** The newest ticks of a schedule that made a job, newest first, as long as their jobs are kept. */
  async ticks(name: string, options?: backfills.TicksOptions): Promise<readonly backfills.TickView[]> {
    return backfills.ticks(this.open(), name, options)
  }

  /** Makes a job for each tick of a range that has none; with `dryRun` only says which. Raises `invalid_option` beyond 1,000 ticks. */
  async backfill(name: string, options: backfills.BackfillOptions): Promise<backfills.Backfilled> {
    const { nextId, enqueue } = this.#deps
    return backfills.backfill({ store: this.open(), nextId, enqueue }, name, options)
  }

  /** Enqueues a new job like one that has finished: type, queue, payload, priority, tags, group and limits. Recorded in the audit log. Raises
   *  `job_not_found`, and `wrong_state` for a job that has not finished. */
  async runAgain(id: string, options?: actions.ByOption): Promise<EnqueueResult> {
    const { nextId, enqueue } = this.#deps
    return runAgain({ store: this.open(), nextId, enqueue }, id, options)
  }

  /** What servers do for workers over HTTP. */
  get remoteWork(): RemoteWork {
    const store = this.open()
    const { ports, tally, time } = this.#deps
    this.#remoteWork ??= new RemoteWork({ store, ports, tally, nowMs: () => time.nowMs() })
    return this.#remoteWork
  }

  /** Answers every claim that waits for jobs. */
  endRemoteWaits(): void {
    this.#remoteWork?.close()
  }

  /** Refuses every later call. */
  protected shut(): void {
    this.#isClosed = true
  }

  /** Calls `listener` for what happens in this process from now on: for everything, or for the events of these names. Beside the events
   *  there are four names about what became of a job: `job.succeeded`, `job.cancelled`, `job.retrying` and `job.dead`, the last two with
   *  the error. Returns the function that ends it. */
  on(listener: Emit): () => void
  on<Name extends EventName>(names: Name | readonly Name[], listener: (event: EventNamed<Name>) => void): () => void
  on<Name extends EventName>(
    first: Emit | Name | readonly Name[],
    second?: (event: EventNamed<Name>) => void,
  ): () => void {
    if (typeof first === 'string' || Array.isArray(first)) {
      return listenByName(this.#deps.events, first as Name | readonly Name[], second!)
    }
    const listener = first as Emit
    if (typeof listener !== 'function') {
      throw invalidOption('a listener must be a function', listener)
    }
    this.#deps.events.on(listener)
    return () => this.off(listener)
  }

  /** The events of this process from now on, as an async iterator that ends with its signal, or when its loop is left. */
  events<Name extends EventName>(options: EventsOptions<Name>): AsyncIterableIterator<EventNamed<Name>> {
    this.open()
    return iterateEvents(this.#deps.events, options)
  }

  /** The events of jobs wherever they run, read from what the store keeps of them: those of `job`, from its enqueue to its end, or those of all jobs of
   *  `queues` and `types`, from now on. Goes on after the store was away. */
  jobEvents(options: JobEventsOptions): AsyncIterable<JobEvent | EventsDropped> {
    this.open()
    return followJobs({ store: () => this.open(), ports: this.#deps.ports, events: this.#deps.events }, options)
  }

  off(listener: Emit): void {
    this.#deps.events.off(listener)
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

  /** How many jobs match. Answers soon: where not every job could be looked at, `isExact` is false. */
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

  /** Sends a signal to a job that waits for it with `ctx.waitFor`, or will: until then it is kept. `value` is any JSON value. Raises `wrong_state` for
   *  a job that has finished, `job_not_found`, `unstorable`, `kept_full`. */
  async signal(id: string, name: string, value?: unknown, options?: SignalOptions): Promise<SignalSent> {
    this.open()
    return this.#signals.send({ id, name, value, options })
  }

  /** The output of a job, piece by piece, from `from` on: what is there, and then what comes, until the job has finished. Go on after a break with the
   *  `next` of the last piece. Raises `job_not_found`, and what the store raises when it is away for half a minute. */
  read(id: string, options?: output.ReadOptions): AsyncIterable<OutputChunk> {
    this.open()
    return output.readOutput({ store: () => this.open(), ports: this.#deps.ports }, id, options)
  }

  /** Effects of `ctx.once` in doubt: those that were begun more than once, or whose outcome is not known because the attempt was cut off. A
   *  provider that takes idempotency keys has done each of them once; with another, look there. */
  async doubtful(options?: effects.DoubtfulOptions): Promise<effects.DoubtfulList> {
    return effects.doubtful(this.open(), options)
  }

  /** Cancels a job: immediately while it waits; while it runs, its worker is notified and its signal fires. Raises `wrong_state`
   *  for one that has succeeded or is dead, `job_not_found`. */
  async cancel(id: string, options?: actions.ByOption): Promise<actions.Cancelled> {
    return actions.cancel(this.open(), id, options)
  }

  /** Requeues a dead job, or many by filter: attempts start again at 0, the idempotency key is taken again. Raises for one
   *  `wrong_state`, `job_not_found` or `key_conflict`; of many it lists those that stay dead. */
  requeue(id: string, options?: actions.ByOption): Promise<actions.Requeued>
  requeue(many: actions.RequeueMany, options?: actions.ByOption): Promise<actions.RequeuedMany>
  async requeue(
    target: string | actions.RequeueMany,
    options?: actions.ByOption,
  ): Promise<actions.Requeued | actions.RequeuedMany> {
    const store = this.open()
    return actions.isRequeueMany(target)
      ? actions.requeueMany(store, target, options)
      : actions.requeueOne(store, target, options)
  }

  /** Takes a dead job out of the dead-letter queue: it becomes cancelled. */
  async discard(id: string, options?: actions.ByOption): Promise<void> {
    return actions.discard(this.open(), id, options)
  }

  /** Deletes a job with everything that is known of it: payload, result, attempts, log lines, progress, steps, signals, output, idempotency
   *  key. One that waits is cancelled first. Repeating it is harmless. Raises `wrong_state` for one that runs, unless `cancel` is true. */
  async delete(id: string, options?: actions.DeleteOptions): Promise<actions.Deleted> {
    return actions.deleteJob(this.open(), id, options)
  }

  /** Changes the priority, time or payload of a job that waits. Raises `wrong_state` for one that does not. With `job`, its definition, the
   *  payload is checked: `invalid_payload`. */
  update<Payload>(
    id: string,
    changes: actions.TypedUpdateOptions<Payload>,
    options?: actions.ByOption,
  ): Promise<actions.Updated>
  update(id: string, changes: actions.UpdateOptions, options?: actions.ByOption): Promise<actions.Updated>
  async update(id: string, changes: actions.UpdateOptions, options?: actions.ByOption): Promise<actions.Updated> {
    const { payloadBytesMax } = this.#deps
    const by = actions.resolveBy('update', options)
    const updated = await actions.update(this.open(), id, changes, { by, payloadBytesMax })
    if (updated.dueInMs !== null) this.#deps.onTimed(updated.dueInMs)
    return updated
  }

  /** Stops a queue from giving jobs; it goes on taking them. Holds for every process until `resume`. */
  async pause(queue: string, options?: actions.ByOption): Promise<void> {
    return this.open().pause(checkName('queue', queue), actions.resolveBy('pause', options))
  }

  async resume(queue: string, options?: actions.ByOption): Promise<void> {
    return this.open().resume(checkName('queue', queue), actions.resolveBy('resume', options))
  }

  /** Replaces a queue's settings, which hold for its jobs that set nothing themselves. With `keepFlow` settings that say nothing about flow
   *  control leave it as it is: for those who do not show it. */
  async setQueue(
    queue: string,
    settings: actions.QueueOptions,
    { keepFlow = false, ...options }: actions.ByOption & { readonly keepFlow?: boolean } = {},
  ): Promise<void> {
    const store = this.open()
    const by = actions.resolveBy('setQueue', options)
    const name = checkName('queue', queue)
    const resolved = actions.resolveQueueSettings(settings, store.parts?.count)
    if (!checkBoolean('keepFlow', keepFlow) || resolved.flow !== undefined) return store.setQueue(name, resolved, by)
    const flow = (await store.queues()).find((known) => known.name === name)?.settings.flow
    return store.setQueue(name, flow === undefined ? resolved : { ...resolved, flow }, by)
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
   *  `queue_not_found`. The next enqueue to it makes it anew. */
  async removeQueue(name: string, options?: actions.ByOption): Promise<void> {
    const by = actions.resolveBy('removeQueue', options)
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

  /** Sets a limit by name, which jobs of any queue and type may name; `{}` bounds nothing. Holds for every process from the next claim on.
   *  Raises `too_many_limits`. */
  async setLimit(name: string, limit: NamedLimitOptions, options?: actions.ByOption): Promise<LimitView> {
    return flow.setLimit(this.open(), name, limit, actions.resolveBy('setLimit', options))
  }

  /** Removes a limit. Raises `limit_in_use` while a job that is unfinished or dead names it, or a schedule, and `limit_not_found`. */
  async removeLimit(name: string, options?: actions.ByOption): Promise<void> {
    return flow.removeLimit(this.open(), name, actions.resolveBy('removeLimit', options))
  }

  /** Every limit by name, with what counts in it now; those of queues too. */
  async limits(): Promise<readonly LimitView[]> {
    return this.open().limits()
  }

  /** Holds the breaker of a limit open: nothing that names it starts. Raises `limit_not_found`, as do the two below. */
  async openBreaker(name: string, options?: actions.ByOption): Promise<void> {
    return flow.forceBreaker(this.open(), name, 'open', actions.resolveBy('openBreaker', options))
  }

  /** Holds the breaker of a limit closed, whatever fails. */
  async closeBreaker(name: string, options?: actions.ByOption): Promise<void> {
    return flow.forceBreaker(this.open(), name, 'closed', actions.resolveBy('closeBreaker', options))
  }

  /** Leaves the breaker of a limit to itself again. */
  async releaseBreaker(name: string, options?: actions.ByOption): Promise<void> {
    return flow.forceBreaker(this.open(), name, null, actions.resolveBy('releaseBreaker', options))
  }

  /** Gives one group settings of its own, which replace those of its queue; null takes them away. */
  async setGroup(
    queue: string,
    group: string,
    settings: GroupOverrideOptions | null,
    options?: actions.ByOption,
  ): Promise<void> {
    return flow.setGroup(this.open(), { queue, group }, settings, actions.resolveBy('setGroup', options))
  }

  /** Stops a group from giving jobs; it goes on taking them. */
  async pauseGroup(queue: string, group: string, options?: actions.ByOption): Promise<void> {
    return flow.pauseGroup(this.open(), { queue, group }, actions.resolveBy('pauseGroup', options))
  }

  /** Lets a group go on that was paused, or stopped because one of its jobs died. */
  async resumeGroup(queue: string, group: string, options?: actions.ByOption): Promise<void> {
    return flow.resumeGroup(this.open(), { queue, group }, actions.resolveBy('resumeGroup', options))
  }

  /** Groups of a queue by name, those that have jobs or settings. */
  async groups(queue: string, options?: flow.GroupsOptions): Promise<flow.GroupList> {
    return flow.groups(this.open(), queue, options)
  }

  /** Limits and queues under flow control in numbers, at most 1,000 of each, the first by name. */
  async flowCounts(options: look.SharedOptions = {}): Promise<FlowCounts> {
    const store = this.open()
    const maxAgeMs = look.resolveMaxAge('flowCounts', options)
    return maxAgeMs === null ? store.flowCounts() : this.#counts.read('flow', maxAgeMs, () => store.flowCounts())
  }

  /** Groups that stopped because one of their jobs died. `limit` is from 1 to 200, default 100. */
  async stoppedGroups(options?: { readonly limit?: number }): Promise<readonly StoppedGroup[]> {
    return flow.stoppedGroups(this.open(), options)
  }

  /** The queues whose jobs name limits, and how many of them are ready. */
  async limitUsers(options?: flow.LimitUsersOptions): Promise<readonly TrackView[]> {
    return flow.limitUsers(this.open(), options)
  }

  /** A job's group with the jobs around it, and its limits. Raises `job_not_found`. */
  async jobFlow(id: string, options?: { readonly neighbours?: number }): Promise<flow.JobFlowStatus> {
    return flow.jobFlow(this.open(), id, options)
  }

  /** Brings limits, flow control of queues and settings of groups to what a document says, and writes only what differs. All of it is
   *  checked first: `invalid_option` has every mistake in `details.problems`. When a change fails, the error has `details.applied`. */
  async applyFlow(
    document: FlowDocument,
    { by, ...options }: ApplyFlowOptions & actions.ByOption = {},
  ): Promise<FlowApplied> {
    const actor = actions.resolveBy('applyFlow', by === undefined ? {} : { by })
    return applyFlow(this.open(), document, options, actor)
  }

  /** What `applyFlow` would set: every limit, queue and group with settings that no definition made. */
  async readFlow(): Promise<Required<FlowDocument>> {
    return readFlow(this.open())
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
    { bound, ...options }: actions.ByOption & { readonly bound?: ScheduleBound } = {},
  ): Promise<schedules.ScheduleStatus> {
    const by = actions.resolveBy('schedule', options)
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
  async unschedule(name: string, options?: actions.ByOption): Promise<void> {
    return schedules.removeSchedule(this.open(), name, actions.resolveBy('unschedule', options))
  }

  async pauseSchedule(name: string, options?: actions.ByOption): Promise<void> {
    return schedules.pauseSchedule(this.open(), name, actions.resolveBy('pauseSchedule', options))
  }

  /** Enqueues one job with the schedule's settings now, tagged `schedule:<name>`; its times stay as they are. */
  async runSchedule(name: string, options?: actions.ByOption): Promise<EnqueueResult> {
    const by = actions.resolveBy('runSchedule', options)
    const store = this.open()
    const job = await schedules.scheduledJob(store, name, this.#deps.nextId())
    // First: a run that is not recorded is worse than a line about a run that did not happen.
    await store.record({ actor: by, action: 'run schedule', job: job.id, target: name })
    return this.#deps.enqueue(job)
  }

  /** Lets a paused schedule fire again, from its next time on: the ticks of the pause are not made up for. */
  async resumeSchedule(name: string, options?: actions.ByOption): Promise<void> {
    await schedules.resumeSchedule(this.open(), name, actions.resolveBy('resumeSchedule', options))
    this.#deps.onScheduled()
  }

  /** The next times of a schedule, or of an expression, from the store's time on. `count` is from 1 to 1,000, default 5. */
  async nextRuns(source: string | schedules.CronOptions, count?: number): Promise<readonly Date[]> {
    return schedules.nextRuns(this.open(), source, count)
  }

  /**
   * Does something to many jobs: records it and answers immediately; upkeep does it, batch by batch, whatever becomes of
   * this process. With `dryRun` it says how many jobs that would be and does nothing.
   */
  bulk(request: bulk.BulkRequest & { readonly dryRun: true }, options?: actions.ByOption): Promise<bulk.BulkPreview>
  bulk(request: bulk.BulkRequest & { readonly dryRun?: false }, options?: actions.ByOption): Promise<BulkView>
  bulk(request: bulk.BulkRequest, options?: actions.ByOption): Promise<BulkView | bulk.BulkPreview>
  async bulk(request: bulk.BulkRequest, options?: actions.ByOption): Promise<BulkView | bulk.BulkPreview> {
    const by = actions.resolveBy('bulk', options)
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
  async cancelBulk(id: string, options?: actions.ByOption): Promise<BulkView> {
    return bulk.cancelBulk(this.open(), id, actions.resolveBy('cancelBulk', options))
  }

  /** A page of the audit log, newest first: who changed what. */
  async audit(options?: look.AuditOptions): Promise<AuditPage> {
    return look.audit(this.open(), options)
  }

  /** Writes a line into the audit log, for what is done beside this client. */
  async record(note: look.AuditNote, options?: actions.ByOption): Promise<void> {
    return look.record(this.open(), note, actions.resolveBy('record', options))
  }

  /** Makes an API key. Its secret is in the answer and nowhere else. */
  async createKey(key: keys.KeyOptions, options?: actions.ByOption): Promise<keys.CreatedKey> {
    const by = actions.resolveBy('createKey', options)
    const made = await keys.createKey(this.open(), key, by, this.#deps.ports.random)
    this.#keys.forget(made.key.id)
    return made
  }

  /** Every API key, newest first, without what lets anybody in. */
  async keys(): Promise<readonly ApiKey[]> {
    return this.open().keys()
  }

  /** Ends an API key, here immediately and in other processes within 5 s. Raises `key_not_found`. */
  async revokeKey(id: string, options?: actions.ByOption): Promise<ApiKey> {
    const revoked = await keys.revokeKey(this.open(), id, actions.resolveBy('revokeKey', options))
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

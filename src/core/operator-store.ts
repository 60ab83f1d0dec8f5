// What operators do and look at: act on jobs, queues, schedules, bulk actions and API keys, and read what the store knows. The
// client's operator calls take this part of the contract, and through them the server, the CLI and the metrics. A call that takes `by` and
// changes something writes its line of the audit log in the same transaction. store.ts has the rules that hold for all three parts.

import type { FlowCounts } from './flow/counts.js'
import type { GroupOverride, LimitSettings } from './flow/settings.js'
import type {
  GroupPage,
  GroupsRequest,
  LimitOrigin,
  LimitView,
  Neighbours,
  NeighboursRequest,
  StoppedGroup,
  TracksRequest,
  TrackView,
} from './flow/views.js'
import type { JobFilter } from './job-filter.js'
import type { JobStore, Queryable } from './job-store.js'
import type { StoredError } from './json.js'
import type {
  ApiKey,
  AuditPage,
  AuditRecord,
  AuditRequest,
  BulkView,
  CountResult,
  DeadGroup,
  DeadGroupsRequest,
  NewApiKey,
  NewBulk,
  Overview,
  OverviewRequest,
  SeriesPoint,
  SeriesRequest,
  Standing,
  StoreHealth,
} from './operating.js'
import type { Schedule, ScheduleView } from './schedule.js'
import type { JobState } from './states.js'
import type { JobSummary, QueueSettings, QueueStats, QueueView, WorkerView } from './views.js'

/** The most rows a page of a list holds. */
export const PAGE_MAX = 200
/** How many jobs one page of a list looks through at most, and how many one count. */
export const LIST_WINDOW = 5_000
export const COUNT_WINDOW_MAX = 100_000

/** The answer of an action that the job's state does not allow; states.ts has the table. */
export interface Refused {
  readonly id: string
  readonly result: 'refused'
  readonly state: JobState
  /** Another job holds the idempotency key; its id, or null while the transaction that writes the key has not ended. */
  readonly heldBy?: string | null
}

export interface Missing {
  readonly id: string
  readonly result: 'missing'
}

export type CancelResult =
  /** `asked`: it is running. Its worker is notified, and it ends as cancelled unless it succeeds first. */
  { readonly id: string; readonly result: 'cancelled' | 'asked' } | Refused | Missing

export type RequeueResult =
  /** `requeues` is how often the job has been requeued by now: 1 for the first time. */
  { readonly id: string; readonly result: 'requeued'; readonly requeues: number } | Refused | Missing

/** `deleted`: nothing is known of it any more. */
export type DeleteResult = { readonly id: string; readonly result: 'deleted' } | Refused | Missing

export type UpdateResult =
  | { readonly id: string; readonly result: 'updated'; readonly state: JobState }
  | Refused
  | Missing

/** A job that is to be dead without having run here. */
export interface Burial {
  readonly id: string
  /** How often it was tried elsewhere, from 1. */
  readonly attempt: number
  /** Why it failed there. */
  readonly error: StoredError
  /** Who ran it there, up to 100 characters. */
  readonly worker: string
}

export type BuryResult = { readonly id: string; readonly result: 'buried' } | Refused | Missing

export interface JobChanges {
  readonly priority?: number
  /** A time, or null for immediately. */
  readonly runAtMs?: number | null
  /** JSON text. */
  readonly payload?: string
}

/** Who makes a schedule, and how many of theirs there may be. */
export interface ScheduleBound {
  readonly maker: string
  readonly most: number
}

export interface ListRequest {
  readonly filter: JobFilter
  /** From 1 to PAGE_MAX. */
  readonly limit: number
  /** Continue below this id; null starts with the newest. */
  readonly before: string | null
  /** Ends the search when nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined
}

export interface JobPage {
  /** Newest first. */
  readonly jobs: readonly JobSummary[]
  /** Where the next page continues, or null at the end. A page may be short, even empty, and still have one: a call looks
   *  through a bounded number of jobs. */
  readonly next: string | null
  /** How many jobs were looked through. */
  readonly searched: number
  /** When the bound ended the page: the time in the id of the oldest job that was looked at. Otherwise null. */
  readonly searchedTo: Date | null
}

/** What operators do and look at, with what they need of the life of a job. */
export interface OperatorStore extends Pick<JobStore, 'get' | 'now'> {
  // Jobs. Each id is answered by itself, in order.

  /** Ends jobs that wait; asks for the end of those that run. */
  cancel(ids: readonly string[], by: string): Promise<readonly CancelResult[]>
  /** Makes dead jobs ready again: attempts and crashes start at 0, the idempotency key is taken again, the requeue is recorded. It
   *  goes to the end of its group; in an ordered group that stops for its dead it gets its own place back. */
  requeue(ids: readonly string[], by: string): Promise<readonly RequeueResult[]>
  /** Gives dead jobs up: they become cancelled. */
  discard(ids: readonly string[], by: string): Promise<readonly CancelResult[]>
  /** Removes jobs with everything that is known of them: facts, payload, result, attempts, log lines, progress, steps, signals, output,
   *  idempotency key. One that waits is cancelled first, so the jobs that come after it end or go on as after a cancel. One that runs is
   *  refused. To jobs that come after a deleted one it counts as pruned. The audit log keeps ids alone. */
  delete(ids: readonly string[], by: string): Promise<readonly DeleteResult[]>
  /** Makes jobs dead, reason `attempts`, that are scheduled and have never run, with one failed attempt that happened elsewhere: what an import does
   *  with failed jobs. Their keys are free and jobs that come after them are unblocked, as at any death; an ordered group goes on. Not recorded in the
   *  audit log. With `tx` it holds exactly if that commits; only a store that has transactions takes one. */
  bury(burials: readonly Burial[], request?: { readonly tx?: Queryable | undefined }): Promise<readonly BuryResult[]>
  /** Changes a job that waits. */
  update(id: string, changes: JobChanges, by: string): Promise<UpdateResult>

  // Queues.

  /** A paused queue accepts jobs, and no claim gets one. */
  pause(queue: string, by: string): Promise<void>
  resume(queue: string, by: string): Promise<void>
  /** Replaces a queue's settings. Limits in `flow` hold from the next claim on, for what waits already too; jobs that run beyond a
   *  lowered one run to their end. */
  setQueue(queue: string, settings: QueueSettings, by: string): Promise<void>
  queues(): Promise<readonly QueueView[]>
  /** Makes queues known before they are used, as made by `by`. False, and none is made, when `by` would have made more than
   *  `most`. Raises `too_many_queues` when there would be more than the store takes. */
  openQueues(names: readonly string[], options: { readonly by: string; readonly most: number }): Promise<boolean>
  /** Forgets a queue with its settings, those of its groups too. `busy` when it has jobs that are unfinished or dead. */
  removeQueue(name: string, by: string): Promise<'removed' | 'busy' | 'missing'>

  // Limits and groups. Each change wakes the queues it may let go on.

  /** Sets a limit, and makes it when there is none. What counts in it stays; a lowered one lets running jobs end. From a definition it
   *  changes nothing where an operator has set the limit. Returns what holds. Raises `too_many_limits` when it is new and there are
   *  LIMITS_MAX, `invalid_name` for the name of a queue's limit. */
  setLimit(name: string, settings: LimitSettings, by: string, origin?: LimitOrigin): Promise<LimitView>
  /** Forgets a limit. `busy` when a job that is unfinished or dead names it, or a schedule. Those of queues go with their settings. */
  removeLimit(name: string, by: string): Promise<'removed' | 'busy' | 'missing'>
  /** Every limit by name, those of queues with concurrency or rate included. */
  limits(): Promise<readonly LimitView[]>
  /** Holds a limit's breaker open or closed, whatever the outcomes; null leaves it to itself again, closed at first. False when there is
   *  no limit of that name. */
  forceBreaker(name: string, forced: 'open' | 'closed' | null, by: string): Promise<boolean>
  /** Gives a group settings of its own; null takes them away. */
  setGroup(queue: string, group: string, override: GroupOverride | null, by: string): Promise<void>
  /** A paused group accepts jobs, and no claim gets one. */
  pauseGroup(queue: string, group: string, by: string): Promise<void>
  resumeGroup(queue: string, group: string, by: string): Promise<void>
  /** A page of a queue's groups, by name. */
  groups(request: GroupsRequest): Promise<GroupPage>
  /** Limits and queues in numbers, for metrics: bounded in number and time, whatever there is. */
  flowCounts(): Promise<FlowCounts>
  /** Groups that the death of a job has stopped, of queues whose groups are ordered, by queue and name. `limit` is from 1 to PAGE_MAX. */
  stoppedGroups(limit: number): Promise<readonly StoppedGroup[]>
  /** Who waits for which limits: tracks that name some, by queue, at most TRACKS_SHOWN_MAX. A track stays when its jobs have finished. */
  tracks(request: TracksRequest): Promise<readonly TrackView[]>
  /** The jobs around one of a group: those that run, and those before and after it in the order of the group. */
  neighbours(request: NeighboursRequest): Promise<Neighbours>

  // Schedules.

  /** Creates a schedule or changes the one of that name; its next time is `nextAtMs` when it is new or its times changed. Raises
   *  `too_many_schedules` when it is new and there are SCHEDULES_MAX, or its maker has made as many as they may; `limit_unknown` when
   *  it names a limit nobody has set. */
  setSchedule(schedule: Schedule, nextAtMs: number, by: string, bound?: ScheduleBound): Promise<ScheduleView>
  removeSchedule(name: string, by: string): Promise<boolean>
  /** False when there is no schedule of that name. */
  pauseSchedule(name: string, by: string): Promise<boolean>
  /** False when there is no schedule of that name. `nextAtMs` is its next time. */
  resumeSchedule(name: string, nextAtMs: number, by: string): Promise<boolean>
  schedules(): Promise<readonly ScheduleView[]>

  // Bulk actions. Upkeep does them batch by batch.

  /** Records a bulk action. If its id is known, the answer is the one that is there. */
  startBulk(bulk: NewBulk): Promise<BulkView>
  /** The newest bulk actions, newest first. `limit` is from 1 to PAGE_MAX. */
  bulks(limit: number): Promise<readonly BulkView[]>
  getBulk(id: string): Promise<BulkView | null>
  /** Ends a bulk action; what it has done stays done. One that has ended is left as it is. Null when there is none. */
  cancelBulk(id: string, by: string): Promise<BulkView | null>

  // API keys and the audit log.

  /** Keeps an API key: its hash, never its secret. If its id is known, the answer is the one that is there. */
  createKey(key: NewApiKey, by: string): Promise<ApiKey>
  /** Every key, newest first, at most 1,000. */
  keys(): Promise<readonly ApiKey[]>
  findKey(id: string): Promise<(ApiKey & { readonly hash: string }) | null>
  /** Ends a key immediately. Null when there is none of that id. */
  revokeKey(id: string, by: string): Promise<ApiKey | null>
  /** Records that a key was used, at most once a minute. */
  touchKey(id: string): Promise<void>
  /** A random text that every process on this store knows, and no other program. */
  sharedSecret(): Promise<string>
  /** Writes a line into the audit log. For what no call of this store does by itself. */
  record(entry: AuditRecord): Promise<void>
  /** A page of the audit log, newest first. */
  audit(request: AuditRequest): Promise<AuditPage>

  // Looking. None of it changes anything.

  /**
   * A page of the jobs that match, newest first. Looks through at most LIST_WINDOW jobs: of those in the states the filter
   * names, or with the ids. A key leads to the job that holds it, a schedule to the jobs of its newest LIST_WINDOW ticks. A
   * filter on the time of creation looks only at jobs whose ids were made within an hour of it.
   */
  list(request: ListRequest): Promise<JobPage>
  /** How many jobs match, looking through at most `max` of them, from 1 to COUNT_WINDOW_MAX. */
  count(
    filter: JobFilter,
    options: { readonly max: number; readonly signal?: AbortSignal | undefined },
  ): Promise<CountResult>
  /** Those of the ids, at most BATCH_MAX, that are of jobs in these queues. A job of another queue costs as much as none. */
  among(ids: readonly string[], queues: readonly string[]): Promise<readonly string[]>
  /** What explains why a job is where it is, or null when there is none of that id. */
  standing(id: string): Promise<Standing | null>
  stats(queue: string | null): Promise<QueueStats>
  /** Queues with their counts and their rates of the last minute, at most 1,000. First those that are paused, have settings or a
   *  live worker, then those known longest: new ones push none out of sight. */
  overview(request?: OverviewRequest): Promise<Overview>
  /** What happened and how many jobs were in each state, in steps, oldest first. */
  series(request: SeriesRequest): Promise<readonly SeriesPoint[]>
  /** Dead jobs by what killed them, the largest group first. */
  deadGroups(request: DeadGroupsRequest): Promise<readonly DeadGroup[]>
  workers(): Promise<readonly WorkerView[]>
  /** What the store knows about itself. */
  health(): Promise<StoreHealth>
}

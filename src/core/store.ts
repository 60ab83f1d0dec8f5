// The one contract every store keeps, in the order of a job's life. Each method says its effect, what it does at once or
// not at all, and how it fails. The memory store is its executable form; the conformance suite in testing/store-suite
// holds every store to it.
//
// Three rules hold for all of them:
// - Time is the store's own. No caller's clock decides anything, and delays count from the moment a call is applied.
// - What a worker writes names a lease, never an id alone. A lease that no longer holds is reported, not raised.
// - Every call may be repeated after its answer was lost, and the repetition changes nothing.
// A call raises HoldfastError: `store_unavailable` (retryable; it may or may not have taken effect), `store_refused`,
// `store_read_only` or `access_denied`.

import type {
  ClaimedJob,
  Enqueued,
  ExpiredJob,
  JobFilter,
  JobNote,
  JobSummary,
  JobView,
  Lease,
  NewJob,
  QueueSettings,
  QueueStats,
  QueueView,
  Schedule,
  ScheduleView,
  SettledJob,
  WorkerBeat,
  WorkerView,
} from './job.js'
import type { StoredError } from './json.js'
import type {
  ApiKey,
  AuditPage,
  AuditRecord,
  AuditRequest,
  BulkProgress,
  BulkView,
  CountResult,
  DeadGroup,
  DeadGroupsRequest,
  Horizon,
  NewApiKey,
  NewBulk,
  Overview,
  OverviewRequest,
  QueueTally,
  SeriesPoint,
  SeriesRequest,
  Standing,
  StoreHealth,
} from './operating.js'
import type { ClaimOnEnqueue } from './reserve.js'
import type { DeadReason, JobState } from './states.js'

/** Anything a query can be sent to inside the caller's transaction: a pg client, or an adapter of one line. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

/** The most jobs one call of enqueue, claim, extend or settle takes. Callers cut larger work into pieces. */
export const BATCH_MAX = 5_000
/** The most rows a page of a list holds. */
export const PAGE_MAX = 200
/** How many jobs one page of a list looks through at most, and how many one count. */
export const LIST_WINDOW = 5_000
export const COUNT_WINDOW_MAX = 100_000

export interface ClaimRequest {
  /** Which queues to take from and how many of each at most, in this order. */
  readonly queues: readonly { readonly queue: string; readonly limit: number }[]
  /** The types the worker knows; jobs of others are left alone. Null takes any. */
  readonly types: readonly string[] | null
  readonly worker: string
  readonly leaseMs: number
}

export interface Claim {
  /** In the order they should run: by queue as asked, then highest priority, then longest ready. */
  readonly jobs: readonly ClaimedJob[]
  /** The store's time of the claim. */
  readonly nowMs: number
  /** How long the longest-waiting of the jobs had been ready; null when there are none. */
  readonly waitedMs: number | null
}

export interface Extension {
  /** Leases that no longer hold: another claim, a settlement or an operator ended them. */
  readonly lost: readonly Lease[]
  /** Leases whose job somebody asked to cancel. They are extended all the same. */
  readonly cancelled: readonly Lease[]
}

export interface Watch extends Extension {
  /** Of the leases that no longer hold: those under which the job was settled, for instance by the handler's own transaction. */
  readonly settled: readonly Lease[]
}

export interface SettleResult extends Lease {
  /** `settled` also when this very settlement took effect earlier; `lost` when the lease no longer holds; `locked` when somebody's open
   *  transaction is settling the job, most often its handler's own: the lease holds, nothing has changed, and it can be sent again
   *  later. */
  readonly result: 'settled' | 'lost' | 'locked'
  /** Where the job went: a cancel that was asked for while it ran turns a retry or a release into `cancelled`. */
  readonly state: JobState | null
}

export interface Promotion {
  /** How many jobs became ready, whose time had come or whose parents had finished. */
  readonly promoted: number
  readonly queues: readonly string[]
  /** How long until the next job is due, or null when none is waiting for a time. */
  readonly nextDueMs: number | null
  /** How long the first of those whose time had come had been due; null when there was none. */
  readonly lateMs: number | null
}

export interface Expired {
  readonly jobs: readonly ExpiredJob[]
  readonly nowMs: number
  /** How long the store has been up, or null when it cannot say. After an outage living workers must get the chance to
   *  extend first. */
  readonly upMs: number | null
}

export interface DueSchedules {
  readonly schedules: readonly (ScheduleView & { readonly nextAtMs: number })[]
  readonly nowMs: number
  /** How long until the next schedule is due, or null when there is none. */
  readonly nextDueMs: number | null
}

/** Who makes a schedule, and how many of theirs there may be. */
export interface ScheduleBound {
  readonly maker: string
  readonly most: number
}

export interface FireRequest {
  readonly name: string
  /** The due time the firing was computed from. The call does nothing when the schedule has moved on since. */
  readonly expectedNextAtMs: number
  /** The jobs to make, one for each tick, oldest first. */
  readonly ticks: readonly { readonly tickMs: number; readonly job: NewJob }[]
  readonly nextAtMs: number | null
}

export interface Fired {
  /** False when another process was first. */
  readonly fired: boolean
  /** Ids of the jobs that were made; ticks skipped because of overlap make none. */
  readonly jobs: readonly string[]
}

export interface PruneOptions {
  /** How long finished jobs are kept where their queue sets nothing. */
  readonly retentionMs: number
}

export interface PruneAuditOptions {
  /** Lines older than this go. */
  readonly keptMs: number
  /** And those that are so many behind the newest, however young. */
  readonly linesMax: number
}

export interface Pruned {
  /** Whole days of finished jobs that were dropped, as YYYY-MM-DD. */
  readonly days: readonly string[]
  /** Rows removed one by one: expired keys, old ticks, gone workers. */
  readonly rows: number
  /** Days that could not be dropped or prepared and are passed over for now, oldest first, at most 100. */
  readonly postponed: readonly PostponedDay[]
  /** False when there is more to do that need not wait for the usual time: a call does a bounded piece of work. */
  readonly isDone: boolean
}

/** A day that retention passes over for now. */
export interface PostponedDay {
  /** As YYYY-MM-DD. */
  readonly day: string
  /** In plain words, with what to do about it where something can be done. */
  readonly why: string
}

/** What a call on a job came to when the job's state did not allow it. */
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
  /** `asked`: it is running; its worker is told, and it ends as cancelled unless it succeeds first. */
  { readonly id: string; readonly result: 'cancelled' | 'asked' } | Refused | Missing

export type RequeueResult =
  | { readonly id: string; readonly result: 'requeued'; readonly replay: number }
  | Refused
  | Missing

export type UpdateResult =
  | { readonly id: string; readonly result: 'updated'; readonly state: JobState }
  | Refused
  | Missing

export interface JobChanges {
  readonly priority?: number
  /** A time, or null for at once. */
  readonly runAtMs?: number | null
  /** JSON text. */
  readonly payload?: string
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

/** How a finished job ended; for waiting on it. */
export interface Ending {
  readonly id: string
  readonly state: 'succeeded' | 'dead' | 'cancelled'
  /** JSON text, or null. */
  readonly result: string | null
  readonly reason: DeadReason | null
  readonly error: StoredError | null
}

/** What a store may tell on its own, from any process. Each may be lost: nothing depends on it but speed. */
export interface StoreListener {
  /** Jobs became ready in a queue. `isOwnEnqueue` when an enqueue through this very store wrote them. */
  ready?(queue: string, isOwnEnqueue: boolean): void
  /** Somebody may have asked to cancel a running job. A hint, which anyone who can connect may forge: `watch` knows. */
  cancel?(id: string): void
}

/** How a heartbeat thread extends leases without the main thread: the module it loads and what it is told. */
export interface ExtenderSpec {
  readonly kind: Store['kind']
  /** URL of a module that exports `openExtender(data): Promise<{ extend, close }>`; null where the program was bundled. */
  readonly module: string | null
  /** Structured-cloneable settings for it. */
  readonly data: unknown
}

export interface Store {
  readonly kind: 'memory' | 'postgres' | 'redis'

  // — the life of a job —

  /**
   * Writes jobs, all of them at once or none, and answers for each in order. A job whose idempotency key is held is not
   * written: the answer has the holder's id and `created: false`. A job whose id is already known is left as it is.
   * With `tx` the jobs exist exactly if the caller's transaction commits. With `claim` the first of them are leased at the
   * same time, as if a claim had followed that saw nobody in line before them; a store may claim fewer or none, and claims
   * none of a paused queue and none that it knew before.
   * Without `tx` it waits for no key that a transaction which is open elsewhere is writing: it writes nothing and raises what
   * `heldKeys` makes. `wereHeld` has those of the jobs whose keys were held a moment ago: while they are, it may raise that
   * without trying to write.
   */
  enqueue(
    jobs: readonly NewJob[],
    options?: {
      readonly tx?: Queryable
      readonly claim?: ClaimOnEnqueue | undefined
      readonly wereHeld?: readonly NewJob[]
    },
  ): Promise<readonly Enqueued[]>

  /** Leases ready jobs: each moves to running with its attempt and fence counted up. No two claims get the same job. */
  claim(request: ClaimRequest): Promise<Claim>

  /** Says that the handlers of these leases are about to start. Only asked for jobs that crashed before, so that a job
   *  that merely waited beside the one that crashes is not blamed. */
  begin(leases: readonly Lease[]): Promise<void>

  /** Makes leases last `leaseMs` from now. */
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>

  /** Which of these leases have a job somebody asked to cancel, no longer hold, or ended with a settlement. Changes nothing. */
  watch(leases: readonly Lease[]): Promise<Watch>

  /** Keeps progress and log lines of running jobs; those of lost leases are dropped. */
  note(notes: readonly JobNote[]): Promise<void>

  /**
   * Ends leases and puts their jobs where the settlements say. Each counts by itself: a lost one changes nothing and
   * does not disturb its neighbours. `onlyExpired` settles just those whose lease has run out (for rescue). With `tx` the
   * settlement holds exactly if the caller's transaction commits.
   */
  settle(
    jobs: readonly SettledJob[],
    options?: { readonly tx?: Queryable; readonly onlyExpired?: boolean },
  ): Promise<readonly SettleResult[]>

  // — upkeep: any process may call these at any time, each bounded by its limit —

  /** Makes jobs ready whose time has come, and those whose parents have finished. */
  promote(limit: number): Promise<Promotion>

  /** Lists leases that have run out. */
  expired(limit: number): Promise<Expired>

  /** Lists schedules that are due and not paused. Their queues take turns, in the order of their names from the one that follows
   *  `afterQueue` on, and the schedules of one in the order of their times: many of one keep no other waiting. */
  due(limit: number, afterQueue?: string): Promise<DueSchedules>

  /** Records ticks and makes their jobs, in one transaction, unless another process was first. */
  fire(request: FireRequest): Promise<Fired>

  /** Drops finished jobs past their retention and what else has run out, and prepares the days to come. */
  prune(options: PruneOptions): Promise<Pruned>
  /** Drops the oldest lines of the audit log, a bounded number in a call, and says how many. For the owner of the store: who may
   *  operate must not be able to take back what was written about them. */
  pruneAudit(options: PruneAuditOptions): Promise<number>

  /** Adds counts to the current ten seconds. They are for showing: this is the one call that counts twice when repeated. */
  tally(tallies: readonly QueueTally[]): Promise<void>

  /** Writes down how much is where, once in ten seconds for all processes. True when this call did. */
  sample(): Promise<boolean>

  /** Does one batch of one bulk action that is due, in one transaction. Null when none is. */
  stepBulk(): Promise<BulkProgress | null>

  // — operators —

  cancel(ids: readonly string[], by: string): Promise<readonly CancelResult[]>
  /** Revives dead jobs: attempts and crashes start again at 0, the idempotency key is taken again, the replay recorded. */
  requeue(ids: readonly string[], by: string): Promise<readonly RequeueResult[]>
  /** Discards dead jobs: they become cancelled. */
  discard(ids: readonly string[], by: string): Promise<readonly CancelResult[]>
  /** Changes a job that waits. */
  update(id: string, changes: JobChanges, by: string): Promise<UpdateResult>
  /** A paused queue takes jobs and gives none. */
  pause(queue: string, by: string): Promise<void>
  resume(queue: string, by: string): Promise<void>
  setQueue(queue: string, settings: QueueSettings, by: string): Promise<void>
  queues(): Promise<readonly QueueView[]>
  /** Makes queues known before they are used, as made by `by`. False, and none is made, when `by` would have made more than
   *  `most`. Raises `too_many_queues` when there would be more than the store takes. */
  openQueues(names: readonly string[], options: { readonly by: string; readonly most: number }): Promise<boolean>
  /** Forgets a queue with its settings. `busy` when it has jobs that are unfinished or dead. */
  removeQueue(name: string, by: string): Promise<'removed' | 'busy' | 'missing'>

  /** Creates a schedule or changes the one of that name; its next time is `nextAtMs` when it is new or its times changed. Raises
   *  `too_many_schedules` when it is new and there are SCHEDULES_MAX, or its maker has made as many as they may. */
  setSchedule(schedule: Schedule, nextAtMs: number, by: string, bound?: ScheduleBound): Promise<ScheduleView>
  removeSchedule(name: string, by: string): Promise<boolean>
  /** Null resumes nothing: false when there is no schedule of that name. `nextAtMs` is its next time when it resumes. */
  pauseSchedule(name: string, by: string): Promise<boolean>
  resumeSchedule(name: string, nextAtMs: number, by: string): Promise<boolean>
  schedules(): Promise<readonly ScheduleView[]>

  /** Writes down a bulk action, to be done step by step. One whose id is known is answered as it is. */
  startBulk(bulk: NewBulk): Promise<BulkView>
  /** The newest bulk actions, newest first. `limit` is from 1 to PAGE_MAX. */
  bulks(limit: number): Promise<readonly BulkView[]>
  getBulk(id: string): Promise<BulkView | null>
  /** Ends a bulk action; what it has done stays done. One that has ended is answered as it is, null when there is none. */
  cancelBulk(id: string, by: string): Promise<BulkView | null>

  /** Keeps an API key: its hash, never its secret. Answers the one that is there when the id is known. */
  createKey(key: NewApiKey, by: string): Promise<ApiKey>
  /** Every key, newest first, at most 1,000. */
  keys(): Promise<readonly ApiKey[]>
  findKey(id: string): Promise<(ApiKey & { readonly hash: string }) | null>
  /** Ends a key at once. Null when there is none of that id. */
  revokeKey(id: string, by: string): Promise<ApiKey | null>
  /** Notes that a key was used, at most once a minute. */
  touchKey(id: string): Promise<void>

  /** Writes a line into the audit log. The calls above that take `by` and change something write theirs themselves. */
  record(entry: AuditRecord): Promise<void>

  // — looking —

  get(id: string): Promise<JobView | null>
  /** Those of the ids, at most BATCH_MAX, that are of jobs in these queues. A job of another queue costs as much as none. */
  among(ids: readonly string[], queues: readonly string[]): Promise<readonly string[]>
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
  stats(queue: string | null): Promise<QueueStats>
  /** Queues with their counts and their rates of the last minute, at most 1,000. First those that are paused, have settings or a
   *  live worker, then those known longest: new ones push none out of sight. */
  overview(request?: OverviewRequest): Promise<Overview>
  /** What happened and how much was where, in steps, oldest first. */
  series(request: SeriesRequest): Promise<readonly SeriesPoint[]>
  /** Dead jobs by what killed them, the most first. */
  deadGroups(request: DeadGroupsRequest): Promise<readonly DeadGroup[]>
  /** What explains why a job stands where it does, or null when there is none of that id. */
  standing(id: string): Promise<Standing | null>
  /** A page of the audit log, newest first. */
  audit(request: AuditRequest): Promise<AuditPage>
  /** What the store says about itself. */
  health(): Promise<StoreHealth>
  /** The oldest snapshot somebody holds, when it is older than a second; null otherwise, and where there is no such thing. */
  horizon(): Promise<Horizon | null>
  /** Those of the jobs that have finished. */
  endings(ids: readonly string[]): Promise<readonly Ending[]>
  /** The store's time. */
  now(): Promise<number>
  /** A random text that every process on this store knows, and nobody else. */
  sharedSecret(): Promise<string>

  /** Says that a worker lives. */
  beat(worker: WorkerBeat): Promise<void>
  /** Says that a worker has stopped. */
  leave(workerId: string): Promise<void>
  workers(): Promise<readonly WorkerView[]>

  // — wake-ups and the end —

  /** Tells workers in every process that jobs may be ready, e.g. after a transaction of the caller's committed. */
  wake(queues: readonly string[]): void
  listen(listener: StoreListener): () => void
  /** Whether this listener does without what other processes announce, which costs them and it less. Resolves when that is in force: what
   *  becomes ready from then on is announced again. */
  mute(listener: StoreListener, isMuted: boolean): Promise<void>
  /** How a thread of its own can extend leases, or null where the store lives in this thread. */
  extender(): ExtenderSpec | null
  close(): Promise<void>
}

// What operators see of a queue and what they ask of it beyond single jobs: overviews, series, groups of dead jobs, bulk
// actions, keys, the audit log, the store's health.

import type { FlowStanding } from './flow/views.js'
import type { SettledJob } from './job.js'
import type { JobFilter } from './job-filter.js'
import type { WaitView } from './kept/kept.js'
import type { OutboxHealth, OutboxView } from './outbox.js'
import type { JobState } from './states.js'
import type { JobSummary, QueueStats, QueueView, WorkerBeat, WorkerView } from './views.js'

/** Tallies and samples are kept in steps of this length. */
export const BUCKET_MS = 10_000
/** How long they are kept: three days. */
export const SERIES_KEPT_MS: number = 3 * 86_400_000
/** The most points of one series. */
export const SERIES_POINTS_MAX = 500
/** The most queues of an overview. */
export const OVERVIEW_QUEUES_MAX = 1_000
/** The most queues of a store unless its options differ. */
export const QUEUES_MAX = 10_000
/** The most groups of dead jobs one call gives. */
export const DEAD_GROUPS_MAX = 100
/** A worker that was seen within this time lives: workers report every 10 s, and may miss it twice. */
const WORKER_LIVE_MS = 35_000

/** Whether a worker that was last seen so long ago lives, as far as its reports say. */
export function isLiveAfter(ageMs: number, { restMs = 0 }: Pick<WorkerBeat, 'restMs'>): boolean {
  return ageMs <= WORKER_LIVE_MS + restMs
}

export interface CountResult {
  readonly count: number
  /** False when there may be more: not every job could be looked at. */
  readonly isExact: boolean
}

/** What happened in some time. */
interface Tallied {
  readonly enqueued: number
  /** Attempts that ended here. */
  readonly claimed: number
  readonly succeeded: number
  /** Attempts that failed, whatever became of the job. */
  readonly failed: number
  readonly retried: number
  readonly dead: number
  readonly cancelled: number
  readonly rescued: number
  /** From enqueue to start, of first attempts. */
  readonly waitMsTotal: number
  /** Time in handlers. */
  readonly runMsTotal: number
}

/** What happened in one queue since the last tally of this process. */
export interface QueueTally extends Tallied {
  readonly queue: string
}

/** A tally of nothing. */
export const NO_TALLY: Tallied = {
  enqueued: 0,
  claimed: 0,
  succeeded: 0,
  failed: 0,
  retried: 0,
  dead: 0,
  cancelled: 0,
  rescued: 0,
  waitMsTotal: 0,
  runMsTotal: 0,
}

/** Where what happens in a process is counted. */
export interface TallySink {
  enqueued(queue: string, count: number): void
  /** An attempt was settled. `waitMs` is how long the job had waited for its first one; null of later ones. */
  ended(settled: Pick<SettledJob, 'queue' | 'error' | 'ranMs'>, state: JobState, waitMs: number | null): void
  rescued(queue: string, state: JobState): void
}

/** Happenings per second, over the last full minute of tallies. */
export type Rates = Pick<Tallied, 'enqueued' | 'succeeded' | 'failed' | 'dead'>

/** How many jobs stand where; without those that ended well. */
export type Depth = Pick<QueueStats, 'blocked' | 'scheduled' | 'ready' | 'running' | 'retrying' | 'dead'>

export interface QueueOverview extends QueueView, Depth {
  readonly oldestAgeS: number
  /** Live workers that serve it, and how many jobs they can run concurrently, in this and their other queues. */
  readonly workers: number
  readonly slots: number
  readonly rates: Rates
}

/** Which queues an overview shows. */
export interface OverviewRequest {
  /** These, where they exist, at most 1,000; absent for all. */
  readonly queues?: readonly string[]
  /** How many are passed over. Default 0. */
  readonly offset?: number
}

export interface Overview {
  readonly nowMs: number
  readonly queues: readonly QueueOverview[]
  /** How many queues there are. */
  readonly total: number
  /** False when counts are estimated from a sample, or there are more queues. */
  readonly isExact: boolean
}

export interface SeriesRequest {
  /** Null for all queues together. */
  readonly queue: string | null
  /** The first moment, at most SERIES_KEPT_MS ago. */
  readonly sinceMs: number
  /** A multiple of BUCKET_MS that gives at most SERIES_POINTS_MAX points. */
  readonly stepMs: number
}

/** One step of a series. */
export interface SeriesPoint extends Tallied {
  /** When the step begins. */
  readonly at: Date
  /** At the last sample of the step; null when there was none. */
  readonly depth: (Depth & { readonly oldestAgeS: number }) | null
}

export interface DeadGroupsRequest {
  /** Null for all queues. */
  readonly queue: string | null
  /** From 1 to DEAD_GROUPS_MAX. */
  readonly limit: number
  /** Ends the search when nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined
}

/** Dead jobs whose errors have one fingerprint. First and last go by the jobs' ids. */
export interface DeadGroup {
  readonly fingerprint: string
  /** The error of the newest; null when it died without one. */
  readonly error: { readonly name: string; readonly message: string } | null
  readonly count: number
  readonly isExact: boolean
  /** Types and queues among its newest jobs, at most 5 of each. */
  readonly types: readonly string[]
  readonly queues: readonly string[]
  /** When the oldest and the newest of its jobs died. */
  readonly firstAt: Date
  readonly lastAt: Date
  readonly newestId: string
}

/** What a job's standing depends on. */
export interface Standing {
  readonly job: JobSummary
  /** Set of a job that is in the outbox alone. */
  readonly outbox?: OutboxView
  readonly queuePaused: boolean
  /** Of a ready job: how many of its queue would be claimed before it, counted up to 10,000. */
  readonly ahead: CountResult
  /** The jobs it comes after; all but the id is null of one that was pruned. */
  readonly parents: readonly {
    readonly id: string
    readonly state: JobState | null
    readonly type: string | null
    readonly queue: string | null
  }[]
  /** Live workers that serve its queue, at most 50. */
  readonly workers: readonly (WorkerView & { readonly knowsType: boolean })[]
  /** True of a job whose handler waits for `parents`, its children. */
  readonly waitsForChildren?: true
  /** Another job that holds its idempotency key, or null. */
  readonly keyHeldBy: string | null
  /** The signal it waits for; absent when it waits for none. */
  readonly wait?: WaitView
  /** Absent for a plain job of a queue without flow control. */
  readonly flow?: FlowStanding
  readonly nowMs: number
}

/** A line for the audit log. */
export interface AuditRecord {
  readonly actor: string
  readonly action: string
  readonly job?: string | null
  /** What else it was done to: a queue, a schedule, a bulk action, a key. */
  readonly target?: string | null
  /** A small JSON value. */
  readonly details?: unknown
}

export interface AuditEntry extends Required<AuditRecord> {
  /** Grows with every entry. */
  readonly line: number
  readonly at: Date
}

export interface AuditRequest {
  /** Continue below this line; null starts with the newest. */
  readonly before: number | null
  /** From 1 to PAGE_MAX. */
  readonly limit: number
  readonly action?: string
  readonly actor?: string
  readonly job?: string
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  /** Where the next page continues, or null at the end. A page may be short and still have one. */
  readonly next: number | null
}

export const BULK_ACTIONS = ['cancel', 'requeue', 'discard', 'delete'] as const
export type BulkAction = (typeof BULK_ACTIONS)[number]

/** The most jobs one bulk action touches, and one of its steps. */
export const BULK_LIMIT_MAX = 1_000_000
export const BULK_BATCH_MAX = 500

/** A bulk action as it is written down. It touches the jobs that match and were created before it, newest first, each once. */
export interface NewBulk {
  readonly id: string
  readonly action: BulkAction
  readonly filter: JobFilter
  readonly by: string
  /** Null for as fast as it goes. */
  readonly perSecond: number | null
  /** The most jobs it touches, up to BULK_LIMIT_MAX. */
  readonly limit: number
  /** How many jobs matched when it was asked for; for showing how far it has come. */
  readonly expected: CountResult | null
}

export type BulkState = 'waiting' | 'running' | 'done' | 'cancelled' | 'failed'

export interface BulkView extends NewBulk {
  readonly state: BulkState
  /** Jobs that matched and were tried. */
  readonly matched: number
  /** Those it was done to, and those that had moved on or were refused. */
  readonly done: number
  readonly refused: number
  readonly createdAt: Date
  readonly updatedAt: Date
  /** Why it failed. */
  readonly error: string | null
}

/** What one step of a bulk action came to. */
export interface BulkProgress {
  readonly id: string
  readonly action: BulkAction
  readonly moved: number
  readonly refused: number
  readonly state: BulkState
}

export const KEY_SCOPES = ['read', 'read:payload', 'enqueue', 'work', 'operate', 'delete', 'admin'] as const
/** What the holder of an API key may do. */
export type KeyScope = (typeof KEY_SCOPES)[number]

export interface NewApiKey {
  readonly id: string
  /** SHA-256 of the secret, in lower-case hex. */
  readonly hash: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  /** The queues it is for; null for all. */
  readonly queues: readonly string[] | null
  readonly expiresAtMs: number | null
}

/** An API key as shown: nothing in it lets anybody in. */
export interface ApiKey extends Omit<NewApiKey, 'hash' | 'expiresAtMs'> {
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly lastUsedAt: Date | null
}

/** What a store says about itself. */
export interface StoreHealth {
  readonly kind: 'memory' | 'postgres' | 'redis'
  readonly version: string
  /** True when an accepted job survives a crash of the store. */
  readonly isDurable: boolean
  readonly nowMs: number
  /** Facts of a PostgreSQL server; null for other stores. */
  readonly postgres: PostgresHealth | null
  /** Facts of a Redis server; absent for other stores. */
  readonly redis?: RedisHealth
  /** What waits in the outbox; absent for a store that has none. */
  readonly outbox?: OutboxHealth
}

export interface RedisHealth {
  readonly role: 'primary' | 'replica'
  /** What this connection waits for before it answers. */
  readonly durability: 'default' | 'replicated' | 'fsynced'
  /** Whether writes go to an append-only file, and whether the last one succeeded. */
  readonly appendOnly: boolean
  readonly lastAppendOk: boolean
  /** The server's appendfsync; null where this user may not read it. */
  readonly fsync: string | null
  /** How many follow it. */
  readonly replicas: number
  /** How many of them a write of this connection waits for; 0 at durability `default`. */
  readonly replicasWanted: number
  /** Writes that were refused since the server was started, or its statistics were reset, because it could not write to its disk. */
  readonly refusedForDisk: number
  /** Another one after a failover or a restart. */
  readonly replicationId: string
  readonly memoryBytes: number
  /** Its maxmemory; null for no limit. */
  readonly memoryBytesMax: number | null
  readonly evictionPolicy: string
  readonly connections: number
  readonly upMs: number
  /** How long the answer took, in milliseconds. */
  readonly roundTripMs: number
  /** Of a cluster; the other facts are those of the master that is worst off. Absent for one server. */
  readonly cluster?: RedisClusterHealth
}

export interface RedisClusterHealth {
  readonly shards: number
  /** Servers that have shards, as host:port. */
  readonly masters: readonly string[]
  /** cluster-require-full-coverage: while one master is away, all refuse every call. Null where this user may not read it. */
  readonly requiresFullCoverage: boolean | null
  /** What shards owe each other and was not delivered yet: a few while jobs are enqueued or end. */
  readonly messages: number
}

export interface PostgresHealth {
  /** As in server_version_num: 180001 for 18.1. */
  readonly versionNumber: number
  /** The last migration that was applied. */
  readonly schemaVersion: number
  readonly schema: string
  /** What holds for this connection. */
  readonly settings: {
    readonly synchronousCommit: string
    /** What holds for the role's own transactions, and so for jobs that are enqueued in them. */
    readonly synchronousCommitOfRole: string
    readonly fsync: boolean
    readonly fullPageWrites: boolean
    readonly autovacuum: boolean
    readonly maxConnections: number
    readonly statementTimeout: string
    readonly readOnlyByDefault: boolean
  }
  /** What the commits of this process wait for, by its option. */
  readonly durability?: 'local' | 'replicated' | 'applied'
  /** The standbys that follow, and those whose answer commits wait for: synchronous_standby_names, empty when there are none. */
  readonly standbys?: { readonly connected: number; readonly synchronous: string }
  readonly connections: number
  readonly inRecovery: boolean
  readonly databaseBytes: number
  /** How long the answer took, in milliseconds. */
  readonly roundTripMs: number
  /** True when two statements of one connection were answered by different server processes. */
  readonly hasPooler: boolean
  readonly tables: readonly TableHealth[]
  /** What keeps dead rows from being removed. */
  readonly horizon?: Horizon
  /** Days that retention passes over for now, as YYYY-MM-DD, oldest first, at most 100. */
  readonly postponedDays: readonly { readonly day: string; readonly why: string }[]
}

export interface TableHealth {
  readonly name: string
  readonly liveRows: number
  readonly deadRows: number
  readonly bytes: number
  readonly lastVacuumAt: Date | null
}

export interface Horizon {
  readonly ageMs: number
  readonly xids: number
  readonly holder: {
    readonly pid: number | null
    readonly user: string | null
    readonly application: string | null
    readonly state: string | null
    readonly since: Date | null
    readonly queryStart: Date | null
    readonly kind: 'transaction' | 'prepared' | 'slot' | 'standby'
  } | null
}

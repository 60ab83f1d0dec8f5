// How operators look: at jobs by filter, at what happened over time, at what killed jobs and what holds them up.

import { checkId, checkKeys, checkName, checkText, checkWhole } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { type Explanation, explainJob } from '../core/explain.js'
import {
  type AuditPage,
  type AuditRecord,
  BUCKET_MS,
  type CountResult,
  DEAD_GROUPS_MAX,
  type DeadGroup,
  OVERVIEW_QUEUES_MAX,
  type OverviewRequest,
  SERIES_KEPT_MS,
  type SeriesPoint,
  type StoreHealth,
} from '../core/operating.js'
import { COUNT_WINDOW_MAX, type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import type { Ports } from '../core/ports.js'
import type { JobSummary } from '../core/views.js'
import { FILTER_OPTIONS, type FilterOptions, resolveFilter } from './filter-options.js'
import { refusal } from './job-actions.js'

const LIST_LIMIT_DEFAULT = 50
const GROUPS_DEFAULT = 20
const POINTS_WANTED = 360
const ACTION_LENGTH_MAX = 100
const TARGET_LENGTH_MAX = 200
const DETAILS_LENGTH_MAX = 10_000

/** What a page of a list shows. */
export interface ListOptions extends FilterOptions {
  /** The most jobs on a page, from 1 to 200. Default 50. */
  readonly limit?: number
  /** The `cursor` of the page before. Absent or null starts with the newest job. */
  readonly cursor?: string | null
  /** Ends the search when it fires, also on the server. */
  readonly signal?: AbortSignal
}

/** A page of a list. */
export interface JobList {
  /** Newest first. */
  readonly jobs: readonly JobSummary[]
  /** Give it to the next call; null at the end. A page may be short, even empty, and still have one. */
  readonly cursor: string | null
  /** How many jobs were looked through. */
  readonly searched: number
  /** When a page ended because it had looked through as many jobs as a call may: about when the oldest of them was made. */
  readonly searchedTo: Date | null
}

export async function list(store: OperatorStore, options: ListOptions = {}): Promise<JobList> {
  checkKeys('list', options, [...FILTER_OPTIONS, 'limit', 'cursor', 'signal'])
  const limit = checkWhole('limit', options.limit ?? LIST_LIMIT_DEFAULT, 1, PAGE_MAX)
  const before = options.cursor == null ? null : checkId('cursor', options.cursor)
  const { signal } = options
  const { jobs, next, searched, searchedTo } = await store.list({
    filter: resolveFilter(options),
    limit,
    before,
    signal,
  })
  return { jobs, cursor: next, searched, searchedTo }
}

/** What is counted. */
export interface CountOptions extends FilterOptions {
  /** The most jobs to look at, from 1 to 100,000, which is the default. */
  readonly max?: number
  /** Ends the search when it fires, also on the server. */
  readonly signal?: AbortSignal
}

export async function count(store: OperatorStore, options: CountOptions = {}): Promise<CountResult> {
  checkKeys('count', options, [...FILTER_OPTIONS, 'max', 'signal'])
  const max = checkWhole('max', options.max ?? COUNT_WINDOW_MAX, 1, COUNT_WINDOW_MAX)
  return store.count(resolveFilter(options), { max, signal: options.signal })
}

/** How old an answer may be. */
export interface SharedOptions {
  /** An answer that was computed for somebody else within this time, or ten times what it took to compute, will do. Default: it
   *  is computed anew. */
  readonly maxAge?: Duration
}

export function resolveMaxAge(call: string, options: SharedOptions): number | null {
  checkKeys(call, options, ['maxAge'])
  return options.maxAge === undefined ? null : durationMs(options.maxAge, { name: 'maxAge' })
}

/** Which queues an overview shows. */
export interface OverviewOptions extends SharedOptions {
  /** These, where they exist, at most 1,000. Default: all. */
  readonly queues?: readonly string[]
  /** How many are passed over, for the next page. Default 0. */
  readonly offset?: number
}

export function resolveOverview(options: OverviewOptions): {
  readonly maxAgeMs: number | null
  readonly request: OverviewRequest
} {
  checkKeys('overview', options, ['maxAge', 'queues', 'offset'])
  const { queues, offset = 0, maxAge } = options
  checkWhole('the number of queues', queues?.length ?? 0, 0, OVERVIEW_QUEUES_MAX)
  const named = queues === undefined ? {} : { queues: queues.map((queue) => checkName('queue', queue)) }
  const maxAgeMs = maxAge === undefined ? null : durationMs(maxAge, { name: 'maxAge' })
  return { maxAgeMs, request: { ...named, offset: checkWhole('offset', offset, 0, Number.MAX_SAFE_INTEGER) } }
}

export interface SeriesOptions {
  /** Default: all queues together. */
  readonly queue?: string
  /** How far back it begins, up to '3d'. Default '1h'. */
  readonly since?: Duration
  /** How long each step is, in tens of seconds; at most 500 steps. Default: one that gives up to 360. */
  readonly step?: Duration
}

export async function series(store: OperatorStore, options: SeriesOptions = {}): Promise<readonly SeriesPoint[]> {
  checkKeys('series', options, ['queue', 'since', 'step'])
  const queue = options.queue === undefined ? null : checkName('queue', options.queue)
  const backMs = durationMs(options.since ?? '1h', { name: 'since', minMs: BUCKET_MS, maxMs: SERIES_KEPT_MS })
  const stepMs = options.step === undefined ? stepFor(backMs) : durationMs(options.step, { name: 'step' })
  return store.series({ queue, sinceMs: (await store.now()) - backMs, stepMs })
}

/** The first round step that gives few enough points. */
function stepFor(backMs: number): number {
  const round = [1, 3, 6, 12, 30, 60, 90].map((buckets) => buckets * BUCKET_MS)
  return round.find((stepMs) => backMs / stepMs <= POINTS_WANTED) ?? round.at(-1)!
}

export interface DeadGroupsOptions {
  /** Default: all queues. */
  readonly queue?: string
  /** The most groups, from 1 to 100. Default 20. */
  readonly limit?: number
  /** Ends the search when it fires, also on the server. */
  readonly signal?: AbortSignal
}

export async function deadGroups(store: OperatorStore, options: DeadGroupsOptions = {}): Promise<readonly DeadGroup[]> {
  checkKeys('deadGroups', options, ['queue', 'limit', 'signal'])
  const limit = checkWhole('limit', options.limit ?? GROUPS_DEFAULT, 1, DEAD_GROUPS_MAX)
  const queue = options.queue === undefined ? null : checkName('queue', options.queue)
  return store.deadGroups({ queue, limit, signal: options.signal })
}

export interface ExplainOptions {
  /** The queues whose jobs may be named; null, the default, for all. Parents in others are counted and not named. */
  readonly queues?: readonly string[] | null
}

/** Why a job stands where it does. Raises `job_not_found`. */
export async function explain(store: OperatorStore, id: string, options: ExplainOptions = {}): Promise<Explanation> {
  checkKeys('explain', options, ['queues'])
  const { queues = null } = options
  const standing = await store.standing(checkId('id', id))
  if (standing === null)
    throw refusal({ id, result: 'missing' }, { verb: 'explained', only: 'a job that exists can be' })
  return explainJob(standing, (queue) => queues === null || queues.includes(queue))
}

export interface AuditOptions {
  /** The `next` of the page before. Absent or null starts with the newest line. */
  readonly before?: number | null
  /** The most lines, from 1 to 200. Default 50. */
  readonly limit?: number
  readonly action?: string
  readonly actor?: string
  /** A job's id. */
  readonly job?: string
}

export async function audit(store: OperatorStore, options: AuditOptions = {}): Promise<AuditPage> {
  checkKeys('audit', options, ['before', 'limit', 'action', 'actor', 'job'])
  const { before, limit, action, actor, job } = options
  return store.audit({
    before: before == null ? null : checkWhole('before', before, 0, Number.MAX_SAFE_INTEGER),
    limit: checkWhole('limit', limit ?? LIST_LIMIT_DEFAULT, 1, PAGE_MAX),
    ...(action === undefined ? {} : { action: checkText('action', action, ACTION_LENGTH_MAX) }),
    ...(actor === undefined ? {} : { actor: checkText('actor', actor, TARGET_LENGTH_MAX) }),
    ...(job === undefined ? {} : { job: checkId('job', job) }),
  })
}

/** A line for the audit log, by somebody who stands between operators and this client. */
export type AuditNote = Omit<AuditRecord, 'actor'>

/** Writes a line into the audit log; the calls of this client that change something do so by themselves. */
export async function record(store: OperatorStore, note: AuditNote, actor: string): Promise<void> {
  checkKeys('record', note, ['action', 'job', 'target', 'details'])
  const { action, job = null, target = null, details = null } = note
  checkText('action', action, ACTION_LENGTH_MAX)
  if (job !== null) checkId('job', job)
  if (target !== null) checkText('target', target, TARGET_LENGTH_MAX)
  checkWhole('the length of details as JSON', JSON.stringify(details ?? null).length, 0, DETAILS_LENGTH_MAX)
  return store.record({ actor, action, job, target, details })
}

/** What the store says about itself, and how it is seen from here. */
export interface Health extends StoreHealth {
  /** How far the store's clock is ahead of this process's, in milliseconds. Nothing depends on it. */
  readonly clockOffsetMs: number
  readonly roundTripMs: number
}

export async function health(store: OperatorStore, { clock }: Ports): Promise<Health> {
  const askedMs = clock.monotonic()
  const storeMs = await store.now()
  const roundTripMs = clock.monotonic() - askedMs
  const clockOffsetMs = Math.round(storeMs - (clock.now() - roundTripMs / 2))
  return { ...(await store.health()), clockOffsetMs, roundTripMs }
}

// How operators look: at jobs by filter, at what happened over time, at what killed jobs and what holds them up.

import { checkId, checkKeys, checkName, checkText, checkWhole } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { type Explanation, explainJob } from '../core/explain.js'
import type { JobSummary } from '../core/job.js'
import {
  type AuditPage,
  type AuditRecord,
  BUCKET_MS,
  type CountResult,
  DEAD_GROUPS_MAX,
  type DeadGroup,
  SERIES_KEPT_MS,
  type SeriesPoint,
  type StoreHealth,
} from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import { COUNT_WINDOW_MAX, PAGE_MAX, type Store } from '../core/store.js'
import { FILTER_OPTIONS, type FilterOptions, resolveFilter } from './filter-options.js'
import { refusal } from './refusals.js'

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

export async function list(store: Store, options: ListOptions = {}): Promise<JobList> {
  checkKeys('list', options, [...FILTER_OPTIONS, 'limit', 'cursor'])
  const limit = checkWhole('limit', options.limit ?? LIST_LIMIT_DEFAULT, 1, PAGE_MAX)
  const before = options.cursor == null ? null : checkId('cursor', options.cursor)
  const { jobs, next, searched, searchedTo } = await store.list({ filter: resolveFilter(options), limit, before })
  return { jobs, cursor: next, searched, searchedTo }
}

/** What is counted. */
export interface CountOptions extends FilterOptions {
  /** The most jobs to look at, from 1 to 100,000, which is the default. */
  readonly max?: number
}

export async function count(store: Store, options: CountOptions = {}): Promise<CountResult> {
  checkKeys('count', options, [...FILTER_OPTIONS, 'max'])
  const max = checkWhole('max', options.max ?? COUNT_WINDOW_MAX, 1, COUNT_WINDOW_MAX)
  return store.count(resolveFilter(options), { max })
}

export interface SeriesOptions {
  /** Default: all queues together. */
  readonly queue?: string
  /** How far back it begins, up to '3d'. Default '1h'. */
  readonly since?: Duration
  /** How long each step is, in tens of seconds; at most 500 steps. Default: one that gives up to 360. */
  readonly step?: Duration
}

export async function series(store: Store, options: SeriesOptions = {}): Promise<readonly SeriesPoint[]> {
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
}

export async function deadGroups(store: Store, options: DeadGroupsOptions = {}): Promise<readonly DeadGroup[]> {
  checkKeys('deadGroups', options, ['queue', 'limit'])
  const limit = checkWhole('limit', options.limit ?? GROUPS_DEFAULT, 1, DEAD_GROUPS_MAX)
  return store.deadGroups({ queue: options.queue === undefined ? null : checkName('queue', options.queue), limit })
}

/** Why a job stands where it does. Raises `job_not_found`. */
export async function explain(store: Store, id: string): Promise<Explanation> {
  const standing = await store.standing(checkId('id', id))
  if (standing === null)
    throw refusal({ id, result: 'missing' }, { verb: 'explained', only: 'a job that exists can be' })
  return explainJob(standing)
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

export async function audit(store: Store, options: AuditOptions = {}): Promise<AuditPage> {
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
export async function record(store: Store, note: AuditNote, actor: string): Promise<void> {
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

export async function health(store: Store, { clock }: Ports): Promise<Health> {
  const askedMs = clock.monotonic()
  const storeMs = await store.now()
  const roundTripMs = clock.monotonic() - askedMs
  const clockOffsetMs = Math.round(storeMs - (clock.now() - roundTripMs / 2))
  return { ...(await store.health()), clockOffsetMs, roundTripMs }
}

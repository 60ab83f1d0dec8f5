// list and count: jobs that match a filter, newest first. Ids come in growing portions from the fewest rows there are for the
// filter (candidates.ts) and are then held against it (filter.ts), until a page is full or the window is looked through.

import { idTimeMs } from '../../core/id.js'
import type { JobFilter, JobSummary } from '../../core/job.js'
import type { CountResult } from '../../core/operating.js'
import { type JobPage, LIST_WINDOW, type ListRequest } from '../../core/store.js'
import { candidatesOf, LAST_ID } from './candidates.js'
import type { Database, Send } from './database.js'
import { FILTER_JOIN, filterCondition, filterParameters } from './filter.js'
import { countByTable } from './filter-count.js'
import { readSummary, STANDING, SUMMARY_COLUMNS } from './get.js'
import { arrayOf, type Statement, statement } from './statement.js'

// The payload is read only where the filter asks for it: that is cheaper, and a role that may not see payloads can still list.
const matchingSql = (columns: string, payload: boolean) => `
SELECT ${columns}
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT ${payload ? 'jobs.payload, ' : ''}jobs.id, jobs.created_at, jobs.position, jobs.priority, jobs.version, jobs.queue,
                           jobs.type, jobs.options, jobs.tags
                      FROM :schema.jobs WHERE jobs.id = asked.id OFFSET 0) AS jobs
  LEFT JOIN :schema.queues ON queues.name = jobs.queue
 CROSS JOIN LATERAL (${STANDING}
 ) AS standing${FILTER_JOIN}
 WHERE${filterCondition({ payload })}`

interface Matching {
  readonly jobs: Statement
  readonly count: Statement
}

const MATCHING: Matching = {
  jobs: statement('matching', matchingSql(SUMMARY_COLUMNS, false)),
  count: statement('matching_count', matchingSql('count(*)', false)),
}
const MATCHING_PAYLOAD: Matching = {
  jobs: statement('matching_payload', matchingSql(SUMMARY_COLUMNS, true)),
  count: statement('matching_payload_count', matchingSql('count(*)', true)),
}

function matchingOf(filter: JobFilter): Matching {
  return filter.payload === undefined ? MATCHING : MATCHING_PAYLOAD
}

/** Portions grow: a filter that matches most jobs looks at few, one that matches few soon looks at many. */
const PORTION_GROWTH = 4
const PORTION_MAX = 2_000
/** A count answers in about this time, and says when it was not enough. A dry run makes two of them. */
const COUNT_MS_MAX = 100

export async function list(db: Database, request: ListRequest): Promise<JobPage> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  return findPage(db, send, request)
}

/** A page, read through `send`. The limit may be larger than a caller's. */
export async function findPage(db: Database, send: Send, { filter, limit, before }: ListRequest): Promise<JobPage> {
  const nowMs = await nowFor(db, send, filter)
  const nextIds = await candidatesOf(db, send, filter, nowMs)
  const parameters = filterParameters(filter, nowMs)
  const jobs: JobSummary[] = []
  let searched = 0
  let at = before ?? LAST_ID
  for (let portion = limit + 1; searched < LIST_WINDOW; portion *= PORTION_GROWTH) {
    const count = Math.min(portion, PORTION_MAX, LIST_WINDOW - searched)
    const ids = await nextIds(at, count)
    searched += ids.length
    if (ids.length > 0) {
      const rows = await send(matchingOf(filter).jobs, [arrayOf(ids), ...parameters])
      jobs.push(...rows.map(readSummary).sort((one, other) => (one.id < other.id ? 1 : -1)))
      at = ids.at(-1)!
    }
    // One more than the page holds tells that there is a next one.
    if (jobs.length > limit) {
      return { jobs: jobs.slice(0, limit), next: jobs[limit - 1]!.id, searched, searchedTo: null }
    }
    if (ids.length < count) return { jobs, next: null, searched, searchedTo: null }
  }
  return { jobs, next: at, searched, searchedTo: new Date(idTimeMs(at)) }
}

export async function count(db: Database, filter: JobFilter, max: number): Promise<CountResult> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  const counted = await countByTable(send, filter, max)
  if (counted !== null) return counted
  const nowMs = await nowFor(db, send, filter)
  const nextIds = await candidatesOf(db, send, filter, nowMs)
  const parameters = filterParameters(filter, nowMs)
  const startMs = performance.now()
  let found = 0
  let searched = 0
  let at = LAST_ID
  // One more than may be looked at tells whether there are more.
  while (searched < max + 1 && performance.now() - startMs < COUNT_MS_MAX) {
    const portion = Math.min(PORTION_MAX, max + 1 - searched)
    const ids = await nextIds(at, portion)
    searched += ids.length
    if (ids.length > 0) {
      const [row] = await send(matchingOf(filter).count, [arrayOf(ids), ...parameters])
      found += Number(row![0])
      at = ids.at(-1)!
    }
    if (ids.length < portion) return { count: Math.min(found, max), isExact: searched <= max }
  }
  return { count: Math.min(found, max), isExact: false }
}

const NOW = statement('now', 'SELECT (extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000)::float8')

/** The store's time, asked for only when the filter has an age in it. */
async function nowFor(db: Database, send: Send, { created = [], finished = [] }: JobFilter): Promise<number> {
  if (![...created, ...finished].some((match) => 'ageMs' in match)) return 0
  return readNow(db, send)
}

/** The store's time in whole milliseconds. */
export async function readNow(db: Database, send: Send): Promise<number> {
  const [row] = await send(NOW, [db.now()])
  return Math.floor(Number(row![0]))
}

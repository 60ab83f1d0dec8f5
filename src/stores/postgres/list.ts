// list and count: jobs that match a filter, newest first. Ids come in growing portions from the table with the fewest rows for the
// filter (candidates.ts). Their jobs are then compared with the filter (filter.ts), until a page is full or the window is read.

import { idTimeMs } from '../../core/id.js'
import type { JobFilter } from '../../core/job-filter.js'
import type { CountResult } from '../../core/operating.js'
import { type JobPage, LIST_WINDOW, type ListRequest } from '../../core/operator-store.js'
import type { JobSummary } from '../../core/views.js'
import { candidatesOf, LAST_ID } from './candidates.js'
import type { Database, Send } from './database.js'
import { FILTER_CONDITION, FILTER_JOIN, filterParameters } from './filter.js'
import { countByTable } from './filter-count.js'
import { readSummary, STANDING, SUMMARY_COLUMNS } from './get.js'
import { payloadsOf } from './payload-search.js'
import { arrayOf, statement } from './statement.js'

const matchingSql = (columns: string) => `
SELECT ${columns}
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT jobs.id, jobs.created_at, jobs.position, jobs.priority, jobs.version, jobs.queue,
                           jobs.type, jobs.options, jobs.tags
                      FROM :schema.jobs WHERE jobs.id = asked.id OFFSET 0) AS jobs
  LEFT JOIN :schema.queues ON queues.name = jobs.queue
 CROSS JOIN LATERAL (${STANDING}
 ) AS standing${FILTER_JOIN}
 WHERE${FILTER_CONDITION}`

const MATCHING = statement('matching', matchingSql(SUMMARY_COLUMNS))
const MATCHING_COUNT = statement('matching_count', matchingSql('count(*)'))
const MATCHING_IDS = statement('matching_ids', matchingSql('jobs.id'))

/** Portions grow: a filter that matches most jobs looks at few, one that matches few soon looks at many. */
const PORTION_GROWTH = 4
const PORTION_MAX = 2_000
/** A count ends after about this time, and reports whether it was complete. A dry run makes two counts. */
const COUNT_MS_MAX = 100

export async function list(db: Database, request: ListRequest): Promise<JobPage> {
  const send: Send = (sql, values) => db.search(sql, values, request.signal)
  return findPage(db, send, request)
}

/** A page, read through `send`. The limit may be larger than a caller's. */
export async function findPage(db: Database, send: Send, { filter, limit, before }: ListRequest): Promise<JobPage> {
  const nowMs = await nowFor(db, send, filter)
  const nextIds = await candidatesOf(db, send, filter, nowMs)
  const parameters = filterParameters(filter, nowMs)
  const payloads = payloadsOf(filter)
  const jobs: JobSummary[] = []
  let searched = 0
  let at = before ?? LAST_ID
  for (let portion = limit + 1; searched < LIST_WINDOW; portion *= PORTION_GROWTH) {
    const count = Math.min(portion, payloads?.portionMax ?? PORTION_MAX, LIST_WINDOW - searched)
    const ids = await nextIds(at, count)
    const looked = payloads === null ? ids : await payloads.look(send, ids, MATCHING_IDS, parameters)
    if (looked.length > 0) {
      const sought = payloads?.matching ?? looked
      const rows = sought.length === 0 ? [] : await send(MATCHING, [arrayOf(sought), ...parameters])
      jobs.push(...rows.map(readSummary).sort((one, other) => (one.id < other.id ? 1 : -1)))
      at = looked.at(-1)!
    }
    searched += looked.length
    // One more than the page holds tells that there is a next one.
    if (jobs.length > limit) {
      return { jobs: jobs.slice(0, limit), next: jobs[limit - 1]!.id, searched, searchedTo: null }
    }
    if (looked.length < ids.length) break
    if (ids.length < count) return { jobs, next: null, searched, searchedTo: null }
  }
  return { jobs, next: at, searched, searchedTo: new Date(idTimeMs(at)) }
}

export async function count(
  db: Database,
  filter: JobFilter,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal | undefined },
): Promise<CountResult> {
  const send: Send = (sql, values) => db.search(sql, values, signal)
  const counted = await countByTable(send, filter, max)
  if (counted !== null) return counted
  const nowMs = await nowFor(db, send, filter)
  const nextIds = await candidatesOf(db, send, filter, nowMs)
  const parameters = filterParameters(filter, nowMs)
  const payloads = payloadsOf(filter)
  const startMs = performance.now()
  let found = 0
  let searched = 0
  let at = LAST_ID
  // One more than may be looked at tells whether there are more.
  while (searched < max + 1 && performance.now() - startMs < COUNT_MS_MAX) {
    const portion = Math.min(payloads?.portionMax ?? PORTION_MAX, max + 1 - searched)
    const ids = await nextIds(at, portion)
    const looked = payloads === null ? ids : await payloads.look(send, ids, MATCHING_IDS, parameters)
    if (payloads !== null) found += payloads.matching.length
    else if (ids.length > 0) {
      const [[matching] = []] = await send(MATCHING_COUNT, [arrayOf(ids), ...parameters])
      found += Number(matching)
    }
    searched += looked.length
    at = looked.at(-1) ?? at
    if (looked.length < ids.length) break
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
  const [[nowMs] = []] = await send(NOW, [db.now()])
  return Math.floor(Number(nowMs))
}

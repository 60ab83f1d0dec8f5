// list: pages of jobs, newest first. Each call looks through a bounded number of rows, driven by the table that has the fewest.

import type { JobState } from '../../core/states.js'
import type { JobPage, ListRequest } from '../../core/store.js'
import type { Database } from './database.js'
import { readSummary, STANDING, SUMMARY_COLUMNS } from './get.js'
import { type Statement, statement } from './statement.js'

/** How many rows one call looks through when a filter matches few. */
const WINDOW = 5_000

/** Where the ids of a state are read from, newest first. Only ready has no index on ids, so it is driven by the facts. */
const SOURCES = {
  any: 'SELECT jobs.id FROM :schema.jobs WHERE jobs.id < $1::uuid',
  ready: 'SELECT jobs.id FROM :schema.jobs WHERE jobs.id < $1::uuid',
  blocked: 'SELECT blocked.id FROM :schema.blocked WHERE blocked.id < $1::uuid',
  scheduled: 'SELECT scheduled.id FROM :schema.scheduled WHERE scheduled.id < $1::uuid',
  retrying: 'SELECT scheduled.id FROM :schema.scheduled WHERE scheduled.id < $1::uuid',
  running: 'SELECT running.id FROM :schema.running WHERE running.id < $1::uuid',
  dead: 'SELECT dead.id FROM :schema.dead WHERE dead.id < $1::uuid',
  succeeded: 'SELECT finished.id FROM :schema.finished WHERE finished.id < $1::uuid',
  cancelled: 'SELECT finished.id FROM :schema.finished WHERE finished.id < $1::uuid',
} as const satisfies Record<JobState | 'any', string>

const listSql = (source: string) => `
WITH candidate AS MATERIALIZED (
  ${source}
   ORDER BY id DESC
   LIMIT $7
), page AS MATERIALIZED (
  SELECT ${SUMMARY_COLUMNS}
    FROM candidate
   CROSS JOIN LATERAL (SELECT * FROM :schema.jobs WHERE jobs.id = candidate.id OFFSET 0) AS jobs
    LEFT JOIN :schema.queues ON queues.name = jobs.queue
   CROSS JOIN LATERAL (${STANDING}
   ) AS standing
   WHERE ($2::text IS NULL OR standing.state = $2)
     AND ($3::text IS NULL OR jobs.queue = $3)
     AND ($4::text IS NULL OR jobs.type = $4)
     AND ($5::text IS NULL OR $5 = ANY (jobs.tags))
   ORDER BY jobs.id DESC
   LIMIT $6
)
SELECT page.*, (SELECT count(*) FROM candidate), (SELECT id FROM candidate ORDER BY id LIMIT 1)
  FROM (SELECT) AS always
  LEFT JOIN page ON true`

const LISTS: Readonly<Record<string, Statement>> = Object.fromEntries(
  Object.entries(SOURCES).map(([state, source]) => [state, statement(`list_${state}`, listSql(source))]),
)

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export async function list(db: Database, request: ListRequest): Promise<JobPage> {
  const { filter, limit, before } = request
  const rows = await db.send('look', LISTS[filter.state ?? 'any']!, [
    before ?? LAST_ID,
    filter.state ?? null,
    filter.queue ?? null,
    filter.type ?? null,
    filter.tag ?? null,
    limit,
    WINDOW,
  ])
  const jobs = rows.filter((row) => row[0] !== null).map(readSummary)
  const [looked, last] = [Number(rows[0]![20]), rows[0]![21] ?? null]
  if (jobs.length === limit) return { jobs, next: jobs.at(-1)!.id }
  return { jobs, next: looked === WINDOW ? last : null }
}

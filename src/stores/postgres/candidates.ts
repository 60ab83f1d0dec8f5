// The ids that a list reads, newest first, from the table with the fewest rows for the filter. The jobs themselves are read
// afterwards, so the cost depends on the rows that are read and not on how many exist.

import type { JobFilter } from '../../core/job-filter.js'
import { LIST_WINDOW } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { spanOf } from './filter.js'
import { groupSource, type Source } from './group-candidates.js'
import { queueNames } from './queues.js'
import { arrayOf, type Statement, statement } from './statement.js'

/** The next ids below `before`, at most `count`, newest first. Fewer mean that there are no more. */
export type NextIds = (before: string, count: number) => Promise<readonly string[]>

const idsOf = (table: string, condition = '') =>
  statement(
    `ids_of_${table}${condition === '' ? '' : `_${condition.replace(/\W+/g, '_')}`}`,
    `
SELECT ${table}.id
  FROM :schema.${table}
 WHERE ${table}.id < $1::uuid
   AND ${table}.id > $2::uuid${condition === '' ? '' : `\n   AND ${condition}`}
 ORDER BY ${table}.id DESC
 LIMIT $3`,
  )

const ANY = idsOf('jobs')
const BY_STATE: Readonly<Record<Exclude<JobState, 'ready'>, Statement>> = {
  blocked: idsOf('blocked'),
  scheduled: idsOf('scheduled'),
  retrying: idsOf('scheduled', 'retrying'),
  running: idsOf('running'),
  succeeded: idsOf('finished'),
  cancelled: idsOf('finished'),
  dead: idsOf('dead'),
}
const DEAD_OF_QUEUE = idsOf('dead', 'queue = $4')
const DEAD_OF_FINGERPRINT = idsOf('dead', 'fingerprint = $4')

// `ready` has no index on ids. A short backlog is sorted whole. For a long one the newest rows of `jobs` are read, because most of them
// are ready then.
const TRACKS_OF = (queues: string) =>
  `ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = ANY (${queues}::text[]))`
const READY_COUNT = statement(
  'ready_count_few',
  `SELECT (SELECT count(*) FROM (SELECT FROM :schema.ready WHERE queue = ANY ($1::text[]) LIMIT $2) AS few)
        + (SELECT count(*) FROM (SELECT FROM :schema.held WHERE track = ANY (${TRACKS_OF('$1')}) LIMIT $2) AS few)`,
)
const READY_FEW = statement(
  'ids_of_ready_few',
  `
SELECT few.id
  FROM ((SELECT id FROM :schema.ready WHERE queue = ANY ($4::text[]) LIMIT $5)
         UNION ALL
        (SELECT id FROM :schema.held WHERE track = ANY (${TRACKS_OF('$4')}) LIMIT $5)) AS few
 WHERE few.id < $1::uuid
   AND few.id > $2::uuid
 ORDER BY few.id DESC
 LIMIT $3`,
)

const KEY_HOLDERS = statement(
  'key_holders',
  `
SELECT DISTINCT held.id
  FROM unnest($2::text[]) AS asked (queue)
 CROSS JOIN LATERAL (
   SELECT keys.id
     FROM :schema.keys
    WHERE keys.queue = asked.queue
      AND keys.key = ANY ($1::text[])
      AND (keys.expires_at IS NULL OR keys.expires_at > coalesce($3::timestamptz, clock_timestamp()))
   OFFSET 0
 ) AS held
 LIMIT $4`,
)

const OF_SCHEDULE = statement(
  'ids_of_schedule',
  'SELECT job FROM :schema.ticks WHERE schedule = $1 AND job IS NOT NULL ORDER BY tick DESC LIMIT $2',
)

const HOUR_MS = 3_600_000
const FIRST_ID = '00000000-0000-0000-0000-000000000000'
export const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Where the jobs that may match are found. */
export async function candidatesOf(db: Database, send: Send, filter: JobFilter, nowMs: number): Promise<NextIds> {
  if (filter.queues?.length === 0 || filter.states?.length === 0) return fixed([])
  if (filter.ids !== undefined) return fixed(filter.ids)
  const queues = exactQueues(filter)
  if (filter.keys !== undefined) {
    const names = queues ?? (await queueNames(send))
    const rows = await send(KEY_HOLDERS, [arrayOf(filter.keys), arrayOf(names), db.now(), LIST_WINDOW])
    return fixed(rows.map(([id]) => id!))
  }
  if (filter.schedules !== undefined) {
    const ids: string[] = []
    for (const name of new Set(filter.schedules)) {
      for (const [id] of await send(OF_SCHEDULE, [name, LIST_WINDOW])) ids.push(id!)
    }
    return fixed(ids)
  }
  return within(filter, nowMs, await sourcesOf(send, filter, queues))
}

/** The queues of the filter when each is named in full. */
export function exactQueues({ queues }: JobFilter): readonly string[] | null {
  return queues?.every((queue) => !queue.includes('*')) ? [...new Set(queues)] : null
}

function fixed(ids: readonly string[]): NextIds {
  const sorted = [...new Set(ids)].sort().reverse()
  return async (before, count) => sorted.filter((id) => id < before).slice(0, count)
}

async function sourcesOf(send: Send, filter: JobFilter, queues: readonly string[] | null): Promise<readonly Source[]> {
  const plain =
    (sql: Statement, ...more: readonly unknown[]): Source =>
    async (before, after, count) =>
      (await send(sql, [before, after, count, ...more])).map(([id]) => id!)
  const { fingerprints } = filter
  const states = statesOf(filter)
  if (fingerprints !== undefined) return [...new Set(fingerprints)].map((mark) => plain(DEAD_OF_FINGERPRINT, mark))
  if (states === null) return [plain(ANY)]
  const sources: Source[] = []
  const tables = new Set<Statement>()
  for (const state of states) {
    const ofGroups = await groupSource(send, filter, state, queues)
    if (ofGroups !== null) sources.push(ofGroups)
    else if (state === 'ready') {
      const names = queues ?? (await queueNames(send))
      const [[ready] = []] = await send(READY_COUNT, [arrayOf(names), LIST_WINDOW + 1])
      if (Number(ready) > LIST_WINDOW) return [plain(ANY)]
      sources.push(plain(READY_FEW, arrayOf(names), LIST_WINDOW + 1))
    } else if (state === 'dead' && queues !== null) {
      sources.push(...queues.map((queue) => plain(DEAD_OF_QUEUE, queue)))
    } else tables.add(BY_STATE[state])
  }
  return [...sources, ...[...tables].map((sql) => plain(sql))]
}

/** The states a job may be in to match, or null for any: a reason is a dead job's. */
function statesOf({ states, reasons }: JobFilter): readonly JobState[] | null {
  if (states !== undefined) return [...new Set(states)]
  return reasons === undefined ? null : ['dead']
}

/** Merges sources, and leaves out ids that cannot be those of jobs created in the time asked for. */
function within(filter: JobFilter, nowMs: number, sources: readonly Source[]): NextIds {
  const { fromMs, toMs } = spanOf(filter.created ?? [], nowMs)
  const after = Number.isFinite(fromMs) ? idAt(fromMs - HOUR_MS) : FIRST_ID
  const last = Number.isFinite(toMs) ? idAt(toMs + HOUR_MS) : LAST_ID
  return async (before, count) => {
    const [below] = [before, last].sort()
    const found = await Promise.all(sources.map((source) => source(below!, after, count)))
    if (found.length === 1) return found[0]!
    return [...new Set(found.flat())].sort().reverse().slice(0, count)
  }
}

/** The smallest id of a moment. */
function idAt(ms: number): string {
  const hex = Math.max(0, Math.min(ms, 2 ** 48 - 1))
    .toString(16)
    .padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

// The ids of jobs of some groups. Those that wait, run or retry are found by the indexes that claims use, however many jobs other groups
// have. Of the other states no index knows the group: there a list reads its window, as for any other filter. ◄── candidates.ts

import type { JobFilter } from '../../core/job-filter.js'
import { LIST_WINDOW } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import type { Send } from './database.js'
import { arrayOf, plainArrayOf, type Statement, statement } from './statement.js'

/** A filter on more tracks than this is not worth a look into the index for each. */
const TRACKS_MAX = 1_000

const TRACKS = statement(
  'tracks_looked_through',
  'SELECT tracks.track::text FROM :schema.tracks WHERE $1::text[] IS NULL OR tracks.queue = ANY ($1) LIMIT $2',
)

type Found = 'ready' | 'running' | 'retrying'

const rowsOf = (table: string, condition: string) => `
SELECT found.id
  FROM unnest($1::integer[]) AS asked (track)
 CROSS JOIN unnest($2::text[]) AS named (group_name)
 CROSS JOIN LATERAL (
   SELECT ${table}.id
     FROM :schema.${table}
    WHERE ${table}.track = asked.track
      AND ${table}.group_name = named.group_name${condition}
    LIMIT $3
 ) AS found
 LIMIT $3`

const ROWS: Readonly<Record<Found, string>> = {
  ready: rowsOf('held', ''),
  running: rowsOf('running', ' AND running.track <> 0'),
  // What retries has started, so that the index of those has it.
  retrying: rowsOf('scheduled', ' AND scheduled.track <> 0 AND scheduled.fence IS NOT NULL AND scheduled.retrying'),
}

interface Statements {
  readonly count: Statement
  readonly ids: Statement
}

const statementsOf = (state: Found): Statements => ({
  count: statement(`count_of_groups_${state}`, `SELECT count(*)::text FROM (${ROWS[state]}) AS few`),
  ids: statement(
    `ids_of_groups_${state}`,
    `
SELECT few.id
  FROM (${ROWS[state]}) AS few
 WHERE few.id < $4::uuid
   AND few.id > $5::uuid
 ORDER BY few.id DESC
 LIMIT $6`,
  ),
})

const BY_STATE: Readonly<Record<Found, Statements>> = {
  ready: statementsOf('ready'),
  running: statementsOf('running'),
  retrying: statementsOf('retrying'),
}

/** One source of ids between two bounds. */
export type Source = (before: string, after: string, count: number) => Promise<readonly string[]>

/** Where the jobs of the filter's groups in a state are found; null where a window has to be read instead. */
export async function groupSource(
  send: Send,
  { groups }: JobFilter,
  state: JobState,
  queues: readonly string[] | null,
): Promise<Source | null> {
  if (groups === undefined || !(state in BY_STATE)) return null
  const { count, ids } = BY_STATE[state as Found]
  const rows = await send(TRACKS, [queues === null ? null : arrayOf(queues), TRACKS_MAX + 1])
  if (rows.length > TRACKS_MAX) return null
  const asked = [plainArrayOf(rows.map(([track]) => track!)), arrayOf([...new Set(groups)]), LIST_WINDOW + 1]
  const [[found] = []] = await send(count, asked)
  if (Number(found) > LIST_WINDOW) return null
  return async (before, after, most) => (await send(ids, [...asked, before, after, most])).map(([id]) => id!)
}

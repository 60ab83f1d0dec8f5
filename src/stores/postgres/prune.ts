// prune: drops days past their retention, makes the days to come, and deletes other expired rows in small batches. It has a
// connection of its own, so no other upkeep waits for it. ◄── upkeep/prune.ts

import { HoldfastError } from '../../core/errors.js'
import { SERIES_KEPT_MS } from '../../core/operating.js'
import type { PostponedDay, Pruned, PruneOptions } from '../../core/upkeep-store.js'
import { closeDays, postponedDays } from './close-days.js'
import type { Database } from './database.js'
import { openDays } from './open-days.js'
import { type EarlyState, pruneEarly } from './prune-early.js'
import { type PrunedKept, pruneKept } from './prune-kept.js'
import type { RestRaiser } from './raise-rest.js'
import { readJson, statement } from './statement.js'

const ROWS_MAX = 5_000
const SERIES_ROWS_MAX = 10_000
/** How many groups one call looks at. */
const GROUPS_MAX = 10_000

const PRUNE_REST = statement(
  'prune_rest',
  `
WITH gone AS (
  DELETE FROM :schema.finished_rest
   WHERE finished_rest.id = ANY (ARRAY(
     SELECT id FROM :schema.finished_rest
      WHERE finished_at < $1::timestamptz AND id < :schema.day_floor((($1 - interval '1 microsecond') AT TIME ZONE 'UTC')::date)
      ORDER BY finished_at
      LIMIT $2))
  RETURNING id
), jobs_gone AS (
  DELETE FROM :schema.jobs_rest WHERE id = ANY (ARRAY(SELECT id FROM gone))
), attempts_gone AS (
  DELETE FROM :schema.attempts_rest WHERE id = ANY (ARRAY(SELECT id FROM gone))
), logs_gone AS (
  DELETE FROM :schema.logs_rest WHERE id = ANY (ARRAY(SELECT id FROM gone))
), progress_gone AS (
  DELETE FROM :schema.progress_rest WHERE id = ANY (ARRAY(SELECT id FROM gone))
)
SELECT count(*),
       json_agg(DISTINCT to_char(to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
                                 AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
  FROM gone`,
)

// Tallies and samples grow by one row every ten seconds for each busy queue. A call deletes more than a minute adds.
const PRUNE_SERIES = statement(
  'prune_series',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) - $3::float8 * interval '1 millisecond' AS kept_from
), tallies_gone AS (
  DELETE FROM :schema.tallies
   WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.tallies
                            WHERE at < (SELECT kept_from FROM moment) LIMIT $2 FOR UPDATE SKIP LOCKED))
)
DELETE FROM :schema.samples
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.samples
                          WHERE at < (SELECT kept_from FROM moment) LIMIT $2 FOR UPDATE SKIP LOCKED))`,
)

const PRUNE_ROWS = statement(
  'prune_rows',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), keys_gone AS (
  DELETE FROM :schema.keys
   WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.keys
                            WHERE expires_at <= (SELECT now FROM moment) LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1
), ticks_gone AS (
  DELETE FROM :schema.ticks
   WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.ticks
                            WHERE tick < (SELECT now FROM moment) - interval '30 days' LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1
), workers_gone AS (
  DELETE FROM :schema.workers WHERE seen_at < (SELECT now FROM moment) - interval '10 minutes' RETURNING 1
), places_gone AS (
  DELETE FROM :schema.places
   WHERE places.ctid = ANY (ARRAY(SELECT old.ctid FROM :schema.places AS old
                                   WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = old.id) LIMIT $2))
)
SELECT (SELECT count(*) FROM keys_gone) + (SELECT count(*) FROM ticks_gone) + (SELECT count(*) FROM workers_gone)`,
)

// By a function: who prunes may have no right to change groups. It looks at a window of them, each time at the next.
const PRUNE_FLOW = statement(
  'prune_flow',
  'SELECT gone::text, next_queue, next_group FROM :schema.prune_flow($1::timestamptz, $2, $3, $4::integer)',
)

/** The group that the next call begins behind. */
export interface PrunedGroups {
  queue: string
  group: string
}

export function newPrunedGroups(): PrunedGroups {
  return { queue: '', group: '' }
}

async function pruneFlow(
  db: Database,
  last: PrunedGroups,
): Promise<{ readonly rows: number; readonly isDone: boolean }> {
  const [[gone, queue, group] = []] = await db.send('retention', PRUNE_FLOW, [
    db.now(),
    last.queue,
    last.group,
    GROUPS_MAX,
  ])
  Object.assign(last, { queue: queue ?? '', group: group ?? '' })
  return { rows: Number(gone), isDone: queue == null || Number(gone) === 0 }
}

// Only the owner of the tables may make and drop their partitions.
const OWNS_DAYS = statement(
  'owns_days',
  "SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = ':schema.jobs'::regclass",
)

/** What a process remembers from one prune to the next. */
export interface PruneState {
  readonly rest: RestRaiser
  readonly groups: PrunedGroups
  readonly kept: PrunedKept
  readonly early: EarlyState
}

export async function prune(
  db: Database,
  { rest, groups, kept, early }: PruneState,
  options: PruneOptions,
): Promise<Pruned> {
  const [[isOwner] = []] = await db.send('retention', OWNS_DAYS, [])
  const ownsDays = isOwner === 't'
  // Days to come first, and each by itself: even if an old day cannot be dropped, new jobs have partitions to go to.
  const unopened = ownsDays ? await openDays(db) : []
  const [[count] = []] = await db.send('retention', PRUNE_ROWS, [db.now(), ROWS_MAX])
  await db.send('retention', PRUNE_SERIES, [db.now(), SERIES_ROWS_MAX, SERIES_KEPT_MS])
  const flow = await pruneFlow(db, groups)
  const isKeptDone = await pruneKept(db, kept)
  const rows = Number(count) + flow.rows
  if (!ownsDays) {
    await checkDays(db, options)
    return { days: [], rows, postponed: [], isDone: flow.isDone && isKeptDone }
  }
  const jobs = await pruneJobs(db, rest, options, unopened)
  const sooner = await pruneEarly(db, early, options.retentionMs)
  const isDone = jobs.isDone && flow.isDone && isKeptDone && sooner.isDone
  return { ...jobs, rows, ...(sooner.early === 0 ? {} : { early: sooner.early }), isDone }
}

async function pruneJobs(
  db: Database,
  rest: RestRaiser,
  { retentionMs }: PruneOptions,
  unopened: readonly PostponedDay[],
): Promise<Omit<Pruned, 'rows'>> {
  // Before old days are closed: what is carried out of them goes to the old half of the default partitions.
  const isRaised = await rest.raise()
  const { days: closed, isDone, stuck, horizon } = await closeDays(db, retentionMs)
  const days = new Set(closed)
  const [[count, ofDays] = []] = await db.send('retention', PRUNE_REST, [horizon, ROWS_MAX])
  for (const day of (readJson(ofDays) ?? []) as string[]) days.add(day)
  const postponed = [...(await postponedDays(db, 'retention')), ...stuck, ...unopened]
  return { days: [...days].sort(), postponed, isDone: isRaised && isDone && Number(count) < ROWS_MAX }
}

const DAY_MS = 86_400_000

// Today and tomorrow. The owner makes four days ahead, so these are missing only if no process of the owner has run for days.
const MISSING_DAY = statement(
  'missing_day',
  `
SELECT to_char(days.day, 'YYYY-MM-DD')
  FROM (SELECT (coalesce($1::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date + ahead AS day
          FROM generate_series(0, 1) AS ahead) AS days
 WHERE to_regclass(format('%I.%I', ':schema_text', 'jobs' || to_char(days.day, '"_"YYYYMMDD'))) IS NULL
 ORDER BY days.day
 LIMIT 1`,
)

const OLD_DAY = statement(
  'old_day',
  `
SELECT to_char(day.day, 'YYYY-MM-DD')
  FROM (SELECT coalesce($1::timestamptz, clock_timestamp())
               - greatest($2::float8, (SELECT max((settings->>'retentionMs')::float8) FROM :schema.queues)) * interval '1 millisecond'
                 AS at) AS horizon
  JOIN LATERAL (
    SELECT to_date(right(part.relname, 8), 'YYYYMMDD') AS day
      FROM pg_catalog.pg_inherits
      JOIN pg_catalog.pg_class AS part ON part.oid = pg_inherits.inhrelid
     WHERE pg_inherits.inhparent = ':schema.jobs'::regclass
       AND part.relname ~ '^jobs_[0-9]{8}$'
  ) AS day ON day.day + 1 < (horizon.at AT TIME ZONE 'UTC')
 ORDER BY day.day
 LIMIT 1`,
)

/** Raises `access_denied` when days are missing or overdue because no process of the owner runs. Jobs go on meanwhile: those of a day
 *  without a partition are kept in the default one, and old ones stay. */
async function checkDays(db: Database, { retentionMs }: PruneOptions): Promise<void> {
  const [[missing] = []] = await db.send('retention', MISSING_DAY, [db.now()])
  // A day of grace, within which the owner drops it.
  const [[old] = []] = await db.send('retention', OLD_DAY, [db.now(), retentionMs + DAY_MS])
  const undone = [
    ...(missing === undefined ? [] : [`the partitions of ${missing} are missing`]),
    ...(old === undefined ? [] : [`those of ${old} are past their retention`]),
  ]
  if (undone.length === 0) return
  throw new HoldfastError(
    'access_denied',
    `this role cannot make or drop the days of schema "${db.schema}", which takes the ownership of its tables, and nobody else does: ${undone.join(', ')}; run a process with upkeep as the owner of the schema. Jobs go on meanwhile`,
    { retryable: false },
  )
}

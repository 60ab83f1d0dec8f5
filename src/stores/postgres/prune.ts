// prune: days past their retention are dropped whole, days to come are made, and what else has run out goes in small bites.
// ◄── upkeep/prune.ts

import { HoldfastError } from '../../core/errors.js'
import { SERIES_KEPT_MS } from '../../core/operating.js'
import type { Pruned, PruneOptions } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { sqlStateOf } from './errors.js'
import { statement } from './statement.js'

const DAYS_PER_CALL_MAX = 3
const CARRY_MAX = 10_000
const ROWS_MAX = 5_000
const SERIES_ROWS_MAX = 10_000
const LOCK_NOT_AVAILABLE = '55P03'

// Dropping a day locks its tables for a moment. Waiting for that lock would hold up everyone behind, so it is given up
// soon and tried again at the next call. One process at a time: the others have nothing to add.
const LOCK = statement(
  'prune_lock',
  "SELECT pg_try_advisory_xact_lock(hashtextextended('holdfast prune :schema_text', 0))",
)
const PATIENCE = statement('prune_patience', "SET LOCAL lock_timeout = '200ms'")

const OPEN_DAYS = statement(
  'open_days',
  `
SELECT :schema.open_day(days.day)
  FROM (SELECT (coalesce($1::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date + ahead AS day
          FROM generate_series(0, 3) AS ahead) AS days
 WHERE to_regclass(format('%I.%I', ':schema_text', 'jobs' || to_char(days.day, '"_"YYYYMMDD'))) IS NULL`,
)

const OLD_DAYS = statement(
  'old_days',
  `
WITH horizon AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp())
         - greatest($2::float8, (SELECT max((settings->>'retentionMs')::float8) FROM :schema.queues)) * interval '1 millisecond' AS at
)
SELECT to_char(day.day, 'YYYY-MM-DD'), horizon.at::text
  FROM horizon
  LEFT JOIN LATERAL (
    SELECT to_date(right(part.relname, 8), 'YYYYMMDD') AS day
      FROM pg_catalog.pg_inherits
      JOIN pg_catalog.pg_class AS part ON part.oid = pg_inherits.inhrelid
     WHERE pg_inherits.inhparent = ':schema.jobs'::regclass
       AND part.relname ~ '^jobs_[0-9]{8}$'
  ) AS day ON day.day + 1 < (horizon.at AT TIME ZONE 'UTC')
 ORDER BY day.day
 LIMIT $3`,
)

const DROP_DAY = statement('drop_day', 'SELECT :schema.drop_day($1::date, $2::timestamptz, $3)')

const PRUNE_REST = statement(
  'prune_rest',
  `
WITH gone AS (
  DELETE FROM :schema.finished_rest
   WHERE finished_rest.id = ANY (ARRAY(
     SELECT id FROM :schema.finished_rest
      WHERE finished_at < $1::timestamptz AND id < :schema.day_floor((($1 - interval '1 microsecond') AT TIME ZONE 'UTC')::date)
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
SELECT DISTINCT to_char(to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) AT TIME ZONE 'UTC',
                        'YYYY-MM-DD')
  FROM gone`,
)

// Tallies and samples grow by a row for each busy queue and ten seconds; this many go in a call, more than come in a minute.
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
)
SELECT (SELECT count(*) FROM keys_gone) + (SELECT count(*) FROM ticks_gone) + (SELECT count(*) FROM workers_gone)`,
)

// Only the owner of the tables may make and drop their partitions.
const OWNS_DAYS = statement(
  'owns_days',
  "SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = ':schema.jobs'::regclass",
)

export async function prune(db: Database, options: PruneOptions): Promise<Pruned> {
  const [owner] = await db.send('upkeep', OWNS_DAYS, [])
  const ownsDays = owner?.[0] === 't'
  const days = ownsDays ? await pruneDays(db, options).catch(giveUpForNow) : []
  const [row] = await db.send('upkeep', PRUNE_ROWS, [db.now(), ROWS_MAX])
  await db.send('upkeep', PRUNE_SERIES, [db.now(), SERIES_ROWS_MAX, SERIES_KEPT_MS])
  if (!ownsDays) await checkDays(db, options)
  return { days, rows: Number(row![0]) }
}

const DAY_MS = 86_400_000

// Today and tomorrow: the owner makes four, so these are missing when it has not come by for days.
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

/** Raises `access_denied` when the days wait for an owner that does not come. Jobs go on meanwhile: those of a day without a
 *  partition are kept in the default one, and old ones stay. */
async function checkDays(db: Database, { retentionMs }: PruneOptions): Promise<void> {
  const [missing] = await db.send('upkeep', MISSING_DAY, [db.now()])
  // A day of grace, within which the owner drops it.
  const [old] = await db.send('upkeep', OLD_DAYS, [db.now(), retentionMs + DAY_MS, 1])
  const undone = [
    ...(missing === undefined ? [] : [`the partitions of ${missing[0]} are missing`]),
    ...(old?.[0] == null ? [] : [`those of ${old[0]} are past their retention`]),
  ]
  if (undone.length === 0) return
  throw new HoldfastError(
    'access_denied',
    `this role cannot make or drop the days of schema "${db.schema}", which takes the ownership of its tables, and nobody else does: ${undone.join(', ')}; run a process with upkeep as the owner of the schema. Jobs go on meanwhile`,
    { retryable: false },
  )
}

async function pruneDays(db: Database, options: PruneOptions): Promise<string[]> {
  return db.transaction('upkeep', async (send) => {
    const [row] = await send(LOCK, [])
    if (row?.[0] !== 't') return []
    await send(PATIENCE, [])
    await send(OPEN_DAYS, [db.now()])
    return dropDays(db, send, options)
  })
}

// A table that somebody else has locked, most often autovacuum, is no failure: the rest is pruned, its day at the next call.
function giveUpForNow(error: unknown): string[] {
  if (sqlStateOf((error as { cause?: unknown }).cause) === LOCK_NOT_AVAILABLE) return []
  throw error
}

async function dropDays(db: Database, send: Send, options: PruneOptions): Promise<string[]> {
  const rows = await send(OLD_DAYS, [db.now(), options.retentionMs, DAYS_PER_CALL_MAX])
  const horizon = rows[0]![1]
  const days = new Set<string>()
  for (const [day] of rows) {
    if (day === null || day === undefined) continue
    const [answer] = await send(DROP_DAY, [day, horizon, CARRY_MAX])
    if (answer?.[0] === 'dropped') days.add(day)
  }
  for (const [day] of await send(PRUNE_REST, [horizon, ROWS_MAX])) days.add(day!)
  return [...days].sort()
}

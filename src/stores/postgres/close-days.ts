// Days past their retention are closed and dropped, step by step (migrations/0003_close_days.ts has the steps). ◄── prune.ts

import type { PostponedDay } from '../../core/upkeep-store.js'
import type { Database } from './database.js'
import { describeHolder } from './lock-holder.js'
import { LOCKED_OUT_MS, limited, unlessLocked } from './locking.js'
import { statement } from './statement.js'

// A call ends after this time, between two steps, so that stopping a process waits no longer.
const BUDGET_MS = 500
// A step that locks nobody out ends on the server before the connection's deadline cuts it off.
const STEP_MS = 110_000
// A step that takes longer than this belongs to a process that is stuck.
const STUCK_MS = STEP_MS + 10_000
// The steps that lock others out.
const LOCKING = ['swapping', 'peeling']
const PAUSE_MAX_MS = 100
const DAYS_MAX = 100
// A step that could not get its locks, or ran into its time limit, is tried again soon, up to this often. After that it is tried once a
// minute, and the day is reported.
const TRIES_MAX = 10

// The time before which finished jobs are dropped, and the days that are older than it or already being closed. Those being closed go
// first, so that few days are in progress at a time.
const DAYS_TO_CLOSE = statement(
  'days_to_close',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), horizon AS MATERIALIZED (
  SELECT moment.now
         - greatest($2::float8, (SELECT max((settings->>'retentionMs')::float8) FROM :schema.queues)) * interval '1 millisecond' AS at
    FROM moment
), old AS MATERIALIZED (
  SELECT to_date(right(part.relname, 8), 'YYYYMMDD') AS day
    FROM pg_catalog.pg_inherits
    JOIN pg_catalog.pg_class AS part ON part.oid = pg_inherits.inhrelid
   WHERE pg_inherits.inhparent = ':schema.jobs'::regclass
     AND part.relname ~ '^jobs_[0-9]{8}$'
)
SELECT to_char(day.day, 'YYYY-MM-DD'), horizon.at::text
  FROM horizon
  LEFT JOIN LATERAL (
    SELECT coalesce(closing_days.day, old.day) AS day, coalesce(closing_days.step, 'postponed') <> 'postponed' AS is_begun
      FROM old
      FULL JOIN :schema.closing_days ON closing_days.day = old.day
     WHERE (closing_days.retry_at IS NULL OR closing_days.retry_at <= (SELECT now FROM moment))
       AND (closing_days.step <> 'postponed' OR old.day + 1 < (horizon.at AT TIME ZONE 'UTC'))
  ) AS day ON true
 ORDER BY day.is_begun DESC, day.day
 LIMIT $3`,
)

const LIMITS = statement(
  'close_limits',
  `
SELECT limits.ms, set_config('statement_timeout', limits.ms, true)
  FROM (SELECT CASE WHEN (SELECT closing_days.step FROM :schema.closing_days WHERE closing_days.day = $1::date) IN ('${LOCKING.join("', '")}')
                    THEN '${LOCKED_OUT_MS}' ELSE '${STEP_MS}' END AS ms) AS limits`,
)
const CLOSE_DAY = statement('close_day', 'SELECT :schema.close_day($1::date, $2::timestamptz, $3::timestamptz)')

const MET_LOCK = statement(
  'met_lock',
  `
INSERT INTO :schema.closing_days AS closing (day, step, keep_after, copied_to, tries)
VALUES ($1::date, 'postponed', coalesce($4::timestamptz, clock_timestamp()), '00000000-0000-0000-0000-000000000000', 1)
    ON CONFLICT ON CONSTRAINT closing_days_once DO UPDATE
   SET tries = closing.tries + 1,
       why = CASE WHEN closing.tries + 1 >= $3::integer THEN $2 END,
       retry_at = CASE WHEN closing.tries + 1 >= $3 THEN coalesce($4, clock_timestamp()) + interval '1 minute' END`,
)

const POSTPONED = statement(
  'postponed_days',
  `
SELECT to_char(day, 'YYYY-MM-DD'), why
  FROM :schema.closing_days
 WHERE why IS NOT NULL
 ORDER BY closing_days.day
 LIMIT ${DAYS_MAX}`,
)

// Who holds the row that close_day locks. pg_locks does not list locks on rows, so this looks for the lock on its table.
const CLOSER = statement(
  'day_closer',
  `
SELECT activity.pid, activity.usename, activity.application_name, activity.state,
       (extract(epoch FROM clock_timestamp() - activity.xact_start))::integer
  FROM pg_catalog.pg_locks
  JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = pg_locks.pid
 WHERE pg_locks.relation = ':schema.migrations'::regclass
   AND pg_locks.mode = 'RowShareLock'
   AND pg_locks.granted
   AND activity.xact_start <= clock_timestamp() - $1::float8 * interval '1 millisecond'
 ORDER BY activity.xact_start
 LIMIT 1`,
)

/** Who has been closing a day for longer than this, in plain words; null when nobody has. */
export async function stuckCloser(db: Database, forMs: number): Promise<string | null> {
  const [row] = await db.send('retention', CLOSER, [forMs])
  return row === undefined ? null : `another process is at it and does not go on: ${describeHolder(row)}`
}

export interface Closed {
  /** Days that were dropped and had jobs that went with them. */
  readonly days: readonly string[]
  /** False when there is more to do. */
  readonly isDone: boolean
  /** Days that another process is closing without making progress. */
  readonly stuck: readonly PostponedDay[]
  /** Jobs in the default partition that finished before this are pruned. */
  readonly horizon: string
}

/** Continues to close the days past their retention, for a bounded time. */
export async function closeDays(db: Database, retentionMs: number): Promise<Closed> {
  const rows = await db.send('retention', DAYS_TO_CLOSE, [db.now(), retentionMs, DAYS_MAX])
  const [, horizonText] = rows[0]!
  const horizon = horizonText!
  const days: string[] = []
  const endMs = performance.now() + BUDGET_MS
  for (const [day] of rows) {
    if (day === null || day === undefined) continue
    const end = await closeDay(db, day, horizon, endMs)
    if (end === 'dropped') days.push(day)
    if (end === 'unfinished') return { days, isDone: false, stuck: [], horizon }
    if (end === 'busy') {
      const why = await stuckCloser(db, STUCK_MS)
      return { days, isDone: true, stuck: why === null ? [] : [{ day, why }], horizon }
    }
  }
  return { days, isDone: rows.length < DAYS_MAX, stuck: [], horizon }
}

type End = 'dropped' | 'over' | 'busy' | 'unfinished'

async function closeDay(db: Database, day: string, horizon: string, endMs: number): Promise<End> {
  while (performance.now() < endMs) {
    const startMs = performance.now()
    const step = await unlessLocked(db, () => closeStep(db, day, horizon))
    if ('lockedBy' in step) {
      const why = step.isSlow ? await whySlow(db, day) : step.lockedBy
      await db.send('retention', MET_LOCK, [day, why, TRIES_MAX, db.now()])
      return 'unfinished'
    }
    if (step.value === 'dropped') return 'dropped'
    // Another process is closing this or another day. It will do all of them.
    if (step.value === 'busy') return 'busy'
    if (OVER.has(step.value)) return 'over'
    // As long as the step took, so that jobs get at least half of the server's time.
    await pause(Math.min(PAUSE_MAX_MS, performance.now() - startMs))
  }
  return 'unfinished'
}

const STEP = statement('closing_step', 'SELECT step FROM :schema.closing_days WHERE day = $1::date')

async function whySlow(db: Database, day: string): Promise<string> {
  const [[found] = []] = await db.send('retention', STEP, [day])
  const step = found ?? 'the first one'
  const limit = LOCKING.includes(step)
    ? `${LOCKED_OUT_MS} ms for which it may lock others out`
    : `${STEP_MS / 1_000} s that a step may take`
  return `closing it does not get past a step (${step}) that takes longer than the ${limit}, and was rolled back: the server is too busy or its disk too slow for it; it is tried again every minute`
}

const OVER: ReadonlySet<string> = new Set(['empty', 'postponed', 'reopened'])

function closeStep(db: Database, day: string, horizon: string): Promise<string> {
  return limited(db, { statement: LIMITS, values: [day] }, async (send) => {
    const [[step] = []] = await send(CLOSE_DAY, [day, horizon, db.now()])
    return step!
  })
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}

/** The postponed days, and why. */
export async function postponedDays(db: Database, purpose: 'retention' | 'look'): Promise<readonly PostponedDay[]> {
  const rows = await db.send(purpose, POSTPONED, [])
  return rows.map(([day, why]) => ({ day: day!, why: why! }))
}

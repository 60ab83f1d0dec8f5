// The partitions of the days to come, made ahead of time. ◄── prune.ts

import type { PostponedDay } from '../../core/upkeep-store.js'
import type { Database } from './database.js'
import { LOCKED_OUT_MS, limited, unlessLocked } from './locking.js'
import { statement } from './statement.js'

// Today and the three days after it. If the clock was ahead, one of them may be being closed. It is made again after that; until then
// its slices take its place.
const MISSING_DAYS = statement(
  'missing_days',
  `
SELECT to_char(days.day, 'YYYY-MM-DD')
  FROM (SELECT (coalesce($1::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date + ahead AS day
          FROM generate_series(0, 3) AS ahead) AS days
 WHERE to_regclass(format('%I.%I', ':schema_text', 'jobs' || to_char(days.day, '"_"YYYYMMDD'))) IS NULL
   AND NOT EXISTS (SELECT FROM :schema.closing_days WHERE closing_days.day = days.day AND closing_days.step <> 'postponed')
 ORDER BY days.day`,
)

const LIMITS = statement(
  'open_limits',
  `SELECT '${LOCKED_OUT_MS}', set_config('statement_timeout', '${LOCKED_OUT_MS}', true), set_config('lock_timeout', '100', true)`,
)
// A row that only the owner may lock: any role that may connect can take an advisory lock.
const ONE_AT_A_TIME = statement(
  'open_one_at_a_time',
  'SELECT number FROM :schema.migrations WHERE number = 1 FOR UPDATE SKIP LOCKED',
)
const OPEN_DAY = statement(
  'open_day',
  `SELECT :schema.open_day($1::date) OR to_regclass(format('%I.%I', ':schema_text', :schema.day_table('jobs', $1))) IS NOT NULL`,
)

/** Makes the days that are missing, each in a transaction of its own. Returns those that could not be made. */
export async function openDays(db: Database): Promise<readonly PostponedDay[]> {
  const missing = await db.send('retention', MISSING_DAYS, [db.now()])
  const postponed: PostponedDay[] = []
  for (const [day] of missing) {
    const opened = await unlessLocked(db, () => openDay(db, day!))
    if ('lockedBy' in opened) {
      const why = opened.isSlow ? await whySlow(db) : opened.lockedBy
      postponed.push({ day: day!, why: `its partitions cannot be made yet: ${why}` })
    } else if (!opened.value) {
      const why =
        'its partitions were made too late: more than 10,000 of its jobs are in the default partition, and are pruned one by one'
      postponed.push({ day: day!, why })
    }
  }
  return postponed
}

// The size of the tables that PostgreSQL reads completely while it attaches a day.
const REST_SIZE = statement(
  'rest_size',
  `
SELECT (sum(pg_catalog.pg_relation_size(pg_class.oid)) / 1048576)::bigint::text
  FROM pg_catalog.pg_class
 WHERE pg_class.relnamespace = to_regnamespace(':schema')
   AND pg_class.relname IN ('jobs_rest_new', 'finished_rest_new', 'attempts_rest_new', 'logs_rest_new', 'progress_rest_new')`,
)

async function whySlow(db: Database): Promise<string> {
  const [[megabytes] = []] = await db.send('retention', REST_SIZE, [])
  return `that took longer than the ${LOCKED_OUT_MS} ms for which it may lock others out, and the default partitions (jobs_rest_new and its like, ${megabytes} MB), which have the jobs of days without partitions of their own, are read for it. Its jobs go there meanwhile; they are moved away once they are past, and pruned once they are past their retention`
}

/** False when too many rows of the day are in the default partition for it to be made. */
function openDay(db: Database, day: string): Promise<boolean> {
  return limited(db, { statement: LIMITS, values: [] }, async (send) => {
    // Another process is making it.
    if ((await send(ONE_AT_A_TIME, [])).length === 0) return true
    const [[isMade] = []] = await send(OPEN_DAY, [day])
    return isMade === 't'
  })
}

// The old half of the default partitions grows up to today, so that making a day reads the other, small one (migrations/0009_raise_rest.ts
// has the steps). ◄── prune.ts

import type { Database } from './database.js'
import { LOCKED_OUT_MS, limited, unlessLocked } from './locking.js'
import { statement } from './statement.js'

// A call ends after this time, between two steps.
const BUDGET_MS = 500
const CHECK_MS = 110_000
// Those moved under the lock at a time.
const JOBS_MAX = 5_000

const TODAY_SQL = "(coalesce($1::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date"
const LIMITS = statement(
  'rest_limits',
  `
SELECT limits.ms, set_config('statement_timeout', limits.ms, true)
  FROM (SELECT CASE :schema.rest_step(${TODAY_SQL}) WHEN 'checking' THEN '${CHECK_MS}' ELSE '${LOCKED_OUT_MS}' END AS ms) AS limits`,
)
const RAISE_REST = statement('raise_rest', `SELECT :schema.raise_rest(${TODAY_SQL}, ${JOBS_MAX})`)

const OVER: ReadonlySet<string> = new Set(['raised', 'waiting', 'busy'])

/** Goes on with it for a bounded time. False when there is more to do. What cannot have its locks now is tried again at the next
 *  call: nothing is lost by that but time, and when days can't be made for it, those are named. */
export async function raiseRest(db: Database): Promise<boolean> {
  const endMs = performance.now() + BUDGET_MS
  let next = ''
  // What was checked is used immediately: closing a day would undo it.
  while (performance.now() < endMs || next === 'raising') {
    const step = await unlessLocked(db, () =>
      limited(db, { statement: LIMITS, values: [db.now()] }, async (send) => {
        const [[next] = []] = await send(RAISE_REST, [db.now()])
        return next!
      }),
    )
    if ('lockedBy' in step || OVER.has(step.value)) return true
    next = step.value
  }
  return false
}

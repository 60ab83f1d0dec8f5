// The bound of the old half of the default partitions is raised up to today, so that making a day reads only the other, small half
// (migrations/0009_raise_rest.ts has the steps). ◄── prune.ts

import type { Database } from './database.js'
import { LOCKED_OUT_MS, limited, unlessLocked } from './locking.js'
import { statement } from './statement.js'

// A call ends after this time, between two steps.
const BUDGET_MS = 500
const CHECK_MS = 110_000

// How many jobs are moved under the lock at a time. A usual server moves 5,000 within the limit; a slow one moves fewer. One that cannot
// move 20 does not fail because of their number.
const JOBS_MAX = 5_000
const JOBS_MIN = 20
// raise_rest() gives up a bound that it aims at when more than twice the number lies below it. So half would try the same jobs again.
const SHRINK = 1 / 4
// Slowly, because each attempt with too many jobs locks everybody out for the whole limit.
const GROW = 1.25

const TODAY_SQL = "(coalesce($1::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date"
const LIMITS = statement(
  'rest_limits',
  `
SELECT limits.ms, set_config('statement_timeout', limits.ms, true)
  FROM (SELECT CASE :schema.rest_step(${TODAY_SQL}) WHEN 'checking' THEN '${CHECK_MS}' ELSE '${LOCKED_OUT_MS}' END AS ms) AS limits`,
)
const RAISE_REST = statement(
  'raise_rest',
  `SELECT :schema.rest_bound()::text, :schema.raise_rest(${TODAY_SQL}, $2::integer)`, // the bound before the step
)
const REST_STEP = statement('rest_step', `SELECT :schema.rest_step(${TODAY_SQL})`)

const OVER: ReadonlySet<string> = new Set(['raised', 'waiting', 'busy'])

/** Raises the bound for one store. It learns how many jobs the server can move within the time limit. */
export class RestRaiser {
  readonly #db: Database
  #jobsMax = JOBS_MAX
  #bound: string | null = null

  constructor(db: Database) {
    this.#db = db
  }

  /** Continues for a bounded time. False when it should be called again soon. A step that cannot get its locks now is tried again at
   *  the next call. Until then the default partitions stay larger, and days that cannot be made because of that are named. */
  async raise(): Promise<boolean> {
    const endMs = performance.now() + BUDGET_MS
    let next = ''
    // A checked bound is used immediately: closing a day would undo the check.
    while (performance.now() < endMs || next === 'raising') {
      const step = await unlessLocked(this.#db, () => this.#step())
      if ('lockedBy' in step) return step.isSlow ? await this.#tooSlow() : true
      if (OVER.has(step.value)) return true
      next = step.value
    }
    return false
  }

  /** One step; resolves with the name of the next. */
  #step(): Promise<string> {
    const nowMs = this.#db.now()
    return limited(this.#db, { statement: LIMITS, values: [nowMs] }, async (send) => {
      const [[bound, next] = []] = await send(RAISE_REST, [nowMs, this.#jobsMax])
      // It has moved since the last step, so the server can move this many.
      if (this.#bound !== null && bound !== this.#bound)
        this.#jobsMax = Math.min(JOBS_MAX, Math.ceil(this.#jobsMax * GROW))
      this.#bound = bound!
      return next!
    })
  }

  /** A step did not end within its time limit. If it was the one that moves jobs, fewer are moved from now on. True when that cannot help. */
  async #tooSlow(): Promise<boolean> {
    const [[step] = []] = await this.#db.send('retention', REST_STEP, [this.#db.now()])
    if (step !== 'raising' || this.#jobsMax === JOBS_MIN) return true
    this.#jobsMax = Math.max(JOBS_MIN, Math.floor(this.#jobsMax * SHRINK))
    return false
  }
}

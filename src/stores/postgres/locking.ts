// For locks that block everyone: a step waits only a moment for them, and gives up otherwise.

import { isHoldfastError } from '../../core/errors.js'
import type { Database, Send } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { describeHolder, LOCK_HOLDER_SQL } from './lock-holder.js'
import { type Statement, statement } from './statement.js'

/** The longest that a step of retention may keep everyone else out, from its first lock to its end. Settlements wait for 500 ms. */
export const LOCKED_OUT_MS = 450

// The server ends a step at its time limit, by its own clock. If that clock was set back, the step and its locks would last longer. So
// the step is also ended from here, this long after the limit.
const LATE_MS = 250

const QUERY_CANCELED = '57014'

const LOCK_HOLDER = statement('lock_holder', LOCK_HOLDER_SQL)

/** What `work` returned, or who kept it from its locks. `isSlow` when it ran into its time limit instead. */
export type Locked<T> = { readonly value: T } | { readonly lockedBy: string; readonly isSlow: boolean }

/** Runs something that takes locks within a time limit. Not getting them is no failure: the caller tries again later. */
export async function unlessLocked<T>(db: Database, work: () => Promise<T>): Promise<Locked<T>> {
  try {
    return { value: await work() }
  } catch (error) {
    const sqlState = isHoldfastError(error) ? error.details.sqlState : undefined
    if (sqlState !== LOCK_NOT_AVAILABLE && sqlState !== QUERY_CANCELED) throw error
    const [row] = await db.send('retention', LOCK_HOLDER, [])
    return { lockedBy: `its tables are in use by ${describeHolder(row)}`, isSlow: sqlState === QUERY_CANCELED }
  }
}

/** One step of retention as a transaction. `limits` sets its time limit on the server and returns it. If the server does not end `work`
 *  in time, it is cancelled from here. */
export function limited<T>(
  db: Database,
  limits: { readonly statement: Statement; readonly values: readonly unknown[] },
  work: (send: Send) => Promise<T>,
): Promise<T> {
  return db.transaction('retention', async (send) => {
    const [[limitMs] = []] = await send(limits.statement, limits.values)
    let cancelling: Promise<void> | null = null
    const timer = setTimeout(() => {
      cancelling = db.cancelRunning('retention')
    }, Number(limitMs) + LATE_MS)
    try {
      return await work(send)
    } finally {
      clearTimeout(timer)
      // Until the server has taken note of it, the cancel could hit what comes next.
      await cancelling
    }
  })
}

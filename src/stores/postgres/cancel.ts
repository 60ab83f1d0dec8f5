// cancel: a waiting job ends at once; of a running one the wish is kept, and its worker is told.

import type { JobState } from '../../core/states.js'
import type { CancelResult } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockAfter } from './unblock.js'

// The rows of ready are found through their jobs' first places or by id; each row exists in one table only, so the deletes
// below take what is there and the rest answer nothing.
const CANCEL = statement(
  'cancel',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), from_blocked AS (
  DELETE FROM :schema.blocked WHERE blocked.id = ANY ($2::uuid[]) RETURNING id, NULL::bigint AS fence, 0 AS attempt, 0 AS crashes
), unlinked AS (
  DELETE FROM :schema.parents WHERE parents.child = ANY (ARRAY(SELECT id FROM from_blocked))
), from_scheduled AS (
  DELETE FROM :schema.scheduled WHERE scheduled.id = ANY ($2) RETURNING id, fence, attempt, crashes
), place AS MATERIALIZED (
  SELECT jobs.queue, jobs.priority, jobs.position, jobs.id FROM :schema.jobs WHERE jobs.id = ANY ($2)
), from_ready AS (
  DELETE FROM :schema.ready USING place
   WHERE ready.queue = place.queue AND ready.priority = place.priority AND ready.position = place.position
     AND ready.id = place.id AND NOT ready.moved
  RETURNING ready.id, ready.fence, ready.attempt, ready.crashes
), from_moved AS (
  DELETE FROM :schema.ready WHERE ready.id = ANY ($2) AND ready.moved RETURNING id, fence, attempt, crashes
), cancelled AS MATERIALIZED (
  SELECT * FROM from_blocked UNION ALL SELECT * FROM from_scheduled
  UNION ALL SELECT * FROM from_ready UNION ALL SELECT * FROM from_moved
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, fence, attempt, crashes, ending)
  SELECT cancelled.id, moment.now, cancelled.fence, coalesce(cancelled.attempt, 0), coalesce(cancelled.crashes, 0), 'cancelled'
    FROM cancelled, moment
), freed AS (
  DELETE FROM :schema.keys WHERE keys.id = ANY (ARRAY(SELECT id FROM cancelled)) AND keys.expires_at IS NULL
), asked AS (
  UPDATE :schema.running SET cancel_requested = true WHERE running.id = ANY ($2) RETURNING id
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'cancel', touched.id
    FROM (SELECT id FROM cancelled UNION ALL SELECT id FROM asked) AS touched, moment
)
SELECT id::text, 'cancelled' FROM cancelled
UNION ALL
SELECT id::text, 'asked' FROM asked`,
)

/** Cancels jobs. `onAsked` is told of running ones, `onReady` of queues in which a child became ready. */
export async function cancel(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  on: { readonly asked: (id: string) => void; readonly ready: (queue: string) => void },
): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const results = new Map<string, 'cancelled' | 'asked'>()
  // A job that moves from one table to the next while it is looked for is missed by both: ask again.
  for (let tries = 0; tries < 3; tries++) {
    const open = ids.filter((id) => !results.has(id))
    if (open.length === 0) break
    for (const [id, result] of await send(CANCEL, [db.now(), arrayOf(open), by])) {
      results.set(id!, result as 'cancelled' | 'asked')
    }
    const states = await statesOf(send, open)
    if (!open.some((id) => !results.has(id) && isLive(states.get(id)))) break
  }
  for (const [id, result] of results) if (result === 'asked') on.asked(id)
  await unblockAfter(
    db,
    send,
    [...results].filter(([, result]) => result === 'cancelled').map(([id]) => id),
    on.ready,
  )
  const rest = ids.filter((id) => !results.has(id))
  const states = rest.length > 0 ? await statesOf(send, rest) : new Map<string, JobState>()
  return ids.map((id): CancelResult => {
    const result = results.get(id)
    if (result !== undefined) return { id, result }
    return refusal(id, states.get(id))
  })
}

function isLive(state: JobState | undefined): boolean {
  return state !== undefined && state !== 'succeeded' && state !== 'cancelled' && state !== 'dead'
}

/** The answer for a job that could not be cancelled or discarded because of where it stands. */
export function refusal(id: string, state: JobState | undefined): CancelResult {
  if (state === undefined) return { id, result: 'missing' }
  // Cancelled before: asking again changes nothing and is no mistake.
  if (state === 'cancelled') return { id, result: 'cancelled' }
  return { id, result: 'refused', state }
}

// cancel: a waiting job ends immediately; for a running one the request is kept, and its worker is notified.

import type { CancelResult } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { intoArrivals } from './held-place.js'
import { freeKeysOfWaiting } from './key-rows.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockAfter } from './unblock.js'

// The rows of ready are found through their jobs' first places or by id; each row exists in one table only, so the deletes
// below take what is there and the rest answer nothing. A row of running may be locked by a handler's open transaction: no call waits
// for that, and the request is kept in a table of its own. So is one for a job whose payload a caller's open transaction is replacing.
const keys = freeKeysOfWaiting('SELECT id FROM cancelled')
const CANCEL = statement(
  'cancel',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), from_blocked AS (
  DELETE FROM :schema.blocked
   WHERE blocked.id = ANY (ARRAY(SELECT waiting.id FROM :schema.blocked AS waiting WHERE waiting.id = ANY ($2::uuid[]) FOR UPDATE SKIP LOCKED))
  RETURNING id, NULL::bigint AS fence, 0 AS attempt, 0 AS crashes,
              queue, track, group_name
), unlinked AS (
  DELETE FROM :schema.parents WHERE parents.child = ANY (ARRAY(SELECT id FROM from_blocked))
), from_scheduled AS (
  DELETE FROM :schema.scheduled
   WHERE scheduled.id = ANY (ARRAY(SELECT timed.id FROM :schema.scheduled AS timed WHERE timed.id = ANY ($2) FOR UPDATE SKIP LOCKED))
  RETURNING id, fence, attempt, crashes, queue, track, group_name
), place AS MATERIALIZED (
  SELECT jobs.queue, jobs.priority, jobs.position, jobs.id FROM :schema.jobs WHERE jobs.id = ANY ($2)
), from_ready AS (
  DELETE FROM :schema.ready USING place
   WHERE ready.queue = place.queue AND ready.priority = place.priority AND ready.position = place.position
     AND ready.id = place.id AND NOT ready.moved
  RETURNING ready.id, ready.fence, ready.attempt, ready.crashes, ready.queue, 0 AS track, ''::text AS group_name
), from_moved AS (
  DELETE FROM :schema.ready WHERE ready.id = ANY ($2) AND ready.moved
  RETURNING id, fence, attempt, crashes, queue, 0 AS track, ''::text AS group_name
), from_held AS (
  DELETE FROM :schema.held WHERE held.id = ANY ($2) RETURNING id, fence, attempt, crashes, queue, track, group_name
), cancelled AS MATERIALIZED (
  SELECT * FROM from_blocked UNION ALL SELECT * FROM from_scheduled
  UNION ALL SELECT * FROM from_ready UNION ALL SELECT * FROM from_moved UNION ALL SELECT * FROM from_held
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, fence, attempt, crashes, ending)
  SELECT cancelled.id, moment.now, cancelled.fence, coalesce(cancelled.attempt, 0), coalesce(cancelled.crashes, 0), 'cancelled'
    FROM cancelled, moment
), arrived AS (${intoArrivals('cancelled', "(SELECT pg_catalog.nextval(':schema.positions') * 65536)")}
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT cancelled.id FROM cancelled WHERE EXISTS (SELECT FROM :schema.parents WHERE parents.parent = cancelled.id)
), freed AS (${keys.freed}
), left_key AS (${keys.left}
), free AS MATERIALIZED (
  SELECT running.id FROM :schema.running WHERE running.id = ANY ($2) AND $4::boolean FOR UPDATE SKIP LOCKED
), asked AS (
  UPDATE :schema.running SET cancel_requested = true WHERE running.id = ANY (ARRAY(SELECT id FROM free)) RETURNING id
), locked AS MATERIALIZED (
  SELECT running.id FROM :schema.running WHERE running.id = ANY ($2) AND $4 AND (running.id NOT IN (SELECT id FROM free)) IS TRUE
), kept AS (
  INSERT INTO :schema.cancels (id) SELECT id FROM locked ORDER BY id ON CONFLICT DO NOTHING
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'cancel', touched.id
    FROM (SELECT id FROM cancelled UNION ALL SELECT id FROM asked UNION ALL SELECT id FROM locked) AS touched, moment
   WHERE $3::text IS NOT NULL
)
SELECT id::text, 'cancelled', CASE WHEN track > 0 THEN queue END FROM cancelled
UNION ALL
SELECT id::text, 'asked', NULL FROM asked
UNION ALL
SELECT id::text, 'locked', NULL FROM locked`,
)

type Outcome = 'cancelled' | 'asked' | 'locked'

/** Callbacks for what a cancel changed. */
export interface CancelCalls {
  /** Called with the ids of running jobs. */
  readonly asked: (id: string) => void
  /** Called with the queues in which a child became ready. */
  readonly ready: (queue: string) => void
  /** Called with the ids of jobs whose children must be unblocked later: a cancel inside a transaction leaves that to after its commit. */
  readonly ended?: (ids: readonly string[]) => void
}

/** Cancels jobs. */
export async function cancel(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  on: CancelCalls,
): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const { results, states } = await cancelAll(db, send, ids, by, on)
  return ids.map((id): CancelResult => {
    const result = results.get(id)
    if (result !== undefined) return { id, result: result === 'cancelled' ? 'cancelled' : 'asked' }
    return refusal(id, states.get(id))
  })
}

/** Cancels those of the jobs that wait, without a line in the audit log, and returns their ids. Their children are left to the caller;
 *  `onReady` receives the queues in which the next job of a group may go. */
export async function cancelWaiting(
  db: Database,
  send: Send,
  ids: readonly string[],
  onReady: (queue: string) => void,
): Promise<readonly string[]> {
  const rows = await send(CANCEL, [db.now(), arrayOf(ids), null, false])
  for (const [, , queue] of rows) if (queue !== null && queue !== undefined) onReady(queue)
  return rows.map(([id]) => id!)
}

const GRANTED = statement('cancels_granted', 'DELETE FROM :schema.cancels WHERE cancels.id = ANY ($1::uuid[])')

/** Cancels jobs whose rows were locked at the first try. Those that are still locked stay in the list. */
export async function cancelKept(db: Database, send: Send, ids: readonly string[], on: CancelCalls): Promise<void> {
  const { results } = await cancelAll(db, send, ids, null, on)
  const granted = ids.filter((id) => results.get(id) !== 'locked')
  if (granted.length > 0) await send(GRANTED, [arrayOf(granted)])
}

// For a job that changed tables each time it was looked for. Its cancel request is kept and granted later, like that of a locked row.
const KEEP = statement(
  'cancels_keep',
  `
WITH kept AS (
  INSERT INTO :schema.cancels (id) SELECT unnest($2::uuid[]) ORDER BY 1 ON CONFLICT DO NOTHING
)
INSERT INTO :schema.audit (at, actor, action, job)
SELECT coalesce($1::timestamptz, clock_timestamp()), $3, 'cancel', moving.id
  FROM unnest($2::uuid[]) AS moving (id)
 WHERE $3::text IS NOT NULL`,
)
const TRIES_MAX = 3

/** What became of each job that was not finished, and the states of the others at the last look. Without `by` no audit line is
 *  written: that was done when the cancel was requested. */
async function cancelAll(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string | null,
  on: CancelCalls,
): Promise<{ readonly results: ReadonlyMap<string, Outcome>; readonly states: ReadonlyMap<string, JobState> }> {
  const results = new Map<string, Outcome>()
  let states = new Map<string, JobState>()
  // A job that moves between two tables during the query is found in neither, so try again. A job that has finished by then is refused
  // with its final state, even if it is requeued meanwhile.
  let open = ids
  for (let tries = 0; tries < TRIES_MAX && open.length > 0; tries++) {
    for (const [id, result, queue] of await send(CANCEL, [db.now(), arrayOf(open), by, true])) {
      results.set(id!, result as Outcome)
      // The next of its group may go.
      if (queue !== null && queue !== undefined) on.ready(queue)
    }
    const missed = open.filter((id) => !results.has(id))
    if (missed.length > 0) states = new Map([...states, ...(await statesOf(send, missed))])
    open = missed.filter((id) => isLive(states.get(id)))
  }
  if (open.length > 0) {
    await send(KEEP, [db.now(), arrayOf(open), by])
    for (const id of open) results.set(id, 'locked')
  }
  for (const [id, result] of results) if (result !== 'cancelled' && (by !== null || result === 'asked')) on.asked(id)
  const ended = [...results].filter(([, result]) => result === 'cancelled').map(([id]) => id)
  if (on.ended !== undefined) on.ended(ended)
  else await unblockAfter(db, send, ended, on.ready)
  return { results, states }
}

function isLive(state: JobState | undefined): boolean {
  return state !== undefined && state !== 'succeeded' && state !== 'cancelled' && state !== 'dead'
}

/** The answer for a job that could not be cancelled or discarded because of its state. */
export function refusal(id: string, state: JobState | undefined): CancelResult {
  if (state === undefined) return { id, result: 'missing' }
  // Cancelled before: asking again changes nothing and is no mistake.
  if (state === 'cancelled') return { id, result: 'cancelled' }
  return { id, result: 'refused', state }
}

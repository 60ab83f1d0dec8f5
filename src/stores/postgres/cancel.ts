// cancel: a waiting job ends at once; of a running one the wish is kept, and its worker is told.

import type { CancelResult } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockAfter } from './unblock.js'

// The rows of ready are found through their jobs' first places or by id; each row exists in one table only, so the deletes
// below take what is there and the rest answer nothing. A row of running may be locked by a handler's open transaction: nobody waits
// for that, and the wish is kept apart.
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
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT cancelled.id FROM cancelled WHERE EXISTS (SELECT FROM :schema.parents WHERE parents.parent = cancelled.id)
), freed AS (
  DELETE FROM :schema.keys WHERE keys.id = ANY (ARRAY(SELECT id FROM cancelled)) AND keys.expires_at IS NULL
), free AS MATERIALIZED (
  SELECT running.id FROM :schema.running WHERE running.id = ANY ($2) FOR UPDATE SKIP LOCKED
), asked AS (
  UPDATE :schema.running SET cancel_requested = true WHERE running.id = ANY (ARRAY(SELECT id FROM free)) RETURNING id
), locked AS MATERIALIZED (
  SELECT running.id FROM :schema.running WHERE running.id = ANY ($2) AND (running.id NOT IN (SELECT id FROM free)) IS TRUE
), kept AS (
  INSERT INTO :schema.cancels (id) SELECT id FROM locked ORDER BY id ON CONFLICT DO NOTHING
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'cancel', touched.id
    FROM (SELECT id FROM cancelled UNION ALL SELECT id FROM asked UNION ALL SELECT id FROM locked) AS touched, moment
   WHERE $3::text IS NOT NULL
)
SELECT id::text, 'cancelled' FROM cancelled
UNION ALL
SELECT id::text, 'asked' FROM asked
UNION ALL
SELECT id::text, 'locked' FROM locked`,
)

type Outcome = 'cancelled' | 'asked' | 'locked'

/** Whom to tell what a cancel changed. */
export interface CancelTold {
  /** Called with the ids of running jobs. */
  readonly asked: (id: string) => void
  /** Called with the queues in which a child became ready. */
  readonly ready: (queue: string) => void
  /** Takes over to let the children of these go on, for a cancel inside a transaction: after it. */
  readonly ended?: (ids: readonly string[]) => void
}

/** Cancels jobs. */
export async function cancel(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  on: CancelTold,
): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const { results, states } = await cancelAll(db, send, ids, by, on)
  return ids.map((id): CancelResult => {
    const result = results.get(id)
    if (result !== undefined) return { id, result: result === 'cancelled' ? 'cancelled' : 'asked' }
    return refusal(id, states.get(id))
  })
}

const GRANTED = statement('cancels_granted', 'DELETE FROM :schema.cancels WHERE cancels.id = ANY ($1::uuid[])')

/** Cancels jobs that could not be asked because their rows were locked. Those whose rows still are stay in the list. */
export async function cancelKept(db: Database, send: Send, ids: readonly string[], on: CancelTold): Promise<void> {
  const { results } = await cancelAll(db, send, ids, null, on)
  const granted = ids.filter((id) => results.get(id) !== 'locked')
  if (granted.length > 0) await send(GRANTED, [arrayOf(granted)])
}

// For a job that was somewhere else each time it was looked for. The same wish as that of a locked row, and granted the same way.
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

/** What became of each job that was not finished, and where the others stood after the last look for them. Without `by` no line is
 *  written: that was done when it was asked for. */
async function cancelAll(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string | null,
  on: CancelTold,
): Promise<{ readonly results: ReadonlyMap<string, Outcome>; readonly states: ReadonlyMap<string, JobState> }> {
  const results = new Map<string, Outcome>()
  let states = new Map<string, JobState>()
  // A job that moves from one table to the next while it is looked for is missed by both: ask again. One whose state is an end at a
  // moment after the look is refused for that state, whatever it is requeued into meanwhile.
  let open = ids
  for (let tries = 0; tries < TRIES_MAX && open.length > 0; tries++) {
    for (const [id, result] of await send(CANCEL, [db.now(), arrayOf(open), by])) {
      results.set(id!, result as Outcome)
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

/** The answer for a job that could not be cancelled or discarded because of where it stands. */
export function refusal(id: string, state: JobState | undefined): CancelResult {
  if (state === undefined) return { id, result: 'missing' }
  // Cancelled before: asking again changes nothing and is no mistake.
  if (state === 'cancelled') return { id, result: 'cancelled' }
  return { id, result: 'refused', state }
}

// update: changes to a job that waits. Beside replace-function.ts the one place where a row of jobs is ever changed.

import { changeDetails } from '../../core/audit-details.js'
import type { JobChanges, UpdateResult } from '../../core/operator-store.js'
import { allows } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { intoArrivals } from './held-place.js'
import { statement } from './statement.js'
import { statesOf } from './states.js'

// The table that has the job's row returns its new state. The row in `jobs` changes only if one of them did.
const UPDATE = statement(
  'update_job',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), change AS MATERIALIZED (
  SELECT $2::uuid AS id, $3::smallint AS priority, $4::boolean AS has_time,
         CASE WHEN to_timestamp($5::float8 / 1000) > moment.now THEN to_timestamp($5 / 1000) END AS run_at,
         moment.now
    FROM moment
), facts AS MATERIALIZED (
  SELECT jobs.id, jobs.queue, jobs.priority, jobs.position FROM :schema.jobs WHERE jobs.id = $2
), in_blocked AS (
  UPDATE :schema.blocked
     SET priority = coalesce(change.priority, blocked.priority),
         run_at = CASE WHEN change.has_time THEN change.run_at ELSE blocked.run_at END
    FROM change
   WHERE blocked.id = change.id
  RETURNING 'blocked' AS state
), in_scheduled AS (
  UPDATE :schema.scheduled
     SET priority = coalesce(change.priority, scheduled.priority),
         -- No time means due now: the next promote makes it ready.
         run_at = CASE WHEN change.has_time THEN coalesce(change.run_at, change.now) ELSE scheduled.run_at END
    FROM change
   WHERE scheduled.id = change.id
  RETURNING CASE WHEN scheduled.retrying THEN 'retrying' ELSE 'scheduled' END AS state
), place AS MATERIALIZED (
  SELECT ready.ctid AS place
    FROM facts
    JOIN :schema.ready ON ready.queue = facts.queue AND ready.priority = facts.priority AND ready.position = facts.position
     AND ready.id = facts.id AND NOT ready.moved
  UNION ALL
  SELECT ready.ctid FROM :schema.ready WHERE ready.id = $2 AND ready.moved
), left_held AS (
  DELETE FROM :schema.held
   WHERE held.id = $2 AND (SELECT run_at FROM change) IS NOT NULL
  RETURNING id, fence, priority, attempt, crashes, queue, type, track, group_name
), in_held AS (
  UPDATE :schema.held
     SET priority = CASE WHEN held.group_name <> '' AND (SELECT flows.in_order FROM :schema.flows WHERE flows.queue = held.queue) IS TRUE THEN 0
                         ELSE coalesce(change.priority, held.priority) END
    FROM change
   WHERE held.id = $2 AND change.run_at IS NULL
  RETURNING 'ready' AS state, held.queue, held.track, held.group_name
), left_line AS (
  DELETE FROM :schema.ready
   WHERE ready.ctid = ANY (ARRAY(SELECT place FROM place)) AND (SELECT run_at FROM change) IS NOT NULL
  RETURNING id, fence, priority, attempt, crashes, queue, type, 0 AS track, ''::text AS group_name
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, fence, priority, attempt, crashes, retrying, queue, type, track, group_name)
  SELECT gone.id, change.run_at, gone.fence, coalesce(change.priority, CASE WHEN gone.track > 0 THEN facts.priority END, gone.priority),
         coalesce(gone.attempt, 0), coalesce(gone.crashes, 0), false, gone.queue, gone.type, gone.track, gone.group_name
    FROM (SELECT * FROM left_line UNION ALL SELECT * FROM left_held) AS gone, change, facts
  RETURNING 'scheduled' AS state
), in_ready AS (
  UPDATE :schema.ready
     SET priority = coalesce(change.priority, ready.priority)
    FROM change
   WHERE ready.ctid = ANY (ARRAY(SELECT place FROM place)) AND change.run_at IS NULL
  RETURNING 'ready' AS state
), answer AS MATERIALIZED (
  SELECT state FROM in_blocked UNION ALL SELECT state FROM in_scheduled
  UNION ALL SELECT state FROM into_scheduled UNION ALL SELECT state FROM in_ready UNION ALL SELECT state FROM in_held
), touched AS MATERIALIZED (
  SELECT queue, track, group_name FROM left_held UNION ALL SELECT queue, track, group_name FROM in_held
), arrived AS (${intoArrivals('touched', "(SELECT pg_catalog.nextval(':schema.positions') * 65536)", 'true')}
), into_jobs AS (
  -- The priority is kept here too: with it the row in ready is found again.
  UPDATE :schema.jobs
     SET priority = coalesce(change.priority, jobs.priority),
         payload = coalesce($6::json, jobs.payload)
    FROM change
   WHERE jobs.id = change.id AND EXISTS (SELECT FROM answer)
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job, details)
  SELECT moment.now, $7, 'update', $2, $8::json
    FROM moment
   WHERE EXISTS (SELECT FROM answer)
)
SELECT state, (SELECT queue FROM touched LIMIT 1) FROM answer`,
)

export async function update(
  db: Database,
  send: Send,
  id: string,
  changes: JobChanges,
  by: string,
  onReady: (queue: string) => void,
): Promise<UpdateResult> {
  const values = [
    db.now(),
    id,
    changes.priority ?? null,
    changes.runAtMs !== undefined,
    changes.runAtMs ?? null,
    changes.payload ?? null,
    by,
    JSON.stringify(changeDetails(changes)),
  ]
  // Missed while it moved from one table to the next: ask again.
  for (let tries = 0; tries < 3; tries++) {
    const [[updated, woken] = []] = await send(UPDATE, values)
    if (woken !== null && woken !== undefined) onReady(woken)
    if (updated !== undefined) return { id, result: 'updated', state: updated as 'ready' }
    const state = (await statesOf(send, [id])).get(id)
    if (state === undefined) return { id, result: 'missing' }
    if (!allows(state, 'update') || tries === 2) return { id, result: 'refused', state }
  }
  return { id, result: 'missing' }
}

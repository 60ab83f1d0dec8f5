import { HELD_PLACE } from './held-place.js'
import { KEYS_OF_UNBLOCKED } from './replace-function.js'

interface Parts {
  readonly comment: string
  /** CTEs before `gone`, and the jobs that go. */
  readonly free: string
  readonly gone: string
  /** What becomes of their keys. */
  readonly keys: string
  /** The column that says whether groups are ordered. */
  readonly column: 'ordered' | 'in_order'
  /** Whether jobs come by that have run before, and wait for their children. */
  readonly hasWaiting?: boolean
}

const OR_EARLY = `
         OR coalesce(bool_or(ended.state IN ('dead', 'cancelled')), false) AND coalesce(bool_or(blocked.wakes_early), false)`
const TO_FRONT = ' - CASE WHEN gone.fence IS NULL THEN 0 ELSE 4611686018427387904 END'

const unblockSql = ({ comment, free, gone, keys, column, hasWaiting = false }: Parts): string => `
-- ${comment}
CREATE OR REPLACE FUNCTION :schema.unblock(at_time timestamptz, ids uuid[], looked_at uuid[])
  RETURNS TABLE (job text, became text, in_queue text)
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  is_trusted boolean := has_table_privilege(session_user, ':schema.blocked', 'DELETE');
BEGIN
  IF NOT is_trusted THEN
    at_time := NULL;
    looked_at := ARRAY(SELECT blocked.id FROM :schema.blocked WHERE blocked.id = ANY (ids) AND blocked.id = ANY (looked_at));
  END IF;
  RETURN QUERY
WITH moment AS MATERIALIZED (
  SELECT coalesce(at_time, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), verdict AS MATERIALIZED (
  SELECT blocked.id,
         bool_and(ended.state IS NOT NULL)${hasWaiting ? OR_EARLY : ''} AS all_ended,
         coalesce(bool_or(ended.state IN ('dead', 'cancelled')), false) AND bool_or(blocked.cancel_with_parents) AS is_cancelled
    FROM pg_catalog.unnest(ids) AS asked (id)
   CROSS JOIN LATERAL (                                       -- one look-up for each job, whatever statistics say
     SELECT blocked.id, blocked.cancel_with_parents${hasWaiting ? ', blocked.wakes_early' : ''} FROM :schema.blocked WHERE blocked.id = asked.id OFFSET 0
   ) AS blocked
   CROSS JOIN LATERAL (
     SELECT parents.parent FROM :schema.parents WHERE parents.child = asked.id OFFSET 0
   ) AS parents
   CROSS JOIN LATERAL (
     SELECT CASE WHEN EXISTS (SELECT FROM :schema.dead WHERE dead.id = parents.parent) THEN 'dead'
                 WHEN EXISTS (SELECT FROM :schema.finished WHERE finished.id = parents.parent)
                 THEN (SELECT ending::text FROM :schema.finished WHERE finished.id = parents.parent)
                 -- A parent that was pruned had finished long before.
                 WHEN NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = parents.parent) THEN 'succeeded'
             END AS state
   ) AS ended
   GROUP BY blocked.id
), ${free}gone AS (
  DELETE FROM :schema.blocked
   WHERE blocked.id = ANY (ARRAY(${gone}))
  RETURNING blocked.id, blocked.run_at, blocked.priority, blocked.queue, blocked.type, blocked.track, blocked.group_name${hasWaiting ? ', blocked.fence, blocked.attempt, blocked.crashes' : ''}
), moved AS MATERIALIZED (
  SELECT gone.*, moment.now, moment.place + row_number() OVER (ORDER BY gone.id)${hasWaiting ? TO_FRONT : ''} AS position,
         CASE WHEN gone.id IN (SELECT id FROM verdict WHERE is_cancelled) THEN 'cancelled'
              WHEN gone.run_at > moment.now THEN 'scheduled'
              ELSE 'ready'
          END AS state
    FROM gone
   CROSS JOIN moment
), stays AS MATERIALIZED (                                    -- looked at for the first time, and still blocked: once more, later
  SELECT blocked.id
    FROM pg_catalog.unnest(looked_at) AS asked (id)
   CROSS JOIN LATERAL (SELECT blocked.id FROM :schema.blocked WHERE blocked.id = asked.id OFFSET 0) AS blocked
   WHERE (blocked.id NOT IN (SELECT id FROM moved)) IS TRUE
), looks_again AS (
  UPDATE :schema.link_checks
     SET look_at = (SELECT now FROM moment) + interval '15 seconds'
   WHERE link_checks.job = ANY (ARRAY(SELECT id FROM stays)) AND link_checks.look_at = '-infinity'
), checked AS (
  DELETE FROM :schema.link_checks
   WHERE link_checks.job = ANY (looked_at) AND link_checks.look_at = '-infinity'
     AND (link_checks.job NOT IN (SELECT id FROM stays)) IS TRUE
     AND (link_checks.job NOT IN (SELECT id FROM moved)) IS TRUE
), over AS (                                                  -- a look that moves on has no other to wait for, and a second one was the last
  DELETE FROM :schema.link_checks
   WHERE link_checks.job = ANY (ids)
     AND ((link_checks.job IN (SELECT id FROM moved)) IS TRUE
          OR link_checks.look_at > '-infinity' AND link_checks.look_at <= (SELECT now FROM moment))
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT moved.id
    FROM moved
   WHERE moved.state = 'cancelled' AND EXISTS (SELECT FROM :schema.parents WHERE parents.parent = moved.id)
), unlinked AS (
  DELETE FROM :schema.parents WHERE parents.child = ANY (ARRAY(SELECT id FROM moved))
), ${keys}, into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, attempt, crashes, ending)
  SELECT id, now, 0, 0, 'cancelled'
    FROM moved
   WHERE state = 'cancelled'
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type, track, group_name${hasWaiting ? ', fence' : ''})
  SELECT id, run_at, priority, ${hasWaiting ? 'coalesce(attempt, 0), coalesce(crashes, 0)' : '0, 0'}, false, queue, type, track, group_name${hasWaiting ? ', fence' : ''}
    FROM moved
   WHERE state = 'scheduled'
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type${hasWaiting ? ', fence, attempt, crashes' : ''})
  SELECT id, position, now, priority, true, queue, type${hasWaiting ? ', fence, attempt, crashes' : ''}
    FROM moved
   WHERE state = 'ready' AND track = 0
), into_held AS (
  INSERT INTO :schema.held (id, position, since, track, priority, queue, group_name, type${hasWaiting ? ', fence, attempt, crashes' : ''})
  SELECT moved.id, CASE WHEN place.is_ordered THEN place.position ELSE moved.position END, moved.now, moved.track,
         CASE WHEN place.is_ordered THEN 0 ELSE moved.priority END, moved.queue, moved.group_name, moved.type${hasWaiting ? ', moved.fence, moved.attempt, moved.crashes' : ''}
    FROM moved
   CROSS JOIN LATERAL ${HELD_PLACE('moved', column)} AS place
   WHERE moved.state = 'ready' AND moved.track > 0
), arrived AS (
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT DISTINCT moment.place, moved.track, moved.group_name
    FROM moved, moment
   WHERE moved.state = 'ready' AND moved.track > 0
)
SELECT id::text, state, queue FROM moved
UNION ALL
SELECT id::text, 'blocked', NULL FROM verdict WHERE NOT (all_ended OR is_cancelled);
END
$$;

`

const GOES_ON = 'SELECT id FROM verdict WHERE all_ended OR is_cancelled'

/** As 0011 has it. */
export const UNBLOCK_FLOW: string = unblockSql({
  comment: 'As in 0007, and jobs with a group or limits go to held.',
  free: '',
  gone: GOES_ON,
  keys: `freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM moved WHERE state = 'cancelled')) AND keys.expires_at IS NULL
)`,
  column: 'ordered',
})

/** As 0014 has it. */
export const UNBLOCK_REPLACE: string = unblockSql({
  comment:
    "As in 0011. A successor takes the key of the job before it. One whose payload a caller's open transaction replaces is left for a later look.",
  free: `free AS MATERIALIZED (
  SELECT blocked.id FROM :schema.blocked WHERE blocked.id = ANY (ARRAY(${GOES_ON})) FOR UPDATE SKIP LOCKED
), `,
  gone: 'SELECT id FROM free',
  keys: KEYS_OF_UNBLOCKED,
  column: 'in_order',
})

/** As 0023 has it. */
export const UNBLOCK_CHILDREN: string = unblockSql({
  comment:
    'As in 0014, and jobs that wait for their children go on with their fence and their attempts, in the front lane.',
  free: `free AS MATERIALIZED (
  SELECT blocked.id FROM :schema.blocked WHERE blocked.id = ANY (ARRAY(${GOES_ON})) FOR UPDATE SKIP LOCKED
), `,
  gone: 'SELECT id FROM free',
  keys: KEYS_OF_UNBLOCKED,
  column: 'in_order',
  hasWaiting: true,
})

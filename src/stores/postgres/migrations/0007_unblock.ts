import type { Migration } from './migration.js'

export const unblockFunction: Migration = {
  number: 7,
  name: 'unblock',
  sql: `-- Moves on blocked jobs whose parents have ended. It runs with the owner's rights and checks by itself what may be moved, so that a
-- role that may only enqueue needs no right to remove anything: called with any ids, at any time, it does what must be done anyway.
-- Only who may remove blocked jobs chooses the time, and strikes out looks that were announced for jobs that are not blocked any more.
--
-- What is true of the parents is read from the tables of finished jobs, so that two parents that end at the same moment
-- need no common counter: whichever call comes last sees both.
CREATE FUNCTION :schema.unblock(at_time timestamptz, ids uuid[], looked_at uuid[])
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
         bool_and(ended.state IS NOT NULL) AS all_ended,
         coalesce(bool_or(ended.state IN ('dead', 'cancelled')), false) AND bool_or(blocked.cancel_with_parents) AS is_cancelled
    FROM pg_catalog.unnest(ids) AS asked (id)
   CROSS JOIN LATERAL (                                       -- one look-up for each job, whatever statistics say
     SELECT blocked.id, blocked.cancel_with_parents FROM :schema.blocked WHERE blocked.id = asked.id OFFSET 0
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
), gone AS (
  DELETE FROM :schema.blocked
   WHERE blocked.id = ANY (ARRAY(SELECT id FROM verdict WHERE all_ended OR is_cancelled))
  RETURNING blocked.id, blocked.run_at, blocked.priority, blocked.queue, blocked.type
), moved AS MATERIALIZED (
  SELECT gone.*, moment.now, moment.place + row_number() OVER (ORDER BY gone.id) AS position,
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
), freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM moved WHERE state = 'cancelled')) AND keys.expires_at IS NULL
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, attempt, crashes, ending)
  SELECT id, now, 0, 0, 'cancelled'
    FROM moved
   WHERE state = 'cancelled'
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
  SELECT id, run_at, priority, 0, 0, false, queue, type
    FROM moved
   WHERE state = 'scheduled'
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT id, position, now, priority, true, queue, type
    FROM moved
   WHERE state = 'ready'
)
SELECT id::text, state, queue FROM moved
UNION ALL
SELECT id::text, 'blocked', NULL FROM verdict WHERE NOT (all_ended OR is_cancelled);
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.unblock(timestamptz, uuid[], uuid[]) FROM PUBLIC;
`,
}

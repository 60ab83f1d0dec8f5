// delete_jobs: removes finished and dead jobs from every table. A function with the rights of the owner, because no other role may remove
// rows of jobs. ◄── delete.ts

import { isUnfinished } from './key-rows.js'

/** The tables with rows of a job by its id, beside those of its state. Those in days come first: a trigger notes each change of a day that
 *  is being closed (0003_close_days.ts), so that no copy of the job stays. */
const TABLES = ['attempts', 'logs', 'progress', 'kept', 'output', 'signals', 'waits', 'places', 'cancels'] as const

export const DELETE_JOBS: string = `
CREATE FUNCTION :schema.delete_jobs(at_time timestamptz, ids uuid[], by_actor text) RETURNS SETOF uuid
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  gone uuid[];
BEGIN
  -- Whoever may start bulk actions may delete. A worker may only do the bulk actions that operators have started.
  IF NOT has_table_privilege(session_user, ':schema.bulks', 'INSERT')
     AND NOT EXISTS (SELECT FROM :schema.bulks WHERE bulks.action = 'delete' AND bulks.actor = by_actor AND bulks.state IN ('waiting', 'running')) THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for function delete_jobs';
  END IF;
  -- A dead job may be requeued at the same time: the row's lock decides. One that has finished otherwise stays so.
  WITH from_dead AS (
    DELETE FROM :schema.dead WHERE dead.id = ANY (ids) RETURNING dead.id
  ), from_finished AS (
    DELETE FROM :schema.finished WHERE finished.id = ANY (ids) RETURNING finished.id
  )
  SELECT coalesce(array_agg(ended.id), '{}') INTO gone
    FROM (SELECT from_dead.id FROM from_dead UNION SELECT from_finished.id FROM from_finished) AS ended;
  IF cardinality(gone) = 0 THEN
    RETURN;
  END IF;
${TABLES.map((table) => `  DELETE FROM :schema.${table} WHERE ${table}.id = ANY (gone);`).join('\n')}
  DELETE FROM :schema.jobs WHERE jobs.id = ANY (gone);
  -- A successor that waits for its turn gets the key.
  UPDATE :schema.keys SET next = NULL WHERE keys.next = ANY (gone);
  UPDATE :schema.keys SET id = keys.next, next = NULL WHERE keys.id = ANY (gone) AND keys.next IS NOT NULL AND ${isUnfinished('keys.next')};
  DELETE FROM :schema.keys WHERE keys.id = ANY (gone);
  INSERT INTO :schema.deleted (id, at)
  SELECT each.id, coalesce(at_time, clock_timestamp()) FROM unnest(gone) AS each (id)
      ON CONFLICT ON CONSTRAINT deleted_once DO NOTHING;
  DELETE FROM :schema.deleted
   WHERE deleted.id = ANY (ARRAY(SELECT old.id FROM :schema.deleted AS old
                                  WHERE old.at < coalesce(at_time, clock_timestamp()) - interval '1 day'
                                  ORDER BY old.at LIMIT 2000 FOR UPDATE SKIP LOCKED));
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT coalesce(at_time, clock_timestamp()), by_actor, 'delete', each.id FROM unnest(gone) AS each (id);
  RETURN QUERY SELECT unnest(gone);
END
$$;

-- Notes jobs as deleted, whether they are there or not.
CREATE FUNCTION :schema.note_deleted(ids uuid[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO :schema.deleted (id, at) SELECT DISTINCT noted.id, clock_timestamp() FROM unnest(note_deleted.ids) AS noted (id)
      ON CONFLICT ON CONSTRAINT deleted_once DO NOTHING
$$;
`

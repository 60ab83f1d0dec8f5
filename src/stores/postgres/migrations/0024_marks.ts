import type { Migration } from './migration.js'

export const marks: Migration = {
  number: 24,
  name: 'marks',
  sql: `-- What each client with failoverMemory had been told is accepted. After a failover a mark whose client has not spoken on the new server
-- stands for jobs that only a dead process knew (missing.ts).
CREATE TABLE :schema.marks (
  client     uuid        NOT NULL,
  process    text        NOT NULL,                -- host and process id, for people
  marked_at  timestamptz NOT NULL,
  accepted   bigint      NOT NULL,                -- jobs accepted since it was connected
  most       integer     NOT NULL,                -- jobs accepted in the busiest second of late
  epoch      uuid,                                -- the change (timeline.epoch) after which it has said everything again
  CONSTRAINT marks_are_of_one_client PRIMARY KEY (client)
);

-- Whether what may be missing after the newest change was written into the audit log.
ALTER TABLE :schema.timeline ADD COLUMN is_reported boolean NOT NULL DEFAULT true;

-- Writes a client's mark, and answers how far the log has been written and how far every standby has it. Null where that cannot be read.
CREATE FUNCTION :schema.mark(own_client uuid, own_process text, own_accepted bigint, own_most integer, own_epoch uuid,
                             OUT written numeric, OUT known numeric, OUT standbys integer)
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO :schema.marks (client, process, marked_at, accepted, most, epoch)
  VALUES (own_client, left(own_process, 200), clock_timestamp(), own_accepted, own_most, own_epoch)
      ON CONFLICT (client) DO UPDATE
     SET marked_at = excluded.marked_at, accepted = excluded.accepted, most = excluded.most, epoch = excluded.epoch;
  -- Old ones go, a few at a time. Most marks are of the same clients again, so this finds nothing.
  DELETE FROM :schema.marks
   WHERE client = ANY (ARRAY(SELECT old.client FROM :schema.marks AS old
                              WHERE old.marked_at < clock_timestamp() - interval '1 day' ORDER BY old.client LIMIT 20 FOR UPDATE SKIP LOCKED));
  BEGIN
    written := pg_current_wal_insert_lsn() - '0/0'::pg_lsn;
    -- Who may not read this sees rows without a state.
    SELECT CASE WHEN bool_and(state = 'streaming') THEN min(flush_lsn - '0/0'::pg_lsn) END, count(*)
      INTO known, standbys
      FROM pg_stat_replication;
  EXCEPTION WHEN undefined_function OR undefined_table OR feature_not_supported OR insufficient_privilege OR object_not_in_prerequisite_state THEN
    written := NULL;
  END;
END
$$;

-- What may be missing after the newest change: the window, and the clients with a mark shortly before it that have not spoken since. No row
-- when there was no change.
CREATE FUNCTION :schema.missing(OUT lost_from timestamptz, OUT lost_until timestamptz, OUT clients integer, OUT jobs_max bigint, OUT processes text)
  RETURNS SETOF record
  LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT timeline.lost_from, timeline.since, silent.clients, silent.jobs_max, silent.processes
    FROM :schema.timeline
   CROSS JOIN LATERAL (
      SELECT count(*)::integer AS clients,
             -- A whole second more: a client's busiest second need not begin with the window.
             coalesce(sum(ceil(marks.most * (1 + coalesce(extract(epoch FROM timeline.since - timeline.lost_from), 60)))), 0)::bigint AS jobs_max,
             string_agg(marks.process, ', ' ORDER BY marks.process) AS processes
        FROM (SELECT * FROM :schema.marks
               WHERE marks.epoch IS DISTINCT FROM timeline.epoch
                 AND marks.marked_at > coalesce(timeline.lost_from, timeline.since) - interval '70 seconds'
                 AND marks.marked_at <= timeline.since
               ORDER BY marks.marked_at DESC LIMIT 1000) AS marks
   ) AS silent
   WHERE timeline.since IS NOT NULL
$$;

-- The same, for the first who asks after everybody had time to speak, and into the audit log.
CREATE FUNCTION :schema.report_missing(OUT lost_from timestamptz, OUT lost_until timestamptz, OUT clients integer, OUT jobs_max bigint, OUT processes text)
  RETURNS SETOF record
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE :schema.timeline SET is_reported = true
   WHERE NOT timeline.is_reported AND timeline.since < clock_timestamp() - interval '9 seconds';
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT found.* INTO lost_from, lost_until, clients, jobs_max, processes FROM :schema.missing() AS found;
  INSERT INTO :schema.audit (at, actor, action, target, details)
  VALUES (clock_timestamp(), 'holdfast', 'may_be_missing', (SELECT timeline.timeline::text FROM :schema.timeline),
          json_build_object('from', lost_from, 'until', lost_until, 'clients', clients, 'jobsMax', jobs_max, 'processes', processes));
  RETURN NEXT;
END
$$;

-- As before; a change is to be reported from now on.
CREATE FUNCTION :schema.unreported() RETURNS trigger
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  NEW.is_reported := false;
  RETURN NEW;
END
$$;
CREATE TRIGGER a_change_is_reported BEFORE UPDATE ON :schema.timeline
  FOR EACH ROW WHEN (OLD.changes <> NEW.changes) EXECUTE FUNCTION :schema.unreported();

REVOKE EXECUTE ON FUNCTION :schema.mark(uuid, text, bigint, integer, uuid) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.missing() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.report_missing() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.unreported() FROM PUBLIC;
`,
}

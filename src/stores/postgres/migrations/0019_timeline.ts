import type { Migration } from './migration.js'

export const timeline: Migration = {
  number: 19,
  name: 'timeline',
  sql: `-- Which server this is, as far as anybody has seen: its cluster and its timeline. A promotion begins a new timeline, and may have lost the
-- last commits of the old one. Then every process says again what it remembers (failover.ts).
CREATE TABLE :schema.timeline (
  one       boolean     NOT NULL DEFAULT true,
  system    text        NOT NULL,
  timeline  bigint      NOT NULL,
  since     timestamptz,                      -- when the first process met it; null for the first timeline of all
  lost_from timestamptz,                      -- the last commit that it took over from the timeline before; null when nobody knows
  changes   integer     NOT NULL DEFAULT 0,
  epoch     uuid        NOT NULL DEFAULT gen_random_uuid(),   -- new with each change: two standbys may be promoted to the same timeline
  CONSTRAINT timeline_is_one_row PRIMARY KEY (one),
  CONSTRAINT timeline_is_the_one CHECK (one)
);

-- The timeline on which a worker has said again what it remembered. Claims wait for that, for a few seconds.
ALTER TABLE :schema.workers ADD COLUMN timeline bigint;

-- Records the timeline of this server. It takes no arguments, so that nobody can record another. No row where the server cannot tell.
CREATE FUNCTION :schema.note_timeline(OUT own_system text, OUT own_timeline bigint, OUT recorded bigint, OUT since_ms float8, OUT is_changed boolean, OUT own_epoch uuid)
  RETURNS SETOF record
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  before :schema.timeline;
BEGIN
  BEGIN
    own_system := (SELECT system_identifier::text FROM pg_control_system());
    own_timeline := ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint;
  EXCEPTION WHEN undefined_function OR feature_not_supported OR insufficient_privilege OR object_not_in_prerequisite_state THEN
    RETURN;
  END;
  is_changed := false;
  INSERT INTO :schema.timeline (system, timeline) SELECT own_system, own_timeline
   WHERE NOT EXISTS (SELECT FROM :schema.timeline)
      ON CONFLICT DO NOTHING;
  SELECT * INTO before FROM :schema.timeline;
  IF before.system <> own_system OR before.timeline < own_timeline THEN
    -- Another process may have been first.
    SELECT * INTO before FROM :schema.timeline FOR UPDATE;
    UPDATE :schema.timeline SET system = own_system, timeline = own_timeline, since = clock_timestamp(),
           lost_from = pg_last_xact_replay_timestamp(), changes = timeline.changes + 1, epoch = gen_random_uuid()
     WHERE timeline.system <> own_system OR timeline.timeline < own_timeline;
    is_changed := FOUND;
    IF is_changed THEN
      INSERT INTO :schema.audit (at, actor, action, target, details)
      VALUES (clock_timestamp(), 'holdfast', 'timeline_changed', own_timeline::text,
              json_build_object('before', json_build_object('system', before.system, 'timeline', before.timeline),
                                'after', json_build_object('system', own_system, 'timeline', own_timeline),
                                'lostFrom', pg_last_xact_replay_timestamp(), 'lostUntil', clock_timestamp()));
    END IF;
  END IF;
  SELECT timeline.timeline, extract(epoch FROM clock_timestamp() - timeline.since) * 1000, timeline.epoch INTO recorded, since_ms, own_epoch
    FROM :schema.timeline;
  RETURN NEXT;
END
$$;

-- Those who say something again do it one after the other: each sees what the others have said.
CREATE FUNCTION :schema.say_again_turn() RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM FROM :schema.timeline FOR UPDATE;
END
$$;

-- A job that was enqueued again, and of which a worker had said before that it runs or has ended, waits nowhere.
CREATE FUNCTION :schema.drop_second_places(said uuid[]) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  placed uuid[] := ARRAY(
    SELECT asked.id FROM unnest(said) AS asked (id)
     WHERE EXISTS (SELECT FROM :schema.running WHERE running.id = asked.id)
        OR EXISTS (SELECT FROM :schema.finished WHERE finished.id = asked.id)
        OR EXISTS (SELECT FROM :schema.dead WHERE dead.id = asked.id));
BEGIN
  IF cardinality(placed) = 0 THEN
    RETURN 0;
  END IF;
  DELETE FROM :schema.ready USING :schema.jobs
   WHERE jobs.id = ANY (placed) AND ready.queue = jobs.queue AND ready.priority = jobs.priority AND ready.position = jobs.position
     AND ready.id = jobs.id AND NOT ready.moved AND ready.fence IS NULL;
  -- One with a time, or whose parents have ended, stands elsewhere in ready.
  DELETE FROM :schema.ready WHERE ready.id = ANY (placed) AND ready.moved AND ready.fence IS NULL;
  DELETE FROM :schema.scheduled WHERE scheduled.id = ANY (placed) AND scheduled.fence IS NULL;
  DELETE FROM :schema.held WHERE held.id = ANY (placed) AND held.fence IS NULL;
  DELETE FROM :schema.blocked WHERE blocked.id = ANY (placed);
  DELETE FROM :schema.parents WHERE parents.child = ANY (placed);
  RETURN cardinality(placed);
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.note_timeline() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.say_again_turn() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.drop_second_places(uuid[]) FROM PUBLIC;
`,
}

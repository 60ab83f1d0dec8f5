import type { Migration } from './migration.js'

export const closeDays: Migration = {
  number: 3,
  name: 'close_days',
  sql: `-- Dropping a day without holding anyone up, however many jobs it has.
--
-- A default partition refuses rows that belong to an attached partition, so what must live on cannot be moved there while the day is
-- attached; and moving it all while the day is detached would lock everyone out for as long as that takes. So a day is closed in
-- steps, each a short transaction of its own, and any process can go on where another stopped:
--
--   copying      jobs that must live on are copied, a chunk at a time, into slices: tables of a few thousand jobs that nobody reads yet.
--                From its start on, triggers on the day's tables note the id of every job that changes.
--   catching_up  jobs that changed meanwhile are copied again, until few are left.
--   shielding    constraints are checked, without locks, which spare the next step every scan.
--   swapping     the only moment at which the whole day is locked: the last changes are copied, the day is detached, its slices are
--                attached in its place. The statement that calls it sets a time limit, so it either ends soon or changes nothing.
--   dropping     the day's old tables, which belong to nothing now, are dropped.
--   peeling      each slice is detached and its few rows are moved to the default partitions.

CREATE TABLE :schema.closing_days (
  day        date        NOT NULL,
  step       text        NOT NULL,
  keep_after timestamptz NOT NULL,            -- jobs that finished at this time or later live on
  copied_to  uuid        NOT NULL,            -- jobs up to this one were copied
  went       boolean     NOT NULL DEFAULT false, -- whether the day has jobs that go with it
  tries      integer     NOT NULL DEFAULT 0,  -- in a row that a step met a lock
  retry_at   timestamptz,                     -- passed over until then
  why        text,                            -- it is passed over
  CONSTRAINT closing_days_once PRIMARY KEY (day),
  CONSTRAINT closing_days_known_step
       CHECK (step IN ('copying', 'catching_up', 'shielding', 'swapping', 'dropping', 'peeling', 'postponed'))
);

CREATE TABLE :schema.closing_slices (
  day   date    NOT NULL,
  slice integer NOT NULL,
  low   uuid    NOT NULL,                     -- its first id; it ends where the next one begins
  jobs  integer NOT NULL DEFAULT 0,
  bytes bigint  NOT NULL DEFAULT 0,
  CONSTRAINT closing_slices_once PRIMARY KEY (day, slice)
);

-- Jobs of closing days whose rows changed after copying began.
CREATE TABLE :schema.closing_changes (
  id uuid NOT NULL
);

-- Fired by any role that writes, which has no rights on the table.
CREATE FUNCTION :schema.note_closing_change() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO :schema.closing_changes (id) VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END);
  RETURN NULL;
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.note_closing_change() FROM PUBLIC;

CREATE FUNCTION :schema.day_table(part text, day date, slice integer DEFAULT NULL) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT part || to_char(day, '"_"YYYYMMDD') || coalesce('_s' || lpad(slice::text, 3, '0'), '')
$$;

-- The slices of a day with their ranges, which together are that of the day.
CREATE FUNCTION :schema.slices_of(day date) RETURNS TABLE (slice integer, low uuid, high uuid)
  LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT closing_slices.slice, closing_slices.low,
         coalesce(lead(closing_slices.low) OVER (ORDER BY closing_slices.slice), :schema.day_floor(slices_of.day + 1))
    FROM :schema.closing_slices
   WHERE closing_slices.day = slices_of.day
$$;

-- A new slice, from an id on.
CREATE FUNCTION :schema.add_slice(day date, low uuid) RETURNS integer
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  part   text;
  target text;
  number integer := 1 + coalesce((SELECT max(slice) FROM :schema.closing_slices WHERE closing_slices.day = add_slice.day), 0);
BEGIN
  INSERT INTO :schema.closing_slices (day, slice, low)
  VALUES (day, number, CASE number WHEN 1 THEN :schema.day_floor(day) ELSE low END);
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    target := :schema.day_table(part, day, number);
    EXECUTE format('DROP TABLE IF EXISTS %I.%I', ':schema_text', target);
    EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.%3$I INCLUDING ALL)', ':schema_text', target, part);
  END LOOP;
  RETURN number;
END
$$;

CREATE FUNCTION :schema.copy_to_slice(day date, number integer, ids uuid[]) RETURNS void
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  part text;
BEGIN
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('INSERT INTO %1$I.%2$I SELECT old.* FROM %1$I.%3$I AS old WHERE old.id = ANY ($1)',
                   ':schema_text', :schema.day_table(part, day, number), :schema.day_table(part, day))
      USING ids;
  END LOOP;
END
$$;

-- Begins with a day. The lock that a trigger takes waits for those who are writing to the day, so every change is either
-- committed by now and seen by the copying, or noted.
CREATE FUNCTION :schema.begin_closing(day date, keep_after timestamptz) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part text;
BEGIN
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    -- A vacuum of a table that is about to go would only stand in the way of its lock.
    EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_enabled = false)', ':schema_text', :schema.day_table(part, day));
    EXECUTE format('CREATE OR REPLACE TRIGGER closing AFTER INSERT OR UPDATE OR DELETE ON %1$I.%2$I
                    FOR EACH ROW EXECUTE FUNCTION %1$I.note_closing_change()',
                   ':schema_text', :schema.day_table(part, day));
  END LOOP;
  INSERT INTO :schema.closing_days (day, step, keep_after, copied_to)
  VALUES (day, 'copying', keep_after, '00000000-0000-0000-0000-000000000000')
      ON CONFLICT ON CONSTRAINT closing_days_once DO UPDATE
     SET step = 'copying', keep_after = excluded.keep_after, copied_to = excluded.copied_to, went = false,
         tries = 0, retry_at = NULL, why = NULL;
  RETURN 'copying';
END
$$;

-- Gives up closing a day that was not swapped yet: it is as if it had not begun.
CREATE FUNCTION :schema.abandon_closing(day date) RETURNS void
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part   text;
  number integer;
BEGIN
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS closing ON %I.%I', ':schema_text', :schema.day_table(part, day));
    EXECUTE format('ALTER TABLE %I.%I RESET (autovacuum_enabled)', ':schema_text', :schema.day_table(part, day));
    EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS %I', ':schema_text', part || '_rest',
                   :schema.day_table('without', day));
    FOR number IN SELECT slice FROM :schema.closing_slices WHERE closing_slices.day = abandon_closing.day LOOP
      EXECUTE format('DROP TABLE IF EXISTS %I.%I', ':schema_text', :schema.day_table(part, day, number));
    END LOOP;
  END LOOP;
  DELETE FROM :schema.closing_slices WHERE closing_slices.day = abandon_closing.day;
  DELETE FROM :schema.closing_changes WHERE id >= :schema.day_floor(day) AND id < :schema.day_floor(day + 1);
  DELETE FROM :schema.closing_days WHERE closing_days.day = abandon_closing.day;
END
$$;

-- Copies the jobs of one chunk that must live on, as many as fit into the current slice. Whether a job must does not change behind
-- the cursor without being noted: one that finished long ago stays so, and one that lives on does whatever becomes of it.
CREATE FUNCTION :schema.copy_chunk(day date, chunk_jobs integer, slice_jobs integer, slice_bytes bigint) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  closing :schema.closing_days;
  target  :schema.closing_slices;
  seen    integer;
  seen_to uuid;
  kept    integer;
  fit     uuid[];
  size    bigint;
BEGIN
  SELECT * INTO closing FROM :schema.closing_days WHERE closing_days.day = copy_chunk.day;
  SELECT * INTO target FROM :schema.closing_slices WHERE closing_slices.day = copy_chunk.day ORDER BY closing_slices.slice DESC LIMIT 1;
  IF target.jobs >= slice_jobs OR target.bytes >= slice_bytes THEN
    target := NULL;
  END IF;
  EXECUTE format('
    WITH chunk AS MATERIALIZED (
      SELECT jobs.id FROM %1$I.%2$I AS jobs WHERE jobs.id > $1 ORDER BY jobs.id LIMIT $2
    ), kept AS MATERIALIZED (
      SELECT chunk.id
        FROM chunk
       WHERE NOT EXISTS (SELECT FROM %1$I.%3$I AS finished WHERE finished.id = chunk.id AND finished.finished_at < $3 OFFSET 0)
    ), weighed AS (
      SELECT kept.id, row_number() OVER in_order AS number,
             sum(100
                 + coalesce((SELECT pg_column_size(jobs.payload) FROM %1$I.%2$I AS jobs WHERE jobs.id = kept.id), 0)
                 + coalesce((SELECT sum(100 + pg_column_size(attempts.error)) FROM %1$I.%4$I AS attempts WHERE attempts.id = kept.id), 0)
                 + coalesce((SELECT sum(100 + pg_column_size(logs.text)) FROM %1$I.%5$I AS logs WHERE logs.id = kept.id), 0))
               OVER in_order AS bytes
        FROM kept
      WINDOW in_order AS (ORDER BY kept.id)
    )
    SELECT (SELECT count(*) FROM chunk), (SELECT id FROM chunk ORDER BY id DESC LIMIT 1), count(*),
           array_agg(id ORDER BY id) FILTER (WHERE number = 1 OR (number <= $4 AND bytes <= $5)),
           max(bytes) FILTER (WHERE number = 1 OR (number <= $4 AND bytes <= $5))
      FROM weighed',
    ':schema_text', :schema.day_table('jobs', day), :schema.day_table('finished', day),
    :schema.day_table('attempts', day), :schema.day_table('logs', day))
    INTO seen, seen_to, kept, fit, size
    USING closing.copied_to, chunk_jobs, closing.keep_after,
          slice_jobs - coalesce(target.jobs, 0), slice_bytes - coalesce(target.bytes, 0);
  IF kept > 0 THEN
    target.slice := coalesce(target.slice, :schema.add_slice(day, fit[1]));
    PERFORM :schema.copy_to_slice(day, target.slice, fit);
    UPDATE :schema.closing_slices
       SET jobs = jobs + cardinality(fit), bytes = bytes + size
     WHERE closing_slices.day = copy_chunk.day AND closing_slices.slice = target.slice;
    IF cardinality(fit) < kept THEN
      seen_to := fit[cardinality(fit)];
    END IF;
  END IF;
  UPDATE :schema.closing_days
     SET copied_to = coalesce(seen_to, copied_to), went = went OR seen > kept,
         step = CASE WHEN seen < chunk_jobs AND coalesce(cardinality(fit), 0) = kept THEN 'catching_up' ELSE step END
   WHERE closing_days.day = copy_chunk.day
  RETURNING * INTO closing;
  RETURN closing.step;
END
$$;

-- Copies again what changed, as many jobs as one call may, and returns how many changes it took.
CREATE FUNCTION :schema.copy_changes(day date, jobs_max integer) RETURNS integer
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  closing :schema.closing_days;
  slice   record;
  part    text;
  taken   integer;
  changed uuid[];
  kept    uuid[];
BEGIN
  SELECT * INTO closing FROM :schema.closing_days WHERE closing_days.day = copy_changes.day;
  WITH gone AS (
    DELETE FROM :schema.closing_changes
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.closing_changes
                              WHERE id >= :schema.day_floor(day) AND id < :schema.day_floor(day + 1) LIMIT jobs_max))
    RETURNING id
  )
  SELECT count(*), coalesce(array_agg(DISTINCT id), '{}') INTO taken, changed FROM gone;
  IF taken = 0 THEN
    RETURN 0;
  END IF;
  -- In a statement after the one that took them: it sees what those who noted them had committed.
  EXECUTE format('SELECT coalesce(array_agg(jobs.id), ''{}'') FROM %1$I.%2$I AS jobs
                   WHERE jobs.id = ANY ($1)
                     AND NOT EXISTS (SELECT FROM %1$I.%3$I AS finished WHERE finished.id = jobs.id AND finished.finished_at < $2)',
                 ':schema_text', :schema.day_table('jobs', day), :schema.day_table('finished', day))
    INTO kept
    USING changed, closing.keep_after;
  IF cardinality(kept) > 0 AND NOT EXISTS (SELECT FROM :schema.closing_slices WHERE closing_slices.day = copy_changes.day) THEN
    PERFORM :schema.add_slice(day, NULL);
  END IF;
  FOR slice IN SELECT * FROM :schema.slices_of(day) LOOP
    FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
      EXECUTE format('DELETE FROM %I.%I WHERE id = ANY ($1)', ':schema_text', :schema.day_table(part, day, slice.slice))
        USING changed;
    END LOOP;
    PERFORM :schema.copy_to_slice(day, slice.slice,
                                  ARRAY(SELECT id FROM unnest(kept) AS id WHERE id >= slice.low AND id < slice.high));
  END LOOP;
  RETURN taken;
END
$$;

CREATE FUNCTION :schema.catch_up(day date, jobs_max integer) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
BEGIN
  IF :schema.copy_changes(day, jobs_max) >= jobs_max THEN
    RETURN 'catching_up';
  END IF;
  UPDATE :schema.closing_days SET step = 'shielding' WHERE closing_days.day = catch_up.day;
  RETURN 'shielding';
END
$$;

-- Attaching a slice takes proof that it has no other ids, and that the default partition has none of its. As constraints that were
-- checked beforehand both cost nothing. The default partition can have no id of the day anyway while the day is attached, so the
-- constraint refuses nobody; it is added in one call and checked in the next, because to add it everyone is locked out.
CREATE FUNCTION :schema.shield(day date) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part   text;
  slice  record;
  target text;
  added  boolean := false;
BEGIN
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM :schema.closing_slices WHERE closing_slices.day = shield.day);
    FOR slice IN SELECT * FROM :schema.slices_of(day) LOOP
      target := :schema.day_table(part, day, slice.slice);
      EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS in_slice', ':schema_text', target);
      EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT in_slice CHECK (id >= %L AND id < %L)', ':schema_text', target,
                     slice.low, slice.high);
    END LOOP;
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = format('%I.%I', ':schema_text', part || '_rest')::regclass
                                           AND conname = :schema.day_table('without', day)) THEN
      CONTINUE WHEN added;
      EXECUTE format('ALTER TABLE %I.%I VALIDATE CONSTRAINT %I', ':schema_text', part || '_rest', :schema.day_table('without', day));
    ELSE
      EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I CHECK (id < %L OR id >= %L) NOT VALID', ':schema_text', part || '_rest',
                     :schema.day_table('without', day), :schema.day_floor(day), :schema.day_floor(day + 1));
      added := true;
    END IF;
  END LOOP;
  IF added THEN
    RETURN 'shielding';
  END IF;
  UPDATE :schema.closing_days SET step = 'swapping' WHERE closing_days.day = shield.day;
  RETURN 'swapping';
END
$$;

-- Puts the slices in the place of the day. Only the parents are locked at first: once nobody uses them, nobody uses their partitions.
CREATE FUNCTION :schema.swap_day(day date, changes_max integer) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part    text;
  slice   record;
  target  text;
  is_used boolean;
BEGIN
  LOCK TABLE ONLY :schema.jobs, ONLY :schema.finished, ONLY :schema.attempts, ONLY :schema.logs, ONLY :schema.progress
    IN ACCESS EXCLUSIVE MODE;
  IF :schema.copy_changes(day, changes_max) >= changes_max THEN
    UPDATE :schema.closing_days SET step = 'catching_up' WHERE closing_days.day = swap_day.day;
    RETURN 'catching_up';
  END IF;
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('ALTER TABLE %1$I.%2$I DETACH PARTITION %1$I.%3$I', ':schema_text', part, :schema.day_table(part, day));
    FOR slice IN SELECT * FROM :schema.slices_of(day) LOOP
      target := :schema.day_table(part, day, slice.slice);
      EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', ':schema_text', target) INTO is_used;
      IF is_used THEN
        EXECUTE format('ALTER TABLE %1$I.%2$I ATTACH PARTITION %1$I.%3$I FOR VALUES FROM (%4$L) TO (%5$L)',
                       ':schema_text', part, target, slice.low, slice.high);
      ELSE
        EXECUTE format('DROP TABLE %I.%I', ':schema_text', target);
      END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS %I', ':schema_text', part || '_rest',
                   :schema.day_table('without', day));
    PERFORM :schema.renew_rest(part);
  END LOOP;
  UPDATE :schema.closing_days SET step = 'dropping' WHERE closing_days.day = swap_day.day;
  RETURN 'dropping';
END
$$;

CREATE FUNCTION :schema.drop_detached(day date) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part text;
BEGIN
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('DROP TABLE IF EXISTS %I.%I', ':schema_text', :schema.day_table(part, day));
  END LOOP;
  UPDATE :schema.closing_days SET step = 'peeling' WHERE closing_days.day = drop_detached.day;
  RETURN 'peeling';
END
$$;

-- Moves the rows of one slice to the default partitions. When none is left the day is over: 'dropped' when jobs went, 'empty' when
-- there were none to go.
CREATE FUNCTION :schema.peel_slice(day date) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  part    text;
  number  integer;
  target  text;
  closing :schema.closing_days;
BEGIN
  SELECT slice INTO number FROM :schema.closing_slices WHERE closing_slices.day = peel_slice.day ORDER BY slice LIMIT 1;
  IF number IS NULL THEN
    DELETE FROM :schema.closing_days WHERE closing_days.day = peel_slice.day RETURNING * INTO closing;
    RETURN CASE WHEN closing.went THEN 'dropped' ELSE 'empty' END;
  END IF;
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    target := :schema.day_table(part, day, number);
    CONTINUE WHEN to_regclass(format('%I.%I', ':schema_text', target)) IS NULL;
    EXECUTE format('LOCK TABLE ONLY %I.%I IN ACCESS EXCLUSIVE MODE', ':schema_text', part);
  END LOOP;
  PERFORM :schema.drop_aim();
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    target := :schema.day_table(part, day, number);
    CONTINUE WHEN to_regclass(format('%I.%I', ':schema_text', target)) IS NULL;
    EXECUTE format('ALTER TABLE %1$I.%2$I DETACH PARTITION %1$I.%3$I', ':schema_text', part, target);
    PERFORM :schema.renew_rest(part);
    EXECUTE format('INSERT INTO %1$I.%2$I SELECT kept.* FROM %1$I.%3$I AS kept', ':schema_text', part || '_rest', target);
    EXECUTE format('DROP TABLE %I.%I', ':schema_text', target);
  END LOOP;
  DELETE FROM :schema.closing_slices WHERE closing_slices.day = peel_slice.day AND closing_slices.slice = number;
  RETURN 'peeling';
END
$$;

-- One step of closing a day: the name of the next, or 'dropped' or 'empty' when it is over, 'postponed' when it can't go, 'reopened'
-- when a longer retention keeps it, 'busy' when another process is at it.
CREATE FUNCTION :schema.close_day(day date, keep_after timestamptz, now timestamptz) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  slices_max CONSTANT integer := 20;
  slice_jobs CONSTANT integer := 5000;
  slice_bytes CONSTANT bigint := 16777216;
  closing :schema.closing_days;
BEGIN
  -- One process at a time. A row that only the owner may lock: an advisory lock can be taken by any role that may connect.
  PERFORM FROM :schema.migrations WHERE number = 3 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 'busy';
  END IF;
  SELECT * INTO closing FROM :schema.closing_days WHERE closing_days.day = close_day.day;
  IF closing.step IN ('copying', 'catching_up', 'shielding', 'swapping') THEN
    IF closing.keep_after > keep_after THEN
      PERFORM :schema.abandon_closing(day);
      RETURN 'reopened';
    END IF;
    IF slices_max < (SELECT count(*) FROM :schema.closing_slices WHERE closing_slices.day = close_day.day) THEN
      PERFORM :schema.abandon_closing(day);
      INSERT INTO :schema.closing_days (day, step, keep_after, copied_to, retry_at, why)
      VALUES (day, 'postponed', keep_after, '00000000-0000-0000-0000-000000000000',
              coalesce(now, clock_timestamp()) + interval '1 hour',
              format('more than %s of its jobs, or %s MB of them, are unfinished, dead or finished lately: requeue, cancel or discard them',
                     slices_max * slice_jobs, slices_max * slice_bytes / 1048576));
      RETURN 'postponed';
    END IF;
  END IF;
  -- Another process has dropped it meanwhile.
  IF coalesce(closing.step, 'postponed') = 'postponed' AND to_regclass(format('%I.%I', ':schema_text', :schema.day_table('jobs', day))) IS NULL THEN
    DELETE FROM :schema.closing_days WHERE closing_days.day = close_day.day;
    RETURN 'empty';
  END IF;
  UPDATE :schema.closing_days SET tries = 0, retry_at = NULL, why = NULL
   WHERE closing_days.day = close_day.day AND step <> 'postponed' AND tries > 0;
  RETURN CASE closing.step
           WHEN 'copying' THEN :schema.copy_chunk(day, 10000, slice_jobs, slice_bytes)
           WHEN 'catching_up' THEN :schema.catch_up(day, 1000)
           WHEN 'shielding' THEN :schema.shield(day)
           WHEN 'swapping' THEN :schema.swap_day(day, 1000)
           WHEN 'dropping' THEN :schema.drop_detached(day)
           WHEN 'peeling' THEN :schema.peel_slice(day)
           ELSE :schema.begin_closing(day, keep_after)
         END;
END
$$;

DROP FUNCTION :schema.drop_day(date, timestamptz, integer);
`,
}

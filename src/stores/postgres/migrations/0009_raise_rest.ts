import type { Migration } from './migration.js'

export const raiseRest: Migration = {
  number: 9,
  name: 'raise_rest',
  sql: `-- The bound between the two halves of the default partitions (0001) follows the days, so that _rest_new stays nearly empty: it has
-- only jobs whose day has no partition yet, and those that were carried since the bound was raised last.
--
--   aiming    constraints for the bound to come are added to _rest_old, unchecked: that its ids are below the bound, and that they are
--             of no day that has partitions. They refuse nobody: no such id goes there yet, until a day is closed (0003), which drops them.
--   checking  they are checked: _rest_old is read, and nobody is locked out.
--   raising   _rest_old is detached, the few jobs below the new bound are moved over, and it is attached with that bound. The
--             constraints spare it a scan. Meanwhile everyone waits, so the statement that calls it sets a time limit.

-- Ids below it are in _rest_old.
CREATE FUNCTION :schema.rest_bound() RETURNS uuid
  LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT substring(pg_get_expr(relpartbound, oid) FROM '[0-9a-f]{8}-[0-9a-f-]{27}')::uuid
    FROM pg_class
   WHERE oid = ':schema.jobs_rest_old'::regclass
$$;

-- The bound to come, null before there is one. It is the constraint's name.
CREATE FUNCTION :schema.rest_aim() RETURNS uuid
  LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT max(right(conname, 32)) FILTER (WHERE right(conname, 32)::uuid > :schema.rest_bound())::uuid
    FROM pg_constraint
   WHERE conrelid = ':schema.jobs_rest_old'::regclass AND conname ~ '^before_[0-9a-f]{32}$'
$$;

-- Gives up what was aimed at, so that jobs of any day may be carried to _rest_old.
CREATE FUNCTION :schema.drop_aim() RETURNS void
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  shield text := 'before_' || replace(:schema.rest_aim()::text, '-', '');
  part   text;
BEGIN
  IF shield IS NULL THEN
    RETURN;
  END IF;
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT %I', ':schema_text', part || '_rest_old', shield);
    EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS apart', ':schema_text', part || '_rest_old');
  END LOOP;
END
$$;

-- What is to be done to raise the bound to a day. It waits while a day's slices take the place of the day.
CREATE FUNCTION :schema.rest_step(goal date) RETURNS text
  LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
           WHEN :schema.rest_bound() >= :schema.day_floor(goal) THEN 'raised'
           WHEN EXISTS (SELECT FROM :schema.closing_days
                         WHERE step IN ('shielding', 'swapping', 'dropping', 'peeling')) THEN 'waiting'
           WHEN :schema.rest_aim() IS NULL THEN 'aiming'
           WHEN EXISTS (SELECT FROM pg_constraint
                         WHERE NOT convalidated AND connamespace = ':schema'::regnamespace
                           AND conname IN ('apart', 'before_' || replace(:schema.rest_aim()::text, '-', ''))) THEN 'checking'
           ELSE 'raising'
         END
$$;

-- One step of raising it; 'busy' when another process is at it, or closes a day. jobs_max is how many jobs are moved at a time.
CREATE FUNCTION :schema.raise_rest(goal date, jobs_max integer) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '100ms'
AS $$
DECLARE
  parts CONSTANT text[] := ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'];
  aim    uuid;
  step   text;
  part   text;
  shield text;
  other  text;
  apart  text;
BEGIN
  -- The row that close_day locks: one of the two at a time.
  PERFORM FROM :schema.migrations WHERE number = 3 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 'busy';
  END IF;
  step := :schema.rest_step(goal);
  aim := :schema.rest_aim();
  IF step = 'aiming' THEN
    aim := coalesce((SELECT id FROM :schema.jobs_rest_new WHERE id < :schema.day_floor(goal) ORDER BY id OFFSET jobs_max LIMIT 1),
                    :schema.day_floor(goal));
  END IF;
  shield := 'before_' || replace(aim::text, '-', '');
  IF step = 'aiming' THEN
    FOREACH part IN ARRAY parts LOOP
      EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I CHECK (id < %L) NOT VALID', ':schema_text', part || '_rest_old', shield, aim);
      SELECT string_agg(format('(id < %L OR id >= %L)', :schema.day_floor(days.day), :schema.day_floor(days.day + 1)), ' AND ')
        INTO apart
        FROM (SELECT to_date(right(pg_class.relname, 8), 'YYYYMMDD') AS day
                FROM pg_inherits
                JOIN pg_class ON pg_class.oid = pg_inherits.inhrelid
               WHERE pg_inherits.inhparent = format('%I.%I', ':schema_text', part)::regclass
                 AND pg_class.relname ~ '_[0-9]{8}$') AS days
       WHERE :schema.day_floor(days.day) < aim;
      CONTINUE WHEN apart IS NULL;
      EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT apart CHECK (%s) NOT VALID', ':schema_text', part || '_rest_old', apart);
    END LOOP;
  ELSIF step = 'checking' THEN
    FOREACH part IN ARRAY parts LOOP
      FOR other IN SELECT conname FROM pg_constraint
                    WHERE conrelid = format('%I.%I', ':schema_text', part || '_rest_old')::regclass AND NOT convalidated LOOP
        EXECUTE format('ALTER TABLE %I.%I VALIDATE CONSTRAINT %I', ':schema_text', part || '_rest_old', other);
      END LOOP;
    END LOOP;
  ELSIF step = 'raising' AND 2 * jobs_max < (SELECT count(*) FROM (SELECT FROM :schema.jobs_rest_new WHERE id < aim
                                                                    LIMIT 2 * jobs_max + 1) AS moving) THEN
    -- Too many were carried meanwhile: it aims lower.
    PERFORM :schema.drop_aim();
  ELSIF step = 'raising' THEN
    -- Only the parents: once nobody uses them, nobody uses their partitions.
    LOCK TABLE ONLY :schema.jobs, ONLY :schema.finished, ONLY :schema.attempts, ONLY :schema.logs, ONLY :schema.progress
      IN ACCESS EXCLUSIVE MODE;
    FOREACH part IN ARRAY parts LOOP
      EXECUTE format('ALTER TABLE %1$I.%2$I DETACH PARTITION %1$I.%3$I', ':schema_text', part || '_rest', part || '_rest_old');
      FOR other IN SELECT conname FROM pg_constraint
                    WHERE conrelid = format('%I.%I', ':schema_text', part || '_rest_old')::regclass
                      AND conname ~ '^before_' AND conname <> shield LOOP
        EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT %I', ':schema_text', part || '_rest_old', other);
      END LOOP;
      EXECUTE format('WITH moved AS (DELETE FROM %1$I.%2$I WHERE id < $1 RETURNING *) INSERT INTO %1$I.%3$I SELECT * FROM moved',
                     ':schema_text', part || '_rest_new', part || '_rest_old')
        USING aim;
      EXECUTE format('ALTER TABLE %1$I.%2$I ATTACH PARTITION %1$I.%3$I FOR VALUES FROM (MINVALUE) TO (%4$L)',
                     ':schema_text', part || '_rest', part || '_rest_old', aim);
      EXECUTE format('ALTER TABLE %I.%I DROP CONSTRAINT IF EXISTS apart', ':schema_text', part || '_rest_old');
    END LOOP;
  ELSE
    RETURN step;
  END IF;
  RETURN :schema.rest_step(goal);
END
$$;
`,
}

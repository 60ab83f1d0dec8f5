import type { Migration } from './migration.js'

export const lifeOfAJob: Migration = {
  number: 1,
  name: 'life_of_a_job',
  sql: `-- A job's facts are written once, in jobs. Where it stands is one narrow row in exactly one of blocked, scheduled, ready,
-- running, finished or dead: a move is a delete here and an insert there, so that the tables a claim reads stay small
-- and nothing that is not claimable is in the way.
--
--   enqueue ──► jobs + ready            claim ──► ready → running          settle ──► running → finished
--           └─► jobs + scheduled ──promote──► ready                                          ├─► scheduled (retry, snooze)
--           └─► jobs + blocked ──parents finished──► ready | scheduled                       ├─► ready (released)
--                                                                                            └─► dead ──requeue──► ready
--
-- jobs, finished, attempts, logs and progress are cut into days by the time in the job's id (UUIDv7). Retention drops whole
-- days; the few rows that must live on are carried into the default partition. :schema stands for the schema's name.

CREATE TYPE :schema.ending AS ENUM ('succeeded', 'cancelled');

-- Places in line. One number is drawn for each statement; the jobs of a batch count up beneath it (65,536 to a number).
CREATE SEQUENCE :schema.positions;

CREATE TABLE :schema.jobs (
  id         uuid        NOT NULL,
  created_at timestamptz NOT NULL,
  position   bigint      NOT NULL,            -- its first place in line: with queue and priority the way to its row in ready
  priority   smallint    NOT NULL,
  version    smallint    NOT NULL,            -- of the payload's shape
  queue      text        COLLATE "C" NOT NULL,
  type       text        COLLATE "C" NOT NULL,
  payload    json        NOT NULL,            -- json, not jsonb: cheaper in and out, and no NUL or lone surrogate makes it fail
  options    json,                            -- own limits, key, parents, trace, schedule; null for a plain job
  tags       text[],
  CONSTRAINT jobs_one_for_each_id PRIMARY KEY (id),
  -- Times that are counted with, or shown, must be ones that JavaScript has: one that is not would fail everyone who reads it.
  CONSTRAINT jobs_made_at_a_time CHECK (created_at >= '1970-01-01 00:00+00' AND created_at < '10000-01-01 00:00+00')
) PARTITION BY RANGE (id);

CREATE TABLE :schema.ready (
  id       uuid        NOT NULL,
  position bigint      NOT NULL,
  since    timestamptz NOT NULL,
  fence    bigint,                            -- of the last claim; null before the first
  priority smallint    NOT NULL,
  attempt  smallint,                          -- null for 0, as crashes: a fresh row stays narrow
  crashes  smallint,
  moved    boolean     NOT NULL,              -- false while it stands at the place its job was given at first
  queue    text        COLLATE "C" NOT NULL,
  type     text        COLLATE "C" NOT NULL,
  CONSTRAINT ready_since_a_time CHECK (since >= '1970-01-01 00:00+00' AND since < '10000-01-01 00:00+00')
) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5, autovacuum_analyze_threshold = 50000);

CREATE INDEX ready_in_claim_order ON :schema.ready (queue, priority DESC, position);
-- A row at its first place is found through its job; only rows that moved pay for a second index.
CREATE UNIQUE INDEX ready_moved ON :schema.ready (id) WHERE moved;

CREATE TABLE :schema.scheduled (
  id       uuid        NOT NULL,
  run_at   timestamptz NOT NULL,
  fence    bigint,
  priority smallint    NOT NULL,
  attempt  smallint    NOT NULL,
  crashes  smallint    NOT NULL,
  retrying boolean     NOT NULL,
  queue    text        COLLATE "C" NOT NULL,
  type     text        COLLATE "C" NOT NULL,
  CONSTRAINT scheduled_one_for_each_job PRIMARY KEY (id),
  CONSTRAINT scheduled_for_a_time CHECK (run_at >= '1970-01-01 00:00+00' AND run_at < '10000-01-01 00:00+00')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX scheduled_by_time ON :schema.scheduled (run_at, id);

CREATE TABLE :schema.blocked (
  id                   uuid     NOT NULL,
  run_at               timestamptz,
  priority             smallint NOT NULL,
  cancel_with_parents  boolean  NOT NULL,
  queue                text     COLLATE "C" NOT NULL,
  type                 text     COLLATE "C" NOT NULL,
  CONSTRAINT blocked_one_for_each_job PRIMARY KEY (id),
  CONSTRAINT blocked_until_a_time CHECK (run_at >= '1970-01-01 00:00+00' AND run_at < '10000-01-01 00:00+00')
);

CREATE TABLE :schema.parents (
  parent uuid NOT NULL,
  child  uuid NOT NULL,
  CONSTRAINT parents_once_for_each_child PRIMARY KEY (parent, child)
);

CREATE INDEX parents_by_child ON :schema.parents (child);

CREATE TABLE :schema.running (
  id               uuid        NOT NULL,
  fence            bigint      NOT NULL,
  claimed_at       timestamptz NOT NULL,
  leased_until     timestamptz NOT NULL,
  priority         smallint    NOT NULL,
  attempt          smallint    NOT NULL,
  crashes          smallint    NOT NULL,
  begun            boolean     NOT NULL,
  cancel_requested boolean     NOT NULL,
  queue            text        COLLATE "C" NOT NULL,
  type             text        COLLATE "C" NOT NULL,
  worker           text        NOT NULL,
  CONSTRAINT running_one_for_each_job PRIMARY KEY (id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5, autovacuum_analyze_threshold = 50000);

CREATE INDEX running_by_lease ON :schema.running (leased_until);

CREATE TABLE :schema.finished (
  id          uuid           NOT NULL,
  finished_at timestamptz    NOT NULL,
  started_at  timestamptz,
  fence       bigint,
  attempt     smallint       NOT NULL,
  crashes     smallint       NOT NULL,
  ending      :schema.ending NOT NULL,
  worker      text,
  result      json,
  CONSTRAINT finished_one_for_each_job PRIMARY KEY (id)
) PARTITION BY RANGE (id);

CREATE TABLE :schema.dead (
  id         uuid        NOT NULL,
  died_at    timestamptz NOT NULL,
  started_at timestamptz,
  fence      bigint      NOT NULL,
  priority   smallint    NOT NULL,
  attempt    smallint    NOT NULL,
  crashes    smallint    NOT NULL,
  reason     text        NOT NULL,
  queue      text        COLLATE "C" NOT NULL,
  type       text        COLLATE "C" NOT NULL,
  worker     text,
  error      json,
  CONSTRAINT dead_one_for_each_job PRIMARY KEY (id),
  CONSTRAINT dead_for_a_reason CHECK (reason IN ('attempts', 'dropped', 'expired', 'crashed', 'invalid'))
);

CREATE INDEX dead_by_queue ON :schema.dead (queue, id);

-- Failed attempts: with the job's last state they are its whole story.
CREATE TABLE :schema.attempts (
  id          uuid        NOT NULL,
  fence       bigint      NOT NULL,
  started_at  timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  attempt     smallint    NOT NULL,
  worker      text,
  error       json        NOT NULL,
  CONSTRAINT attempts_one_for_each_claim PRIMARY KEY (id, fence)
) PARTITION BY RANGE (id);

CREATE SEQUENCE :schema.log_lines;

CREATE TABLE :schema.logs (
  id   uuid        NOT NULL,
  line bigint      NOT NULL DEFAULT nextval(':schema.log_lines'),
  at   timestamptz NOT NULL,
  text text        NOT NULL,
  CONSTRAINT logs_in_order PRIMARY KEY (id, line)
) PARTITION BY RANGE (id);

CREATE TABLE :schema.progress (
  id    uuid NOT NULL,
  value json NOT NULL,
  CONSTRAINT progress_one_for_each_job PRIMARY KEY (id)
) PARTITION BY RANGE (id);

-- Idempotency keys. Jobs without one pay nothing.
CREATE TABLE :schema.keys (
  queue      text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  id         uuid NOT NULL,
  expires_at timestamptz,                     -- null: until its job is finished
  CONSTRAINT keys_held_once PRIMARY KEY (queue, key)
) WITH (fillfactor = 80);

CREATE INDEX keys_by_job ON :schema.keys (id);
CREATE INDEX keys_by_expiry ON :schema.keys (expires_at) WHERE expires_at IS NOT NULL;

-- Which of these keys a transaction that is open elsewhere is writing, by their places from 1 on; \`most\` of them at most. An insert alone
-- can tell: each is tried, waits for hardly any time, and is undone.
CREATE FUNCTION :schema.keys_in_writing(queues text[], wanted text[], most integer)
  RETURNS SETOF integer
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '1ms'
AS $$
DECLARE
  seen integer := 0;
BEGIN
  FOR place IN 1 .. cardinality(wanted) LOOP
    BEGIN
      INSERT INTO :schema.keys (queue, key, id) VALUES (queues[place], wanted[place], gen_random_uuid()) ON CONFLICT DO NOTHING;
      RAISE SQLSTATE 'HF000';
    EXCEPTION
      WHEN SQLSTATE 'HF000' THEN
        NULL;
      WHEN lock_not_available THEN
        RETURN NEXT place;
        seen := seen + 1;
        EXIT WHEN seen >= most;
    END;
  END LOOP;
END
$$;

-- Removes those of these keys that have expired, or whose job is not there, unless somebody is at it or the job that asks is known: that one is sent again, and
-- takes no key. It runs with the owner's rights, so that who may only enqueue needs none to remove or lock anything.
CREATE FUNCTION :schema.free_expired_keys(at_time timestamptz, queues text[], wanted text[], ids uuid[])
  RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_table_privilege(session_user, ':schema.keys', 'DELETE') THEN
    at_time := NULL;
  END IF;
  DELETE FROM :schema.keys
   WHERE ctid = ANY (ARRAY(
     SELECT keys.ctid
       FROM unnest(queues, wanted, ids) AS asked (queue, key, id)
      CROSS JOIN LATERAL (
        SELECT keys.ctid
          FROM :schema.keys
         WHERE keys.queue = asked.queue AND keys.key = asked.key
           AND (keys.expires_at <= coalesce(at_time, clock_timestamp())
                OR keys.expires_at IS NULL AND NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = keys.id))
           FOR UPDATE SKIP LOCKED
      ) AS keys
      WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = asked.id)));
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.keys_in_writing(text[], text[], integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.free_expired_keys(timestamptz, text[], text[], uuid[]) FROM PUBLIC;

CREATE TABLE :schema.queues (
  name     text    COLLATE "C" NOT NULL,
  paused   boolean NOT NULL DEFAULT false,
  settings json,
  CONSTRAINT queues_one_for_each_name PRIMARY KEY (name)
);

CREATE TABLE :schema.schedules (
  name     text COLLATE "C" NOT NULL,
  settings json NOT NULL,                     -- the schedule as its author wrote it
  queue    text COLLATE "C" GENERATED ALWAYS AS (settings->>'queue') STORED,
  paused   boolean NOT NULL DEFAULT false,
  next_at  timestamptz,
  last_at  timestamptz,
  last_job uuid,
  CONSTRAINT schedules_one_for_each_name PRIMARY KEY (name)
);

CREATE INDEX schedules_by_time ON :schema.schedules (next_at) WHERE NOT paused;

CREATE TABLE :schema.ticks (
  schedule text        COLLATE "C" NOT NULL,
  tick     timestamptz NOT NULL,
  job      uuid,                              -- null: skipped, the job of an earlier tick was unfinished
  CONSTRAINT ticks_fired_once PRIMARY KEY (schedule, tick)
);

CREATE INDEX ticks_by_time ON :schema.ticks (tick);

CREATE TABLE :schema.workers (
  id         text        COLLATE "C" NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  beat       json        NOT NULL,
  CONSTRAINT workers_one_for_each_id PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Who did what. Only ever inserted into.
CREATE SEQUENCE :schema.audit_lines;

CREATE TABLE :schema.audit (
  line   bigint      NOT NULL DEFAULT nextval(':schema.audit_lines'),
  at     timestamptz NOT NULL,
  actor  text        NOT NULL,
  action text        NOT NULL,
  job    uuid,
  target text,
  CONSTRAINT audit_in_order PRIMARY KEY (line)
);

CREATE INDEX audit_by_job ON :schema.audit (job, line) WHERE job IS NOT NULL;

-- The smallest id of a day.
CREATE FUNCTION :schema.day_floor(day date) RETURNS uuid
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT (overlay(lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
          || '-0000-0000-000000000000')::uuid
$$;

-- To be called whenever a partition is attached or detached. What a session may write to a default partition depends on the other
-- partitions; PostgreSQL tells sessions to read that anew for a default partition itself, and forgets the partitions it is cut into:
-- updates of rows in them would fail in sessions that are open. Any change to a table makes them read it anew.
CREATE FUNCTION :schema.renew_rest(part text) RETURNS void
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_analyze_scale_factor = 0.1)', ':schema_text', part || '_rest_old');
  EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_analyze_scale_factor = 0.1)', ':schema_text', part || '_rest_new');
END
$$;

-- Makes the partitions of a day, if they are missing. They are made apart and attached, because attaching lets reads and
-- writes of the other days go on. Rows of the day that fell into the default partition meanwhile move over, unless they are
-- so many that moving them would hold everyone up: then the day stays where it is, and pruning takes it row by row.
CREATE FUNCTION :schema.open_day(day date) RETURNS boolean
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  part   text;
  target text;
  made   boolean := false;
BEGIN
  IF 10000 < (SELECT count(*)
                FROM (SELECT FROM :schema.jobs_rest
                       WHERE jobs_rest.id >= :schema.day_floor(day) AND jobs_rest.id < :schema.day_floor(day + 1)
                       LIMIT 10001) AS strays) THEN
    RETURN false;
  END IF;
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    target := part || to_char(day, '"_"YYYYMMDD');
    CONTINUE WHEN to_regclass(format('%I.%I', ':schema_text', target)) IS NOT NULL;
    EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.%3$I INCLUDING ALL)', ':schema_text', target, part);
    EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.2)',
                   ':schema_text', target);
    EXECUTE format('WITH moved AS (DELETE FROM %1$I.%2$I WHERE id >= $1 AND id < $2 RETURNING *) INSERT INTO %1$I.%3$I SELECT * FROM moved',
                   ':schema_text', part || '_rest', target)
      USING :schema.day_floor(day), :schema.day_floor(day + 1);
    EXECUTE format('ALTER TABLE %1$I.%2$I ATTACH PARTITION %1$I.%3$I FOR VALUES FROM (%4$L) TO (%5$L)',
                   ':schema_text', part, target, :schema.day_floor(day), :schema.day_floor(day + 1));
    PERFORM :schema.renew_rest(part);
    made := true;
  END LOOP;
  RETURN made;
END
$$;

-- Drops the partitions of a day, carrying over what must live on: jobs that are unfinished or dead, and those that
-- finished at keep_after or later. Answers 'postponed' and changes nothing when that would be more than carry_max rows,
-- because the tables are locked while they are carried; 'dropped' when jobs went, 'empty' when there were none to go.
CREATE FUNCTION :schema.drop_day(day date, keep_after timestamptz, carry_max integer) RETURNS text
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  part    text;
  suffix  text := to_char(day, '"_"YYYYMMDD');
  kept    bigint;
  went    boolean;
BEGIN
  EXECUTE format('CREATE TEMPORARY TABLE holdfast_kept ON COMMIT DROP AS
                  SELECT jobs.id FROM %1$I.%2$I AS jobs
                   WHERE NOT EXISTS (SELECT FROM %1$I.%3$I AS finished WHERE finished.id = jobs.id AND finished.finished_at < $1)
                   LIMIT $2 + 1',
                 ':schema_text', 'jobs' || suffix, 'finished' || suffix)
    USING keep_after, carry_max;
  SELECT count(*) INTO kept FROM pg_temp.holdfast_kept;
  IF kept > carry_max THEN
    DROP TABLE pg_temp.holdfast_kept;
    RETURN 'postponed';
  END IF;
  EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I AS jobs WHERE jobs.id NOT IN (SELECT id FROM pg_temp.holdfast_kept))',
                 ':schema_text', 'jobs' || suffix)
    INTO went;
  FOREACH part IN ARRAY ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress'] LOOP
    EXECUTE format('ALTER TABLE %1$I.%2$I DETACH PARTITION %1$I.%3$I', ':schema_text', part, part || suffix);
    EXECUTE format('INSERT INTO %1$I.%2$I SELECT gone.* FROM %1$I.%3$I AS gone WHERE gone.id IN (SELECT id FROM pg_temp.holdfast_kept)',
                   ':schema_text', part || '_rest', part || suffix);
    EXECUTE format('DROP TABLE %1$I.%2$I', ':schema_text', part || suffix);
  END LOOP;
  DROP TABLE pg_temp.holdfast_kept;
  RETURN CASE WHEN went THEN 'dropped' ELSE 'empty' END;
END
$$;

-- The default partitions. To attach a day PostgreSQL reads them from one end to the other, for ids of that day, while everyone waits;
-- a table with a constraint that rules such ids out is spared. So what is old lies apart in _rest_old, with such a constraint, and its
-- bound follows the days (0009_raise_rest.ts): however many jobs were carried, only the few rows of _rest_new are read.
CREATE TABLE :schema.jobs_rest     PARTITION OF :schema.jobs     DEFAULT PARTITION BY RANGE (id);
CREATE TABLE :schema.finished_rest PARTITION OF :schema.finished DEFAULT PARTITION BY RANGE (id);
CREATE TABLE :schema.attempts_rest PARTITION OF :schema.attempts DEFAULT PARTITION BY RANGE (id);
CREATE TABLE :schema.logs_rest     PARTITION OF :schema.logs     DEFAULT PARTITION BY RANGE (id);
CREATE TABLE :schema.progress_rest PARTITION OF :schema.progress DEFAULT PARTITION BY RANGE (id);

CREATE TABLE :schema.jobs_rest_new     PARTITION OF :schema.jobs_rest     DEFAULT;
CREATE TABLE :schema.finished_rest_new PARTITION OF :schema.finished_rest DEFAULT;
CREATE TABLE :schema.attempts_rest_new PARTITION OF :schema.attempts_rest DEFAULT;
CREATE TABLE :schema.logs_rest_new     PARTITION OF :schema.logs_rest     DEFAULT;
CREATE TABLE :schema.progress_rest_new PARTITION OF :schema.progress_rest DEFAULT;

CREATE TABLE :schema.jobs_rest_old     PARTITION OF :schema.jobs_rest    
  (CONSTRAINT before_00000000000000000000000000000000 CHECK (id < '00000000-0000-0000-0000-000000000000'))
  FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE :schema.finished_rest_old PARTITION OF :schema.finished_rest
  (CONSTRAINT before_00000000000000000000000000000000 CHECK (id < '00000000-0000-0000-0000-000000000000'))
  FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE :schema.attempts_rest_old PARTITION OF :schema.attempts_rest
  (CONSTRAINT before_00000000000000000000000000000000 CHECK (id < '00000000-0000-0000-0000-000000000000'))
  FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE :schema.logs_rest_old     PARTITION OF :schema.logs_rest    
  (CONSTRAINT before_00000000000000000000000000000000 CHECK (id < '00000000-0000-0000-0000-000000000000'))
  FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE :schema.progress_rest_old PARTITION OF :schema.progress_rest
  (CONSTRAINT before_00000000000000000000000000000000 CHECK (id < '00000000-0000-0000-0000-000000000000'))
  FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');

-- Finished jobs in the default partition go one by one, oldest first. (The other half of it: 0004_rest_by_time.ts.)
CREATE INDEX finished_rest_old_by_time ON :schema.finished_rest_old (finished_at);

SELECT :schema.open_day((clock_timestamp() AT TIME ZONE 'UTC')::date + days) FROM generate_series(-1, 3) AS days;
`,
}

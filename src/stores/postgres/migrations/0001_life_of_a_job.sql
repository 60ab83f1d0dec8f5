-- A job's facts are written once, in jobs. Where it stands is one narrow row in exactly one of blocked, scheduled, ready,
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
  CONSTRAINT jobs_one_for_each_id PRIMARY KEY (id)
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
  type     text        COLLATE "C" NOT NULL
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
  CONSTRAINT scheduled_one_for_each_job PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX scheduled_by_time ON :schema.scheduled (run_at, id);

CREATE TABLE :schema.blocked (
  id                   uuid     NOT NULL,
  run_at               timestamptz,
  priority             smallint NOT NULL,
  cancel_with_parents  boolean  NOT NULL,
  queue                text     COLLATE "C" NOT NULL,
  type                 text     COLLATE "C" NOT NULL,
  CONSTRAINT blocked_one_for_each_job PRIMARY KEY (id)
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

CREATE TABLE :schema.queues (
  name     text    COLLATE "C" NOT NULL,
  paused   boolean NOT NULL DEFAULT false,
  settings json,
  CONSTRAINT queues_one_for_each_name PRIMARY KEY (name)
);

CREATE TABLE :schema.schedules (
  name     text COLLATE "C" NOT NULL,
  settings json NOT NULL,                     -- the schedule as its author wrote it
  paused   boolean NOT NULL DEFAULT false,
  next_at  timestamptz,
  last_at  timestamptz,
  last_job uuid,
  CONSTRAINT schedules_one_for_each_name PRIMARY KEY (name)
);

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

CREATE TABLE :schema.jobs_rest     PARTITION OF :schema.jobs     DEFAULT;
CREATE TABLE :schema.finished_rest PARTITION OF :schema.finished DEFAULT;
CREATE TABLE :schema.attempts_rest PARTITION OF :schema.attempts DEFAULT;
CREATE TABLE :schema.logs_rest     PARTITION OF :schema.logs     DEFAULT;
CREATE TABLE :schema.progress_rest PARTITION OF :schema.progress DEFAULT;

SELECT :schema.open_day((clock_timestamp() AT TIME ZONE 'UTC')::date + days) FROM generate_series(-1, 3) AS days;

import { RATE_FUNCTIONS } from '../rate-functions.js'
import { UNBLOCK_FLOW } from '../unblock-function.js'
import type { Migration } from './migration.js'

/** The columns of a rate. One time says how full its bucket is: see core/flow/rate.ts. Times of flow control are milliseconds since
 *  1970, as there, because a token may be worth less than a microsecond. */
const RATE = (prefix: string) => `${prefix}rate_limit float8, ${prefix}rate_per_ms float8, ${prefix}rate_burst float8,
  ${prefix}rate_by_cost boolean NOT NULL DEFAULT false`

// What events and turns are written to is emptied as fast as it is filled.
const QUICK = `fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 2147483647`

export const flow: Migration = {
  number: 11,
  name: 'flow',
  sql: `-- Flow control: limits, rates and groups. Adding takes no lock, taking is serial for each queue, and nothing is counted.
--
--   enqueue ──► jobs + held + arrivals      claim_flow ──► held → running      settle ──► running → … + arrivals
--
-- A job with a group or limits waits in held, by track and group. A track is a queue's jobs of one set of limits. Whatever may make a
-- group claimable (a job came, a slot was freed) writes a row into arrivals in the same transaction. A claim locks the queue's row in
-- flows, and only then looks: how many run, who is next, what the rates allow. Groups that may have more stand in rotation; groups
-- that wait for a time in naps. Groups that are full or empty are in none of these, until the next event. So:
--
--   a group with a held job and a free slot has a row in arrivals, rotation or naps, or a transaction that will commit one.
--
-- A slot is a row in running, so that there is no counter that could be wrong. Plain jobs of a queue that has flow control stay in
-- ready. While they run, their track is the number of the queue in flows, negative.
ALTER TABLE :schema.queues ADD COLUMN flow boolean NOT NULL DEFAULT false;
ALTER TABLE :schema.running ADD COLUMN track integer NOT NULL DEFAULT 0, ADD COLUMN group_name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE :schema.scheduled ADD COLUMN track integer NOT NULL DEFAULT 0, ADD COLUMN group_name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE :schema.blocked ADD COLUMN track integer NOT NULL DEFAULT 0, ADD COLUMN group_name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE :schema.dead ADD COLUMN track integer NOT NULL DEFAULT 0, ADD COLUMN group_name text COLLATE "C" NOT NULL DEFAULT '';

CREATE SEQUENCE :schema.track_numbers AS integer;

-- The queues that have flow control. The row is the lock of their claims.
CREATE TABLE :schema.flows (
  queue           text    COLLATE "C" NOT NULL,
  number          integer NOT NULL DEFAULT nextval(':schema.track_numbers'),
  turn            bigint  NOT NULL DEFAULT 0,       -- which track begins
  concurrency     integer,                          -- of each group, as what follows
  ${RATE('')},
  ordered         boolean NOT NULL DEFAULT false,
  waits_for_retry boolean NOT NULL DEFAULT true,
  stops_for_dead  boolean NOT NULL DEFAULT false,
  group_depth     integer,
  depth           integer,                          -- of the queue
  on_full         text    NOT NULL DEFAULT 'reject',
  aging_ms        float8,
  CONSTRAINT flows_one_for_each_queue PRIMARY KEY (queue)
) WITH (fillfactor = 50);

CREATE TABLE :schema.tracks (
  track     integer NOT NULL DEFAULT nextval(':schema.track_numbers'),
  queue     text    COLLATE "C" NOT NULL,
  limits    text[]  COLLATE "C" NOT NULL,
  forgotten boolean NOT NULL DEFAULT false,         -- its queue was removed; a job that was being written then still finds it
  CONSTRAINT tracks_one_for_each_number PRIMARY KEY (track),
  CONSTRAINT tracks_one_for_each_set UNIQUE (queue, limits)
);

CREATE TABLE :schema.limits (
  name        text     COLLATE "C" NOT NULL,
  tracks      integer[] NOT NULL,                   -- those whose jobs count in it
  origin      text     NOT NULL,
  settings    json     NOT NULL,                    -- as they were set
  concurrency integer,                              -- an adaptive one: what it has come to
  ${RATE('')},
  empty_at    float8   NOT NULL DEFAULT '-Infinity',
  not_before  float8   NOT NULL DEFAULT 0,
  adaptive    json,                                 -- what an adaptive one has found out
  position    text     NOT NULL DEFAULT 'closed',   -- of the breaker, as what follows
  since       float8   NOT NULL DEFAULT 0,
  probe_at    float8,
  probes      integer,                              -- how many may run while it is not closed; null without a breaker
  opens       integer  NOT NULL DEFAULT 0,
  successes   integer  NOT NULL DEFAULT 0,
  forced      text,
  outcomes    json     NOT NULL DEFAULT '{}',
  CONSTRAINT limits_one_for_each_name PRIMARY KEY (name)
) WITH (fillfactor = 10);

-- Groups that are not like any other: settings of their own, paused, told to wait, or with a bucket that is not full.
CREATE TABLE :schema.groups (
  queue       text    COLLATE "C" NOT NULL,
  group_name  text    COLLATE "C" NOT NULL,
  override    json,
  concurrency integer,
  ${RATE('')},
  weight      integer,
  paused      boolean NOT NULL DEFAULT false,
  stopped_by  uuid,
  empty_at    float8  NOT NULL DEFAULT '-Infinity',
  not_before  float8  NOT NULL DEFAULT 0,
  CONSTRAINT groups_one_for_each_name PRIMARY KEY (queue, group_name)
) WITH (fillfactor = 50);

-- In an ordered group priority is 0 and position that of the job, whatever became of it meanwhile.
CREATE TABLE :schema.held (
  id         uuid        NOT NULL,
  position   bigint      NOT NULL,
  since      timestamptz NOT NULL,
  fence      bigint,
  track      integer     NOT NULL,
  priority   smallint    NOT NULL,
  attempt    smallint,
  crashes    smallint,
  queue      text        COLLATE "C" NOT NULL,
  group_name text        COLLATE "C" NOT NULL,
  type       text        COLLATE "C" NOT NULL,
  CONSTRAINT held_one_for_each_job PRIMARY KEY (id),
  CONSTRAINT held_since_a_time CHECK (since >= '1970-01-01 00:00+00' AND since < '10000-01-01 00:00+00')
) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 2147483647,
        autovacuum_vacuum_insert_threshold = 200000, autovacuum_vacuum_insert_scale_factor = 0);
CREATE INDEX held_in_order ON :schema.held (track, group_name, priority DESC, position);

-- The places of jobs of ordered groups that were requeued: behind those that overtook them.
CREATE TABLE :schema.places (
  id       uuid   NOT NULL,
  position bigint NOT NULL,
  CONSTRAINT places_one_for_each_job PRIMARY KEY (id)
);

CREATE TABLE :schema.arrivals (
  turn       bigint  NOT NULL,
  track      integer NOT NULL,
  group_name text    COLLATE "C" NOT NULL
) WITH (${QUICK});
CREATE INDEX arrivals_in_order ON :schema.arrivals (track, turn);

CREATE TABLE :schema.rotation (
  turn       bigint  NOT NULL,
  track      integer NOT NULL,
  credit     integer,                               -- what a claim that ended within its turn left of it
  group_name text    COLLATE "C" NOT NULL,
  CONSTRAINT rotation_one_for_each_group PRIMARY KEY (track, group_name)
) WITH (${QUICK});
CREATE INDEX rotation_in_order ON :schema.rotation (track, turn);

CREATE TABLE :schema.naps (
  until      float8  NOT NULL,
  track      integer NOT NULL,
  group_name text    COLLATE "C" NOT NULL,
  CONSTRAINT naps_one_for_each_group PRIMARY KEY (track, group_name)
) WITH (${QUICK});
CREATE INDEX naps_in_order ON :schema.naps (track, until);

-- Finds or makes the track of jobs. It runs with the owner's rights, so that who may only enqueue needs none to write these tables: it makes at
-- most 64 tracks for a queue, of limits that exist. Answers its number, or why there is none.
CREATE FUNCTION :schema.make_track(of_queue text, of_limits text[], most integer)
  RETURNS TABLE (made integer, unknown_limit text)
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  known :schema.tracks;
  missing text;
BEGIN
  SELECT asked.name INTO missing
    FROM unnest(of_limits) WITH ORDINALITY AS asked (name, place)
   WHERE NOT starts_with(asked.name, 'type:')       -- that of a type is set by those who work on it, maybe later
     AND NOT EXISTS (SELECT FROM :schema.limits WHERE limits.name = asked.name)
   ORDER BY asked.place
   LIMIT 1;
  IF missing IS NOT NULL OR cardinality(of_limits) > 16 THEN
    RETURN QUERY SELECT NULL::integer, coalesce(missing, of_limits[17]);
    RETURN;
  END IF;
  -- One at a time for each queue. A queue has flow control from its first track on.
  INSERT INTO :schema.flows (queue) VALUES (of_queue) ON CONFLICT DO NOTHING;
  PERFORM FROM :schema.flows WHERE flows.queue = of_queue FOR UPDATE;
  SELECT * INTO known FROM :schema.tracks WHERE tracks.queue = of_queue AND tracks.limits = of_limits;
  IF known.track IS NULL OR known.forgotten THEN
    IF (SELECT count(*) FROM :schema.tracks WHERE tracks.queue = of_queue AND NOT tracks.forgotten) >= least(most, 64) THEN
      RETURN QUERY SELECT NULL::integer, NULL::text;
      RETURN;
    END IF;
    INSERT INTO :schema.tracks AS tracks (queue, limits) VALUES (of_queue, of_limits)
        ON CONFLICT ON CONSTRAINT tracks_one_for_each_set DO UPDATE SET forgotten = false
    RETURNING * INTO known;
    UPDATE :schema.limits SET tracks = limits.tracks || known.track
     WHERE limits.name = ANY (of_limits || ('queue:' || of_queue)) AND NOT known.track = ANY (limits.tracks);
  END IF;
  INSERT INTO :schema.queues AS queues (name, flow) VALUES (of_queue, true)
      ON CONFLICT (name) DO UPDATE SET flow = true WHERE NOT queues.flow;
  RETURN QUERY SELECT known.track, NULL::text;
END
$$;

-- Gives a queue flow control and a limit of its own that bounds nothing, so that it can be told to wait. For those who settle jobs.
CREATE FUNCTION :schema.open_flow(of_queue text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF EXISTS (SELECT FROM :schema.limits WHERE limits.name = 'queue:' || of_queue) THEN RETURN; END IF;
  INSERT INTO :schema.flows (queue) VALUES (of_queue) ON CONFLICT DO NOTHING;
  INSERT INTO :schema.limits (name, tracks, origin, settings)
  SELECT 'queue:' || of_queue,
         ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = of_queue) || (- flows.number), 'operator',
         '{"concurrency":null,"rate":null,"adaptive":null,"breaker":null}'
    FROM :schema.flows
   WHERE flows.queue = of_queue
      ON CONFLICT DO NOTHING;
  INSERT INTO :schema.queues AS queues (name, flow) VALUES (of_queue, true)
      ON CONFLICT (name) DO UPDATE SET flow = true WHERE NOT queues.flow;
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.open_flow(text) FROM PUBLIC;
-- Writes a limit; what was found out and spent stays. It runs with the owner's rights, so that workers can write what their definitions ask
-- for: never the limit of a queue, and nothing that an operator has set.
CREATE FUNCTION :schema.keep_limit(of_name text, of_origin text, of_settings json, of_adaptive json, of_concurrency integer,
                                   of_rate_limit float8, of_rate_per_ms float8, of_rate_burst float8, of_rate_by_cost boolean,
                                   of_probes integer)
  RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_table_privilege(session_user, ':schema.limits', 'INSERT')
     AND (of_origin <> 'definition' OR starts_with(of_name, 'queue:')
          OR EXISTS (SELECT FROM :schema.limits WHERE limits.name = of_name AND limits.origin <> 'definition')) THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for table limits';
  END IF;
  INSERT INTO :schema.limits AS limits (name, tracks, origin, settings, adaptive, concurrency, rate_limit, rate_per_ms, rate_burst,
                                        rate_by_cost, probes)
  SELECT of_name,
         ARRAY(SELECT tracks.track FROM :schema.tracks WHERE of_name = ANY (tracks.limits) OR of_name = 'queue:' || tracks.queue)
         || ARRAY(SELECT - flows.number FROM :schema.flows WHERE of_name = 'queue:' || flows.queue),
         of_origin, of_settings, of_adaptive, of_concurrency, of_rate_limit, of_rate_per_ms, of_rate_burst, of_rate_by_cost, of_probes
      ON CONFLICT (name) DO UPDATE
     SET tracks = excluded.tracks, origin = excluded.origin, settings = excluded.settings, adaptive = excluded.adaptive,
         concurrency = excluded.concurrency, rate_limit = excluded.rate_limit, rate_per_ms = excluded.rate_per_ms,
         rate_burst = excluded.rate_burst, rate_by_cost = excluded.rate_by_cost, probes = excluded.probes,
         -- Without a breaker nothing is left of one: another that is set later begins anew.
         position = CASE WHEN excluded.probes IS NULL AND limits.forced IS NULL THEN 'closed' ELSE limits.position END,
         since = CASE WHEN excluded.probes IS NULL AND limits.forced IS NULL THEN 0 ELSE limits.since END,
         probe_at = CASE WHEN excluded.probes IS NULL AND limits.forced IS NULL THEN NULL ELSE limits.probe_at END,
         opens = CASE WHEN excluded.probes IS NULL AND limits.forced IS NULL THEN 0 ELSE limits.opens END,
         successes = CASE WHEN excluded.probes IS NULL AND limits.forced IS NULL THEN 0 ELSE limits.successes END;
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.keep_limit(text, text, json, json, integer, float8, float8, float8, boolean, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.make_track(text, text[], integer) FROM PUBLIC;
${RATE_FUNCTIONS}${UNBLOCK_FLOW}`,
}

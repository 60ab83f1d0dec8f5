import type { Migration } from './migration.js'

/** Whether the calling role may set limits itself, so that nothing it asks for needs a check. */
const OPERATES = "has_table_privilege(session_user, ':schema.limits', 'INSERT')"

/** Functions that write for roles which have no right to write the tables themselves. */
const GUARDED = `LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp`

const BREAKERS = `-- How breakers moved: the newest 50 moves of each limit, written by the statement that moves it.
CREATE TABLE :schema.breaker_moves (
  limit_name    text   COLLATE "C" NOT NULL,
  number        bigint NOT NULL,                    -- from 1 on
  at            float8 NOT NULL,
  from_position text   NOT NULL,
  to_position   text   NOT NULL,
  ok            bigint NOT NULL,                    -- outcomes that counted
  failed        bigint NOT NULL,
  actor         text,                               -- null: it moved by itself
  CONSTRAINT breaker_moves_one_for_each_number PRIMARY KEY (limit_name, number),
  CONSTRAINT breaker_moves_of_a_limit FOREIGN KEY (limit_name) REFERENCES :schema.limits (name) ON DELETE CASCADE
);

-- Keeps a move. The caller has the lock of the limit's row.
CREATE FUNCTION :schema.note_breaker(of_name text, of_at float8, of_from text, of_to text, of_ok bigint, of_failed bigint, of_actor text)
  RETURNS void
  ${GUARDED}
AS $$
DECLARE
  last bigint := coalesce((SELECT max(number) FROM :schema.breaker_moves WHERE limit_name = of_name), 0);
BEGIN
  INSERT INTO :schema.breaker_moves (limit_name, number, at, from_position, to_position, ok, failed, actor)
  VALUES (of_name, last + 1, of_at, of_from, of_to, of_ok, of_failed, of_actor);
  DELETE FROM :schema.breaker_moves WHERE limit_name = of_name AND number <= last + 1 - 50;
END
$$;

-- A claim makes a breaker half open, whichever version of the function it uses. No other update of a limit comes here.
CREATE FUNCTION :schema.note_probe() RETURNS trigger
  ${GUARDED}
AS $$
BEGIN
  PERFORM :schema.note_breaker(NEW.name, NEW.since, OLD.position, NEW.position, 0, 0, NULL);
  RETURN NULL;
END
$$;
CREATE TRIGGER limits_probed AFTER UPDATE OF position ON :schema.limits
  FOR EACH ROW WHEN (OLD.position = 'open' AND NEW.position = 'half_open') EXECUTE FUNCTION :schema.note_probe();

-- A limit under its lock.
CREATE FUNCTION :schema.lock_limit(of_name text) RETURNS SETOF :schema.limits
  LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT * FROM :schema.limits WHERE limits.name = of_name FOR NO KEY UPDATE
$$;

-- Writes what outcomes did to a breaker. Who may not set limits can move only a breaker that is there and that nobody holds, as
-- outcomes can move it, and open it for one cool-down.
CREATE FUNCTION :schema.keep_breaker(of_name text, of_position text, of_since float8, of_probe_at float8, of_opens integer,
                                     of_successes integer, of_outcomes json, of_ok bigint, of_failed bigint)
  RETURNS void
  ${GUARDED}
AS $$
DECLARE
  known :schema.limits;
  now_ms float8 := date_part('epoch', clock_timestamp()) * 1000;
  longest float8;
BEGIN
  SELECT * INTO known FROM :schema.limits WHERE limits.name = of_name FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  IF NOT ${OPERATES} THEN
    IF known.probes IS NULL OR octet_length(of_outcomes::text) > 1000000 OR json_typeof(of_outcomes) <> 'object'
       OR of_position <> known.position
          AND (known.forced IS NOT NULL OR (known.position, of_position) NOT IN (('closed', 'open'), ('half_open', 'open'), ('half_open', 'closed'))) THEN
      RAISE insufficient_privilege USING MESSAGE = 'permission denied for table limits';
    END IF;
    longest := greatest(600000, (known.settings #>> '{breaker,cooldownMs}')::float8);
    of_probe_at := CASE WHEN of_position = 'open' THEN now_ms + least(greatest(of_probe_at - of_since, 0), longest) END;
    of_since := now_ms;
    of_opens := least(greatest(of_opens, 0), known.opens + 1);
  END IF;
  IF of_position = known.position THEN
    UPDATE :schema.limits SET successes = of_successes, outcomes = of_outcomes WHERE limits.name = of_name;
    RETURN;
  END IF;
  UPDATE :schema.limits
     SET position = of_position, since = of_since, probe_at = of_probe_at, opens = of_opens, successes = of_successes, outcomes = of_outcomes
   WHERE limits.name = of_name;
  PERFORM :schema.note_breaker(of_name, of_since, known.position, of_position, of_ok, of_failed, NULL);
END
$$;

-- Writes what an adaptive concurrency has come to, within its bounds.
CREATE FUNCTION :schema.keep_level(of_name text, of_adaptive json, of_concurrency integer) RETURNS void
  ${GUARDED}
AS $$
DECLARE
  bounds json := (SELECT limits.settings -> 'adaptive' FROM :schema.limits WHERE limits.name = of_name);
BEGIN
  IF NOT ${OPERATES}
     AND (json_typeof(bounds) IS DISTINCT FROM 'object' OR octet_length(of_adaptive::text) > 1000 OR json_typeof(of_adaptive) <> 'object'
          OR of_concurrency NOT BETWEEN (bounds ->> 'min')::integer AND (bounds ->> 'max')::integer
          OR (of_adaptive ->> 'level')::float8 NOT BETWEEN (bounds ->> 'min')::float8 AND (bounds ->> 'max')::float8
          OR (of_adaptive ->> 'fellAtMs')::float8 > date_part('epoch', clock_timestamp()) * 1000 + 60000) THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for table limits';
  END IF;
  UPDATE :schema.limits SET adaptive = of_adaptive, concurrency = of_concurrency WHERE limits.name = of_name;
END
$$;
`

// What KEEP of migration 11 wrote without a look: a worker could make any number of limits, and one that no claim could count with.
const KEEP_LIMIT = `DROP FUNCTION :schema.keep_limit(text, text, json, json, integer, float8, float8, float8, boolean, integer);
CREATE FUNCTION :schema.keep_limit(of_now timestamptz, of_name text, of_origin text, of_settings json, of_adaptive json,
                                   of_concurrency integer, of_rate_limit float8, of_rate_per_ms float8, of_rate_burst float8,
                                   of_rate_by_cost boolean, of_probes integer)
  RETURNS void
  ${GUARDED}
AS $$
DECLARE
  known :schema.limits;
BEGIN
  SELECT * INTO known FROM :schema.limits WHERE limits.name = of_name FOR NO KEY UPDATE;
  -- Workers write what their definitions ask for: the limit of a type, sound, and nothing that an operator has set.
  IF NOT ${OPERATES}
     AND (of_origin <> 'definition' OR NOT starts_with(of_name, 'type:') OR known.origin <> 'definition'
          OR known.name IS NULL AND (SELECT count(*) FROM :schema.limits) >= 30000
          OR :schema.is_sound_limit(of_settings, of_adaptive, of_concurrency, of_rate_limit, of_rate_per_ms, of_rate_burst, of_rate_by_cost,
                                    of_probes) IS NOT TRUE) THEN
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
         rate_burst = excluded.rate_burst, rate_by_cost = excluded.rate_by_cost, probes = excluded.probes;
  -- A breaker that is taken away is forgotten: one that is set later begins anew.
  IF known.name IS NOT NULL AND of_probes IS NULL AND known.forced IS NULL THEN
    UPDATE :schema.limits SET position = 'closed', since = 0, probe_at = NULL, opens = 0, successes = 0
     WHERE limits.name = of_name AND (position, since, opens) <> ('closed', 0, 0);
    IF known.position <> 'closed' THEN
      PERFORM :schema.note_breaker(of_name, date_part('epoch', :schema.time_of(of_now)) * 1000, known.position, 'closed', 0, 0, NULL);
    END IF;
  END IF;
END
$$;

-- Whether these are settings as the library writes them. A rate of nothing in no time would stop every claim of the queues that use it.
CREATE FUNCTION :schema.is_sound_limit(settings json, adaptive json, concurrency integer, rate_limit float8, rate_per_ms float8,
                                       rate_burst float8, rate_by_cost boolean, probes integer)
  RETURNS boolean
  LANGUAGE sql STABLE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT octet_length(settings::text) <= 2000
     AND octet_length(coalesce(adaptive::text, '')) <= 1000
     AND json_typeof(settings) = 'object'
     AND coalesce(concurrency, 1) BETWEEN 1 AND 100000
     AND rate_by_cost IS NOT NULL
     AND CASE json_typeof(settings -> 'concurrency')
              WHEN 'null' THEN true
              WHEN 'number' THEN (settings ->> 'concurrency')::integer BETWEEN 1 AND 100000 END
     AND CASE json_typeof(settings -> 'rate')
              WHEN 'null' THEN rate_limit IS NULL AND rate_per_ms IS NULL AND rate_burst IS NULL
              WHEN 'object' THEN rate_limit BETWEEN 1 AND 1e9 AND rate_per_ms BETWEEN 1 AND 4e10 AND rate_burst BETWEEN 1 AND 1e9
                             AND (settings #>> '{rate,limit}')::float8 = rate_limit AND (settings #>> '{rate,perMs}')::float8 = rate_per_ms
                             AND (settings #>> '{rate,burst}')::float8 = rate_burst AND settings #>> '{rate,counts}' IN ('starts', 'cost') END
     AND CASE json_typeof(settings -> 'adaptive')
              WHEN 'null' THEN adaptive IS NULL
              WHEN 'object' THEN json_typeof(adaptive) = 'object' AND json_typeof(adaptive -> 'level') = 'number'
                             AND (settings #>> '{adaptive,min}')::integer BETWEEN 1 AND (settings #>> '{adaptive,max}')::integer
                             AND (settings #>> '{adaptive,max}')::integer <= 100000 END
     AND CASE json_typeof(settings -> 'breaker')
              WHEN 'null' THEN probes IS NULL
              WHEN 'object' THEN (settings #>> '{breaker,probes}')::integer = probes AND probes BETWEEN 1 AND 100000
                             AND (settings #>> '{breaker,failures}')::float8 BETWEEN 0 AND 1
                             AND (settings #>> '{breaker,of}')::float8 BETWEEN 1 AND 1e9
                             AND (settings #>> '{breaker,withinMs}')::float8 BETWEEN 1 AND 4e6
                             AND (settings #>> '{breaker,cooldownMs}')::float8 BETWEEN 1 AND 1e9 END
$$;
`

// A worker's word holds for what its jobs are about, and for a day.
const SETTLE = `-- The time that a call goes by. Tests give their own; nobody who may not set limits does.
CREATE FUNCTION :schema.time_of(given timestamptz) RETURNS timestamptz
  LANGUAGE sql VOLATILE
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN given IS NOT NULL AND ${OPERATES} THEN given ELSE clock_timestamp() END
$$;

-- Lets nothing of limits start before a time, and takes what attempts cost beyond their estimate.
CREATE FUNCTION :schema.move_limits(of_now timestamptz, of_names text[], of_untils float8[], of_costs float8[], of_jobs uuid[])
  RETURNS void
  ${GUARDED}
AS $$
DECLARE
  move record;
  operates boolean := ${OPERATES};
  now_ms float8 := date_part('epoch', :schema.time_of(of_now)) * 1000;
BEGIN
  FOR move IN SELECT asked.name,
                     CASE WHEN operates THEN asked.until ELSE least(asked.until, now_ms + 86400000) END AS until,
                     CASE WHEN operates THEN asked.cost ELSE least(greatest(asked.cost, -1e9), 1e9) END AS cost
                FROM unnest(of_names, of_untils, of_costs, of_jobs) AS asked (name, until, cost, job)
               WHERE operates
                  OR EXISTS (SELECT FROM :schema.jobs
                              WHERE jobs.id = asked.job
                                AND (asked.name = 'queue:' || jobs.queue
                                     OR asked.name IN (SELECT json_array_elements_text(
                                                                CASE WHEN json_typeof(jobs.options #> '{flow,limits}') = 'array'
                                                                     THEN jobs.options #> '{flow,limits}' ELSE '[]' END))))
               ORDER BY asked.name LOOP
    UPDATE :schema.limits
       SET not_before = greatest(limits.not_before, move.until),
           empty_at = CASE WHEN limits.rate_limit IS NULL OR NOT limits.rate_by_cost OR move.cost = 0 THEN limits.empty_at
                           ELSE :schema.rate_draw(limits.rate_limit, limits.rate_per_ms, limits.rate_burst, limits.empty_at, move.cost, now_ms) END
     WHERE limits.name = move.name
       AND (move.until > limits.not_before OR move.cost <> 0 AND limits.rate_by_cost);
  END LOOP;
END
$$;

-- The same for groups, which also stop when one of their jobs has died, in queues that say so.
CREATE FUNCTION :schema.move_groups(of_now timestamptz, of_queues text[], of_names text[], of_dead uuid[], of_untils float8[],
                                    of_costs float8[], of_jobs uuid[])
  RETURNS void
  ${GUARDED}
AS $$
DECLARE
  move record;
  operates boolean := ${OPERATES};
  now_ms float8 := date_part('epoch', :schema.time_of(of_now)) * 1000;
BEGIN
  FOR move IN SELECT asked.queue, asked.name,
                     CASE WHEN flows.ordered AND flows.stops_for_dead THEN asked.dead END AS dead,
                     CASE WHEN operates THEN asked.until ELSE least(asked.until, now_ms + 86400000) END AS until,
                     CASE WHEN operates THEN asked.cost ELSE least(greatest(asked.cost, -1e9), 1e9) END AS cost,
                     flows.rate_limit, flows.rate_per_ms, flows.rate_burst, flows.rate_by_cost
                FROM unnest(of_queues, of_names, of_dead, of_untils, of_costs, of_jobs) AS asked (queue, name, dead, until, cost, job)
                LEFT JOIN :schema.flows ON flows.queue = asked.queue
               WHERE operates
                  OR EXISTS (SELECT FROM :schema.jobs
                              WHERE jobs.id = coalesce(asked.dead, asked.job)
                                AND jobs.queue = asked.queue
                                AND jobs.options #>> '{flow,group}' = asked.name)
               ORDER BY asked.queue, asked.name LOOP
    CONTINUE WHEN move.dead IS NULL AND move.until <= 0 AND move.cost = 0;
    INSERT INTO :schema.groups AS groups (queue, group_name, paused, stopped_by, not_before, empty_at)
    VALUES (move.queue, move.name, move.dead IS NOT NULL, move.dead, move.until,
            -- A group without a row has a full bucket.
            CASE WHEN move.rate_limit IS NOT NULL AND move.rate_by_cost
                 THEN :schema.rate_draw(move.rate_limit, move.rate_per_ms, move.rate_burst, '-Infinity', move.cost, now_ms)
                 ELSE '-Infinity' END)
        ON CONFLICT ON CONSTRAINT groups_one_for_each_name DO UPDATE
       SET paused = groups.paused OR excluded.paused, stopped_by = coalesce(excluded.stopped_by, groups.stopped_by),
           not_before = greatest(groups.not_before, excluded.not_before),
           empty_at = CASE WHEN move.cost = 0 THEN groups.empty_at
                           WHEN groups.rate_limit IS NOT NULL AND groups.rate_by_cost
                           THEN :schema.rate_draw(groups.rate_limit, groups.rate_per_ms, groups.rate_burst, groups.empty_at, move.cost, now_ms)
                           WHEN groups.rate_limit IS NULL AND move.rate_limit IS NOT NULL AND move.rate_by_cost
                           THEN :schema.rate_draw(move.rate_limit, move.rate_per_ms, move.rate_burst, groups.empty_at, move.cost, now_ms)
                           ELSE groups.empty_at END;
  END LOOP;
END
$$;
`

const PRUNE = `-- When a track was looked at last, and the transaction from which on nobody can be writing to it any more.
ALTER TABLE :schema.tracks ADD COLUMN looked_at timestamptz, ADD COLUMN empty_since xid8;
-- How many groups of the queue were found that no claim would have looked at.
ALTER TABLE :schema.flows ADD COLUMN repaired bigint NOT NULL DEFAULT 0, ADD COLUMN repaired_at timestamptz;

-- Drops what flow control keeps of things that are gone, a bounded number in a call: groups that are like any other, behind the given
-- one by name, naps of groups without jobs, and tracks without jobs. Answers how many groups, and where the next call goes on.
CREATE FUNCTION :schema.prune_flow(of_now timestamptz, of_queue text, of_group text, most integer)
  RETURNS TABLE (gone bigint, next_queue text, next_group text)
  ${GUARDED}
AS $$
DECLARE
  v_now timestamptz := :schema.time_of(of_now);
  v_now_ms float8 := date_part('epoch', v_now) * 1000;
  v_most integer := least(greatest(most, 1), 20000);
  v_gone bigint;
  v_places tid[];
  v_usual tid[];
  v_last record;
  v_tracks integer[];
  v_used integer[];
  v_track :schema.tracks;
BEGIN
  SELECT array_agg(looked.place), array_agg(looked.place) FILTER (WHERE looked.is_usual) INTO v_places, v_usual
    FROM (SELECT groups.ctid AS place,
                 groups.override IS NULL AND NOT groups.paused AND groups.not_before <= v_now_ms
                 AND groups.empty_at + coalesce(flows.rate_burst * flows.rate_per_ms / flows.rate_limit, 0) <= v_now_ms AS is_usual
            FROM :schema.groups
            LEFT JOIN :schema.flows ON flows.queue = groups.queue
           WHERE (groups.queue, groups.group_name) > (of_queue, of_group)
           ORDER BY groups.queue, groups.group_name
           LIMIT v_most) AS looked;
  SELECT groups.queue, groups.group_name INTO v_last FROM :schema.groups WHERE groups.ctid = v_places[v_most];
  -- One that a claim has changed meanwhile has another place, and stays.
  DELETE FROM :schema.groups
   WHERE groups.ctid = ANY (ARRAY(SELECT usual.ctid FROM :schema.groups AS usual WHERE usual.ctid = ANY (v_usual) FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_gone = ROW_COUNT;

  -- A job that comes to such a group brings an event of its own.
  DELETE FROM :schema.naps
   WHERE naps.ctid = ANY (ARRAY(SELECT nap.ctid FROM :schema.naps AS nap
                                 WHERE nap.until < v_now_ms - 60000
                                   AND NOT EXISTS (SELECT FROM :schema.held WHERE held.track = nap.track AND held.group_name = nap.group_name)
                                 LIMIT v_most
                                   FOR UPDATE SKIP LOCKED));

  -- A track is looked at once an hour. At the second look without a job it is forgotten: enqueues no longer find it. One that had found
  -- it just before may still be in an open transaction, so the row goes when every transaction that was open an hour later has ended.
  v_tracks := ARRAY(SELECT tracks.track FROM :schema.tracks
                     WHERE tracks.looked_at IS NULL OR tracks.looked_at <= v_now - interval '1 hour'
                     ORDER BY tracks.looked_at NULLS FIRST, tracks.track
                     LIMIT 64
                       FOR UPDATE SKIP LOCKED);
  IF v_tracks <> '{}' THEN
    v_used := ARRAY(SELECT asked.track FROM unnest(v_tracks) AS asked (track)
                     WHERE EXISTS (SELECT FROM :schema.held WHERE held.track = asked.track)
                        OR EXISTS (SELECT FROM :schema.running WHERE running.track = asked.track AND running.track <> 0))
              || ARRAY(SELECT DISTINCT scheduled.track FROM :schema.scheduled WHERE scheduled.track = ANY (v_tracks))
              || ARRAY(SELECT DISTINCT blocked.track FROM :schema.blocked WHERE blocked.track = ANY (v_tracks))
              || ARRAY(SELECT DISTINCT dead.track FROM :schema.dead WHERE dead.track = ANY (v_tracks));
    FOR v_track IN SELECT * FROM :schema.tracks WHERE tracks.track = ANY (v_tracks) LOOP
      IF v_track.looked_at IS NULL OR v_track.track = ANY (v_used) THEN
        UPDATE :schema.tracks SET looked_at = v_now, empty_since = NULL WHERE tracks.track = v_track.track;
      ELSIF NOT v_track.forgotten THEN
        UPDATE :schema.tracks SET looked_at = v_now, forgotten = true, empty_since = NULL WHERE tracks.track = v_track.track;
      ELSIF v_track.empty_since IS NULL THEN
        UPDATE :schema.tracks SET looked_at = v_now, empty_since = pg_current_xact_id() WHERE tracks.track = v_track.track;
      ELSIF v_track.empty_since < pg_snapshot_xmin(pg_current_snapshot()) THEN
        DELETE FROM :schema.arrivals WHERE arrivals.track = v_track.track;
        DELETE FROM :schema.rotation WHERE rotation.track = v_track.track;
        DELETE FROM :schema.naps WHERE naps.track = v_track.track;
        PERFORM FROM :schema.limits WHERE v_track.track = ANY (limits.tracks) ORDER BY limits.name FOR NO KEY UPDATE;
        UPDATE :schema.limits SET tracks = array_remove(limits.tracks, v_track.track) WHERE v_track.track = ANY (limits.tracks);
        DELETE FROM :schema.tracks WHERE tracks.track = v_track.track;
      END IF;
    END LOOP;
  END IF;
  RETURN QUERY SELECT v_gone, v_last.queue, v_last.group_name;
END
$$;
`

const CLAIMS = `-- What a job's start takes, of a row that anybody may have written: no more than a job may cost.
CREATE OR REPLACE FUNCTION :schema.cost_of(options json) RETURNS float8
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN options #>> '{flow,cost}' ~ '^[0-9]{1,10}$' THEN least((options #>> '{flow,cost}')::float8, 1e9) ELSE 1 END
$$;

-- Claims run with the owner's rights: who claims needs none to write limits, groups and turns by hand.
DO $$
DECLARE
  command text;
BEGIN
  FOR command IN
    SELECT format('ALTER FUNCTION %s SECURITY DEFINER', pg_proc.oid::regprocedure)
      FROM pg_proc
     WHERE pg_proc.pronamespace = ':schema'::regnamespace AND starts_with(pg_proc.proname, 'claim_flow_')
  LOOP
    EXECUTE command;
  END LOOP;
END
$$;
`

/** The functions of this migration, which only the roles that the script names may call. */
const FUNCTIONS = [
  'note_breaker(text, float8, text, text, bigint, bigint, text)',
  'note_probe()',
  'lock_limit(text)',
  'keep_breaker(text, text, float8, float8, integer, integer, json, bigint, bigint)',
  'keep_level(text, json, integer)',
  'keep_limit(timestamptz, text, text, json, json, integer, float8, float8, float8, boolean, integer)',
  'is_sound_limit(json, json, integer, float8, float8, float8, boolean, integer)',
  'time_of(timestamptz)',
  'move_limits(timestamptz, text[], float8[], float8[], uuid[])',
  'move_groups(timestamptz, text[], text[], uuid[], float8[], float8[], uuid[])',
  'prune_flow(timestamptz, text, text, integer)',
]

export const flowGuards: Migration = {
  number: 16,
  name: 'flow_guards',
  sql: `-- What breakers did, and what roles that may not set limits can do to flow control: each call is checked by a function.
${BREAKERS}${KEEP_LIMIT}${SETTLE}${PRUNE}${CLAIMS}
${FUNCTIONS.map((name) => `REVOKE EXECUTE ON FUNCTION :schema.${name} FROM PUBLIC;`).join('\n')}
`,
}

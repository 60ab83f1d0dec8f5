// replace_payload: gives the payload of a new job to the one that has its key. The same rules as stores/memory/replace.ts.
//
// The lock of the key's row orders the callers of that key. The row of the place where the job waits gets a new version in the same
// transaction, so that a claim that began before cannot take the job with its old payload.
//
// In a caller's transaction the locks last until its commit. There only a job that waits for its time or for its parents is changed:
// promote and unblock pass over rows that are locked. One that is due counts as one that runs, and gets a successor, so that no claim
// ever meets such a lock.

import { freeKeysOfWaiting } from './key-rows.js'

const unfinished = (id: string): string => `EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = ${id})
       AND NOT EXISTS (SELECT FROM :schema.finished WHERE finished.id = ${id})
       AND NOT EXISTS (SELECT FROM :schema.dead WHERE dead.id = ${id})`

// Options are read as an object, whatever a role that enqueues by SQL has written there.
const each = (options: string): string =>
  `json_each(CASE WHEN json_typeof(${options}) = 'object' THEN ${options} ELSE '{}'::json END) AS field`

export const REPLACE_PAYLOAD: string = `
-- It runs with the owner's rights, so that who may only enqueue needs none to change jobs: it changes the job that has the key, while that
-- job waits. Answers how: 'replaced', 'successor', 'kept' (its job has ended, and the key lasts for a time), 'trackless', or 'open' when the
-- key is free or its job moved each time it was looked for.
CREATE FUNCTION :schema.replace_payload(
    at_time timestamptz, of_queue text, of_key text, new_id uuid, new_type text, new_payload json, new_priority smallint,
    new_version smallint, new_options json, new_tags text[], of_limits text[], of_group text, wait_ms float8, max_wait_ms float8,
    is_ours boolean, patience text)
  RETURNS TABLE (job text, became text, how text)
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  k       :schema.keys;
  h       :schema.held;
  v_now   timestamptz;
  v_job   uuid;
  v_made  timestamptz;
  v_due   timestamptz;
  v_track integer := 0;
  v_state text;
BEGIN
  IF NOT has_table_privilege(session_user, ':schema.keys', 'DELETE') THEN
    at_time := NULL;
  END IF;
  IF patience IS NOT NULL THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
  SELECT * INTO k FROM :schema.keys WHERE keys.queue = of_queue AND keys.key = of_key FOR UPDATE;
  v_now := coalesce(at_time, clock_timestamp());
  IF NOT FOUND OR k.expires_at <= v_now THEN
    RETURN QUERY SELECT NULL::text, NULL::text, 'open';
    RETURN;
  END IF;

  FOR tries IN 1 .. 20 LOOP
    v_job := NULL;
    IF k.next IS NOT NULL AND ${unfinished('k.next')} THEN
      v_job := k.next;
    ELSIF ${unfinished('k.id')} THEN
      v_job := k.id;
    ELSIF k.expires_at IS NOT NULL THEN
      RETURN QUERY SELECT k.id::text, NULL::text, 'kept';
      RETURN;
    ELSE
      DELETE FROM :schema.keys WHERE keys.queue = of_queue AND keys.key = of_key;
      RETURN QUERY SELECT NULL::text, NULL::text, 'open';
      RETURN;
    END IF;
    SELECT jobs.created_at INTO v_made FROM :schema.jobs WHERE jobs.id = v_job;
    v_due := greatest(v_now, least(v_now + wait_ms * interval '1 millisecond', v_made + max_wait_ms * interval '1 millisecond'));

    -- One that waits for a retry keeps its time.
    UPDATE :schema.scheduled
       SET run_at = CASE WHEN scheduled.retrying THEN scheduled.run_at ELSE v_due END
     WHERE scheduled.id = v_job
    RETURNING CASE WHEN scheduled.retrying THEN 'retrying' ELSE 'scheduled' END INTO v_state;
    EXIT WHEN FOUND;
    UPDATE :schema.blocked
       SET run_at = CASE WHEN blocked.run_at IS NOT NULL THEN v_due END
     WHERE blocked.id = v_job
    RETURNING 'blocked' INTO v_state;
    EXIT WHEN FOUND;
    -- One that this very transaction has written cannot be claimed before it commits.
    is_ours := is_ours OR EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = v_job AND jobs.xmin = pg_current_xact_id()::xid);
    IF is_ours THEN
      -- A row at its first place is found through its job.
      UPDATE :schema.ready
         SET since = ready.since
        FROM :schema.jobs
       WHERE jobs.id = v_job AND ready.queue = jobs.queue AND ready.priority = jobs.priority AND ready.position = jobs.position
         AND ready.id = jobs.id AND NOT ready.moved
      RETURNING 'ready' INTO v_state;
      EXIT WHEN FOUND;
      UPDATE :schema.ready SET since = ready.since WHERE ready.id = v_job AND ready.moved RETURNING 'ready' INTO v_state;
      EXIT WHEN FOUND;
      -- Written anew: a claim that waits for the row of an update would take it. The event is for that claim's group.
      DELETE FROM :schema.held WHERE held.id = v_job RETURNING * INTO h;
      IF FOUND THEN
        INSERT INTO :schema.held SELECT h.*;
        INSERT INTO :schema.arrivals (turn, track, group_name) VALUES (nextval(':schema.positions') * 65536, h.track, h.group_name);
        v_state := 'ready';
        EXIT;
      END IF;
    END IF;
    v_state := NULL;
    IF EXISTS (SELECT FROM :schema.running WHERE running.id = v_job)
       OR NOT is_ours AND (EXISTS (SELECT FROM :schema.held WHERE held.id = v_job)
                           OR EXISTS (SELECT FROM :schema.ready WHERE ready.id = v_job AND ready.moved)
                           OR EXISTS (SELECT FROM :schema.ready, :schema.jobs
                                       WHERE jobs.id = v_job AND ready.queue = jobs.queue AND ready.priority = jobs.priority
                                         AND ready.position = jobs.position AND ready.id = jobs.id AND NOT ready.moved)) THEN
      v_state := 'running';
      EXIT;
    END IF;
    -- It moved from one table to the next between two looks.
  END LOOP;

  IF v_state IS NULL THEN
    RETURN QUERY SELECT NULL::text, NULL::text, 'open';
    RETURN;
  END IF;
  IF v_state <> 'running' THEN
    UPDATE :schema.jobs
       SET payload = new_payload, version = new_version, tags = new_tags,
           options = (SELECT json_object_agg(field.key, field.value)
                        FROM (SELECT field.key, field.value FROM ${each('jobs.options')} WHERE field.key <> 'trace'
                               UNION ALL
                              SELECT field.key, field.value FROM ${each('new_options')} WHERE field.key = 'trace') AS field)
     WHERE jobs.id = v_job;
    -- The key's job ended while this call held the row: the key is passed on here.
    IF v_job = k.next AND k.expires_at IS NULL AND NOT (${unfinished('k.id')}) THEN
      UPDATE :schema.keys SET id = v_job, next = NULL WHERE keys.queue = of_queue AND keys.key = of_key;
    END IF;
    RETURN QUERY SELECT v_job::text, v_state, 'replaced';
    RETURN;
  END IF;

  IF of_limits IS NOT NULL THEN
    SELECT tracks.track INTO v_track
      FROM :schema.tracks
     WHERE tracks.queue = of_queue AND tracks.limits = of_limits AND NOT tracks.forgotten
       AND NOT EXISTS (SELECT FROM unnest(of_limits) AS named (name)
                        WHERE NOT starts_with(named.name, 'type:')
                          AND NOT EXISTS (SELECT FROM :schema.limits WHERE limits.name = named.name));
    IF NOT FOUND THEN
      RETURN QUERY SELECT NULL::text, NULL::text, 'trackless';
      RETURN;
    END IF;
  END IF;
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
  SELECT new_id, v_now, nextval(':schema.positions') * 65536 + 1, new_priority, new_version, of_queue, new_type, new_payload,
         (SELECT json_object_agg(field.key, field.value)
            FROM (SELECT field.key, field.value FROM ${each('new_options')} WHERE field.key NOT IN ('after', 'onParentDead')
                   UNION ALL
                  SELECT 'after', json_build_array(v_job)
                   UNION ALL
                  SELECT 'onParentDead', to_json('run'::text)) AS field),
         new_tags;
  INSERT INTO :schema.blocked (id, run_at, priority, cancel_with_parents, queue, type, track, group_name)
  VALUES (new_id, CASE WHEN wait_ms > 0 THEN v_now + least(wait_ms, max_wait_ms) * interval '1 millisecond' END, new_priority, false,
          of_queue, new_type, v_track, of_group);
  INSERT INTO :schema.parents (parent, child) VALUES (v_job, new_id);
  INSERT INTO :schema.link_checks (job, look_at) VALUES (new_id, '-infinity');
  UPDATE :schema.keys
     SET id = CASE WHEN keys.expires_at IS NULL THEN v_job ELSE keys.id END, next = new_id
   WHERE keys.queue = of_queue AND keys.key = of_key;
  RETURN QUERY SELECT new_id::text, 'blocked', 'successor';
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.replace_payload(timestamptz, text, text, uuid, text, json, smallint, smallint, json, text[], text[], text, float8, float8, boolean, text) FROM PUBLIC;

-- Which of these keys a transaction that is open elsewhere has locked, by their places from 1 on; \`most\` of them at most. Each is tried,
-- waits for hardly any time, and is let go.
CREATE FUNCTION :schema.keys_in_replacing(queues text[], wanted text[], most integer)
  RETURNS SETOF integer
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '1ms'
AS $$
DECLARE
  seen integer := 0;
BEGIN
  FOR place IN 1 .. cardinality(wanted) LOOP
    BEGIN
      PERFORM FROM :schema.keys WHERE keys.queue = queues[place] AND keys.key = wanted[place] FOR UPDATE;
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

REVOKE EXECUTE ON FUNCTION :schema.keys_in_replacing(text[], text[], integer) FROM PUBLIC;

-- As in 0001, and keys whose job has ended: a settlement that found the row locked has left it.
CREATE OR REPLACE FUNCTION :schema.free_expired_keys(at_time timestamptz, queues text[], wanted text[], ids uuid[])
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
                OR keys.expires_at IS NULL
                   AND NOT (${unfinished('keys.id')})
                   AND NOT (keys.next IS NOT NULL AND ${unfinished('keys.next')}))
           FOR UPDATE SKIP LOCKED
      ) AS keys
      WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = asked.id)));
END
$$;
`

const { freed, left } = freeKeysOfWaiting("SELECT id FROM moved WHERE state = 'cancelled'")

/** What a successor's unblocking adds to `unblock`: it takes the key. */
export const KEYS_OF_UNBLOCKED: string = `freed AS (${freed}
), left_key AS (${left}
), passed_on AS (
  UPDATE :schema.keys
     SET id = keys.next, next = NULL
   WHERE keys.ctid = ANY (ARRAY(
     SELECT held.ctid
       FROM :schema.keys AS held
      WHERE held.next = ANY (ARRAY(SELECT id FROM moved WHERE state <> 'cancelled')) AND held.expires_at IS NULL
        FOR UPDATE SKIP LOCKED))
)`

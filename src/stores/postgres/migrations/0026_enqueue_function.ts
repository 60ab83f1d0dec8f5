import type { Migration } from './migration.js'

// The rules are those of src/client/ and src/core/check.ts. A test gives both the same values.
const fail = (code: string, sqlState: string, message: string, values: string): string =>
  `RAISE EXCEPTION '${message.replaceAll("'", "''")}', ${values} USING ERRCODE = '${sqlState}', DETAIL = 'holdfast: ${code}'`

const NAME = (what: string, value: string): string => `
  IF ${value} IS NULL OR length(${value}) > 100 OR ${value} !~ '^[A-Za-z0-9][A-Za-z0-9._:/@-]*$' THEN
    ${fail('invalid_name', '22023', `${what} must be 1 to 100 characters, a letter or digit followed by letters, digits or . _ : / @ -, got %`, `coalesce(quote_literal(left(${value}, 120)), 'NULL')`)};
  END IF;`

// A hundred years, as core/duration.ts has it.
const SPAN = (what: string, min: string): string => `
  IF enqueue.${what} IS NOT NULL AND NOT (enqueue.${what} >= ${min} AND enqueue.${what} <= interval '36500 days') THEN
    ${fail('invalid_option', '22023', `${what} must be between ${min} and 100 years, got %`, `enqueue.${what}`)};
  END IF;`

const UNFINISHED = (id: string): string => `EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = ${id})
           AND NOT EXISTS (SELECT FROM :schema.finished WHERE finished.id = ${id})
           AND NOT EXISTS (SELECT FROM :schema.dead WHERE dead.id = ${id})`

export const enqueueFunction: Migration = {
  number: 26,
  name: 'enqueue_function',
  sql: `-- Enqueue from SQL: triggers, other languages, psql. The job is part of the caller's transaction. It runs with the rights of its caller,
-- which must be those of a producer, and so gives nobody more than the tables do.
CREATE FUNCTION :schema.enqueue(
    type text, payload json DEFAULT 'null', queue text DEFAULT 'default', priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL, max_age interval DEFAULT NULL, idempotency_key text DEFAULT NULL, key_for interval DEFAULT NULL,
    after uuid[] DEFAULT NULL, on_parent_dead text DEFAULT 'cancel', tags text[] DEFAULT NULL, wake boolean DEFAULT true)
  RETURNS uuid
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
  SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
DECLARE
  v_now      CONSTANT timestamptz := clock_timestamp();
  v_random   CONSTANT text := replace(gen_random_uuid()::text, '-', '');
  -- UUIDv7: the time in milliseconds, then chance.
  v_id       CONSTANT uuid := (lpad(to_hex(floor(extract(epoch FROM v_now) * 1000)::bigint), 12, '0') || '7' || substr(v_random, 14, 3) || substr(v_random, 17, 16))::uuid;
  v_payload  CONSTANT text := coalesce(enqueue.payload, 'null')::text;
  v_at       timestamptz := coalesce(enqueue.run_at, v_now + enqueue.delay);
  v_state    text := 'ready';
  v_parents  uuid[];
  v_tags     text[];
  v_holder   uuid;
  v_unknown  uuid;
  v_bound    integer;
  v_ready    bigint;
  v_brackets text;
  v_options  jsonb;
BEGIN
${NAME('type', 'enqueue.type')}
${NAME('queue', 'enqueue.queue')}
  IF octet_length(v_payload) > 1048576 THEN
    ${fail('payload_too_large', '54000', 'the payload of "%" is % bytes, the limit is 1048576: store the data elsewhere and enqueue a reference to it', 'enqueue.type, octet_length(v_payload)')};
  END IF;
  -- Each level takes two characters, so short payloads need no counting.
  IF length(v_payload) > 1000 THEN
    v_brackets := regexp_replace(regexp_replace(v_payload, '"([^"\\\\]|\\\\.)*"', '', 'g'), '[^][{}]', '', 'g');
    IF length(v_brackets) > 1000 AND 500 < (
         SELECT max(level.depth)
           FROM (SELECT sum(CASE WHEN bracket.sign IN ('[', '{') THEN 1 ELSE -1 END) OVER (ORDER BY bracket.place) AS depth
                   FROM regexp_split_to_table(v_brackets, '') WITH ORDINALITY AS bracket (sign, place)) AS level) THEN
      ${fail('invalid_payload', '22023', 'the payload of "%" is nested deeper than 500 levels: flatten it', 'enqueue.type')};
    END IF;
  END IF;
  IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -32768 AND 32767 THEN
    ${fail('invalid_option', '22023', 'priority must be a whole number from -32768 to 32767, got %', "coalesce(enqueue.priority::text, 'NULL')")};
  END IF;
  IF enqueue.run_at IS NOT NULL AND enqueue.delay IS NOT NULL THEN
    ${fail('invalid_option', '22023', 'run_at (%) and delay (%) exclude each other: leave one of them out', 'enqueue.run_at, enqueue.delay')};
  END IF;
${SPAN('delay', "interval '0'")}
  IF v_at IS NOT NULL AND NOT (v_at >= '1970-01-01 00:00+00' AND v_at < '10000-01-01 00:00+00') THEN
    ${fail('invalid_option', '22023', 'run_at must be in the years 1970 to 9999, got %', 'v_at')};
  END IF;
  IF enqueue.max_attempts IS NOT NULL AND enqueue.max_attempts NOT BETWEEN 1 AND 10000 THEN
    ${fail('invalid_option', '22023', 'max_attempts must be a whole number from 1 to 10000, got %', 'enqueue.max_attempts')};
  END IF;
${SPAN('timeout', "interval '1 millisecond'")}
${SPAN('max_age', "interval '1 millisecond'")}
${SPAN('key_for', "interval '1 millisecond'")}
  IF enqueue.idempotency_key IS NULL AND enqueue.key_for IS NOT NULL THEN
    ${fail('invalid_option', '22023', 'key_for says how long idempotency_key lasts: give the key as well, got only key_for (%)', 'enqueue.key_for')};
  END IF;
  IF enqueue.idempotency_key IS NOT NULL
     AND (length(enqueue.idempotency_key) NOT BETWEEN 1 AND 200 OR enqueue.idempotency_key ~ '[\\u0001-\\u001f\\u007f-\\u009f]') THEN
    ${fail('invalid_option', '22023', 'idempotency_key must be 1 to 200 characters without control characters, got % characters', 'length(enqueue.idempotency_key)')};
  END IF;
  IF enqueue.on_parent_dead IS NULL OR enqueue.on_parent_dead NOT IN ('cancel', 'run') THEN
    ${fail('invalid_option', '22023', "on_parent_dead must be 'cancel' or 'run', got %", "coalesce(quote_literal(left(enqueue.on_parent_dead, 80)), 'NULL')")};
  END IF;
  v_parents := ARRAY(SELECT DISTINCT named.id FROM unnest(enqueue.after) AS named (id));
  IF cardinality(v_parents) > 100 OR array_position(v_parents, NULL) IS NOT NULL THEN
    ${fail('invalid_option', '22023', 'after must be at most 100 ids of jobs and no NULL, got %', 'cardinality(enqueue.after)')};
  END IF;
  v_tags := ARRAY(SELECT tag.name FROM unnest(enqueue.tags) WITH ORDINALITY AS tag (name, place) GROUP BY tag.name ORDER BY min(tag.place));
  IF cardinality(enqueue.tags) > 16
     OR EXISTS (SELECT FROM unnest(v_tags) AS tag (name)
                 WHERE tag.name IS NULL OR length(tag.name) NOT BETWEEN 1 AND 100 OR tag.name ~ '[\\u0001-\\u001f\\u007f-\\u009f]') THEN
    ${fail('invalid_option', '22023', 'tags must be at most 16 texts of 1 to 100 characters without control characters, got % of them', 'cardinality(enqueue.tags)')};
  END IF;
  IF enqueue.wake IS NULL THEN
    ${fail('invalid_option', '22023', 'wake must be true or false, got %', "'NULL'")};
  END IF;

  -- A queue is listed with its first job. Only lists of queues need the name, so nobody waits for another transaction that writes it.
  IF NOT EXISTS (SELECT FROM :schema.queues WHERE queues.name = enqueue.queue) THEN
    IF 10000 <= (SELECT count(*) FROM (SELECT queues.name FROM :schema.queues LIMIT 10000) AS few) THEN
      ${fail('too_many_queues', '54000', 'queue "%" was not made: there are 10000 already; remove those that are not needed', 'enqueue.queue')};
    END IF;
    BEGIN
      PERFORM set_config('lock_timeout', '50ms', true);
      INSERT INTO :schema.queues (name, created_at) VALUES (enqueue.queue, v_now) ON CONFLICT DO NOTHING;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    PERFORM set_config('lock_timeout', '2s', true);
  END IF;

  IF enqueue.idempotency_key IS NOT NULL THEN
    FOR tries IN 1 .. 5 LOOP
      SELECT CASE WHEN keys.expires_at IS NULL AND keys.next IS NOT NULL AND NOT (${UNFINISHED('keys.id')}) AND ${UNFINISHED('keys.next')}
                  THEN keys.next ELSE keys.id END
        INTO v_holder
        FROM :schema.keys
       WHERE keys.queue = enqueue.queue AND keys.key = enqueue.idempotency_key
         AND (keys.expires_at > clock_timestamp()
              OR keys.expires_at IS NULL AND (${UNFINISHED('keys.id')} OR keys.next IS NOT NULL AND ${UNFINISHED('keys.next')}));
      IF FOUND THEN
        RETURN v_holder;
      END IF;
      INSERT INTO :schema.keys (queue, key, id, expires_at)
      VALUES (enqueue.queue, enqueue.idempotency_key, v_id, clock_timestamp() + enqueue.key_for)
          ON CONFLICT (queue, key) DO NOTHING;
      EXIT WHEN FOUND;
      PERFORM :schema.free_expired_keys(NULL, ARRAY[enqueue.queue], ARRAY[enqueue.idempotency_key], ARRAY[]::uuid[]);
      IF tries = 5 THEN
        ${fail('store_unavailable', '40001', 'idempotency_key % of queue "%" is held by a job that this transaction cannot see: begin the transaction again, at read committed', 'quote_literal(enqueue.idempotency_key), enqueue.queue')};
      END IF;
    END LOOP;
  END IF;

  IF cardinality(v_parents) > 0 THEN
    SELECT named.id INTO v_unknown FROM unnest(v_parents) AS named (id)
     WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = named.id) LIMIT 1;
    IF FOUND THEN
      ${fail('unknown_parent', '23503', 'the job was not enqueued: it comes after %, and there is no job with that id', 'v_unknown')};
    END IF;
    v_state := 'blocked';
  ELSIF v_at > v_now THEN
    v_state := 'scheduled';
  END IF;

  -- A queue with a bound. Nobody can wait for room inside a transaction, so that a full one refuses, whatever its onFull says.
  IF v_state = 'ready' THEN
    SELECT flows.depth INTO v_bound FROM :schema.flows WHERE flows.queue = enqueue.queue AND flows.depth IS NOT NULL;
    IF FOUND THEN
      SELECT (SELECT count(*) FROM (SELECT FROM :schema.ready WHERE ready.queue = enqueue.queue LIMIT v_bound) AS few)
             + (SELECT count(*) FROM (SELECT FROM :schema.held
                                       WHERE held.track = ANY (ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = enqueue.queue))
                                       LIMIT v_bound) AS few)
        INTO v_ready;
      IF v_ready >= v_bound THEN
        ${fail('queue_full', '53400', 'queue "%" is full: % jobs are ready, maxDepth is %; enqueue again later, or raise maxDepth', 'enqueue.queue, v_ready, v_bound')};
      END IF;
    END IF;
  END IF;

  v_options := jsonb_strip_nulls(jsonb_build_object(
    'limits', nullif(jsonb_strip_nulls(jsonb_build_object(
      'maxAttempts', enqueue.max_attempts,
      'timeoutMs', floor(extract(epoch FROM enqueue.timeout) * 1000)::bigint,
      'maxAgeMs', floor(extract(epoch FROM enqueue.max_age) * 1000)::bigint)), '{}'::jsonb),
    'after', CASE WHEN cardinality(v_parents) > 0 THEN to_jsonb(v_parents) END,
    'onParentDead', CASE WHEN enqueue.on_parent_dead = 'run' THEN 'run' END));
  IF enqueue.idempotency_key IS NOT NULL THEN
    v_options := v_options || jsonb_build_object('key', jsonb_build_object(
      'key', enqueue.idempotency_key, 'ttlMs', floor(extract(epoch FROM enqueue.key_for) * 1000)::bigint));
  END IF;

  -- One statement: a producer may give a place only to a job that is not there yet.
  WITH moment AS MATERIALIZED (
    SELECT nextval(':schema.positions') * 65536 + 1 AS place
  ), written AS (
    INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
    SELECT v_id, v_now, moment.place, enqueue.priority, 1, enqueue.queue, enqueue.type, v_payload::json,
           nullif(v_options, '{}'::jsonb)::json, nullif(v_tags, '{}')
      FROM moment
  ), into_blocked AS (
    INSERT INTO :schema.blocked (id, run_at, priority, cancel_with_parents, queue, type, track, group_name)
    SELECT v_id, v_at, enqueue.priority, enqueue.on_parent_dead = 'cancel', enqueue.queue, enqueue.type, 0, '' WHERE v_state = 'blocked'
  ), announced AS (
    INSERT INTO :schema.link_checks (job, look_at)
    SELECT v_id, '-infinity' WHERE v_state = 'blocked'
  ), into_parents AS (
    INSERT INTO :schema.parents (parent, child)
    SELECT named.id, v_id FROM unnest(v_parents) AS named (id)
  ), into_scheduled AS (
    INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type, track, group_name)
    SELECT v_id, v_at, enqueue.priority, 0, 0, false, enqueue.queue, enqueue.type, 0, '' WHERE v_state = 'scheduled'
  )
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT v_id, moment.place, v_now, enqueue.priority, false, enqueue.queue, enqueue.type FROM moment WHERE v_state = 'ready';

  -- The message arrives with the commit. Equal ones of a transaction are sent once.
  IF enqueue.wake AND v_state = 'ready' THEN
    PERFORM pg_notify('holdfast :schema_text', 'sql r ' || enqueue.queue);
  ELSIF enqueue.wake AND v_state = 'scheduled' THEN
    PERFORM pg_notify('holdfast :schema_text', 'sql t ' || ceil(extract(epoch FROM v_at - v_now) * 1000)::bigint);
  ELSIF enqueue.wake THEN
    PERFORM pg_notify('holdfast :schema_text', 'sql w');
  END IF;
  RETURN v_id;
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.enqueue(text, json, text, integer, timestamptz, interval, integer, interval, interval, text, interval, uuid[], text, text[], boolean) FROM PUBLIC;
`,
}

import { WAKE_PARKED } from '../wake-parked-function.js'
import type { Migration } from './migration.js'

export const signals: Migration = {
  number: 21,
  name: 'signals',
  sql: `-- Signals to jobs, and jobs that wait for one. A job that waits is a row in scheduled, with the end of its patience as its time; its row
-- in waits says for what, if both have the same fence. No signal is missed, and none needs a second look: the call that lets a job wait and the one that
-- sends it a signal first locks the job's row in waits, so the later of the two sees what the earlier has committed.
CREATE TABLE :schema.signals (
  id    uuid        NOT NULL,
  key   text        COLLATE "C" NOT NULL,     -- two signals with the same key are one
  line  bigint      NOT NULL DEFAULT nextval(':schema.log_lines'),
  name  text        COLLATE "C" NOT NULL,
  at    timestamptz NOT NULL,
  actor text        NOT NULL,
  value json        NOT NULL,
  CONSTRAINT signals_once_for_each_key PRIMARY KEY (id, key)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);

CREATE TABLE :schema.waits (
  id    uuid NOT NULL,
  fence bigint,                               -- of the claim that began to wait; null, as what follows, before the first
  name  text COLLATE "C",
  turn  integer,
  seen  integer,                              -- signals of this name that it knew of
  since timestamptz,
  until timestamptz,
  CONSTRAINT waits_one_for_each_job PRIMARY KEY (id)
) WITH (fillfactor = 80);

${WAKE_PARKED}
CREATE FUNCTION :schema.signal_job(at_time timestamptz, job uuid, signal_key text, signal_name text, signal_value json, by_actor text, most integer)
  RETURNS TABLE (result text, in_queue text)
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  ended text;
BEGIN
  IF NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = signal_job.job) THEN
    RETURN QUERY SELECT 'missing', NULL::text;
    RETURN;
  END IF;
  INSERT INTO :schema.waits (id) VALUES (job) ON CONFLICT ON CONSTRAINT waits_one_for_each_job DO UPDATE SET id = excluded.id;
  IF EXISTS (SELECT FROM :schema.signals WHERE signals.id = signal_job.job AND signals.key = signal_key) THEN
    RETURN QUERY SELECT 'signalled', NULL::text;
    RETURN;
  END IF;
  ended := coalesce((SELECT finished.ending::text FROM :schema.finished WHERE finished.id = signal_job.job),
                    (SELECT 'dead' FROM :schema.dead WHERE dead.id = signal_job.job));
  IF ended IS NOT NULL THEN
    RETURN QUERY SELECT ended, NULL::text;
    RETURN;
  END IF;
  IF most <= (SELECT count(*) FROM :schema.signals WHERE signals.id = signal_job.job) THEN
    RETURN QUERY SELECT 'full', NULL::text;
    RETURN;
  END IF;
  INSERT INTO :schema.signals (id, key, name, at, actor, value)
  VALUES (job, signal_key, signal_name, coalesce(at_time, clock_timestamp()), by_actor, signal_value);
  RETURN QUERY SELECT 'signalled', (SELECT woken.in_queue FROM :schema.wake_parked(at_time, ARRAY[signal_job.job]) AS woken);
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.wake_parked(timestamptz, uuid[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.signal_job(timestamptz, uuid, text, text, json, text, integer) FROM PUBLIC;
`,
}

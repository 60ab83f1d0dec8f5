import type { Migration } from './migration.js'

export const tenants: Migration = {
  number: 8,
  name: 'tenants',
  sql: `-- What keeps tenants apart.

-- Random texts that all processes on this schema share: servers seal cursors with one.
CREATE TABLE :schema.secrets (
  name  text COLLATE "C" NOT NULL,
  value text NOT NULL,
  CONSTRAINT secrets_one_for_each_name PRIMARY KEY (name)
);

INSERT INTO :schema.secrets (name, value) VALUES ('shared', gen_random_uuid()::text || gen_random_uuid()::text);

-- When a queue was first used, and by whose key; null where it was not over HTTP. Queues that have been there longest are shown
-- first, so that no new ones push them out of sight.
ALTER TABLE :schema.queues ADD COLUMN created_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE :schema.queues ADD COLUMN created_by text COLLATE "C";

-- By whose key a schedule was made; null where it was not over HTTP.
ALTER TABLE :schema.schedules ADD COLUMN created_by text COLLATE "C";

CREATE INDEX schedules_by_creator ON :schema.schedules (created_by) WHERE created_by IS NOT NULL;
CREATE INDEX queues_by_creator ON :schema.queues (created_by) WHERE created_by IS NOT NULL;

-- Who may only enqueue makes queues in the name of their login, and a thousand of them: there may be ten thousand in all, and
-- others need some too. A role that may end leases is trusted with more.
CREATE FUNCTION :schema.sign_queue() RETURNS trigger
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_table_privilege(session_user, ':schema.running', 'DELETE') THEN
    NEW.created_by := 'role ' || session_user;
    NEW.created_at := clock_timestamp();
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER queues_signed BEFORE INSERT ON :schema.queues FOR EACH ROW EXECUTE FUNCTION :schema.sign_queue();

CREATE FUNCTION :schema.bound_queues() RETURNS trigger
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  queues_max CONSTANT integer := 1000;
BEGIN
  IF NOT EXISTS (SELECT FROM made) OR has_table_privilege(session_user, ':schema.running', 'DELETE') THEN
    RETURN NULL;
  END IF;
  IF queues_max < (SELECT count(*) FROM :schema.queues WHERE created_by = 'role ' || session_user) THEN
    RAISE EXCEPTION 'role % may only enqueue, and may make % queues', session_user, queues_max USING ERRCODE = '54000';
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER queues_bounded AFTER INSERT ON :schema.queues REFERENCING NEW TABLE AS made
  FOR EACH STATEMENT EXECUTE FUNCTION :schema.bound_queues();

-- Adds to the counts of these ten seconds. Who may only enqueue adds to what was enqueued in queues there are, and nobody counts so
-- far that the next one to add fails. In the order of the names, so that processes that write at the same moment wait for each
-- other and never in a circle.
CREATE FUNCTION :schema.tally(at_time timestamptz, queues text[], enqueued bigint[], claimed bigint[], succeeded bigint[],
                              failed bigint[], retried bigint[], dead bigint[], cancelled bigint[], rescued bigint[],
                              wait_ms_total float8[], run_ms_total float8[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  is_trusted boolean := has_table_privilege(session_user, ':schema.running', 'DELETE');
  once_max CONSTANT bigint := 1000000000000;
  sum_max CONSTANT bigint := 1000000000000000;
BEGIN
  INSERT INTO :schema.tallies AS tallies (queue, at, enqueued, claimed, succeeded, failed, retried, dead, cancelled, rescued,
                                          wait_ms_total, run_ms_total)
  SELECT counted.queue, bucket.at, least(greatest(counted.enqueued, 0), once_max),
         CASE WHEN is_trusted THEN least(greatest(counted.claimed, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.succeeded, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.failed, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.retried, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.dead, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.cancelled, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.rescued, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.wait_ms_total, 0), once_max) ELSE 0 END,
         CASE WHEN is_trusted THEN least(greatest(counted.run_ms_total, 0), once_max) ELSE 0 END
    FROM unnest(queues, enqueued, claimed, succeeded, failed, retried, dead, cancelled, rescued, wait_ms_total, run_ms_total)
           AS counted (queue, enqueued, claimed, succeeded, failed, retried, dead, cancelled, rescued, wait_ms_total, run_ms_total)
   CROSS JOIN (SELECT to_timestamp(floor(extract(epoch FROM CASE WHEN is_trusted THEN coalesce(at_time, clock_timestamp())
                                                                 ELSE clock_timestamp() END) / 10) * 10) AS at) AS bucket
   WHERE is_trusted
      OR counted.queue = ''
      OR EXISTS (SELECT FROM :schema.queues AS known WHERE known.name = counted.queue)
   ORDER BY counted.queue COLLATE "C"
      ON CONFLICT ON CONSTRAINT tallies_once_for_each_step DO UPDATE
     SET enqueued = least(tallies.enqueued + excluded.enqueued, sum_max),
         claimed = least(tallies.claimed + excluded.claimed, sum_max),
         succeeded = least(tallies.succeeded + excluded.succeeded, sum_max),
         failed = least(tallies.failed + excluded.failed, sum_max),
         retried = least(tallies.retried + excluded.retried, sum_max),
         dead = least(tallies.dead + excluded.dead, sum_max),
         cancelled = least(tallies.cancelled + excluded.cancelled, sum_max),
         rescued = least(tallies.rescued + excluded.rescued, sum_max),
         wait_ms_total = least(tallies.wait_ms_total + excluded.wait_ms_total, sum_max),
         run_ms_total = least(tallies.run_ms_total + excluded.run_ms_total, sum_max);
END
$$;
`,
}

import type { Migration } from './migration.js'

export const noAnalyze: Migration = {
  number: 10,
  name: 'no_analyze',
  sql: `-- No plan of ours depends on statistics, and an ANALYZE holds a snapshot while it reads its sample: up to 1.8 s under load, in which
-- no dead row can be cleared away. So the tables that jobs pass through are never analysed by autovacuum.
--
-- A VACUUM throws away every plan of its table on every connection. Ready, running and scheduled had one at each look of
-- autovacuum, because 1,000 inserts were enough for it. A claim of 48 jobs costs the same with 45,000 dead rows before it as with none,
-- so both limits are 200,000 rows now.
ALTER TABLE :schema.ready SET (autovacuum_analyze_threshold = 2147483647, autovacuum_vacuum_threshold = 200000,
                               autovacuum_vacuum_insert_threshold = 200000, autovacuum_vacuum_insert_scale_factor = 0);
ALTER TABLE :schema.running SET (autovacuum_analyze_threshold = 2147483647, autovacuum_vacuum_threshold = 200000,
                                 autovacuum_vacuum_insert_threshold = 200000, autovacuum_vacuum_insert_scale_factor = 0);
ALTER TABLE :schema.scheduled SET (autovacuum_analyze_threshold = 2147483647, autovacuum_vacuum_threshold = 200000,
                                   autovacuum_vacuum_insert_threshold = 200000);

-- The days from yesterday on, and the default partitions. What is older hardly changes any more.
DO $$
DECLARE
  part  text;
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
  FOR part IN SELECT pg_class.relname
                FROM pg_catalog.pg_class
               WHERE pg_class.relnamespace = ':schema'::regnamespace
                 AND pg_class.relkind = 'r'
                 AND (pg_class.relname ~ '^(jobs|finished|attempts|logs|progress)_rest_(old|new)$'
                      OR pg_class.relname ~ '^(jobs|finished|attempts|logs|progress)_[0-9]{8}$'
                         AND right(pg_class.relname, 8) >= to_char(today - 1, 'YYYYMMDD')) LOOP
    EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_analyze_threshold = 2147483647)', ':schema_text', part);
  END LOOP;
END
$$;

-- As in 0001, but a day's partitions are never analysed by autovacuum.
CREATE OR REPLACE FUNCTION :schema.open_day(day date) RETURNS boolean
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
    EXECUTE format('ALTER TABLE %I.%I SET (autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_threshold = 2147483647)',
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
`,
}

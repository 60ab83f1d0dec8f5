import { intoArrivals, intoHeld } from './held-place.js'

/** The function of 0021: jobs that wait for a signal which is there become ready, in the front lane as what has waited for a time. */
export const WAKE_PARKED: string = `
CREATE FUNCTION :schema.wake_parked(at_time timestamptz, ids uuid[]) RETURNS TABLE (job text, in_queue text)
  LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
WITH moment AS MATERIALIZED (
  SELECT coalesce(at_time, clock_timestamp()) AS now
), due AS MATERIALIZED (
  SELECT parked.id
    FROM unnest(ids) AS asked (id)
   CROSS JOIN LATERAL (                                       -- one look-up for each job, whatever statistics say
     SELECT waits.id, waits.fence, waits.name, waits.seen FROM :schema.waits WHERE waits.id = asked.id OFFSET 0
   ) AS waiting
   CROSS JOIN LATERAL (
     SELECT scheduled.id FROM :schema.scheduled
      WHERE scheduled.id = waiting.id AND scheduled.fence = waiting.fence AND NOT scheduled.retrying
        FOR UPDATE
   ) AS parked
   WHERE waiting.seen < (SELECT count(*) FROM :schema.signals WHERE signals.id = waiting.id AND signals.name = waiting.name)
), gone AS (
  DELETE FROM :schema.scheduled
   WHERE scheduled.id = ANY (ARRAY(SELECT due.id FROM due))
  RETURNING id, fence, priority, attempt, crashes, queue, type, track, group_name
), drawn AS MATERIALIZED (
  SELECT pg_catalog.nextval(':schema.positions') * 65536 AS place FROM due LIMIT 1
), placed AS MATERIALIZED (
  SELECT gone.*, moment.now, drawn.place + row_number() OVER (ORDER BY gone.id) - 4611686018427387904 AS position
    FROM gone, drawn, moment
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position, now, fence, priority, attempt, crashes, true, queue, type
    FROM placed
   WHERE track = 0
), into_held AS (${intoHeld('placed', 'true')}
), arrived AS (${intoArrivals('placed', '(SELECT place FROM drawn)', 'true')}
)
SELECT placed.id::text, placed.queue FROM placed;
END
$$;
`

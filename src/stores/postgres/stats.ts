// stats: how much is where.

import type { QueueStats } from '../../core/job.js'
import type { Database } from './database.js'
import { statement } from './statement.js'

// Within one priority and one lane places grow with time, so the oldest ready job is the first of some lane: one look-up for each
// priority that occurs, found by skipping from one to the next, instead of a scan of the line.
const STATS = statement(
  'stats',
  `
WITH RECURSIVE moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), asked AS MATERIALIZED (
  SELECT name FROM :schema.queues WHERE $2::text IS NULL OR name = $2
), lane (queue, priority) AS (
  SELECT asked.name, (SELECT max(ready.priority) FROM :schema.ready WHERE ready.queue = asked.name)
    FROM asked
   UNION ALL
  SELECT lane.queue,
         (SELECT max(ready.priority) FROM :schema.ready WHERE ready.queue = lane.queue AND ready.priority < lane.priority)
    FROM lane
   WHERE lane.priority IS NOT NULL
), head AS (
  SELECT (SELECT ready.since FROM :schema.ready
           WHERE ready.queue = lane.queue AND ready.priority = lane.priority
           ORDER BY ready.position LIMIT 1) AS front,
         (SELECT ready.since FROM :schema.ready
           WHERE ready.queue = lane.queue AND ready.priority = lane.priority AND ready.position > 0
           ORDER BY ready.position LIMIT 1) AS back
    FROM lane
   WHERE lane.priority IS NOT NULL
)
SELECT (SELECT count(*) FROM :schema.blocked WHERE $2 IS NULL OR queue = $2),
       (SELECT count(*) FILTER (WHERE NOT retrying) FROM :schema.scheduled WHERE $2 IS NULL OR queue = $2),
       (SELECT count(*) FROM :schema.ready WHERE $2 IS NULL OR queue = $2),
       (SELECT count(*) FROM :schema.running WHERE $2 IS NULL OR queue = $2),
       (SELECT count(*) FILTER (WHERE retrying) FROM :schema.scheduled WHERE $2 IS NULL OR queue = $2),
       (SELECT count(*) FROM :schema.dead WHERE $2 IS NULL OR queue = $2),
       (SELECT extract(epoch FROM moment.now - least(min(front), min(back)))::float8 FROM head),
       moment.now
  FROM moment`,
)

export async function stats(db: Database, queue: string | null): Promise<QueueStats> {
  const [row] = await db.send('look', STATS, [db.now(), queue])
  return {
    blocked: Number(row![0]),
    scheduled: Number(row![1]),
    ready: Number(row![2]),
    running: Number(row![3]),
    retrying: Number(row![4]),
    dead: Number(row![5]),
    oldestAgeS: row![6] === null ? 0 : Math.max(0, Number(row![6])),
  }
}

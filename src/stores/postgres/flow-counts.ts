// flowCounts: limits and queues in numbers. One pass over what runs under flow control, and counts that end at a bound. It is asked for
// again and again by metrics, so it must never be what the store does most.

import type { BreakerPosition } from '../../core/flow/breaker.js'
import { FLOW_COUNT_MAX, FLOW_COUNTED_MAX, type FlowCounts, type LimitCount } from '../../core/flow/counts.js'
import { startsAt } from '../../core/flow/rate.js'
import type { Database } from './database.js'
import { inTime } from './depths.js'
import { type Row, readMs, statement } from './statement.js'

const LIMITS = statement(
  'limit_counts',
  `
WITH moment AS MATERIALIZED (
  SELECT date_part('epoch', coalesce($1::timestamptz, clock_timestamp())) * 1000 AS now_ms
), busy AS MATERIALIZED (
  SELECT few.track, count(*) AS number
    FROM (SELECT running.track FROM :schema.running WHERE running.track <> 0 LIMIT 200000) AS few
   GROUP BY few.track
)
SELECT limits.name, (SELECT coalesce(sum(busy.number), 0) FROM busy WHERE busy.track = ANY (limits.tracks))::text, limits.concurrency::text,
       limits.rate_limit::text, limits.rate_per_ms::text, limits.rate_burst::text, limits.empty_at::text,
       (limits.not_before > moment.now_ms)::text, CASE WHEN limits.probes IS NOT NULL OR limits.forced IS NOT NULL THEN limits.position END,
       limits.forced, moment.now_ms::text
  FROM :schema.limits
 CROSS JOIN moment
 WHERE NOT starts_with(limits.name, 'queue:')
    OR limits.concurrency IS NOT NULL OR limits.rate_limit IS NOT NULL OR limits.not_before > moment.now_ms
 ORDER BY limits.name
 LIMIT $2`,
)

// Groups are found by skipping from one to the next.
const QUEUES = statement(
  'flow_counts',
  `
SELECT flows.queue,
       (SELECT count(*) FROM (SELECT FROM :schema.held WHERE held.track = ANY (mine.tracks) LIMIT $1) AS few)::text,
       (SELECT count(*)
          FROM (WITH RECURSIVE found (name, number) AS (
                  SELECT (SELECT min(held.group_name) FROM :schema.held WHERE held.track = ANY (mine.tracks)), 1
                   UNION ALL
                  SELECT (SELECT min(next.group_name)
                            FROM unnest(mine.tracks) AS asked (track)
                           CROSS JOIN LATERAL (SELECT held.group_name FROM :schema.held
                                                WHERE held.track = asked.track AND held.group_name > found.name
                                                ORDER BY held.group_name LIMIT 1) AS next),
                         found.number + 1
                    FROM found
                   WHERE found.name IS NOT NULL AND found.number < $1
                )
                SELECT FROM found WHERE found.name <> '') AS few)::text,
       (SELECT count(*) FROM (SELECT groups.stopped_by FROM :schema.groups WHERE groups.queue = flows.queue AND flows.ordered LIMIT $1) AS few
         WHERE few.stopped_by IS NOT NULL)::text,
       (SELECT count(*) FROM (SELECT FROM :schema.arrivals WHERE arrivals.track = ANY (mine.tracks) LIMIT $1) AS few)::text,
       flows.repaired::text
  FROM :schema.flows
 CROSS JOIN LATERAL (SELECT ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = flows.queue) AS tracks OFFSET 0) AS mine
 ORDER BY flows.queue
 LIMIT $2`,
)

export async function flowCounts(db: Database): Promise<FlowCounts> {
  const limits = await db.send('count', LIMITS, [db.now(), FLOW_COUNTED_MAX])
  const queues = await inTime(db, (send) => send(QUEUES, [FLOW_COUNT_MAX, FLOW_COUNTED_MAX]))
  return { limits: limits.map(readLimit), queues: queues?.map(readQueue) ?? null }
}

function readLimit(row: Row): LimitCount {
  const [name, running, concurrency, limit, perMs, burst, emptyAt, isHeldOff, position = null, forced = null, now] = row
  const rate = { limit: Number(limit), perMs: Number(perMs), burst: Number(burst), counts: 'starts' } as const
  return {
    name: name!,
    running: Number(running),
    capacity: readMs(concurrency),
    tokens: limit == null ? null : startsAt(rate, Number(emptyAt), Number(now)),
    isHeldOff: isHeldOff === 'true',
    position: position as BreakerPosition | null,
    forced: forced as LimitCount['forced'],
  }
}

function readQueue([queue, held, groups, stopped, arrivals, repaired]: Row) {
  return {
    queue: queue!,
    held: Number(held),
    groups: Number(groups),
    stopped: Number(stopped),
    arrivals: Number(arrivals),
    repaired: Number(repaired),
  }
}

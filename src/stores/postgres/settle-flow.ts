// What a settlement changes in limits and groups beside the slots it frees: waits that a handler was told, costs, and groups that stop.
// ◄── settle-any.ts

import { queueLimitName } from '../../core/flow/job-flow.js'
import type { SettledJob } from '../../core/job.js'
import type { Send } from './database.js'
import { plainArrayOf, statement, unlessUsual } from './statement.js'

/** Parts of settle_any. Each limit and group is written once, whatever the number of jobs, by functions: who settles may hold off what its
 *  jobs are about, and has no right to write limits and groups. */
export const FLOW_MOVES = `limit_moves AS MATERIALIZED (
  SELECT move.name, max(move.until) AS until, coalesce(sum(move.cost), 0) AS cost, (array_agg(move.id))[1] AS job
    FROM (SELECT ended.id, ended.hold_limit AS name, ended.now_ms + ended.hold_ms AS until, 0 AS cost
            FROM ended
           WHERE ended.hold_limit IS NOT NULL
           UNION ALL
          SELECT ended.id, named.name, 0, ended.more_cost
            FROM ended
           CROSS JOIN LATERAL (
             SELECT 'queue:' || ended.queue AS name
              UNION ALL
             SELECT unnest(tracks.limits) FROM :schema.tracks WHERE tracks.track = ended.track
           ) AS named
           WHERE ended.more_cost <> 0) AS move
   GROUP BY move.name
), group_moves AS MATERIALIZED (
  SELECT ended.queue, ended.group_name, (array_agg(ended.id) FILTER (WHERE ended.stops))[1] AS dead,
         max(CASE WHEN ended.hold_group THEN ended.now_ms + ended.hold_ms ELSE 0 END) AS until, coalesce(sum(ended.more_cost), 0) AS cost,
         (array_agg(ended.id))[1] AS job
    FROM (SELECT ended.*,
                 ended.state = 'dead' AND (SELECT flows.ordered AND flows.stops_for_dead FROM :schema.flows
                                            WHERE flows.queue = ended.queue) IS TRUE AS stops
            FROM ended
           WHERE ended.track > 0 AND ended.group_name <> ''
             AND (ended.state = 'dead' OR ended.hold_group OR ended.more_cost <> 0)) AS ended
   WHERE ended.stops OR ended.hold_group OR ended.more_cost <> 0
   GROUP BY ended.queue, ended.group_name
), moved AS MATERIALIZED (
  SELECT :schema.move_limits($1, array_agg(move.name), array_agg(move.until), array_agg(move.cost), array_agg(move.job))
    FROM limit_moves AS move
  HAVING count(*) > 0
   UNION ALL
  SELECT :schema.move_groups($1, array_agg(move.queue), array_agg(move.group_name), array_agg(move.dead), array_agg(move.until),
                             array_agg(move.cost), array_agg(move.job))
    FROM group_moves AS move
  HAVING count(*) > 0
`

/** The parameters of FLOW_MOVES: limit, group and length of a wait, and what an attempt cost beyond its estimate. */
export function flowColumns(jobs: readonly SettledJob[]): readonly (string | null)[] {
  const limitOf = ({ queue, holdOff }: SettledJob) => {
    if (holdOff === undefined || holdOff.scope === 'group') return null
    return holdOff.scope === 'queue' ? queueLimitName(queue) : holdOff.limit
  }
  return [
    unlessUsual(jobs.map(limitOf), null),
    unlessUsual(
      jobs.map(({ holdOff }) => (holdOff?.scope === 'group' ? 'true' : null)),
      null,
    ),
    unlessUsual(
      jobs.map(({ holdOff }) => holdOff?.afterMs ?? null),
      null,
    ),
    unlessUsual(
      jobs.map(({ spent, flow }) => (spent === undefined ? null : spent - (flow?.cost ?? 1))),
      null,
    ),
  ]
}

// Only those of leases that stand: a settlement that comes too late tells nobody to wait.
const OPEN_FLOWS = statement(
  'open_queue_flows',
  `
SELECT :schema.open_flow(held.queue)::text
  FROM (SELECT DISTINCT running.queue
          FROM unnest($2::uuid[], $3::bigint[]) AS asked (id, fence)
         CROSS JOIN LATERAL (
           SELECT running.queue
             FROM :schema.running
            WHERE running.id = asked.id AND running.fence = asked.fence
              AND (NOT $4::boolean OR running.leased_until <= coalesce($1::timestamptz, clock_timestamp()))
           OFFSET 0
         ) AS running
         ORDER BY running.queue) AS held`,
)

/** Makes it possible that the queues of these jobs are paused for a time: one that had no flow control has it from now on. */
export async function openQueues(
  send: Send,
  now: string | null,
  jobs: readonly SettledJob[],
  onlyExpired: boolean,
): Promise<void> {
  const holding = jobs.filter(({ holdOff }) => holdOff?.scope === 'queue')
  if (holding.length === 0) return
  const leases = [plainArrayOf(holding.map(({ id }) => id)), plainArrayOf(holding.map(({ fence }) => fence))]
  await send(OPEN_FLOWS, [now, ...leases, onlyExpired])
}

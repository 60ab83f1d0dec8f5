// What flow control knows about one job. ◄── standing.ts

import { queueLimitName } from '../../core/flow/job-flow.js'
import { FULL, priceOf, waitMsFor } from '../../core/flow/rate.js'
import { type GroupOverride, NO_GROUP_SETTINGS } from '../../core/flow/settings.js'
import type { FlowStanding } from '../../core/flow/views.js'
import type { JobSummary, QueueSettings } from '../../core/views.js'
import type { Send } from './database.js'
import { limitsOf } from './limits.js'
import { readDate, readJson, statement } from './statement.js'

const QUEUE = statement(
  'flow_of_queue',
  'SELECT queues.settings::text FROM :schema.flows LEFT JOIN :schema.queues ON queues.name = flows.queue WHERE flows.queue = $1',
)

export async function flowStanding(send: Send, job: JobSummary, nowMs: number): Promise<FlowStanding | null> {
  const [queue] = await send(QUEUE, [job.queue])
  if (queue === undefined) return null
  const cost = job.flow?.cost ?? 1
  const names = [queueLimitName(job.queue), ...(job.flow?.limits ?? [])]
  const kept = await limitsOf(send, names, nowMs)
  const limits = names.flatMap((name) => {
    const limit = kept.get(name)
    if (limit === undefined) return []
    const { rate } = limit.view
    return [{ ...limit.view, waitMs: rate === null ? 0 : waitMsFor(rate, limit.emptyAtMs, priceOf(rate, cost), nowMs) }]
  })
  const settings = (readJson(queue[0]) ?? { limits: {} }) as QueueSettings
  return { group: await groupStanding(send, job, settings, nowMs), limits }
}

const GROUP = statement(
  'standing_of_group',
  `
WITH mine AS MATERIALIZED (
  SELECT coalesce(array_agg(tracks.track), '{}') AS tracks FROM :schema.tracks WHERE tracks.queue = $1
)
SELECT groups.override::text, coalesce(groups.paused, false)::text, groups.stopped_by::text, groups.not_before::text, groups.empty_at::text,
       (SELECT count(*) FROM mine, :schema.running
         WHERE running.track = ANY (mine.tracks) AND running.track <> 0 AND running.group_name = $2)::text
  FROM (SELECT) AS one
  LEFT JOIN :schema.groups ON groups.queue = $1 AND groups.group_name = $2`,
)

// The earliest of a group that runs, is ready, or has started and waits for a time.
const FIRST = statement(
  'first_of_group',
  `
WITH mine AS MATERIALIZED (
  SELECT coalesce(array_agg(tracks.track), '{}') AS tracks FROM :schema.tracks WHERE tracks.queue = $1
), found AS MATERIALIZED (
  (SELECT held.id, 'ready' AS state, NULL::timestamptz AS run_at, held.position
     FROM mine, unnest(mine.tracks) AS asked (track)
    CROSS JOIN LATERAL (SELECT held.id, held.position FROM :schema.held
                         WHERE held.track = asked.track AND held.group_name = $2 ORDER BY held.priority DESC, held.position LIMIT 1) AS held)
   UNION ALL
  (SELECT running.id, 'running', NULL, NULL
     FROM mine, :schema.running
    WHERE running.track = ANY (mine.tracks) AND running.track <> 0 AND running.group_name = $2
    LIMIT 100)
   UNION ALL
  (SELECT scheduled.id, CASE WHEN scheduled.retrying THEN 'retrying' ELSE 'scheduled' END, scheduled.run_at, NULL
     FROM mine, :schema.scheduled
    WHERE $3::boolean AND scheduled.track = ANY (mine.tracks) AND scheduled.track <> 0 AND scheduled.fence IS NOT NULL
      AND scheduled.group_name = $2
    LIMIT 100)
)
SELECT found.id::text, found.state, (extract(epoch FROM found.run_at) * 1000)::float8::text
  FROM found
 ORDER BY coalesce(found.position,
                   (SELECT places.position FROM :schema.places WHERE places.id = found.id),
                   (SELECT jobs.position FROM :schema.jobs WHERE jobs.id = found.id))
 LIMIT 1`,
)

async function groupStanding(
  send: Send,
  { id, queue, flow }: JobSummary,
  settings: QueueSettings,
  nowMs: number,
): Promise<FlowStanding['group']> {
  const name = flow?.group ?? null
  if (name === null) return null
  const [row] = await send(GROUP, [queue, name])
  const [overrideText, paused, stoppedBy, notBefore, emptyAt, running] = row!
  const override = readJson(overrideText) as GroupOverride | null
  const groups = settings.flow?.groups ?? NO_GROUP_SETTINGS
  const rate = override?.rate ?? groups.rate
  const emptyAtMs = emptyAt == null ? FULL : Number(emptyAt)
  return {
    name,
    concurrency: groups.ordered ? 1 : (override?.concurrency ?? groups.concurrency),
    running: Number(running),
    ordered: groups.ordered,
    paused: paused === 'true',
    stoppedBy: stoppedBy ?? null,
    until: notBefore != null && Number(notBefore) > nowMs ? readDate(notBefore) : null,
    waitMs: rate === null ? 0 : waitMsFor(rate, emptyAtMs, priceOf(rate, flow!.cost), nowMs),
    first: groups.ordered ? await firstOf(send, { id, queue, name, waits: groups.onRetry === 'wait' }) : null,
  }
}

async function firstOf(
  send: Send,
  asked: { readonly id: string; readonly queue: string; readonly name: string; readonly waits: boolean },
): Promise<{ readonly id: string; readonly state: string; readonly runAt: Date | null } | null> {
  const [first] = await send(FIRST, [asked.queue, asked.name, asked.waits])
  if (first === undefined || first[0] === asked.id) return null
  const [id, state, runAt] = first
  return { id: id!, state: state!, runAt: readDate(runAt) }
}

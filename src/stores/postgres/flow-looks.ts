// What operators see of flow control beyond limits and groups: who waits for a limit, which groups have stopped, who is around a job.

import {
  type Neighbours,
  type NeighboursRequest,
  type StoppedGroup,
  TRACK_READY_MAX,
  TRACKS_SHOWN_MAX,
  type TracksRequest,
  type TrackView,
} from '../../core/flow/views.js'
import type { Database } from './database.js'
import { arrayOf, readJson, statement } from './statement.js'

const TRACKS = statement(
  'tracks_shown',
  `
SELECT tracks.queue, to_json(tracks.limits)::text,
       (SELECT count(*) FROM (SELECT FROM :schema.held WHERE held.track = tracks.track LIMIT $3) AS few)::text
  FROM :schema.tracks
 WHERE cardinality(tracks.limits) > 0
   AND NOT tracks.forgotten
   AND ($1::text[] IS NULL OR tracks.queue = ANY ($1))
   AND ($2::text IS NULL OR $2 = ANY (tracks.limits))
 ORDER BY tracks.queue, array_to_string(tracks.limits, ',') COLLATE "C"
 LIMIT $4`,
)

export async function tracks(db: Database, { queues, limit }: TracksRequest): Promise<readonly TrackView[]> {
  const values = [queues === null ? null : arrayOf(queues), limit, TRACK_READY_MAX, TRACKS_SHOWN_MAX]
  const rows = await db.send('look', TRACKS, values)
  return rows.map(([queue, limits, ready]) => ({
    queue: queue!,
    limits: readJson(limits) as readonly string[],
    ready: Number(ready),
  }))
}

// Only queues with ordered groups are looked at: elsewhere groups may be many, and none stops.
const STOPPED = statement(
  'stopped_groups',
  `
SELECT groups.queue, groups.group_name, groups.stopped_by::text
  FROM :schema.flows
  JOIN :schema.groups ON groups.queue = flows.queue
 WHERE flows.ordered
   AND groups.stopped_by IS NOT NULL
 ORDER BY groups.queue, groups.group_name
 LIMIT $1`,
)

export async function stoppedGroups(db: Database, limit: number): Promise<readonly StoppedGroup[]> {
  const rows = await db.send('look', STOPPED, [limit])
  return rows.map(([queue, group, stoppedBy]) => ({ queue: queue!, group: group!, stoppedBy: stoppedBy! }))
}

/** Jobs of the group, in each of its tracks, on one side of the asked one. `where` compares held with me, `order` goes away from it. */
const side = (name: string, where: string, order: string) => `
  (SELECT '${name}' AS side, held.id, held.type, held.priority, held.position
     FROM me, mine, unnest(mine.tracks) AS asked (track)
    CROSS JOIN LATERAL (SELECT held.id, held.type, held.priority, held.position
                          FROM :schema.held
                         WHERE held.track = asked.track AND held.group_name = $3 AND ${where}
                         ORDER BY ${order}
                         LIMIT $4) AS held)`

// Each priority is a range of the index of its own, so that no side reads more than it shows.
const NEIGHBOURS = statement(
  'neighbours',
  `
WITH me AS MATERIALIZED (
  SELECT held.priority, held.position FROM :schema.held WHERE held.id = $1::uuid
), mine AS MATERIALIZED (
  SELECT coalesce(array_agg(tracks.track), '{}') AS tracks FROM :schema.tracks WHERE tracks.queue = $2
), found AS MATERIALIZED (
${[
  side('before', 'held.priority = me.priority AND held.position < me.position', 'held.priority, held.position DESC'),
  side('before', 'held.priority > me.priority', 'held.priority, held.position DESC'),
  side('after', 'held.priority = me.priority AND held.position > me.position', 'held.priority DESC, held.position'),
  side('after', 'held.priority < me.priority', 'held.priority DESC, held.position'),
].join('\n   UNION ALL\n')}
   UNION ALL
  (SELECT 'running', running.id, running.type, 0, 0
     FROM mine, :schema.running
    WHERE running.track = ANY (mine.tracks) AND running.track <> 0 AND running.group_name = $3 AND running.id <> $1::uuid
    ORDER BY running.id
    LIMIT $4)
)
SELECT found.side, found.id::text, found.type
  FROM found
 ORDER BY CASE found.side WHEN 'after' THEN -found.priority ELSE found.priority END,
          CASE found.side WHEN 'before' THEN -found.position ELSE found.position END, found.id`,
)

export async function neighbours(db: Database, { id, queue, group, limit }: NeighboursRequest): Promise<Neighbours> {
  const rows = await db.send('look', NEIGHBOURS, [id, queue, group, limit])
  const of = (wanted: string) =>
    rows
      .filter(([at]) => at === wanted)
      .slice(0, limit)
      .map(([, other, type]) => ({ id: other!, type: type! }))
  return { running: of('running'), before: of('before'), after: of('after') }
}

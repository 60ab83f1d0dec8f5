// promote: what is due takes its place in line. ◄── upkeep/promote.ts

import type { Promotion } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { readJson, readMs, statement } from './statement.js'
import { unblockChildren } from './unblock.js'

// Timed jobs go before the untimed backlog: their places count from far below zero. A retry goes to the end of the line.
const PROMOTE = statement(
  'promote',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
  SELECT scheduled.id, scheduled.run_at
    FROM :schema.scheduled
   WHERE scheduled.run_at <= (SELECT now FROM moment)
   ORDER BY scheduled.run_at, scheduled.id
   LIMIT $2
     FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM :schema.scheduled
   WHERE scheduled.id = ANY (ARRAY(SELECT id FROM due))
  RETURNING id, run_at, fence, priority, attempt, crashes, retrying, queue, type
), drawn AS MATERIALIZED (
  SELECT pg_catalog.nextval(':schema.positions') * 65536 AS place FROM due LIMIT 1
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT gone.id,
         drawn.place + row_number() OVER (ORDER BY gone.run_at, gone.id) - CASE WHEN retrying THEN 0 ELSE 4611686018427387904 END,
         moment.now, gone.fence, gone.priority, gone.attempt, gone.crashes, true, gone.queue, gone.type
    FROM gone, drawn, moment
  RETURNING queue
)
SELECT (SELECT count(*) FROM into_ready),
       (SELECT json_agg(DISTINCT queue) FROM into_ready),
       (SELECT (extract(epoch FROM scheduled.run_at - moment.now) * 1000)::float8
          FROM :schema.scheduled, moment
         WHERE (scheduled.run_at, scheduled.id) >
               (SELECT coalesce(max(run_at), '-infinity'),
                       coalesce((SELECT id FROM due ORDER BY run_at DESC, id DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')
                  FROM due)
         ORDER BY scheduled.run_at, scheduled.id
         LIMIT 1),
       (SELECT (extract(epoch FROM (SELECT now FROM moment) - min(run_at)) * 1000)::float8 FROM due),
       -- Children that a crash left behind: a window of the links is looked at in turn, so that this stays small.
       (SELECT json_agg(json_build_array(link.parent, link.child, link.is_over))
          FROM (SELECT parents.parent, parents.child,
                       EXISTS (SELECT FROM :schema.finished WHERE finished.id = parents.parent)
                       OR EXISTS (SELECT FROM :schema.dead WHERE dead.id = parents.parent) AS is_over
                  FROM :schema.parents
                 WHERE (parents.parent, parents.child) > ($3::uuid, $4::uuid)
                 ORDER BY parents.parent, parents.child
                 LIMIT $2) AS link)`,
)

const FIRST = '00000000-0000-0000-0000-000000000000'

/** Where the next look at the links begins. */
export interface Sweep {
  parent: string
  child: string
}

export function newSweep(): Sweep {
  return { parent: FIRST, child: FIRST }
}

export async function promote(db: Database, send: Send, sweep: Sweep, limit: number): Promise<Promotion> {
  const [row] = await send(PROMOTE, [db.now(), limit, sweep.parent, sweep.child])
  const queues = new Set((readJson(row![1]) ?? []) as string[])
  const unblocked = await sweepLinks(db, send, sweep, limit, (readJson(row![4]) ?? []) as Link[], queues)
  const nextDueMs = readMs(row![2])
  return {
    promoted: Number(row![0]) + unblocked,
    queues: [...queues],
    nextDueMs: nextDueMs === null ? null : Math.max(0, nextDueMs),
    lateMs: readMs(row![3]),
  }
}

type Link = readonly [parent: string, child: string, isOver: boolean]

async function sweepLinks(
  db: Database,
  send: Send,
  sweep: Sweep,
  limit: number,
  links: readonly Link[],
  queues: Set<string>,
): Promise<number> {
  const last = links.at(-1)
  const isAtEnd = links.length < limit || last === undefined
  sweep.parent = isAtEnd ? FIRST : last[0]
  sweep.child = isAtEnd ? FIRST : last[1]
  const children = [...new Set(links.filter(([, , isOver]) => isOver).map(([, child]) => child))]
  if (children.length === 0) return 0
  const states = await unblockChildren(db, send, children, (queue) => queues.add(queue))
  return [...states.values()].filter((state) => state === 'ready').length
}

// promote: due jobs become ready. ◄── upkeep/promote.ts

import type { Promotion } from '../../core/upkeep-store.js'
import { cancelKept } from './cancel.js'
import type { Database, Send } from './database.js'
import { intoArrivals, intoHeld } from './held-place.js'
import { checkLinks } from './late-looks.js'
import { readJson, readMs, statement } from './statement.js'
import { unblock } from './unblock.js'

// Timed jobs go before the untimed backlog: their places count from far below zero. A retry goes to the end of the backlog.
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
  RETURNING id, run_at, fence, priority, attempt, crashes, retrying, queue, type, track, group_name
), drawn AS MATERIALIZED (
  SELECT pg_catalog.nextval(':schema.positions') * 65536 AS place FROM due LIMIT 1
), placed AS MATERIALIZED (
  SELECT gone.*, moment.now,
         drawn.place + row_number() OVER (ORDER BY gone.run_at, gone.id) - CASE WHEN retrying THEN 0 ELSE 4611686018427387904 END AS position
    FROM gone, drawn, moment
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position, now, fence, priority, attempt, crashes, true, queue, type
    FROM placed
   WHERE track = 0
), into_held AS (${intoHeld('placed', 'true')}
), arrived AS (${intoArrivals('placed', '(SELECT place FROM drawn)', 'true')}
)
SELECT (SELECT count(*) FROM placed),
       (SELECT json_agg(DISTINCT queue) FROM placed),
       (SELECT (extract(epoch FROM scheduled.run_at - moment.now) * 1000)::float8
          FROM :schema.scheduled, moment
         WHERE (scheduled.run_at, scheduled.id) >
               (SELECT coalesce(max(run_at), '-infinity'),
                       coalesce((SELECT id FROM due ORDER BY run_at DESC, id DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')
                  FROM due)
         ORDER BY scheduled.run_at, scheduled.id
         LIMIT 1),
       (SELECT (extract(epoch FROM (SELECT now FROM moment) - min(run_at)) * 1000)::float8 FROM due),
       EXISTS (SELECT FROM :schema.link_checks WHERE link_checks.look_at <= (SELECT now FROM moment)),
       EXISTS (SELECT FROM :schema.parents),
       (SELECT json_agg(few.id) FROM (SELECT cancels.id FROM :schema.cancels ORDER BY cancels.id LIMIT $2) AS few),
       EXISTS (SELECT FROM :schema.flows) OR EXISTS (SELECT FROM :schema.tracks)`,
)

// Finds children that were missed (see unblock.ts). Each call reads one window of the links, so that it stays small.
const SWEEP = statement(
  'sweep_links',
  `
SELECT parents.parent::text, parents.child::text,
       (EXISTS (SELECT FROM :schema.finished WHERE finished.id = parents.parent)
        OR EXISTS (SELECT FROM :schema.dead WHERE dead.id = parents.parent))::text
  FROM :schema.parents
 WHERE (parents.parent, parents.child) > ($1::uuid, $2::uuid)
 ORDER BY parents.parent, parents.child
 LIMIT $3`,
)
/** Not with every promote, which may run many times a second: this finds something only after a server stopped at the worst moment. */
const SWEEP_EVERY_MS = 1_000
/** How much longer than a sweep the pause after it is, at least: over many links each process would sweep all the time. */
const SWEEP_REST = 20

const FIRST = '00000000-0000-0000-0000-000000000000'

/** Where the next look at the links begins. */
export interface Sweep {
  parent: string
  child: string
  /** On the process's own monotonic clock. */
  nextMs: number
}

export function newSweep(): Sweep {
  return { parent: FIRST, child: FIRST, nextMs: 0 }
}

/** Makes due jobs ready. Also answers whether any queue has flow control, so that the net beneath costs nothing where none has. */
export async function promote(
  db: Database,
  send: Send,
  sweep: Sweep,
  limit: number,
  onAsked: (id: string) => void,
): Promise<{ readonly promotion: Promotion; readonly hasFlow: boolean }> {
  const [row] = await send(PROMOTE, [db.now(), limit])
  const [promoted, queueNames, nextDue, late, hasChecks, hasParents, keptIds, hasFlow] = row!
  const queues = new Set((readJson(queueNames) ?? []) as string[])
  const kept = (readJson(keptIds) ?? []) as string[]
  if (kept.length > 0) await cancelKept(db, send, kept, { asked: onAsked, ready: (queue) => queues.add(queue) })
  const onReady = (queue: string) => queues.add(queue)
  const checked = hasChecks === 't' ? await checkLinks(db, send, limit, onReady) : 0
  const swept = hasParents === 't' ? await sweepLinks(db, send, sweep, limit, onReady) : 0
  const nextDueMs = readMs(nextDue)
  const promotion = {
    promoted: Number(promoted) + checked + swept,
    queues: [...queues],
    nextDueMs: nextDueMs === null ? null : Math.max(0, nextDueMs),
    lateMs: readMs(late),
  }
  return { promotion, hasFlow: hasFlow === 't' }
}

async function sweepLinks(
  db: Database,
  send: Send,
  sweep: Sweep,
  limit: number,
  onReady: (queue: string) => void,
): Promise<number> {
  const startedMs = performance.now()
  if (startedMs < sweep.nextMs) return 0
  sweep.nextMs = startedMs + SWEEP_EVERY_MS
  const links = await send(SWEEP, [sweep.parent, sweep.child, limit])
  sweep.nextMs = startedMs + Math.max(SWEEP_EVERY_MS, SWEEP_REST * (performance.now() - startedMs))
  const last = links.at(-1)
  const isAtEnd = links.length < limit || last === undefined
  const [parent, child] = isAtEnd ? [FIRST, FIRST] : last
  sweep.parent = parent!
  sweep.child = child!
  const children = [...new Set(links.filter(([, , isOver]) => isOver === 'true').map(([, child]) => child!))]
  const states = await unblock(db, send, children, [], onReady)
  return [...states.values()].filter((state) => state === 'ready').length
}

// standing: why a job waits, and how many jobs are ahead of it.

import { CHILDREN_MAX } from '../../core/kept/kept.js'
import { isLiveAfter, type Standing } from '../../core/operating.js'
import type { Database, Send } from './database.js'
import { flowStanding } from './flow-standing.js'
import { getSummary } from './get.js'
import { waitOf } from './kept.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { workers } from './workers.js'

const AHEAD_MAX = 10_000
const WORKERS_MAX = 50

// A row of ready that never moved is found by its job's position, one that moved by its id.
const PLACE = statement(
  'standing',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), facts AS MATERIALIZED (
  SELECT jobs.id, jobs.queue, jobs.priority, jobs.position, jobs.options FROM :schema.jobs WHERE jobs.id = $2::uuid
), place AS MATERIALIZED (
  SELECT ready.queue, ready.priority, ready.position
    FROM facts
    JOIN :schema.ready ON ready.queue = facts.queue AND ready.priority = facts.priority AND ready.position = facts.position
     AND ready.id = facts.id AND NOT ready.moved
   UNION ALL
  SELECT ready.queue, ready.priority, ready.position FROM :schema.ready WHERE ready.id = $2 AND ready.moved
), held_at AS MATERIALIZED (
  SELECT held.track, held.group_name, held.priority, held.position FROM :schema.held WHERE held.id = $2
)
SELECT (extract(epoch FROM moment.now) * 1000)::float8,
       coalesce((SELECT queues.paused FROM :schema.queues WHERE queues.name = facts.queue), false),
       (SELECT count(*)
          FROM place
         CROSS JOIN LATERAL (SELECT FROM :schema.ready
                              WHERE ready.queue = place.queue AND ready.priority > place.priority LIMIT $3) AS higher),
       (SELECT count(*)
          FROM place
         CROSS JOIN LATERAL (SELECT FROM :schema.ready
                              WHERE ready.queue = place.queue AND ready.priority = place.priority
                                AND ready.position < place.position LIMIT $3) AS before)
       + (SELECT count(*)
            FROM held_at
           CROSS JOIN LATERAL (SELECT FROM :schema.held
                                WHERE held.track = held_at.track AND held.group_name = held_at.group_name
                                  AND (held.priority > held_at.priority OR held.priority = held_at.priority AND held.position < held_at.position)
                                LIMIT $3) AS before),
       (SELECT keys.id::text
          FROM :schema.keys
         WHERE keys.queue = facts.queue
           AND keys.key = facts.options #>> '{key,key}'
           AND keys.id <> facts.id
           AND (keys.expires_at IS NULL OR keys.expires_at > moment.now))
  FROM facts, moment`,
)

const CHILDREN_WAITED_FOR = statement(
  'children_waited_for',
  `
SELECT parents.parent::text
  FROM :schema.blocked
  JOIN :schema.parents ON parents.child = blocked.id
 WHERE blocked.id = $1::uuid AND blocked.fence IS NOT NULL
 ORDER BY parents.parent
 LIMIT $2`,
)

const FACTS = statement('facts_of', 'SELECT id::text, type, queue FROM :schema.jobs WHERE id = ANY ($1::uuid[])')

export async function standing(db: Database, id: string): Promise<Standing | null> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  const [job, [place], everyone, wait, children] = await Promise.all([
    getSummary(send, id),
    send(PLACE, [db.now(), id, AHEAD_MAX + 1]),
    workers(db),
    waitOf(send, id),
    send(CHILDREN_WAITED_FOR, [id, CHILDREN_MAX]),
  ])
  if (job === null || place === undefined) return null
  const [now, isPaused, higher, before, keyHeldBy = null] = place
  const nowMs = Math.floor(Number(now))
  const ahead = Number(higher) + Number(before)
  const flow = await flowStanding(send, job, nowMs)
  return {
    job,
    queuePaused: isPaused === 't',
    ahead: { count: Math.min(ahead, AHEAD_MAX), isExact: ahead <= AHEAD_MAX },
    ...(children.length === 0 ? {} : { waitsForChildren: true as const }),
    parents: await parentsOf(send, children.length === 0 ? job.after : children.map(([child]) => child!)),
    workers: everyone
      .filter((worker) => worker.queues.includes(job.queue) && isLiveAfter(nowMs - worker.seenAt.getTime(), worker))
      .slice(0, WORKERS_MAX)
      .map((worker) => ({ ...worker, knowsType: worker.types === null || worker.types.includes(job.type) })),
    keyHeldBy,
    nowMs,
    ...(wait === null ? {} : { wait }),
    ...(flow === null ? {} : { flow }),
  }
}

async function parentsOf(send: Send, ids: readonly string[]): Promise<Standing['parents']> {
  if (ids.length === 0) return []
  const [states, rows] = await Promise.all([statesOf(send, ids), send(FACTS, [arrayOf(ids)])])
  const facts = new Map(rows.map(([id, type, queue]) => [id!, { type: type!, queue: queue! }]))
  return ids.map((id) => ({ id, state: states.get(id) ?? null, ...(facts.get(id) ?? { type: null, queue: null }) }))
}

// claim: ready rows become running rows under a new fence. ◄── worker/fetcher.ts · next: settle.ts

import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import type { Database } from './database.js'
import type { Floors } from './floors.js'
import { readOptions, readQueueLimits, readTags } from './options-column.js'
import { arrayOf, plainArrayOf, type Row, type Statement, statement } from './statement.js'
import { despiteStrays, removeJobless } from './strays.js'

const SEGMENT = (where: string) => `(
     SELECT ready.ctid AS place
       FROM :schema.ready
      WHERE ready.queue = asked.queue
        AND ($4::text[] IS NULL OR ready.type = ANY ($4))${where}
      ORDER BY ready.priority DESC, ready.position
      LIMIT asked.amount
        FOR UPDATE SKIP LOCKED
   )`

// The same order in four pieces, read one after the other until there are enough: what comes before the crowd, the front of the
// crowd, the crowd from its floor on, and what comes after it. See floors.ts.
const FROM_FLOOR = `(SELECT segments.place FROM (
   SELECT place FROM ${SEGMENT(`
        AND ready.priority > asked.priority`)} AS before_it
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority = asked.priority AND ready.position < 0`)} AS its_front
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority = asked.priority AND ready.position > asked.back`)} AS the_crowd
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority < asked.priority`)} AS after_it
   ) AS segments
   LIMIT asked.amount)`

const claimSql = ({ floors, line, place }: { floors: boolean; line: string; place: string }) => `
WITH moment AS MATERIALIZED (
  SELECT clock.now, round(date_part('epoch', clock.now) * 1000)::bigint AS now_ms
    FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock
), asked AS MATERIALIZED (
  SELECT asked.*, queues.settings
    FROM unnest($2::text[], $3::integer[]${floors ? ', $7::smallint[], $8::bigint[]' : ''})
           WITH ORDINALITY AS asked (queue, amount${floors ? ', priority, back' : ''}, turn)
    LEFT JOIN :schema.queues ON queues.name = asked.queue
   WHERE queues.paused IS NOT TRUE
), taken AS MATERIALIZED (                                    -- fence: otherwise the planner may run it again and lock more
  SELECT line.place
    FROM asked
   CROSS JOIN LATERAL ${line} AS line
), left_line AS (
  -- By place, not by key: the rows are locked, and one that changed since this statement began is simply not taken.
  DELETE FROM :schema.ready
   WHERE ready.ctid = ANY (ARRAY(SELECT place FROM taken))
  RETURNING id, position, fence, priority, attempt, crashes, queue, type
), claimed AS MATERIALIZED (
  SELECT left_line.id, left_line.position, left_line.priority, left_line.queue, left_line.type, moment.now,
         -- Counts on from the last claim, and is never below the time: a failover that loses commits cannot hand it out twice.
         greatest(coalesce(left_line.fence, 0) + 1, moment.now_ms) AS fence,
         coalesce(left_line.attempt, 0) + 1 AS attempt, coalesce(left_line.crashes, 0) AS crashes
    FROM left_line, moment
), leased AS (
  INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested,
                               queue, type, worker)
  SELECT id, fence, now, now + $5 * interval '1 millisecond', priority, attempt, crashes, false, false, queue, type, $6
    FROM claimed
)
SELECT moment.now_ms, job.*
  FROM moment
  LEFT JOIN LATERAL (
    -- From claimed, not from what leased returns: joined to each other again, the two cost the square of the batch.
    SELECT claimed.id, claimed.fence, claimed.queue, claimed.type, claimed.priority, claimed.attempt, claimed.crashes,
           facts.payload, facts.version, round(date_part('epoch', facts.created_at) * 1000), facts.options,
           array_to_json(facts.tags), asked.settings${place}
      FROM claimed
      JOIN asked ON asked.queue = claimed.queue
      LEFT JOIN LATERAL (                                     -- without facts it is a stray: strays.ts
       SELECT jobs.payload, jobs.version, jobs.created_at, jobs.options, jobs.tags
         FROM :schema.jobs
        WHERE jobs.id = claimed.id
       OFFSET 0                                               -- fence: one look-up for each job, whatever statistics say
     ) AS facts ON true
     ORDER BY asked.turn, claimed.priority DESC, claimed.position
  ) AS job ON true`

/** Exported for the test that counts the pages it reads. */
export const CLAIM: Statement = statement('claim', claimSql({ floors: false, line: SEGMENT(''), place: '' }))
const CLAIM_FROM_FLOOR: Statement = statement(
  'claim_from_floor',
  claimSql({ floors: true, line: FROM_FLOOR, place: ', claimed.position' }),
)

/** Claims jobs. `onFound` is told of queues whose claims passed over jobs that the next claim takes. */
export async function claim(
  db: Database,
  floors: Floors,
  request: ClaimRequest,
  onFound: (queue: string) => void,
): Promise<Claim> {
  const amounts = new Map<string, number>()
  for (const { queue, limit } of request.queues) amounts.set(queue, (amounts.get(queue) ?? 0) + limit)
  const values = [
    db.now(),
    arrayOf([...amounts.keys()]),
    arrayOf([...amounts.values()]),
    request.types === null ? null : arrayOf(request.types),
    request.leaseMs,
    request.worker,
  ]
  const { types } = request
  const rows = await despiteStrays(db, { amounts, types }, () =>
    floors.isOn
      ? claimFromFloor(db, floors, { values, queues: [...amounts.keys()], types, onFound })
      : db.send('claim', CLAIM, values),
  )
  const nowMs = Number(rows[0]![0])
  if (rows[0]![1] === null) return { jobs: [], nowMs }
  const jobless = rows.filter((row) => row[8] === null)
  if (jobless.length === 0) return { jobs: rows.map(readJob), nowMs }
  const leases = jobless.map(([, id, fence, queue]) => ({ id: id!, fence: Number(fence), queue: queue! }))
  await removeJobless(db, leases)
  return { jobs: rows.filter((row) => row[8] !== null).map(readJob), nowMs }
}

async function claimFromFloor(
  db: Database,
  floors: Floors,
  asked: {
    readonly values: readonly unknown[]
    readonly queues: readonly string[]
    readonly types: readonly string[] | null
    readonly onFound: (queue: string) => void
  },
): Promise<Row[]> {
  const start = floors.of(asked.queues, asked.types)
  floors.lookBelow(db, performance.now(), asked.onFound)
  const values = [...asked.values, plainArrayOf(start.priorities), plainArrayOf(start.backs)]
  const rows = await db.send('claim', CLAIM_FROM_FLOOR, values)
  const taken = rows.filter((row) => row[1] !== null)
  floors.learn(
    taken.map((row) => ({ queue: row[3]!, priority: Number(row[5]), position: row[14]! })),
    asked.types,
    start,
  )
  return rows
}

function readJob(row: readonly (string | null)[]): ClaimedJob {
  const options = readOptions(row[11])
  return {
    id: row[1]!,
    fence: Number(row[2]),
    queue: row[3]!,
    type: row[4]!,
    priority: Number(row[5]),
    attempt: Number(row[6]),
    crashes: Number(row[7]),
    payload: row[8]!,
    version: Number(row[9]),
    createdAtMs: Number(row[10]),
    limits: options.limits ?? {},
    queueLimits: readQueueLimits(row[13]),
    idempotencyKey: options.key ?? null,
    tags: readTags(row[12]),
    trace: options.trace ?? null,
  }
}

// claim: ready rows become running rows under a new fence. ◄── worker/fetcher.ts · next: worker/slots.ts

import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { readClaimedJob } from './claimed-job.js'
import type { Database } from './database.js'
import type { Floors } from './floors.js'
import { arrayOf, type Row, readJson, type Statement, statement } from './statement.js'
import { despiteStrays, removeJobless } from './strays.js'

/** The first jobs of a queue, locked. Those that another claim has locked are skipped. */
export const SEGMENT = (where: string) => `(
     SELECT ready.ctid AS place
       FROM :schema.ready
      WHERE ready.queue = asked.queue
        AND ($4::text[] IS NULL OR ready.type = ANY ($4))${where}
      ORDER BY ready.priority DESC, ready.position
      LIMIT asked.amount
        FOR UPDATE SKIP LOCKED
   )`

export const claimSql = ({ floors, first, place }: { floors: boolean; first: string; place: string }) => `
WITH moment AS MATERIALIZED (
  SELECT clock.now, round(date_part('epoch', clock.now) * 1000)::bigint AS now_ms
    FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock
), asked AS MATERIALIZED (
  SELECT asked.queue, asked.turn, CASE WHEN queues.flow THEN 0 ELSE asked.amount END AS amount, queues.settings,
         queues.flow${floors ? ', asked.priority, asked.back' : ''}
    FROM unnest($2::text[], $3::integer[]${floors ? ', $7::smallint[], $8::bigint[]' : ''})
           WITH ORDINALITY AS asked (queue, amount${floors ? ', priority, back' : ''}, turn)
    LEFT JOIN :schema.queues ON queues.name = asked.queue
   WHERE queues.paused IS NOT TRUE OR queues.flow            -- those with flow control are claimed by claim-flow.ts
), taken AS MATERIALIZED (                                    -- fence: otherwise the planner may run it again and lock more
  SELECT first.place
    FROM asked
   CROSS JOIN LATERAL ${first} AS first
), removed AS (
  -- By ctid, not by key: the rows are locked, and one that changed since this statement began is not taken.
  DELETE FROM :schema.ready
   WHERE ready.ctid = ANY (ARRAY(SELECT place FROM taken))
  RETURNING id, position, since, fence, priority, attempt, crashes, queue, type
), claimed AS MATERIALIZED (
  SELECT removed.id, removed.position, removed.since, removed.priority, removed.queue, removed.type, moment.now,
         -- Counts on from the last claim, and is never below the time: a failover that loses commits cannot hand it out twice.
         greatest(coalesce(removed.fence, 0) + 1, moment.now_ms) AS fence,
         coalesce(removed.attempt, 0) + 1 AS attempt, coalesce(removed.crashes, 0) AS crashes
    FROM removed, moment
), leased AS (
  INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested,
                               queue, type, worker)
  SELECT id, fence, now, now + $5 * interval '1 millisecond', priority, attempt, crashes, false, false, queue, type, $6
    FROM claimed
)
SELECT moment.now_ms,
       round(date_part('epoch', moment.now - (SELECT min(claimed.since) FROM claimed)) * 1000),
       job.*,
       (SELECT json_agg(asked.queue) FROM asked WHERE asked.flow)
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
export const CLAIM: Statement = statement('claim', claimSql({ floors: false, first: SEGMENT(''), place: '' }))
/** What a claim answers, and which of the queues it left out because they have flow control. */
export interface PlainClaim extends Claim {
  readonly flowQueues: readonly string[]
}

/** Claims jobs. `onFound` is called with each queue whose claims passed over jobs that the next claim takes. */
export async function claimPlain(
  db: Database,
  floors: Floors,
  request: ClaimRequest,
  onFound: (queue: string) => void,
): Promise<PlainClaim> {
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
      ? floors.claim(db, { values, queues: [...amounts.keys()], types, onFound })
      : db.send('claim', CLAIM, values),
  )
  const [now, waited, firstId] = rows[0]!
  const nowMs = Number(now)
  const flowQueues = (readJson(rows[0]!.at(-1)) ?? []) as string[]
  if (firstId === null) return { jobs: [], nowMs, waitedMs: null, flowQueues }
  const jobless = rows.filter(isJobless)
  if (jobless.length > 0) {
    await removeJobless(
      db,
      jobless.map(([, , id, fence, queue]) => ({ id: id!, fence: Number(fence), queue: queue! })),
    )
  }
  const jobs = (jobless.length === 0 ? rows : rows.filter((row) => !isJobless(row))).map(readJob)
  return { jobs, nowMs, waitedMs: jobs.length === 0 ? null : Math.max(0, Number(waited)), flowQueues }
}

/** Whether its facts are missing. */
function isJobless(row: Row): boolean {
  const [, , , , , , , , , payload] = row
  return payload === null
}

function readJob(row: Row): ClaimedJob {
  return readClaimedJob(row.slice(2))
}

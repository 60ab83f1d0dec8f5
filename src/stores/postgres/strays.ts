// Strays: rows in `ready` that should not be there. Their job is in another state already or does not exist, or their counters are out
// of range. Holdfast does not write such rows, but people and bugs may, and one of them must not stop the claims of its queue. A normal
// claim pays nothing for this: it fails on such a row, and only then are strays looked for.

import { isHoldfastError } from '../../core/errors.js'
import type { Lease } from '../../core/job.js'
import type { Database } from './database.js'
import { arrayOf, statement } from './statement.js'

// A row at its first place must be at its job's position; of several for one job the moved one counts, else the first.
const REMOVE_STRAYS = statement(
  'remove_strays',
  `
WITH seen AS MATERIALIZED (
  SELECT head.*
    FROM unnest($1::text[], $2::integer[]) AS asked (queue, amount)
   CROSS JOIN LATERAL (
     SELECT ready.ctid AS place, ready.id, ready.queue, ready.type, ready.priority, ready.position, ready.moved, ready.attempt,
            ready.crashes, ready.fence
       FROM :schema.ready
      WHERE ready.queue = asked.queue
        AND ($3::text[] IS NULL OR ready.type = ANY ($3))
      ORDER BY ready.priority DESC, ready.position
      LIMIT asked.amount
        FOR UPDATE SKIP LOCKED
   ) AS head
), judged AS MATERIALIZED (
  SELECT seen.place, seen.id,
         CASE WHEN EXISTS (SELECT FROM :schema.running WHERE running.id = seen.id) THEN 'running'
              WHEN EXISTS (SELECT FROM :schema.finished WHERE finished.id = seen.id) THEN 'finished'
              WHEN EXISTS (SELECT FROM :schema.dead WHERE dead.id = seen.id) THEN 'dead'
              WHEN EXISTS (SELECT FROM :schema.scheduled WHERE scheduled.id = seen.id) THEN 'scheduled'
              WHEN EXISTS (SELECT FROM :schema.blocked WHERE blocked.id = seen.id) THEN 'blocked'
              WHEN NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = seen.id) THEN 'no job'
              WHEN seen.attempt >= 32767 OR seen.attempt < 0 OR seen.fence >= 9007199254740991 THEN 'impossible numbers'
              WHEN row_number() OVER (PARTITION BY seen.id ORDER BY seen.moved DESC, seen.position, seen.place) > 1 THEN 'twice'
          END AS why
    FROM seen
), removed AS (
  DELETE FROM :schema.ready
   WHERE ready.ctid = ANY (ARRAY(SELECT place FROM judged WHERE why IS NOT NULL))
  RETURNING ready.ctid AS place
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job, details)
  SELECT clock_timestamp(), 'holdfast', 'remove_stray', judged.id, json_build_object('why', judged.why)
    FROM removed
    JOIN judged USING (place)
)
SELECT count(*) FROM removed`,
)

// A claim found no row in `jobs` for these. A second statement checks again, because while a day is being moved, a statement that began
// before cannot see its jobs.
const REMOVE_JOBLESS = statement(
  'remove_jobless',
  `
WITH removed AS (
  DELETE FROM :schema.running
   USING unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)
   WHERE running.id = lease.id
     AND running.fence = lease.fence
     AND NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = lease.id)
  RETURNING running.id
)
INSERT INTO :schema.audit (at, actor, action, job, details)
SELECT clock_timestamp(), 'holdfast', 'remove_stray', removed.id, json_build_object('why', 'no job')
  FROM removed`,
)

/** A claim fails on a stray with a broken rule (23505) or a number out of range (22003). */
const FAILED_ON_STRAY = ['23505', '22003']
// Each try clears the first rows of every queue that was asked for, as many as the claim takes and more.
const TRIES_MAX = 5
const ROWS_MORE = 100

/** The part of a claim's request that matters for strays. */
export interface Asked {
  readonly amounts: ReadonlyMap<string, number>
  readonly types: readonly string[] | null
}

/** Sends a claim, and when it fails on rows that should not be there, removes them and sends it again. */
export async function despiteStrays<T>(db: Database, { amounts, types }: Asked, claim: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await claim()
    } catch (error) {
      const isStray = isHoldfastError(error) && FAILED_ON_STRAY.includes(error.details.sqlState as string)
      if (!isStray || tries === TRIES_MAX) throw error
      await db.send('claim', REMOVE_STRAYS, [
        arrayOf([...amounts.keys()]),
        arrayOf([...amounts.values()].map((amount) => 2 * amount + ROWS_MORE)),
        types === null ? null : arrayOf(types),
      ])
    }
  }
}

/** Ends leases of jobs that do not exist. */
export async function removeJobless(db: Database, leases: readonly Lease[]): Promise<void> {
  const [ids, fences] = [leases.map(({ id }) => id), leases.map(({ fence }) => fence)]
  await db.send('claim', REMOVE_JOBLESS, [arrayOf(ids), arrayOf(fences)])
}

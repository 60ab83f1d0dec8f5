// enqueue, the fast path of jobs with a group or limits: as enqueue-plain.ts, into held, with one event for each group. ◄── enqueue-general.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { Call, Database } from './database.js'
import { isWritten, readPlain, valuesOf } from './enqueue-plain.js'
import { arrayOf, type Row, sameOrArrayOf, statement, unlessUsual } from './statement.js'
import { WAYS, waysOf } from './tracks.js'

// The parameters up to $9 are those of enqueue-plain.ts, with the same short forms. Jobs are written if the tracks of all of them are there.
const ENQUEUE_FLOW = statement(
  'enqueue_flow',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, pg_catalog.nextval(':schema.positions') * 65536 AS place
), ${WAYS('$10', '$11')}, found AS MATERIALIZED (
  SELECT count(*) AS number FROM ways
), written AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
  SELECT input.id, moment.now, moment.place + input.ordinal, coalesce(input.priority, 0), coalesce(input.version, 1),
         coalesce(input.queue, ($3::text[])[1]), coalesce(input.type, ($4::text[])[1]), input.payload, input.options,
         input.tags::text[]
    FROM moment,
         ROWS FROM (unnest($2::uuid[], $3::text[], $4::text[], $6::smallint[], $7::smallint[], $8::json[], $9::text[]),
                    json_array_elements($5::json))
           WITH ORDINALITY AS input (id, queue, type, priority, version, options, tags, payload, ordinal)
   WHERE (SELECT number FROM found) = cardinality($10)
), placed AS (
  -- From the parameters once more, and not from what written returns: the group is no column of jobs.
  INSERT INTO :schema.held (id, position, since, track, priority, queue, group_name, type)
  SELECT input.id, moment.place + input.ordinal, moment.now, ways.track,
         CASE WHEN ways.is_ordered AND input.group_name <> '' THEN 0 ELSE coalesce(input.priority, 0) END,
         coalesce(input.queue, ($3::text[])[1]), input.group_name, coalesce(input.type, ($4::text[])[1])
    FROM moment
   CROSS JOIN (SELECT input.id, input.queue, input.type, input.priority, coalesce(input.way, 1) AS way,
                      coalesce(input.group_name, ($13::text[])[1]) AS group_name, input.ordinal
                 FROM unnest($2::uuid[], $3::text[], $4::text[], $6::smallint[], $12::integer[], $13::text[])
                        WITH ORDINALITY AS input (id, queue, type, priority, way, group_name, ordinal)) AS input
    JOIN ways ON ways.number = input.way
   WHERE (SELECT number FROM found) = cardinality($10)
  RETURNING track, group_name
), arrived AS (
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT DISTINCT moment.place, placed.track, placed.group_name FROM placed, moment
)
SELECT ((SELECT number FROM found) = cardinality($10))::text`,
)

/** True for a job that has a group or limits, is ready when it is written, and depends on no other job or key. */
export function isOnFlowPath(job: NewJob): boolean {
  const { payload, when, idempotencyKey, after, flow, replace } = job
  const isReady = when === null && idempotencyKey === null && after.length === 0 && replace === undefined
  // JSON with blanks around it would lose them here.
  return (
    flow !== undefined &&
    isReady &&
    job.lifo === undefined &&
    payload.charCodeAt(0) > 0x20 &&
    payload.charCodeAt(payload.length - 1) > 0x20
  )
}

/** Writes jobs with a group or limits. `writeGeneral` writes them if a track is missing, or an earlier try has written one of them. */
export async function writeFlow(
  db: Database,
  jobs: readonly NewJob[],
  writeGeneral: () => Promise<readonly Enqueued[]>,
): Promise<readonly Enqueued[]> {
  try {
    const [row] = await db.send('enqueue', ...flowCall(db, jobs))
    return readFlow(jobs, row!) ?? (await writeGeneral())
  } catch (error) {
    if (isWritten(error)) return writeGeneral()
    throw error
  }
}

/** The statement for jobs with a group or limits, and its values. */
export function flowCall(db: Database, jobs: readonly NewJob[]): Call {
  const ways = waysOf(jobs)
  const values = [
    ...valuesOf(db, jobs),
    arrayOf(ways.sets.map(({ queue }) => queue)),
    arrayOf(ways.sets.map(({ limits }) => arrayOf(limits))),
    unlessUsual(
      jobs.map((job) => ways.numberOf(job)),
      1,
    ),
    sameOrArrayOf(jobs.map(({ flow }) => flow!.group ?? '')),
  ]
  return [ENQUEUE_FLOW, values]
}

/** The answers of `flowCall`; null when nothing was written because a track is missing. */
export function readFlow(jobs: readonly NewJob[], [isWhole]: Row): readonly Enqueued[] | null {
  return isWhole === 'true' ? readPlain(jobs) : null
}

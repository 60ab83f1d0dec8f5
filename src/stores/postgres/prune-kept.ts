// prune, for what jobs have kept: rows of jobs that are no more. Each call looks at the next few jobs, so that what is kept for long
// costs no call much. ◄── prune.ts

import type { Database } from './database.js'
import { statement } from './statement.js'

/** Tables with rows of jobs, by the job's id. */
const TABLES = ['kept', 'output', 'signals', 'waits'] as const
/** How many jobs one call looks at in each table. */
const JOBS_MAX = 1_000
const FIRST = '00000000-0000-0000-0000-000000000000'

const PRUNE = TABLES.map((table) =>
  statement(
    `prune_${table}`,
    `
WITH RECURSIVE jobs_with AS (                                 -- from one job to the next, however many rows each has
  (SELECT id, 1 AS number FROM :schema.${table} WHERE id > $1::uuid ORDER BY id LIMIT 1)
  UNION ALL
  SELECT next.id, jobs_with.number + 1
    FROM jobs_with
   CROSS JOIN LATERAL (SELECT ${table}.id FROM :schema.${table} WHERE ${table}.id > jobs_with.id ORDER BY ${table}.id LIMIT 1) AS next
   WHERE jobs_with.number < $2
), gone AS (
  DELETE FROM :schema.${table}
   WHERE ${table}.id = ANY (ARRAY(
     SELECT jobs_with.id FROM jobs_with WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = jobs_with.id)))
)
SELECT max(number)::text, (SELECT id::text FROM jobs_with ORDER BY number DESC LIMIT 1) FROM jobs_with`,
  ),
)

/** The job behind which the next call begins, for each table. */
export type PrunedKept = string[]

export function newPrunedKept(): PrunedKept {
  return TABLES.map(() => FIRST)
}

/** False when there are more jobs to look at. */
export async function pruneKept(db: Database, last: PrunedKept): Promise<boolean> {
  let isDone = true
  for (const [index, prune] of PRUNE.entries()) {
    const [[count, id] = []] = await db.send('retention', prune, [last[index], JOBS_MAX])
    const isEnd = Number(count ?? 0) < JOBS_MAX
    last[index] = isEnd ? FIRST : id!
    isDone &&= isEnd
  }
  return isDone
}

// among: which jobs are in the given queues. To this statement a job of another queue looks like one that does not exist.

import type { Database } from './database.js'
import { arrayOf, plainArrayOf, statement } from './statement.js'

const AMONG = statement(
  'among',
  `
SELECT found.id
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT jobs.id FROM :schema.jobs WHERE jobs.id = asked.id AND jobs.queue = ANY ($2::text[]) OFFSET 0) AS found`,
)

export async function among(
  db: Database,
  ids: readonly string[],
  queues: readonly string[],
): Promise<readonly string[]> {
  return (await db.send('look', AMONG, [plainArrayOf(ids), arrayOf(queues)])).map(([id]) => id!)
}

// doubtful: effects that a provider may have seen twice, or whose outcome nobody knows.

import type { DoubtfulRequest } from '../../core/kept/contract.js'
import type { DoubtfulPage } from '../../core/kept/kept.js'
import type { Database } from './database.js'
import { arrayOf, readDate, statement } from './statement.js'

const DOUBTFUL = statement(
  'doubtful',
  `
SELECT kept.id, jobs.type, jobs.queue, kept.name, kept.begun, (extract(epoch FROM kept.began_at) * 1000)::float8,
       (extract(epoch FROM kept.ended_at) * 1000)::float8
  FROM :schema.kept
 CROSS JOIN LATERAL (SELECT jobs.type, jobs.queue FROM :schema.jobs WHERE jobs.id = kept.id OFFSET 0) AS jobs
 WHERE kept.kind = 'effect' AND (kept.begun > 1 OR kept.ended_at IS NULL)
   AND (kept.id, kept.name) > ($1::uuid, $2)
   AND ($3::uuid IS NULL OR kept.id = $3)
   AND ($4::text[] IS NULL OR jobs.queue = ANY ($4))
   AND (kept.begun > 1
        OR NOT EXISTS (SELECT FROM :schema.running WHERE running.id = kept.id AND running.fence = kept.fence))
 ORDER BY kept.id, kept.name
 LIMIT $5`,
)

const FIRST = '00000000-0000-0000-0000-000000000000'

export async function doubtful(db: Database, { id, queues, limit, after }: DoubtfulRequest): Promise<DoubtfulPage> {
  const names = queues === null ? null : arrayOf(queues)
  const rows = await db.send('look', DOUBTFUL, [after?.id ?? FIRST, after?.key ?? '', id, names, limit])
  const effects = rows.map(([job, type, queue, key, begun, beganAt, endedAt]) => ({
    ...{ id: job!, type: type!, queue: queue!, key: key!, begun: Number(begun) },
    ...{ beganAt: readDate(beganAt)!, endedAt: readDate(endedAt) },
  }))
  const last = effects.at(-1)
  return { effects, next: effects.length < limit || last === undefined ? null : { id: last.id, key: last.key } }
}

// dead groups: dead jobs by what killed them. A job's fingerprint is written when it dies (settle.ts).

import { fingerprint } from '../../core/fingerprint.js'
import type { StoredError } from '../../core/json.js'
import type { DeadGroup, DeadGroupsRequest } from '../../core/operating.js'
import type { Database, Send } from './database.js'
import { arrayOf, type Row, readDate, readJson, statement } from './statement.js'

const GROUPS_LOOKED_AT = 1_000
const COUNT_MAX = 10_000
const NEWEST = 100
const NAMES_MAX = 5

// Skips from one fingerprint to the next in the index, without reading the jobs of each.
const groupsSql = (queue: string) => `
WITH RECURSIVE mark (fingerprint) AS (
  SELECT min(dead.fingerprint) FROM :schema.dead WHERE dead.fingerprint IS NOT NULL ${queue}
   UNION ALL
  SELECT (SELECT min(dead.fingerprint) FROM :schema.dead WHERE dead.fingerprint > mark.fingerprint ${queue})
    FROM mark
   WHERE mark.fingerprint IS NOT NULL
), counted AS MATERIALIZED (
  SELECT mark.fingerprint,
         (SELECT count(*)
            FROM (SELECT FROM :schema.dead WHERE dead.fingerprint = mark.fingerprint ${queue} LIMIT $3) AS few) AS count,
         (SELECT dead.id FROM :schema.dead WHERE dead.fingerprint = mark.fingerprint ${queue}
           ORDER BY dead.id DESC LIMIT 1) AS newest
    FROM (SELECT fingerprint FROM mark WHERE fingerprint IS NOT NULL LIMIT $4) AS mark
), most AS MATERIALIZED (
  SELECT * FROM counted ORDER BY count DESC, newest DESC LIMIT $2
)
SELECT most.fingerprint, most.count, most.newest::text,
       coalesce(newest.error, (SELECT attempts.error FROM :schema.attempts
                                WHERE attempts.id = newest.id ORDER BY attempts.fence DESC LIMIT 1)),
       (extract(epoch FROM newest.died_at) * 1000)::float8,
       (SELECT (extract(epoch FROM dead.died_at) * 1000)::float8
          FROM :schema.dead
         WHERE dead.fingerprint = most.fingerprint ${queue}
         ORDER BY dead.id LIMIT 1),
       names.types, names.queues
  FROM most
 CROSS JOIN LATERAL (SELECT * FROM :schema.dead WHERE dead.id = most.newest OFFSET 0) AS newest
 CROSS JOIN LATERAL (
   SELECT json_agg(DISTINCT few.type) AS types, json_agg(DISTINCT few.queue) AS queues
     FROM (SELECT dead.type, dead.queue FROM :schema.dead WHERE dead.fingerprint = most.fingerprint ${queue}
            ORDER BY dead.id DESC LIMIT $5) AS few
 ) AS names
 ORDER BY most.count DESC, most.newest DESC`

const GROUPS = statement('dead_groups', groupsSql('AND $1::text IS NULL'))
const GROUPS_OF_QUEUE = statement('dead_groups_of', groupsSql('AND dead.queue = $1'))

export async function deadGroups(
  db: Database,
  { queue, limit, signal }: DeadGroupsRequest,
): Promise<readonly DeadGroup[]> {
  const send: Send = (sql, values) => db.search(sql, values, signal)
  const values = [queue, limit, COUNT_MAX + 1, GROUPS_LOOKED_AT, NEWEST]
  return (await send(queue === null ? GROUPS : GROUPS_OF_QUEUE, values)).map(readGroup)
}

function readGroup([mark, countText, newestId, errorText, lastAt, firstAt, types, queues]: Row): DeadGroup {
  const error = readJson(errorText) as StoredError | null
  const count = Number(countText)
  return {
    fingerprint: mark!,
    error: error === null ? null : { name: error.name, message: error.message },
    count: Math.min(count, COUNT_MAX),
    isExact: count <= COUNT_MAX,
    types: (readJson(types) as string[]).slice(0, NAMES_MAX),
    queues: (readJson(queues) as string[]).slice(0, NAMES_MAX),
    firstAt: readDate(firstAt)!,
    lastAt: readDate(lastAt)!,
    newestId: newestId!,
  }
}

const BATCH = 500
const BATCHES_MAX = 10

const WITHOUT_FINGERPRINT = statement(
  'without_fingerprint',
  `
SELECT dead.id::text,
       coalesce(dead.error, (SELECT attempts.error FROM :schema.attempts
                              WHERE attempts.id = dead.id ORDER BY attempts.fence DESC LIMIT 1))
  FROM :schema.dead
 WHERE dead.fingerprint IS NULL
 ORDER BY dead.id
 LIMIT $1`,
)

// A row that is being requeued at this moment is skipped.
const SET_FINGERPRINTS = statement(
  'set_fingerprints',
  `
WITH free AS MATERIALIZED (
  SELECT id FROM :schema.dead WHERE id = ANY ($1::uuid[]) AND fingerprint IS NULL ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE :schema.dead
   SET fingerprint = marked.fingerprint
  FROM unnest($1, $2::text[]) AS marked (id, fingerprint)
 WHERE dead.id = marked.id
   AND dead.id = ANY (ARRAY(SELECT id FROM free))`,
)

/** Computes the fingerprints of jobs that died before there were any, a bounded number of them. ◄── series.ts, in upkeep: a
 *  process that only reads may lack the right to write. */
export async function fillFingerprints(send: Send): Promise<void> {
  for (let batch = 0; batch < BATCHES_MAX; batch++) {
    const rows = await send(WITHOUT_FINGERPRINT, [BATCH])
    if (rows.length === 0) return
    const marks = rows.map(([, error]) => fingerprint(readJson(error) as StoredError | null))
    await send(SET_FINGERPRINTS, [arrayOf(rows.map(([id]) => id!)), arrayOf(marks)])
    if (rows.length < BATCH) return
  }
}

// endings: which of these jobs have finished, and how. ◄── client/wait.ts

import type { StoredError } from '../../core/json.js'
import type { DeadReason } from '../../core/states.js'
import type { Ending } from '../../core/views.js'
import type { Database } from './database.js'
import { arrayOf, readJson, statement } from './statement.js'

const ENDINGS = statement(
  'endings',
  `
SELECT asked.id, ended.state, ended.result, ended.reason, ended.error
  FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (id, turn)
 CROSS JOIN LATERAL (
   SELECT finished.ending::text AS state, finished.result, NULL AS reason, NULL::json AS error
     FROM :schema.finished
    WHERE finished.id = asked.id
    UNION ALL
   SELECT 'dead', NULL, dead.reason,
          coalesce(dead.error, (SELECT attempts.error FROM :schema.attempts
                                 WHERE attempts.id = dead.id ORDER BY attempts.fence DESC LIMIT 1))
     FROM :schema.dead
    WHERE dead.id = asked.id
 ) AS ended
 ORDER BY asked.turn`,
)

export async function endings(db: Database, ids: readonly string[]): Promise<readonly Ending[]> {
  if (ids.length === 0) return []
  const rows = await db.send('look', ENDINGS, [arrayOf(ids)])
  return rows.map(([id, state, result, reason, error]) => ({
    id: id!,
    state: state as Ending['state'],
    result: result ?? null,
    reason: reason as DeadReason | null,
    error: readJson(error) as StoredError | null,
  }))
}

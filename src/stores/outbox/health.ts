// What the outbox says about itself: how much waits, and for how long.

import type { OutboxHealth } from '../../core/outbox.js'
import type { Database } from '../postgres/database.js'
import { statement } from '../postgres/statement.js'

/** Up to this many rows are counted. */
const COUNTED_MAX = 10_000
const REFUSED_MAX = 1_000
/** The facts about Redis must not wait for a PostgreSQL that does not answer. */
const PATIENCE_MS = 1_500

// In the order of the index, so that the oldest are among those that are counted.
const HEALTH = statement(
  'outbox_health',
  `
WITH jobs AS (
  SELECT created_at FROM :schema.outbox WHERE sent_at IS NULL ORDER BY part, try_at, seq LIMIT ${COUNTED_MAX + 1}
), completions AS (
  SELECT created_at FROM :schema.outbox_completions WHERE sent_at IS NULL ORDER BY part, try_at LIMIT ${COUNTED_MAX + 1}
), refused AS (
  SELECT FROM :schema.outbox WHERE outcome = 'refused' ORDER BY sent_at LIMIT ${REFUSED_MAX}
)
SELECT (SELECT count(*) FROM jobs)::text, (SELECT count(*) FROM completions)::text,
       coalesce((extract(epoch FROM clock_timestamp() - least((SELECT min(created_at) FROM jobs),
                                                              (SELECT min(created_at) FROM completions))) * 1000)::bigint, 0)::text,
       (SELECT count(*) FROM refused)::text`,
)

export async function healthOf(db: Database): Promise<OutboxHealth> {
  const startMs = performance.now()
  const { schema } = db
  try {
    const [row] = await inTime(db.send('look', HEALTH, []))
    const [jobs, completions, oldestMs, refused] = row!.map(Number) as [number, number, number, number]
    return {
      ...{ isReachable: true, schema },
      waiting: Math.min(jobs, COUNTED_MAX) + Math.min(completions, COUNTED_MAX),
      isExact: jobs <= COUNTED_MAX && completions <= COUNTED_MAX,
      oldestMs: Math.max(0, oldestMs),
      refused,
      roundTripMs: performance.now() - startMs,
    }
  } catch {
    // The store itself is there, and says so. The calls that use the outbox report what is wrong with it.
    const roundTripMs = performance.now() - startMs
    return { isReachable: false, schema, waiting: 0, isExact: false, oldestMs: 0, refused: 0, roundTripMs }
  }
}

/** The answer, or a failure when it takes too long. */
function inTime<T>(call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('late')), PATIENCE_MS)
  })
  return Promise.race([call, late]).finally(() => clearTimeout(timer))
}

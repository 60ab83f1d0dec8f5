// horizon: who holds the oldest snapshot. While somebody does, no row that died since can be cleared away, and every table that
// jobs pass through grows.

import type { Horizon } from '../../core/operating.js'
import type { Database } from './database.js'
import { readDate, statement } from './statement.js'

// Only what is older than a moment counts: every statement holds a snapshot while it runs.
const HORIZON = statement(
  'horizon',
  `
WITH holder AS (
  SELECT 'transaction' AS kind, pid, usename::text AS name, application_name, state, xact_start AS since, query_start,
         age(backend_xmin) AS xids
    FROM pg_catalog.pg_stat_activity
   WHERE backend_xmin IS NOT NULL
     AND pid <> pg_backend_pid()
     AND backend_type = 'client backend'
     AND datid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   UNION ALL
  SELECT 'prepared', NULL, owner::text, gid, 'prepared', prepared, NULL, age(transaction)
    FROM pg_catalog.pg_prepared_xacts
   WHERE database = current_database()
   UNION ALL
  SELECT 'slot', active_pid, slot_name::text, plugin::text, CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, NULL,
         greatest(age(xmin), age(catalog_xmin))
    FROM pg_catalog.pg_replication_slots
   WHERE xmin IS NOT NULL
   UNION ALL
  SELECT 'standby', pid, usename::text, application_name, state, NULL, NULL, age(backend_xmin)
    FROM pg_catalog.pg_stat_replication
   WHERE backend_xmin IS NOT NULL
)
SELECT kind, pid, name, application_name, state, (extract(epoch FROM since) * 1000)::float8,
       (extract(epoch FROM query_start) * 1000)::float8, xids,
       coalesce((extract(epoch FROM clock_timestamp() - since) * 1000)::float8, 0)
  FROM holder
 WHERE since IS NULL OR since < clock_timestamp() - interval '1 second'
 ORDER BY xids DESC, since
 LIMIT 1`,
)

/** The oldest snapshot that is held, or null when none is older than a second. */
export async function horizon(db: Database): Promise<Horizon | null> {
  const [row] = await db.send('upkeep', HORIZON, [])
  if (row === undefined) return null
  const [kind, pid, user = null, application = null, state = null, since, queryStart, xids, ageMs] = row
  return {
    ageMs: Number(ageMs),
    xids: Number(xids),
    holder: {
      kind: kind as 'transaction' | 'prepared' | 'slot' | 'standby',
      pid: pid === null ? null : Number(pid),
      user,
      application,
      state,
      since: readDate(since),
      queryStart: readDate(queryStart),
    },
  }
}

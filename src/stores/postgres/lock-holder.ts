// Who holds locks on the schema's tables. Messages about a step that could not get its locks name them.

import type { Row } from './statement.js'

/** Finds the oldest transaction that holds locks on tables of the schema. */
export const LOCK_HOLDER_SQL: string = `
SELECT activity.pid, activity.usename, activity.application_name, activity.state,
       (extract(epoch FROM clock_timestamp() - activity.xact_start))::integer
  FROM pg_catalog.pg_locks
  JOIN pg_catalog.pg_class ON pg_class.oid = pg_locks.relation
  JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = pg_locks.pid
 WHERE pg_class.relnamespace = to_regnamespace(':schema')
   AND pg_locks.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND pg_locks.granted
   AND pg_locks.pid <> pg_backend_pid()
 ORDER BY activity.xact_start
 LIMIT 1`

/** The holder in plain words. */
export function describeHolder(row: Row | undefined): string {
  if (row === undefined) return 'a transaction that has ended since'
  const [pid, user, application, state, seconds] = row
  const who = [`pid ${pid}`, user === null ? null : `user ${user}`, application, state].filter((part) => part)
  return `a transaction that is ${seconds ?? 0} s old (${who.join(', ')})`
}

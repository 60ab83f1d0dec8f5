// Which server a connection leads to: the cluster it belongs to, and how often that cluster has changed hands. Every promotion begins a
// new timeline, and no server of an older one may be written to any more.

import type { Query } from './exchange.js'
import type { Row } from './statement.js'

export interface ServerIdentity {
  /** The cluster's system identifier. A standby has that of its primary. */
  readonly system: string
  readonly timeline: number
}

/** The timeline of a primary, from the name of the file it writes its log to: pg_control_checkpoint() lags behind a promotion. */
const TIMELINE_SQL = `('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::bigint`

/** Answers one row, null and null on a standby. Some servers that speak PostgreSQL's protocol have none of these functions. */
export const IDENTITY: Query = {
  name: '',
  text: `
SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE system_identifier::text END,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE ${TIMELINE_SQL} END
  FROM pg_catalog.pg_control_system()`,
  values: [],
}

/** Reads the answer; null for a standby. */
export function readIdentity([row]: readonly Row[]): ServerIdentity | null {
  const [system, timeline] = row ?? []
  return system == null || timeline == null ? null : { system, timeline: Number(timeline) }
}

const OTHER = 'holdfast_timeline_'

/** A statement that fails on a primary of another timeline, with an error that `isOtherTimeline` knows. On a standby it does nothing: the
 *  statement behind it is refused there. */
export function onTimeline({ timeline }: ServerIdentity): string {
  return `SELECT CASE WHEN pg_catalog.pg_is_in_recovery() OR ${TIMELINE_SQL} = ${timeline} THEN 0 ELSE ('${OTHER}' || ${TIMELINE_SQL})::integer END`
}

export function isOtherTimeline(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message.includes(OTHER)
}

/** How the identity of a server compares with the newest that was seen. */
export type Comparison = 'same' | 'newer' | 'stale'

/** A server of another cluster counts as newer: nothing says which of two clusters is the older one. */
export function compareIdentity(seen: ServerIdentity, found: ServerIdentity): Comparison {
  if (seen.system !== found.system) return 'newer'
  if (seen.timeline === found.timeline) return 'same'
  return found.timeline > seen.timeline ? 'newer' : 'stale'
}

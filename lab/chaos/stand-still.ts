// What a run that makes no progress looks like from inside the server: every backend, every lock that is waited for, and every table of flow
// control. Written to a file, so that the cause can be found after the run is gone.

import { writeFile } from 'node:fs/promises'
import type pg from 'pg'

const TABLES = [
  'held',
  'arrivals',
  'rotation',
  'naps',
  'running',
  'scheduled',
  'blocked',
  'limits',
  'flows',
  'groups',
  'tracks',
]
const ROWS_MAX = 2_000

const LOOKS: readonly (readonly [name: string, sql: string])[] = [
  [
    'backends',
    `SELECT pid, application_name, state, wait_event_type, wait_event, xact_start, query_start, state_change, backend_xid, backend_xmin,
            pg_blocking_pids(pid) AS blocked_by, left(query, 300) AS query
       FROM pg_stat_activity WHERE backend_type = 'client backend' ORDER BY pid`,
  ],
  [
    'locks that are waited for',
    'SELECT pid, locktype, relation::regclass::text, mode, transactionid, waitstart FROM pg_locks WHERE NOT granted',
  ],
  ['prepared transactions', 'SELECT * FROM pg_prepared_xacts'],
  ['time', 'SELECT clock_timestamp()'],
]

/** Writes it all to a file and returns a line for people: how many rows each table has. */
export async function writeStandStill(sql: pg.Client, schema: string, file: string): Promise<string> {
  const found: Record<string, unknown> = {}
  for (const [name, text] of LOOKS) found[name] = (await sql.query(text)).rows
  const counts: string[] = []
  for (const table of TABLES) {
    const { rows } = await sql.query(`SELECT * FROM "${schema}".${table} LIMIT ${ROWS_MAX}`)
    found[table] = rows
    counts.push(`${rows.length} ${table}`)
  }
  await writeFile(file, JSON.stringify(found, null, 1))
  return counts.join(', ')
}

// What a measurement costs beside time: processor time in the server and in Node, log written, commits made.

import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

// Linux counts processor time in hundredths of a second.
const TICK_US = 10_000

/** Processor time of a server so far, in microseconds: its own, that of its living children and of those that ended. */
export function serverCpuUs(serverPid: number): number {
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = readStat(name)
    if (fields === null) continue
    const isServer = Number(name) === serverPid
    // utime, stime; of the server also cutime and cstime, the children it has seen end.
    if (isServer || Number(fields[1]) === serverPid) ticks += Number(fields[11]) + Number(fields[12])
    if (isServer) ticks += Number(fields[13]) + Number(fields[14])
  }
  return ticks * TICK_US
}

function readStat(pid: string): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return null
  }
}

export interface PostgresCounters {
  readonly walBytes: number
  readonly commits: number
  readonly deadTuples: number
}

/** The server's own counters so far. */
export async function readCounters(url: string): Promise<PostgresCounters> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query(`
      SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal,
             (SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()) AS commits,
             (SELECT sum(n_tup_upd + n_tup_del)::float8 FROM pg_stat_all_tables) AS dead`)
    return { walBytes: rows[0].wal, commits: rows[0].commits, deadTuples: rows[0].dead }
  } finally {
    await client.end()
  }
}

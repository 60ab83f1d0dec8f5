// The cost of a measurement apart from time: processor time in the server and in Node, log written, commits made.

import { readdirSync, readFileSync } from 'node:fs'
import { withClient } from './database.js'

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

/** How long each process of a server has waited for a processor so far, in microseconds. Those that have ended are left out. */
export function serverWaitedUs(serverPid: number): ReadonlyMap<string, number> {
  const waited = new Map<string, number>()
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    const isServer = Number(pid) === serverPid || Number(readStat(pid)?.[1]) === serverPid
    const times = isServer ? readSchedstat(pid) : null
    if (times !== null) waited.set(pid, times)
  }
  return waited
}

function readSchedstat(pid: string): number | null {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1_000
  } catch {
    return null
  }
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
export function readCounters(url: string): Promise<PostgresCounters> {
  return withClient(url, async (client) => {
    const { rows } = await client.query(`
      SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal,
             (SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()) AS commits,
             (SELECT sum(n_tup_upd + n_tup_del)::float8 FROM pg_stat_all_tables) AS dead`)
    return { walBytes: rows[0].wal, commits: rows[0].commits, deadTuples: rows[0].dead }
  })
}

/** The memory a process holds at this moment, in bytes; null when it has ended. `most` asks for the most it ever held. */
export function residentBytes(pid: number, which: 'now' | 'most' = 'now'): number | null {
  try {
    const name = which === 'now' ? 'VmRSS' : 'VmHWM'
    const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return kilobytes === undefined ? null : Number(kilobytes) * 1_024
  } catch {
    return null
  }
}

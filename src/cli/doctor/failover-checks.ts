// What `doctor` says about replication, and after a failover about what may be missing. Pure.

import type { PostgresHealth } from '../../core/operating.js'
import type { LastFailover } from '../../stores/postgres/last-failover.js'
import type { Check } from './checks.js'

type Found = Omit<Check, 'name'>

/** What commits wait for, beyond the server's own disk. */
export function checkReplication({ connected, synchronous }: NonNullable<PostgresHealth['standbys']>): Found {
  if (synchronous !== '' && connected === 0) {
    return {
      level: 'warning',
      text: `synchronous_standby_names is "${synchronous}", and no standby follows: commits wait for one`,
      fix: ['start the standby, or: ALTER SYSTEM RESET synchronous_standby_names;', 'SELECT pg_reload_conf();'],
    }
  }
  if (synchronous !== '') return ok(`commits wait for "${synchronous}": a failover to such a standby loses nothing`)
  if (connected === 0) return ok('no standby follows this server by streaming')
  const standbys = connected === 1 ? '1 standby follows' : `${connected} standbys follow`
  return ok(`${standbys}, and commits wait for none: a failover may lose the last ones`)
}

/** The last failover: the window, how many jobs may be missing in it at most, and what was said again. */
export function describeFailover(last: LastFailover | null | undefined): readonly string[] {
  if (last === undefined) return ['Whether there was a failover cannot be read.']
  if (last === null)
    return ['No failover was seen by a process with failoverMemory since this schema is at migration 19.']
  const { timeline, changes, at, lostFrom, silent, processes, missingMax, said, inside } = last
  const lines = [
    `Timeline ${timeline} was first seen at ${at.toISOString()}; ${changes === 1 ? 'it is the first change' : `it is change ${changes}`} on record.`,
  ]
  if (lostFrom === null) lines.push('Which commit was the last one taken over is not known.')
  else {
    const seconds = Math.max(0, (at.getTime() - lostFrom.getTime()) / 1_000)
    lines.push(
      `Commits between ${lostFrom.toISOString()} and ${at.toISOString()} (${seconds.toFixed(1)} s) may be lost.`,
      silent === 0
        ? 'Every process that was there shortly before has spoken since: nothing is missing that anybody knows of.'
        : `${silent} processes that were there have not spoken since: ${processes}. By their busiest second at most about ${missingMax} of their jobs are missing.`,
    )
  }
  lines.push(
    `${said.processes} processes said again what was missing: ${said.jobs} jobs, ${said.claims} claims, ${said.settlements} settlements, ${said.operations} operations.`,
    `${inside} jobs that were enqueued in callers' transactions are not there: rolled back, or lost with everything else these wrote.`,
  )
  return lines
}

function ok(text: string): Found {
  return { level: 'ok', text, fix: [] }
}

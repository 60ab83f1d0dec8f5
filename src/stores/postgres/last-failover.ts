// The last failover of a store, as its tables tell it: when, what may be lost, and what was said again. ◄── cli/doctor

import { audit } from './audit.js'
import type { Database } from './database.js'
import { missing } from './missing.js'
import { readDate, statement } from './statement.js'

/** How many lines are read. Each process writes one. */
const LINES_MAX = 200

const LAST = statement(
  'last_failover',
  `
SELECT timeline.timeline::text, timeline.changes::text,
       (extract(epoch FROM timeline.since) * 1000)::float8::text, (extract(epoch FROM timeline.lost_from) * 1000)::float8::text
  FROM :schema.timeline
 WHERE timeline.since IS NOT NULL`,
)

export interface LastFailover {
  readonly timeline: number
  /** How many there were. */
  readonly changes: number
  /** When the first process met the new server. */
  readonly at: Date
  /** The last commit that the new server took over; null when it has been started again since. */
  readonly lostFrom: Date | null
  /** Processes that were there shortly before and have not spoken since, and the most jobs that only they can have known. */
  readonly silent: number
  readonly processes: string
  readonly missingMax: number
  /** What processes said again, and how many of them did. */
  readonly said: {
    readonly processes: number
    readonly jobs: number
    readonly claims: number
    readonly settlements: number
    readonly operations: number
  }
  /** Jobs of callers' transactions that are not there. */
  readonly inside: number
}

/** Null when there was none. */
export async function lastFailover(db: Database): Promise<LastFailover | null> {
  const [row] = await db.send('look', LAST, [])
  if (row === undefined) return null
  const [timeline, changes, since, lostFrom] = row
  const found = await missing(db)
  const { entries } = await audit(db, { before: null, limit: LINES_MAX, action: 'said_again' })
  const lines = entries
    .filter(({ target }) => target === timeline)
    .map(({ details }) => details as Record<string, number>)
  const sum = (name: string) => lines.reduce((total, line) => total + Number(line[name] ?? 0), 0)
  return {
    timeline: Number(timeline),
    changes: Number(changes),
    at: readDate(since)!,
    lostFrom: readDate(lostFrom),
    silent: found?.clients ?? 0,
    processes: found?.processes ?? '',
    missingMax: found?.jobsMax ?? 0,
    said: {
      processes: lines.length,
      jobs: sum('jobs'),
      claims: sum('claims'),
      settlements: sum('settlements'),
      operations: sum('operations'),
    },
    inside: sum('inside'),
  }
}

// What may be missing after a failover although everybody who lives has spoken: the window, and what the marks of those say that have
// not. ◄── failover.ts, last-failover.ts

import type { Database, Purpose } from './database.js'
import { type Row, readDate, statement } from './statement.js'

const columns =
  "(extract(epoch FROM lost_from) * 1000)::float8::text, (extract(epoch FROM lost_until) * 1000)::float8::text, clients::text, jobs_max::text, coalesce(processes, '')"

const MISSING = statement('missing', `SELECT ${columns} FROM :schema.missing()`)

const REPORT = statement('report_missing', `SELECT ${columns} FROM :schema.report_missing()`)

export interface Missing {
  /** The last commit that the new server took over; null when nobody knows. */
  readonly from: Date | null
  /** When the first process met the new server. */
  readonly until: Date
  /** Processes that were there shortly before and have not spoken since. */
  readonly clients: number
  /** The most jobs that only they can have known, by the busiest second of each. */
  readonly jobsMax: number
  /** Their hosts and process ids. */
  readonly processes: string
}

/** As it is now; null when there was no failover. */
export async function missing(db: Database): Promise<Missing | null> {
  return read(await db.send('look', MISSING, []))
}

/** The same for the first process that asks after a failover, once everybody had time to speak; null for the others. */
export async function reportMissing(db: Database, purpose: Purpose): Promise<Missing | null> {
  return read(await db.send(purpose, REPORT, []))
}

function read([row]: readonly Row[]): Missing | null {
  if (row === undefined) return null
  const [from, until, clients, jobsMax, processes] = row
  return {
    from: readDate(from),
    until: readDate(until)!,
    clients: Number(clients),
    jobsMax: Number(jobsMax),
    processes: processes!,
  }
}

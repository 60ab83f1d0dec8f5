// enqueue: facts into jobs, a place into ready, scheduled or blocked. ◄── client/group-commit.ts · next: claim.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import { type ClaimOnEnqueue, isPlain } from '../../core/offer.js'
import type { Database, Send } from './database.js'
import { cut, writeFull } from './enqueue-full.js'
import { writePlain } from './enqueue-plain.js'

/** Writes jobs, all or none, in the caller's transaction if there is one; the answers are in the order of the jobs. */
export async function enqueue(
  db: Database,
  tx: Send | null,
  jobs: readonly NewJob[],
  claim?: ClaimOnEnqueue,
): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return []
  // A key may be held by somebody's open transaction. Who waits for it must not hold up those that have none.
  const purpose = jobs.some((job) => job.idempotencyKey !== null) ? 'keys' : 'enqueue'
  const send: Send = tx ?? ((sql, values) => db.send(purpose, sql, values))
  if (jobs.every((job) => isPlain(job) && isTrimmed(job.payload))) return writePlain(db, tx, jobs, claim)
  const rows = jobs.map((job) => ({ job, schedule: null }))
  const pieces = cut(rows)
  // Almost always one statement writes them all and needs no transaction around it.
  if (pieces.length === 1 || tx !== null) return writeFull(db, send, rows, pieces)
  return db.transaction(purpose, (inside) => writeFull(db, inside, rows, pieces))
}

/** Whether a JSON text keeps its letters as a part of an array: blanks around it would be lost. */
function isTrimmed(json: string): boolean {
  return json.charCodeAt(0) > 0x20 && json.charCodeAt(json.length - 1) > 0x20
}

/** Writes the jobs of a schedule's ticks, inside the transaction of their firing. */
export async function enqueueTicks(
  db: Database,
  send: Send,
  ticks: readonly { readonly job: NewJob; readonly name: string; readonly tickMs: number }[],
): Promise<readonly Enqueued[]> {
  if (ticks.length === 0) return []
  const rows = ticks.map(({ job, name, tickMs }) => ({ job, schedule: { name, tickMs } }))
  return writeFull(db, send, rows, cut(rows))
}

// enqueue: facts into jobs, a place into ready, scheduled or blocked. ◄── client/group-commit.ts · next: claim.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import { type ClaimOnEnqueue, isPlain } from '../../core/reserve.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { cut, writeFull } from './enqueue-full.js'
import { writePlain } from './enqueue-plain.js'
import { unlessHeld } from './keys-in-writing.js'
import { statesOf } from './states.js'
import { unblock } from './unblock.js'

/** Writes jobs, all or none; the answers are in the order of the jobs. */
export function enqueue(
  db: Database,
  jobs: readonly NewJob[],
  { claim, wereHeld }: { readonly claim: ClaimOnEnqueue | undefined; readonly wereHeld: readonly NewJob[] },
): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return Promise.resolve([])
  if (isAllPlain(jobs)) return writePlain(db, null, jobs, claim)
  if (jobs.every((job) => job.idempotencyKey === null)) return writeRows(db, 'enqueue', jobs, null)
  // A key may be held by somebody's open transaction. Who waits for it must not hold up those that have none.
  return unlessHeld(db, jobs, wereHeld, (patience) => writeRows(db, 'keys', jobs, patience))
}

/** Writes jobs in the caller's transaction. */
export async function enqueueThrough(db: Database, send: Send, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return []
  if (isAllPlain(jobs)) return writePlain(db, send, jobs, undefined)
  const rows = jobs.map((job) => ({ job, schedule: null }))
  return writeFull({ db, send, isAlone: false, patience: null }, rows, cut(rows))
}

function isAllPlain(jobs: readonly NewJob[]): boolean {
  return jobs.every((job) => isPlain(job) && isTrimmed(job.payload))
}

async function writeRows(
  db: Database,
  purpose: 'enqueue' | 'keys',
  jobs: readonly NewJob[],
  patience: string | null,
): Promise<readonly Enqueued[]> {
  const send: Send = (sql, values) => db.send(purpose, sql, values)
  const rows = jobs.map((job) => ({ job, schedule: null }))
  const pieces = cut(rows)
  // Almost always one statement writes them all and needs no transaction around it.
  if (pieces.length === 1) return writeFull({ db, send, isAlone: true, patience }, rows, pieces)
  const answers = await db.transaction(purpose, (inside) =>
    writeFull({ db, send: inside, isAlone: false, patience }, rows, pieces),
  )
  return lookAgain(db, send, answers)
}

/** Looks at the parents of blocked jobs once more, after the transaction that wrote them. */
async function lookAgain(db: Database, send: Send, answers: readonly Enqueued[]): Promise<readonly Enqueued[]> {
  const blocked = answers.filter((answer) => 'created' in answer && answer.created && answer.state === 'blocked')
  if (blocked.length === 0) return answers
  const ids = blocked.map(({ id }) => id)
  const looked = await unblock(db, send, ids, ids, () => {})
  const moved = ids.filter((id) => !looked.has(id))
  const states = moved.length > 0 ? await statesOf(send, moved) : new Map<string, JobState>()
  return answers.map((answer) => {
    if (!('state' in answer)) return answer
    return { ...answer, state: looked.get(answer.id) ?? states.get(answer.id) ?? answer.state }
  })
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
  return writeFull({ db, send, isAlone: false, patience: null }, rows, cut(rows))
}

// enqueue: facts into jobs, a position into ready, scheduled or blocked. ◄── client/group-commit.ts · next: enqueue-plain.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { cut, readTimed, timedCall, writeFull } from './enqueue-full.js'
import { isWritten, plainCall, readPlain, writePlain } from './enqueue-plain.js'
import { unlessHeld } from './keys-in-writing.js'
import { statesOf } from './states.js'
import { unblock } from './unblock.js'

// Plain jobs cost half as much by a statement of their own. From this many on that is worth a second statement for the others.
const APART_FROM = 32

/** Writes jobs, all or none; the answers are in the order of the jobs. */
export function enqueue(
  db: Database,
  jobs: readonly NewJob[],
  { claim, wereHeld }: { readonly claim: ClaimOnEnqueue | undefined; readonly wereHeld: readonly NewJob[] },
): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return Promise.resolve([])
  const plain = jobs.filter(isPlain)
  if (plain.length === jobs.length) return writePlain(db, null, jobs, claim)
  const hasKeys = jobs.some((job) => job.idempotencyKey !== null)
  const hasParents = jobs.some((job) => job.after.length > 0)
  if (!hasKeys && !hasParents && plain.length >= APART_FROM) return writeApart(db, jobs, plain, claim)
  if (!hasKeys) return writeRows(db, 'enqueue', jobs, null)
  // An open transaction may hold a key. A call that waits for it must not hold up those without keys.
  return unlessHeld(db, jobs, wereHeld, (patience) => writeRows(db, 'keys', jobs, patience))
}

/** True for a job of the fast path: ready immediately, without key or parents. JSON with blanks around it would lose them there. */
function isPlain(job: NewJob): boolean {
  return job.when === null && job.idempotencyKey === null && job.after.length === 0 && isTrimmed(job.payload)
}

function isTrimmed(json: string): boolean {
  return json.charCodeAt(0) > 0x20 && json.charCodeAt(json.length - 1) > 0x20
}

/** Plain jobs and timed ones, each by its own statement, in one exchange with one commit. */
async function writeApart(
  db: Database,
  jobs: readonly NewJob[],
  plain: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): Promise<readonly Enqueued[]> {
  const timed = jobs.filter((job) => !isPlain(job))
  const isClaimable = claim !== undefined && jobs.slice(0, claim.count).every(isPlain)
  const calls = [plainCall(db, plain, isClaimable ? claim : undefined), timedCall(db, timed)]
  try {
    const [plainRows, timedRows] = await db.sendTogether('enqueue', calls)
    const timedAnswers = readTimed(timedRows!)
    if (timedAnswers === null) return writeRows(db, 'enqueue', jobs, null)
    const answers = [...readPlain(plain, plainRows![0]!), ...timedAnswers]
    const byId = new Map(answers.map((answer) => [answer.id, answer]))
    return jobs.map(({ id }) => byId.get(id)!)
  } catch (error) {
    // An earlier try has written some of them. The general path tolerates that.
    if (isWritten(error)) return writeRows(db, 'enqueue', jobs, null)
    throw error
  }
}

/** Writes jobs in the caller's transaction. */
export async function enqueueThrough(db: Database, send: Send, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return []
  if (jobs.every(isPlain)) return writePlain(db, send, jobs, undefined)
  const rows = jobs.map((job) => ({ job, schedule: null }))
  return writeFull({ db, send, isAlone: false, patience: null }, rows, cut(rows))
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

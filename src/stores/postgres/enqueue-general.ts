// enqueue, the general path: jobs with a time, a key, parents, or of a schedule. ◄── enqueue.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { claimedCall, readClaimed } from './enqueue-claimed.js'
import { flowCall, isOnFlowPath, readFlow, writeFlow } from './enqueue-flow.js'
import { cut, readTimed, timedCall, writeFull } from './enqueue-full.js'
import { isOnFastPath, isWritten } from './enqueue-plain.js'
import { unlessHeld } from './keys-in-writing.js'
import { statesOf } from './states.js'
import { unblock } from './unblock.js'

// Plain jobs cost half as much by a statement of their own. From this many on that is worth a second statement for the others.
const APART_FROM = 32

/** Writes any jobs, all or none; the answers are in the order of the jobs. */
export function writeGeneral(
  db: Database,
  jobs: readonly NewJob[],
  options: GeneralOptions,
): Promise<readonly Enqueued[]> {
  const write = () => writeAny(db, jobs, options)
  return jobs.every(isOnFlowPath) ? writeFlow(db, jobs, write) : write()
}

interface GeneralOptions {
  readonly claim: ClaimOnEnqueue | undefined
  readonly wereHeld: readonly NewJob[]
}

function writeAny(
  db: Database,
  jobs: readonly NewJob[],
  { claim, wereHeld }: GeneralOptions,
): Promise<readonly Enqueued[]> {
  const plain = jobs.filter(isOnFastPath)
  const hasKeys = jobs.some((job) => job.idempotencyKey !== null)
  const hasParents = jobs.some((job) => job.after.length > 0)
  if (!hasKeys && !hasParents && plain.length >= APART_FROM) return writeApart(db, jobs, plain, claim)
  if (!hasKeys) return writeRows(db, 'enqueue', jobs, null)
  // An open transaction may hold a key. A call that waits for it must not hold up those without keys.
  return unlessHeld(db, jobs, wereHeld, (patience) => writeRows(db, 'keys', jobs, patience))
}

/** Plain jobs and others, each by its own statement, in one exchange with one commit. */
async function writeApart(
  db: Database,
  jobs: readonly NewJob[],
  plain: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): Promise<readonly Enqueued[]> {
  const others = jobs.filter((job) => !isOnFastPath(job))
  const areFlow = others.every(isOnFlowPath)
  const isClaimable = claim !== undefined && jobs.slice(0, claim.count).every(isOnFastPath)
  const calls = [
    claimedCall(db, plain, isClaimable ? claim : undefined),
    areFlow ? flowCall(db, others) : timedCall(db, others),
  ]
  try {
    const [plainRows, otherRows] = await db.sendTogether('enqueue', calls)
    const otherAnswers = areFlow ? readFlow(others, otherRows![0]!) : readTimed(otherRows!)
    if (otherAnswers === null) return writeRows(db, 'enqueue', jobs, null)
    const answers = [...readClaimed(plain, plainRows![0]!), ...otherAnswers]
    const byId = new Map(answers.map((answer) => [answer.id, answer]))
    return jobs.map(({ id }) => byId.get(id)!)
  } catch (error) {
    // An earlier try has written some of them. The general path tolerates that.
    if (isWritten(error)) return writeRows(db, 'enqueue', jobs, null)
    throw error
  }
}

/** Writes any jobs in a transaction, the caller's or one that waits for keys no longer than this. */
export function writeThrough(
  db: Database,
  send: Send,
  jobs: readonly NewJob[],
  patience: string | null = null,
): Promise<readonly Enqueued[]> {
  const rows = jobs.map((job) => ({ job, schedule: null }))
  return writeFull({ db, send, isAlone: false, patience }, rows, cut(rows))
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
  if (pieces.length === 1 && jobs.every(({ replace }) => replace === undefined)) {
    return writeFull({ db, send, isAlone: true, patience }, rows, pieces)
  }
  // Tracks are made on the connection for enqueues meanwhile, which must be free for that.
  const answers = await db.transaction('keys', (inside) =>
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

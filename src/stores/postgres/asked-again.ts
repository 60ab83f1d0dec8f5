// Does again what operators and callers had asked for and a failover lost: cancels, requeues, discards, changes of jobs and their payloads,
// pauses. Each by the id of its job or the name of its queue, and only where nothing newer is on record. ◄── failover.ts

import { isHoldfastError } from '../../core/errors.js'
import type { NewJob } from '../../core/job.js'
import type { JobChanges } from '../../core/operator-store.js'
import { isFinished, type JobState } from '../../core/states.js'
import { cancel } from './cancel.js'
import type { Database, Send } from './database.js'
import { deleteJobs } from './delete.js'
import { writeGeneral } from './enqueue-general.js'
import { pause, resume } from './queues.js'
import { discard, requeueThrough } from './requeue.js'
import { deleteAgain } from './say-again.js'
import { statement } from './statement.js'
import { statesOf } from './states.js'
import { update } from './update.js'

/** One thing that was asked for and done, and when by this process's clock. */
export type Asked = { readonly atMs: number; readonly by: string } & (
  | { readonly kind: 'cancel'; readonly id: string; readonly wasRunning: boolean }
  | { readonly kind: 'discard'; readonly id: string }
  | { readonly kind: 'delete'; readonly id: string }
  /** How often the job had been requeued by then. */
  | { readonly kind: 'requeue'; readonly id: string; readonly requeues: number }
  | { readonly kind: 'update'; readonly id: string; readonly changes: JobChanges }
  /** The job took the payload of this one, which has its key. */
  | { readonly kind: 'replace'; readonly id: string; readonly job: NewJob }
  | { readonly kind: 'queue'; readonly queue: string; readonly call: 'pause' | 'resume' }
)

/** The calls that a change of a job's state makes. */
export interface AskedCalls {
  readonly asked: (id: string) => void
  readonly ready: (queue: string) => void
}

interface AskedAgain {
  readonly done: number
  /** What has to wait until others have said more about the job. */
  readonly left: readonly Asked[]
}

/** What is asked of one thing: only the last of its kind counts. */
export function nameOfAsked(asked: Asked): string {
  return asked.kind === 'queue' ? `queue ${asked.queue}` : `${asked.kind} ${asked.id}`
}

/** How many are looked at together. */
const LOOK = 1_000

/** Does again what is not done. With `isOver` nothing waits for others any more. */
export async function askAgain(
  db: Database,
  all: readonly Asked[],
  calls: AskedCalls & { readonly isOver: boolean },
): Promise<AskedAgain> {
  const left: Asked[] = []
  let done = 0
  for (let from = 0; from < all.length; from += LOOK) {
    const some = await askSome(db, all.slice(from, from + LOOK), calls)
    done += some.done
    left.push(...some.left)
  }
  return { done, left }
}

async function askSome(
  db: Database,
  all: readonly Asked[],
  { isOver, ...on }: AskedCalls & { readonly isOver: boolean },
): Promise<AskedAgain> {
  const send: Send = (sql, values) => db.send('again', sql, values)
  const ids = [...new Set(all.flatMap((asked) => ('id' in asked ? [asked.id] : [])))]
  const states = await statesOf(send, ids)
  const left: Asked[] = []
  const cancels = new Map<string, string[]>()
  let done = 0
  for (const asked of all) {
    const state = 'id' in asked ? states.get(asked.id) : undefined
    const next = standingOf(asked, state)
    if (next === 'early' && !isOver) left.push(asked)
    if (next === 'over' || (next === 'early' && (!isOver || state === undefined))) continue
    if (asked.kind === 'cancel') cancels.set(asked.by, [...(cancels.get(asked.by) ?? []), asked.id])
    else done += Number(await unlessRefused(() => ask(db, send, asked, on)))
  }
  for (const [by, some] of cancels) {
    await unlessRefused(async () => {
      const results = await cancel(db, send, some, by, on)
      done += results.filter(({ result }) => result === 'cancelled' || result === 'asked').length
      return true
    })
  }
  return { done, left }
}

/** Whether it is to be done now, later when others have spoken, or not at all. */
function standingOf(asked: Asked, state: JobState | undefined): 'due' | 'early' | 'over' {
  // A job that is not there is noted as deleted, so that nobody brings it back.
  if (asked.kind === 'queue' || (asked.kind === 'delete' && state === undefined)) return 'due'
  if (state === undefined) return 'early'
  switch (asked.kind) {
    case 'cancel':
      if (isFinished(state)) return 'over'
      // It ran when this was asked. Its worker may know that it has ended.
      return asked.wasRunning && state !== 'running' ? 'early' : 'due'
    case 'delete':
      // It had ended, or waited. Its worker may know that it has.
      return state === 'running' ? 'early' : 'due'
    case 'discard':
    case 'requeue':
      if (state === 'dead') return 'due'
      // The worker that knows of its death may not have spoken.
      return isFinished(state) ? 'over' : 'early'
    default:
      return isFinished(state) || state === 'running' ? 'over' : 'due'
  }
}

/** Whether anything was changed. */
async function ask(
  db: Database,
  send: Send,
  asked: Exclude<Asked, { kind: 'cancel' }>,
  on: AskedCalls,
): Promise<boolean> {
  switch (asked.kind) {
    case 'discard':
      return (await discard(db, send, [asked.id], asked.by))[0]?.result === 'cancelled'
    case 'delete':
      return deleteUnlessKnown(db, asked, on)
    case 'requeue':
      return requeueUnlessNewer(db, asked, on)
    case 'update': {
      if (await hasNewer(send, asked, asked.id, ['update'])) return false
      return (await update(db, send, asked.id, asked.changes, asked.by, on.ready)).result === 'updated'
    }
    case 'replace': {
      const [answer] = await writeGeneral(db, [asked.job], { claim: undefined, wereHeld: [] })
      return answer !== undefined && 'replaced' in answer
    }
    case 'queue': {
      if (await hasNewer(send, asked, asked.queue, ['pause', 'resume'])) return false
      await (asked.call === 'pause' ? pause : resume)(db, asked.queue, asked.by, 'again')
      if (asked.call === 'resume') on.ready(asked.queue)
      return true
    }
  }
}

async function deleteUnlessKnown(
  db: Database,
  { id, by }: Extract<Asked, { kind: 'delete' }>,
  { ready }: AskedCalls,
): Promise<boolean> {
  await db.transaction('again', (send) => deleteAgain(send, [id]))
  return (await deleteJobs(db, [id], by, ready, 'again'))[0]?.result === 'deleted'
}

const REQUEUES = statement(
  'requeues_of',
  `SELECT count(*)::integer FROM :schema.audit WHERE audit.job = $1::uuid AND audit.action = 'requeue'`,
)

/** A job may have died again since, and then it stays dead. */
async function requeueUnlessNewer(
  db: Database,
  { id, requeues, by }: Extract<Asked, { kind: 'requeue' }>,
  { ready }: AskedCalls,
): Promise<boolean> {
  const queues = new Set<string>()
  const isDone = await db.transaction('again', async (send) => {
    const [[count] = []] = await send(REQUEUES, [id])
    if (Number(count) >= requeues) return false
    const [result] = await requeueThrough(db, send, [id], by, (queue) => queues.add(queue))
    return result?.result === 'requeued'
  })
  queues.forEach(ready)
  return isDone
}

/** Lines that are looked through: nobody says again what is older. */
const LINES = 10_000

const NEWER = statement(
  'asked_since',
  `
SELECT EXISTS (
  SELECT FROM :schema.audit
   WHERE audit.line > (SELECT max(newest.line) FROM :schema.audit AS newest) - ${LINES}
     AND audit.at > to_timestamp($1::float8 / 1000)
     AND (audit.target = $2 OR audit.job::text = $2)
     AND audit.action = ANY ($3::text[]))`,
)

/** Whether somebody has asked for the same since. It compares the clock of this process with the server's. */
async function hasNewer(send: Send, { atMs }: Asked, name: string, actions: readonly string[]): Promise<boolean> {
  const [[isNewer] = []] = await send(NEWER, [atMs, name, `{${actions.join(',')}}`])
  return isNewer === 't'
}

/** What the server refuses now, such as a key that has another job, does not stop the rest. */
async function unlessRefused(act: () => Promise<boolean>): Promise<boolean> {
  try {
    return await act()
  } catch (error) {
    if (isHoldfastError(error, 'store_refused') || isHoldfastError(error, 'access_denied')) return false
    throw error
  }
}

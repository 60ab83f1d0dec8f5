// settle: a job leaves `running` for the state of its settlement, if its fence still matches. ◄── worker/settler.ts through
// settle-locked.ts, upkeep/rescue.ts · next: settle-succeeded.ts
//
// The fast path sends two statements in one exchange and one commit: a cheap one for successes, which most jobs are, and one for any
// other outcome (settle-any.ts). The general path is one statement that skips locked rows. Rescue takes it, and so does a batch with a
// locked row.

import { leaseName, leaseOf, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { Call, Database, Send, SendTogether } from './database.js'
import { fingerprints, settleAny } from './settle-any.js'
import { openQueues } from './settle-flow.js'
import { hasSucceeded } from './settle-succeeded.js'
import { settleSucceededAny } from './settle-succeeded-flow.js'
import { settledBefore } from './settled-state.js'
import { sendWithParked } from './signal.js'
import { type Row, readJson } from './statement.js'
import { unblockAfter, unblockWaiting } from './unblock.js'

// From this many successes on, a statement for them alone saves more than it costs.
const SUCCEEDED_APART_FROM = 16

interface SettleOptions {
  /** Settles only leases that have run out, and skips locked rows. */
  readonly onlyExpired?: boolean
  /** Skips locked rows and answers `locked` for them. */
  readonly skipLocked?: boolean
  /** True in a caller's transaction: children are checked after it commits, see unblock.ts. */
  readonly isInTransaction?: boolean
  readonly hasOldSnapshot?: boolean
  /** Called with the queue of each job that became ready. */
  readonly onReady: (queue: string) => void
  /** Called with the jobs that may have ended, for a later look at their children. */
  readonly onEnded?: (ids: readonly string[]) => void
}

/** Settles jobs, each independently of the others, and answers in their order. */
export async function settle(
  db: Database,
  send: SendTogether,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[]> {
  if (jobs.length === 0) return []
  const sendOne: Send = async (...call) => (await send([call]))[0]!
  const leases = firstOfEachLease(jobs)
  const marks = await fingerprints(sendOne, leases)
  // Leases that a transaction has restored are visible in it alone.
  const sendOpening: Send = options.isInTransaction ? sendOne : (...call) => db.send('settle', ...call)
  await openQueues(sendOpening, db.now(), leases, options.onlyExpired ?? false)
  const parts = partsOf(db, leases, marks, options)
  const calls = parts.map(({ call }) => call)
  const { answers, woken } = await sendWithParked(db, send, leases, calls)
  const states = new Map<SettledJob, JobState>()
  const parents = parts.flatMap((part, index) => readAnswer(part.jobs, answers[index]!, states))
  for (const job of woken) states.set(job, 'ready')
  for (const queue of new Set(answers.flatMap(([row]) => readList<string>(row![4])))) options.onReady(queue)
  for (const [job, state] of states) if (state === 'ready') options.onReady(job.queue)
  const mayHaveEnded = leases.filter((job) => isFinished(states.get(job) ?? job.settlement.state))
  options.onEnded?.(mayHaveEnded.map(({ id }) => id))
  if (options.isInTransaction !== true) await unblockAfter(db, sendOne, parents, options.onReady)
  await unblockWaiting(db, sendOne, states, options.onReady)
  return complete(sendOne, jobs, states, options.skipLocked ?? false)
}

/** Sends statements one after the other, for a caller's transaction. */
export function oneByOne(send: Send): SendTogether {
  return async (calls) => {
    const results: Row[][] = []
    for (const call of calls) results.push(await send(...call))
    return results
  }
}

/** A lease that is settled twice in one call is settled by the first; the second repeats it. */
function firstOfEachLease(jobs: readonly SettledJob[]): readonly SettledJob[] {
  const first = new Map<string, SettledJob>()
  for (const job of jobs) if (!first.has(leaseName(job))) first.set(leaseName(job), job)
  return first.size === jobs.length ? jobs : [...first.values()]
}

/** Jobs that one statement settles. */
interface Part {
  readonly jobs: readonly SettledJob[]
  readonly call: Call
}

function partsOf(
  db: Database,
  jobs: readonly SettledJob[],
  marks: ReadonlyMap<SettledJob, string>,
  { onlyExpired = false, skipLocked = false, isInTransaction = false, hasOldSnapshot = false }: SettleOptions,
): Part[] {
  if (onlyExpired || skipLocked) {
    return [{ jobs, call: settleAny(db, jobs, { path: 'general', marks, onlyExpired, isInTransaction }) }]
  }
  const how = { isInTransaction, hasOldSnapshot }
  const succeeded = jobs.filter(hasSucceeded)
  if (succeeded.length === jobs.length) return [{ jobs, call: settleSucceededAny(db, jobs, how) }]
  const any = (some: readonly SettledJob[]) => ({
    jobs: some,
    call: settleAny(db, some, { path: 'fast', marks, isInTransaction }),
  })
  if (succeeded.length < SUCCEEDED_APART_FROM) return [any(jobs)]
  return [
    { jobs: succeeded, call: settleSucceededAny(db, succeeded, how) },
    any(jobs.filter((job) => !hasSucceeded(job))),
  ]
}

/** Puts the states of an answer into `states`, and returns the jobs with children. */
function readAnswer(jobs: readonly SettledJob[], rows: readonly Row[], states: Map<SettledJob, JobState>): string[] {
  const [count, settled, cancelled, parents] = rows[0]!
  const isAll = Number(count) === jobs.length
  const [isSettled, isCancelled] = [new Set(readList<number>(settled)), new Set(readList<number>(cancelled))]
  for (const [index, job] of jobs.entries()) {
    if (!isAll && !isSettled.has(index + 1)) continue
    states.set(job, isCancelled.has(index + 1) ? 'cancelled' : job.settlement.state)
  }
  return readList<string>(parents)
}

function readList<T>(json: string | null | undefined): T[] {
  return (readJson(json) ?? []) as T[]
}

/** The results. A job without a known state was settled by an earlier call whose answer was lost, or skipped because of a lock, or its
 *  lease is lost. */
async function complete(
  send: Send,
  jobs: readonly SettledJob[],
  known: ReadonlyMap<SettledJob, JobState>,
  skipLocked: boolean,
): Promise<readonly SettleResult[]> {
  const before = await settledBefore(
    send,
    jobs.filter((job) => !known.has(job)),
  )
  return jobs.map((job): SettleResult => {
    const lease = leaseOf(job)
    const earlier = known.has(job) ? undefined : before.get(leaseName(job))
    const state = known.get(job) ?? earlier?.state ?? null
    if (state !== null) return { ...lease, result: 'settled', state }
    return { ...lease, result: skipLocked && earlier?.isHeld === true ? 'locked' : 'lost', state: null }
  })
}

// settle: a job leaves `running` for the state of its settlement, if its fence still matches. ◄── worker/settler.ts,
// upkeep/rescue.ts
//
// The fast path sends two statements in one exchange and one commit: a cheap one for successes, which most jobs are, and one for any
// other outcome. The general path is one statement that skips locked rows. Rescue takes it, and so does a batch with a locked row.

import { isHoldfastError } from '../../core/errors.js'
import { fingerprint } from '../../core/fingerprint.js'
import { type Lease, leaseName, leaseOf, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import type { StoredError } from '../../core/json.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { Call, Database, Send, SendTogether } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { hasSucceeded, settleAny, settleSucceeded } from './settle-statements.js'
import { SETTLED_STATE } from './settled-state.js'
import { arrayOf, plainArrayOf, type Row, readJson, type Statement, statement } from './statement.js'
import { unblockAfter } from './unblock.js'

// From this many successes on, a statement of their own costs less than it saves.
const SUCCEEDED_APART_FROM = 16

const KNOWN_LOCKED_MAX = 1_000

/** Settles jobs on a connection of our own. A job locked by somebody's open transaction, usually its own handler's, is answered as
 *  `locked` and delays no other job: the first time by the lane's lock timeout, later not at all. */
export class Settling {
  readonly #db: Database
  readonly #send: SendTogether
  readonly #onEnded: (ids: readonly string[]) => void
  readonly #locked = new Set<string>()

  constructor(db: Database, onEnded: (ids: readonly string[]) => void) {
    this.#db = db
    this.#onEnded = onEnded
    this.#send = (calls) => db.sendTogether('settle', calls)
  }

  async settle(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    if (this.#locked.size === 0) return this.#settleFast(jobs, onReady)
    const isKnown = (job: SettledJob) => this.#locked.has(leaseName(job))
    const others = await this.#settleFast(
      jobs.filter((job) => !isKnown(job)),
      onReady,
    )
    const known = await this.#settleUnlocked(jobs.filter(isKnown), onReady)
    const results = new Map([...others, ...known].map((result) => [leaseName(result), result]))
    return jobs.map((job) => results.get(leaseName(job))!)
  }

  async #settleFast(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    try {
      return await settle(this.#db, this.#send, jobs, { onReady, onEnded: this.#onEnded })
    } catch (error) {
      if (!isHoldfastError(error) || error.details.sqlState !== LOCK_NOT_AVAILABLE) throw error
      return this.#settleUnlocked(jobs, onReady)
    }
  }

  async #settleUnlocked(
    jobs: readonly SettledJob[],
    onReady: (queue: string) => void,
  ): Promise<readonly SettleResult[]> {
    const options = { skipLocked: true, onReady, onEnded: this.#onEnded }
    const results = await settle(this.#db, this.#send, jobs, options)
    if (this.#locked.size > KNOWN_LOCKED_MAX) this.#locked.clear()
    for (const result of results) {
      if (result.result === 'locked') this.#locked.add(leaseName(result))
      else this.#locked.delete(leaseName(result))
    }
    return results
  }
}

interface SettleOptions {
  /** Settles only leases that have run out, and skips locked rows. */
  readonly onlyExpired?: boolean
  /** Skips locked rows and answers `locked` for them. */
  readonly skipLocked?: boolean
  /** True in a caller's transaction: children are checked after it commits, see unblock.ts. */
  readonly isInTransaction?: boolean
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
  const parts = partsOf(db, leases, marks, options)
  const answers = await send(parts.map(({ call }) => call))
  const states = new Map<SettledJob, JobState>()
  const parents = parts.flatMap((part, index) => readAnswer(part.jobs, answers[index]!, states))
  for (const [job, state] of states) if (state === 'ready') options.onReady(job.queue)
  const mayHaveEnded = leases.filter((job) => isFinished(states.get(job) ?? job.settlement.state))
  options.onEnded?.(mayHaveEnded.map(({ id }) => id))
  if (options.isInTransaction !== true) await unblockAfter(db, sendOne, parents, options.onReady)
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
  { onlyExpired = false, skipLocked = false, isInTransaction = false }: SettleOptions,
): Part[] {
  if (onlyExpired || skipLocked) {
    return [{ jobs, call: settleAny(db, jobs, { path: 'general', marks, onlyExpired, isInTransaction }) }]
  }
  const succeeded = jobs.filter(hasSucceeded)
  if (succeeded.length === jobs.length) return [{ jobs, call: settleSucceeded(db, jobs, isInTransaction) }]
  const any = (some: readonly SettledJob[]) => ({
    jobs: some,
    call: settleAny(db, some, { path: 'fast', marks, isInTransaction }),
  })
  if (succeeded.length < SUCCEEDED_APART_FROM) return [any(jobs)]
  return [
    { jobs: succeeded, call: settleSucceeded(db, succeeded, isInTransaction) },
    any(jobs.filter((job) => !hasSucceeded(job))),
  ]
}

/** Notes the states that an answer tells, and returns the jobs with children. */
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

// A job may die of an error of an earlier attempt: too old for another attempt, or its limit was lowered meanwhile.
const LAST_ERRORS = statement(
  'last_errors',
  `
SELECT asked.id::text, last.error::text
  FROM pg_catalog.unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (
   SELECT attempts.error FROM :schema.attempts WHERE attempts.id = asked.id ORDER BY attempts.fence DESC LIMIT 1
 ) AS last`,
)

/** The fingerprints of the errors of jobs that die. */
async function fingerprints(send: Send, jobs: readonly SettledJob[]): Promise<ReadonlyMap<SettledJob, string>> {
  const dying = jobs.filter(({ settlement }) => settlement.state === 'dead')
  const silent = dying.filter(({ error }) => error === null)
  const rows = silent.length > 0 ? await send(LAST_ERRORS, [arrayOf(silent.map(({ id }) => id))]) : []
  const earlier = new Map(rows.map(([id, error]) => [id!, readJson(error) as StoredError]))
  return new Map(dying.map((job) => [job, fingerprint(job.error ?? earlier.get(job.id) ?? null)]))
}

const SETTLED_BEFORE: Statement = statement(
  'settled_before',
  `
SELECT lease.id::text, lease.fence::text,${SETTLED_STATE} AS state,
       EXISTS (SELECT FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence)::text
  FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)`,
)

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

interface Before {
  /** Null unless the job was settled under this very lease. */
  readonly state: JobState | null
  /** True while the lease holds. */
  readonly isHeld: boolean
}

async function settledBefore(send: Send, leases: readonly Lease[]): Promise<ReadonlyMap<string, Before>> {
  if (leases.length === 0) return new Map()
  const rows = await send(SETTLED_BEFORE, [
    plainArrayOf(leases.map(({ id }) => id)),
    plainArrayOf(leases.map(({ fence }) => fence)),
  ])
  return new Map(
    rows.map(([id, fence, state, held]) => [
      `${id} ${fence}`,
      { state: state as JobState | null, isHeld: held === 'true' },
    ]),
  )
}

// settle: running rows become what the settlement says, matched by fence. ◄── worker/settler.ts, upkeep/rescue.ts

import { isHoldfastError } from '../../core/errors.js'
import { fingerprint } from '../../core/fingerprint.js'
import { type Lease, leaseName, leaseOf, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import type { StoredError } from '../../core/json.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { SETTLE_ALL, SETTLE_EACH, SETTLE_EXPIRED, SETTLE_FREE, settleValues } from './settle-any.js'
import { areDistinct, hasSucceeded, settleSucceeded, unlessMixed } from './settle-succeeded.js'
import { SETTLED_STATE } from './settled-state.js'
import { arrayOf, plainArrayOf, readJson, type Statement, statement } from './statement.js'
import { unblockAfter } from './unblock.js'

// A second statement has its price: from so many jobs that succeeded on it is less than what they save.
const APART_FROM = 16

// What a statement fails with when it has waited for a row's lock for as long as the lane allows.
const KNOWN_LOCKED_MAX = 1_000

/** Settles jobs on a connection of our own. A job that somebody's open transaction is settling, most often its own handler's, is
 *  answered as `locked` and holds up no other: the first time for as long as the lane waits for locks, later not at all. */
export class Settling {
  readonly #db: Database
  readonly #send: Send
  readonly #onEnded: (ids: readonly string[]) => void
  readonly #locked = new Set<string>()

  constructor(db: Database, onEnded: (ids: readonly string[]) => void) {
    this.#db = db
    this.#onEnded = onEnded
    this.#send = (sql, values) => db.send('settle', sql, values)
  }

  async settle(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    if (this.#locked.size === 0) return this.#settleUnlocked(jobs, onReady)
    const isKnown = (job: SettledJob) => this.#locked.has(leaseName(job))
    const [known, others] = [jobs.filter(isKnown), jobs.filter((job) => !isKnown(job))]
    const ofOthers = await this.#settleUnlocked(others, onReady)
    const chosen = new Set(known)
    return inOrder(jobs, (job) => chosen.has(job), await this.#settleFree(known, onReady), ofOthers)
  }

  async #settleUnlocked(
    jobs: readonly SettledJob[],
    onReady: (queue: string) => void,
  ): Promise<readonly SettleResult[]> {
    try {
      return await settle(this.#db, this.#send, jobs, { onlyExpired: false, onReady, onEnded: this.#onEnded })
    } catch (error) {
      if (!isHoldfastError(error) || error.details.sqlState !== LOCK_NOT_AVAILABLE) throw error
      return this.#settleFree(jobs, onReady)
    }
  }

  async #settleFree(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    if (jobs.length === 0) return []
    const options = { onlyExpired: false, passLocked: true, onReady, onEnded: this.#onEnded }
    const results = await longWay(this.#db, this.#send, jobs, options)
    if (this.#locked.size > KNOWN_LOCKED_MAX) this.#locked.clear()
    for (const result of results) {
      if (result.result === 'locked') this.#locked.add(leaseName(result))
      else this.#locked.delete(leaseName(result))
    }
    return results
  }
}

/** Settles jobs, each by itself. `onReady` is told of queues that got ready jobs. */
export async function settle(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[]> {
  if (jobs.length === 0) return []
  if (options.onlyExpired || !areDistinct(jobs)) return longWay(db, send, jobs, options)
  const succeeded = jobs.filter(hasSucceeded)
  if (succeeded.length < jobs.length && succeeded.length < APART_FROM) return together(db, send, jobs, options)
  const first = (await succeededTogether(db, send, succeeded, options)) ?? (await longWay(db, send, succeeded, options))
  if (jobs.length === succeeded.length) return first
  const others = jobs.filter((job) => !hasSucceeded(job))
  return inOrder(jobs, hasSucceeded, first, await together(db, send, others, options))
}

interface SettleOptions {
  readonly onlyExpired: boolean
  /** True in a caller's transaction: children are looked at after it, see unblock.ts. */
  readonly isInTransaction?: boolean
  /** Called with jobs that have ended and seemed to have no children. */
  readonly onEnded?: (ids: readonly string[]) => void
  /** Passes over rows that are locked and answers `locked` for them. */
  readonly passLocked?: boolean
  readonly onReady: (queue: string) => void
}

/** The answers in the order of the jobs. */
function inOrder(
  jobs: readonly SettledJob[],
  isChosen: (job: SettledJob) => boolean,
  ofChosen: readonly SettleResult[],
  ofOthers: readonly SettleResult[],
): readonly SettleResult[] {
  let [chosen, others] = [0, 0]
  return jobs.map((job) => (isChosen(job) ? ofChosen[chosen++]! : ofOthers[others++]!))
}

/** Successes in one statement; null when one of them had the fence of another. */
async function succeededTogether(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[] | null> {
  const settled = await settleSucceeded(db, send, jobs, options.isInTransaction ?? false)
  if (settled === null) return null
  options.onEnded?.(jobs.map(({ id }) => id))
  await goOn(db, send, settled.parents, options)
  // When some did not match, those that did answer to the same question as those that were settled before: a success stays one.
  const isAll = settled.count === jobs.length
  return complete(
    send,
    jobs,
    jobs.map(() => (isAll ? 'succeeded' : null)),
  )
}

/** Distinct jobs of any outcome in one statement; the long way when one of them had the fence of another. */
async function together(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[]> {
  const values = settleValues(db, jobs, await fingerprints(send, jobs), options)
  const fences = plainArrayOf([...new Set(jobs.map(({ fence }) => fence))])
  const row = await unlessMixed(() => send(SETTLE_ALL, [...values, fences]))
  if (row === null) return longWay(db, send, jobs, options)
  const isAll = Number(row[0]) === jobs.length
  const [settled, cancelled] = [ordinalsOf(row[1]), ordinalsOf(row[2])]
  const states = jobs.map(({ settlement }, index): JobState | null => {
    if (!isAll && !settled.has(index + 1)) return null
    return cancelled.has(index + 1) ? 'cancelled' : settlement.state
  })
  for (const [index, { queue }] of jobs.entries()) if (states[index] === 'ready') options.onReady(queue)
  options.onEnded?.(jobs.filter((_, index) => isEnd(states[index])).map(({ id }) => id))
  await goOn(db, send, (readJson(row[3]) ?? []) as string[], options)
  return complete(send, jobs, states)
}

function isEnd(state: JobState | null | undefined): boolean {
  return state !== null && state !== undefined && isFinished(state)
}

/** Lets the children of jobs that have ended go on, unless that must wait for the end of a transaction. */
async function goOn(db: Database, send: Send, parents: readonly string[], options: SettleOptions): Promise<void> {
  if (options.isInTransaction !== true) await unblockAfter(db, send, parents, options.onReady)
}

function ordinalsOf(text: string | null | undefined): ReadonlySet<number> {
  return new Set((readJson(text) ?? []) as number[])
}

async function longWay(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[]> {
  const first = new Map<string, SettledJob>()
  for (const job of jobs) if (!first.has(leaseName(job))) first.set(leaseName(job), job)
  const settling = [...first.values()]
  const values = settleValues(db, settling, await fingerprints(send, settling), options)
  const rows = await send(longStatement(options), values)
  const settled = new Map<string, JobState>()
  const parents: string[] = []
  for (const [id, fence, state, hasChildren] of rows) {
    const name = `${id} ${fence}`
    settled.set(name, state as JobState)
    if (state === 'ready') options.onReady(first.get(name)!.queue)
    if (hasChildren === 'true' && isFinished(state as JobState)) parents.push(id!)
  }
  options.onEnded?.(settling.filter((job) => isEnd(settled.get(leaseName(job)))).map(({ id }) => id))
  await goOn(db, send, parents, options)
  const stateOf = (job: SettledJob) => (first.get(leaseName(job)) === job ? settled.get(leaseName(job)) : null) ?? null
  return complete(send, jobs, jobs.map(stateOf), options.passLocked)
}

function longStatement({ onlyExpired, passLocked = false }: SettleOptions): Statement {
  if (onlyExpired) return SETTLE_EXPIRED
  return passLocked ? SETTLE_FREE : SETTLE_EACH
}

// A job may die of an error that an earlier attempt met: too old for another, or its limit lowered meanwhile.
const LAST_ERRORS = statement(
  'last_errors',
  `
SELECT asked.id::text, last.error::text
  FROM pg_catalog.unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (
   SELECT attempts.error FROM :schema.attempts WHERE attempts.id = asked.id ORDER BY attempts.fence DESC LIMIT 1
 ) AS last`,
)

/** What tells the errors of those that die apart; null for all others. */
async function fingerprints(send: Send, jobs: readonly SettledJob[]): Promise<(string | null)[]> {
  const isDead = ({ settlement }: SettledJob) => settlement.state === 'dead'
  const silent = jobs.filter((job) => isDead(job) && job.error === null)
  const rows = silent.length > 0 ? await send(LAST_ERRORS, [arrayOf(silent.map(({ id }) => id))]) : []
  const earlier = new Map(rows.map(([id, error]) => [id!, readJson(error) as StoredError]))
  return jobs.map((job) => (isDead(job) ? fingerprint(job.error ?? earlier.get(job.id) ?? null) : null))
}

const SETTLED_BEFORE: Statement = statement(
  'settled_before',
  `
SELECT lease.id::text, lease.fence::text,${SETTLED_STATE},
       EXISTS (SELECT FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence)::text
  FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)`,
)

/** The states that are known now, and for the rest what became of them: settled by an earlier call whose answer was lost, passed over
 *  because of a lock, or lost. */
async function complete(
  send: Send,
  jobs: readonly SettledJob[],
  known: readonly (JobState | null)[],
  passLocked = false,
): Promise<readonly SettleResult[]> {
  const open = jobs.filter((_, index) => known[index] === null)
  const before = open.length > 0 ? await settledBefore(send, open) : []
  let next = 0
  return jobs.map((job, index): SettleResult => {
    const lease = leaseOf(job)
    const settled = known[index] ?? null
    const { state, isHeld } = settled === null ? before[next++]! : { state: settled, isHeld: false }
    if (state !== null) return { ...lease, result: 'settled', state }
    return { ...lease, result: passLocked && isHeld ? 'locked' : 'lost', state: null }
  })
}

interface Before {
  /** Null unless it was settled under this very lease. */
  readonly state: JobState | null
  /** The lease holds still. */
  readonly isHeld: boolean
}

async function settledBefore(send: Send, leases: readonly Lease[]): Promise<Before[]> {
  const rows = await send(SETTLED_BEFORE, [
    plainArrayOf(leases.map(({ id }) => id)),
    plainArrayOf(leases.map(({ fence }) => fence)),
  ])
  const found = new Map(
    rows.map(([id, fence, state, held]) => [
      `${id} ${fence}`,
      { state: state as JobState | null, isHeld: held === 'true' },
    ]),
  )
  return leases.map((lease) => found.get(leaseName(lease)) ?? { state: null, isHeld: false })
}

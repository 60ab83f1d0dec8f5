// settle: running rows become what the settlement says, matched by fence. ◄── worker/settler.ts, upkeep/rescue.ts

import { fingerprint } from '../../core/fingerprint.js'
import { type Lease, leaseName, type SettledJob } from '../../core/job.js'
import type { StoredError } from '../../core/json.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { SettleResult } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { SETTLE_ALL, SETTLE_EACH, SETTLE_EXPIRED, settleValues } from './settle-any.js'
import { areDistinct, hasSucceeded, settleSucceeded, unlessMixed } from './settle-succeeded.js'
import { arrayOf, plainArrayOf, readJson, type Statement, statement } from './statement.js'
import { unblockAfter } from './unblock.js'

// A second statement has its price: from so many jobs that succeeded on it is less than what they save.
const APART_FROM = 16

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
  const first =
    (await succeededTogether(db, send, succeeded, options.onReady)) ?? (await longWay(db, send, succeeded, options))
  if (jobs.length === succeeded.length) return first
  const others = jobs.filter((job) => !hasSucceeded(job))
  return inOrder(jobs, first, await together(db, send, others, options))
}

interface SettleOptions {
  readonly onlyExpired: boolean
  readonly onReady: (queue: string) => void
}

/** The answers in the order of the jobs. */
function inOrder(
  jobs: readonly SettledJob[],
  ofSucceeded: readonly SettleResult[],
  ofOthers: readonly SettleResult[],
): readonly SettleResult[] {
  let [succeeded, others] = [0, 0]
  return jobs.map((job) => (hasSucceeded(job) ? ofSucceeded[succeeded++]! : ofOthers[others++]!))
}

/** Successes in one statement; null when one of them had the fence of another. */
async function succeededTogether(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  onReady: (queue: string) => void,
): Promise<readonly SettleResult[] | null> {
  const settled = await settleSucceeded(db, send, jobs)
  if (settled === null) return null
  await unblockAfter(db, send, settled.parents, onReady)
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
  await unblockAfter(db, send, (readJson(row[3]) ?? []) as string[], options.onReady)
  return complete(send, jobs, states)
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
  const rows = await send(options.onlyExpired ? SETTLE_EXPIRED : SETTLE_EACH, values)
  const settled = new Map<string, JobState>()
  const parents: string[] = []
  for (const [id, fence, state, hasChildren] of rows) {
    const name = `${id} ${fence}`
    settled.set(name, state as JobState)
    if (state === 'ready') options.onReady(first.get(name)!.queue)
    if (hasChildren === 'true' && isFinished(state as JobState)) parents.push(id!)
  }
  await unblockAfter(db, send, parents, options.onReady)
  const stateOf = (job: SettledJob) => (first.get(leaseName(job)) === job ? settled.get(leaseName(job)) : null) ?? null
  return complete(send, jobs, jobs.map(stateOf))
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
SELECT lease.id::text, lease.fence::text,
       coalesce((SELECT ending::text FROM :schema.finished WHERE finished.id = lease.id AND finished.fence = lease.fence),
                (SELECT 'dead' FROM :schema.dead WHERE dead.id = lease.id AND dead.fence = lease.fence),
                (SELECT CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END
                   FROM :schema.scheduled
                  WHERE scheduled.id = lease.id AND scheduled.fence = lease.fence),
                (SELECT 'ready' FROM :schema.ready WHERE ready.id = lease.id AND ready.moved AND ready.fence = lease.fence))
  FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)`,
)

/** The states that are known now, and for the rest what became of them: settled by an earlier call whose answer was lost, or lost. */
async function complete(
  send: Send,
  jobs: readonly SettledJob[],
  known: readonly (JobState | null)[],
): Promise<readonly SettleResult[]> {
  const open = jobs.filter((_, index) => known[index] === null)
  const before = open.length > 0 ? await settledBefore(send, open) : []
  let next = 0
  return jobs.map(({ id, fence }, index): SettleResult => {
    const state = known[index] ?? before[next++]!
    return { id, fence, result: state === null ? 'lost' : 'settled', state }
  })
}

async function settledBefore(send: Send, leases: readonly Lease[]): Promise<(JobState | null)[]> {
  const rows = await send(SETTLED_BEFORE, [
    plainArrayOf(leases.map(({ id }) => id)),
    plainArrayOf(leases.map(({ fence }) => fence)),
  ])
  const states = new Map(rows.map(([id, fence, state]) => [`${id} ${fence}`, state as JobState | null]))
  return leases.map((lease) => states.get(leaseName(lease)) ?? null)
}

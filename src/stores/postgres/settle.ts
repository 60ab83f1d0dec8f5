// settle: running rows become what the settlement says, matched by fence. ◄── worker/settler.ts, upkeep/rescue.ts

import { fingerprint } from '../../core/fingerprint.js'
import type { Lease, SettledJob } from '../../core/job.js'
import type { StoredError } from '../../core/json.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { SettleResult } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { areDistinct, hasSucceeded, settleSucceeded } from './settle-succeeded.js'
import { arrayOf, readJson, type Statement, statement } from './statement.js'
import { unblockAfter } from './unblock.js'

// One statement for every outcome, and one fence for all of them: a lease that no longer holds matches no row, and the caller
// learns from what is left out. Rows are locked first, because a row that is being extended at this moment must be waited
// for; deleting by id then finds its newest version.
const settleSql = (lock: string) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), outcome AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::smallint[], $7::float8[], $8::json[], $9::text[],
                $10::json[], $11::float8[], $12::boolean[], $14::text[])
           WITH ORDINALITY AS outcome (id, fence, state, attempt, crashes, delay_ms, result, reason, error, ran_ms, keyed,
                                       fingerprint, ordinal)
), held AS MATERIALIZED (
  SELECT outcome.*
    FROM outcome
   CROSS JOIN moment
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running
      WHERE running.id = outcome.id
        AND running.fence = outcome.fence
        ${lock}
   ) AS row
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY (ARRAY(SELECT id FROM held))
  RETURNING id, claimed_at, priority, attempt, cancel_requested, queue, type, worker
), ended AS MATERIALIZED (
  SELECT gone.id, gone.priority, gone.queue, gone.type, gone.worker, gone.attempt AS ran_attempt, moment.now,
         moment.place + held.ordinal AS position, held.fence AS claim_fence, held.fence + $13::integer AS fence,
         held.attempt, held.crashes, held.delay_ms, held.result, held.reason, held.error, held.keyed, held.fingerprint,
         coalesce(moment.now - held.ran_ms * interval '1 millisecond', gone.claimed_at) AS started_at,
         -- The one rule that is the store's: a cancel asked for while the job ran.
         CASE WHEN gone.cancel_requested AND held.state IN ('retrying', 'scheduled', 'ready') THEN 'cancelled'
              ELSE held.state
          END AS state
    FROM gone
    JOIN held ON held.id = gone.id
   CROSS JOIN moment
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT id, now, started_at, fence, attempt, crashes, CAST(state AS :schema.ending), worker, result
    FROM ended
   WHERE state IN ('succeeded', 'cancelled')
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, fence, priority, attempt, crashes, retrying, queue, type)
  SELECT id, now + delay_ms * interval '1 millisecond', fence, priority, attempt, crashes, state = 'retrying', queue, type
    FROM ended
   WHERE state IN ('retrying', 'scheduled')
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position - 4611686018427387904, now, fence, priority, attempt, crashes, true, queue, type
    FROM ended
   WHERE state = 'ready'
), into_dead AS (
  INSERT INTO :schema.dead (id, died_at, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error,
                            fingerprint)
  SELECT id, now, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error, fingerprint
    FROM ended
   WHERE state = 'dead'
), into_attempts AS (
  INSERT INTO :schema.attempts (id, fence, started_at, finished_at, attempt, worker, error)
  SELECT id, claim_fence, started_at, now, ran_attempt, worker, error
    FROM ended
   WHERE error IS NOT NULL
), freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM ended WHERE keyed AND state IN ('succeeded', 'cancelled', 'dead')))
     AND keys.expires_at IS NULL
)
SELECT id::text, claim_fence::text, state, EXISTS (SELECT FROM :schema.parents WHERE parents.parent = ended.id)::text
  FROM ended`

const SETTLE = statement('settle', settleSql('FOR UPDATE'))
// For rescue: only what has run out, and nothing that somebody is settling or extending at this moment.
const SETTLE_EXPIRED = statement(
  'settle_expired',
  settleSql('AND running.leased_until <= moment.now FOR UPDATE SKIP LOCKED'),
)

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
  if (succeeded.length < jobs.length && succeeded.length < APART_FROM) return longWay(db, send, jobs, options)
  const others = jobs.filter((job) => !hasSucceeded(job))
  const short = (await shortWay(db, send, succeeded, options.onReady)) ?? (await longWay(db, send, succeeded, options))
  const long = others.length > 0 ? await longWay(db, send, others, options) : []
  return jobs.length === succeeded.length ? short : inOrder(jobs, [...short, ...long])
}

interface SettleOptions {
  readonly onlyExpired: boolean
  readonly onReady: (queue: string) => void
}

/** The answers in the order of the jobs. */
function inOrder(jobs: readonly SettledJob[], answers: readonly SettleResult[]): readonly SettleResult[] {
  let short = 0
  let long = jobs.filter(hasSucceeded).length
  return jobs.map((job) => answers[hasSucceeded(job) ? short++ : long++]!)
}

async function longWay(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  options: SettleOptions,
): Promise<readonly SettleResult[]> {
  const first = new Map<string, SettledJob>()
  for (const job of jobs) if (!first.has(nameOf(job))) first.set(nameOf(job), job)
  const settling = [...first.values()]
  const values = parameters(db, settling, await fingerprints(send, settling), options)
  const rows = await send(options.onlyExpired ? SETTLE_EXPIRED : SETTLE, values)
  const settled = new Map<string, JobState>()
  const parents: string[] = []
  for (const [id, fence, state, hasChildren] of rows) {
    const name = `${id} ${fence}`
    settled.set(name, state as JobState)
    if (state === 'ready') options.onReady(first.get(name)!.queue)
    if (hasChildren === 'true' && isFinished(state as JobState)) parents.push(id!)
  }
  await unblockAfter(db, send, parents, options.onReady)
  return answer(send, jobs, first, settled)
}

async function shortWay(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  onReady: (queue: string) => void,
): Promise<readonly SettleResult[] | null> {
  const settled = await settleSucceeded(db, send, jobs)
  if (settled === null) return null
  const { count, parents } = settled
  await unblockAfter(db, send, parents, onReady)
  if (count === jobs.length) {
    return jobs.map(({ id, fence }) => ({ id, fence, result: 'settled', state: 'succeeded' }))
  }
  // Some did not match. Those that did answer to the same question as those that were settled before.
  const states = await settledBefore(send, jobs)
  return jobs.map(({ id, fence }, index) => {
    const state = states[index]!
    return { id, fence, result: state === null ? 'lost' : 'settled', state }
  })
}

function nameOf({ id, fence }: Lease): string {
  return `${id} ${fence}`
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

function parameters(
  db: Database,
  jobs: readonly SettledJob[],
  marks: readonly (string | null)[],
  options: { readonly onlyExpired: boolean },
): unknown[] {
  return [
    db.now(),
    arrayOf(jobs.map(({ id }) => id)),
    arrayOf(jobs.map(({ fence }) => fence)),
    arrayOf(jobs.map(({ settlement }) => settlement.state)),
    arrayOf(jobs.map(({ settlement }) => settlement.attempt)),
    arrayOf(jobs.map(({ settlement }) => settlement.crashes)),
    arrayOf(jobs.map(({ settlement }) => ('delayMs' in settlement ? settlement.delayMs : null))),
    arrayOf(jobs.map(({ result }) => result)),
    arrayOf(jobs.map(({ settlement }) => ('reason' in settlement ? settlement.reason : null))),
    arrayOf(jobs.map(({ error }) => (error === null ? null : JSON.stringify(error)))),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    arrayOf(jobs.map(({ idempotencyKey }) => idempotencyKey !== null)),
    // The fence moves on with a rescue, so that the late worker's own settlement cannot pass for a repetition of it.
    options.onlyExpired ? 1 : 0,
    arrayOf(marks),
  ]
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

async function answer(
  send: Send,
  jobs: readonly SettledJob[],
  first: ReadonlyMap<string, SettledJob>,
  settled: ReadonlyMap<string, JobState>,
): Promise<readonly SettleResult[]> {
  const isSettled = (job: SettledJob) => settled.has(nameOf(job)) && first.get(nameOf(job)) === job
  const open = jobs.filter((job) => !isSettled(job))
  const before = open.length > 0 ? await settledBefore(send, open) : []
  let next = 0
  return jobs.map((job): SettleResult => {
    const state = isSettled(job) ? settled.get(nameOf(job))! : before[next++]!
    return { id: job.id, fence: job.fence, result: state === null ? 'lost' : 'settled', state }
  })
}

async function settledBefore(send: Send, leases: readonly Lease[]): Promise<(JobState | null)[]> {
  const rows = await send(SETTLED_BEFORE, [
    arrayOf(leases.map(({ id }) => id)),
    arrayOf(leases.map(({ fence }) => fence)),
  ])
  const states = new Map(rows.map(([id, fence, state]) => [`${id} ${fence}`, state as JobState | null]))
  return leases.map((lease) => states.get(nameOf(lease)) ?? null)
}

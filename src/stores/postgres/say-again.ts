// Says again, to a server that may have lost them, what this process remembers: the same ids, the same fences. What the server knows is
// left as it is. ◄── failover.ts
//
// A worker may know that a job runs or has ended before a producer has said that the job exists. It waits for that for a few seconds. Then
// the row in running or finished is written without the job, and a producer that comes later adds only the job. Both take a turn
// (say_again_turn), so neither misses the other.

import { isHoldfastError } from '../../core/errors.js'
import type { Enqueued, NewJob, SettledJob } from '../../core/job.js'
import { isFinished } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { writeThrough } from './enqueue-general.js'
import { isOnFastPath, writePlainThrough } from './enqueue-plain.js'
import type { FiredTicks, RememberedLease } from './failover-memory.js'
import { unlessHeld } from './keys-in-writing.js'
import { requeueThrough } from './requeue.js'
import { fireAgain } from './schedules.js'
import { oneByOne, settle } from './settle.js'
import { SETTLED_STATE } from './settled-state.js'
import { arrayOf, plainArrayOf, statement } from './statement.js'
import { statesOf } from './states.js'

/** Jobs in one transaction. Other processes that say something again wait for it. */
const BATCH = 500
/** Ids in one look. */
const LOOK = 5_000

const TURN = statement('say_again_turn', 'SELECT :schema.say_again_turn()::text')
const DROP_SECOND = statement('drop_second_places', 'SELECT :schema.drop_second_places($1::uuid[])::text')

const UNKNOWN = statement(
  'unknown_jobs',
  `
SELECT asked.id::text
  FROM pg_catalog.unnest($1::uuid[]) AS asked (id)
 WHERE NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = asked.id)
   AND NOT EXISTS (SELECT FROM :schema.deleted WHERE deleted.id = asked.id)`,
)

/** Those of the jobs that the server does not know, and that nobody has deleted. */
export async function unknownOf(db: Database, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const unknown = new Set<string>()
  for (const some of piecesOf(ids, LOOK)) {
    for (const [id] of await db.send('again', UNKNOWN, [plainArrayOf(some)])) unknown.add(id!)
  }
  return unknown
}

/** Those of the jobs that are still unknown when it is this process's turn: another may have said one, or deleted it. */
async function openOf(send: Send, jobs: readonly NewJob[]): Promise<readonly NewJob[]> {
  const unknown = new Set((await send(UNKNOWN, [plainArrayOf(jobs.map(({ id }) => id))])).map(([id]) => id))
  return jobs.filter(({ id }) => unknown.has(id))
}

const DELETED = statement(
  'deleted_jobs',
  'SELECT deleted.id::text FROM :schema.deleted WHERE deleted.id = ANY ($1::uuid[])',
)

/** Notes that these jobs are deleted, also those that the server does not know: nobody brings them back from now on. */
export async function deleteAgain(send: Send, ids: readonly string[]): Promise<void> {
  await send(TURN, [])
  await send(DELETE_UNKNOWN, [plainArrayOf(ids)])
}

const DELETE_UNKNOWN = statement('delete_unknown', 'SELECT :schema.note_deleted($1::uuid[])')

/** What became of jobs that were said again. */
interface JobsAgain {
  readonly written: number
  /** Those that the server does not take yet: another job has their key and may have ended, or their parent is not there. A caller that
   *  knows that has not said it. */
  readonly left: readonly NewJob[]
}

/** Enqueues jobs again that the server does not know. One that it refuses does not stop the others. */
export async function enqueueAgain(
  db: Database,
  jobs: readonly NewJob[],
  onWritten: (jobs: readonly NewJob[], answers: readonly Enqueued[]) => void,
): Promise<JobsAgain> {
  const unknown = await unknownOf(
    db,
    jobs.map(({ id }) => id),
  )
  const missing = lastOfEachKey(jobs).filter(({ id }) => unknown.has(id))
  const left: NewJob[] = []
  let written = 0
  for (const some of piecesOf(missing, BATCH)) {
    written += await unlessRefused(some, async (part) => {
      let open = part
      const answers = await db.transaction('again', async (send) => {
        await send(TURN, [])
        open = await openOf(send, part)
        if (open.length === 0) return []
        const written = await writeAgain(db, send, open)
        await dropSecond(send, open)
        return written
      })
      onWritten(open, answers)
      const isTaken = (index: number) => 'created' in answers[index]! && answers[index]!.id === open[index]!.id
      left.push(...open.filter((_, index) => !isTaken(index)))
      return open.filter((_, index) => isTaken(index)).length
    })
  }
  return { written, left }
}

/** From when on a worker may have said what it knows of a job without the job. It does so two seconds later: a transaction that finds itself
 *  earlier has committed by then. */
const LATE = statement(
  'is_late',
  `SELECT coalesce(clock_timestamp() - timeline.since > interval '4 seconds', false)::text FROM :schema.timeline`,
)

/** Writes jobs whose enqueue had no answer: a worker may have said before that they run or have ended. The server is asked whether it may, and
 *  not what this process knows of it: the connection that writes them may be the one that meets a new server. They wait for their turn only
 *  then, because many wait after an outage, and those who say something again need the turns. */
export function writeUnanswered(
  db: Database,
  jobs: readonly NewJob[],
  wereHeld: readonly NewJob[],
): Promise<readonly Enqueued[]> {
  const write = (patience: string | null) =>
    db.transaction('keys', async (send) => {
      const takeTurnIfLate = async () => {
        const [[isLate] = []] = await send(LATE, [])
        if (isLate === 'true') await send(TURN, [])
        return isLate === 'true'
      }
      const hadTurn = await takeTurnIfLate()
      // A job that is known may be on its way from one table to another, and has no second place.
      const unknown = await openOf(send, jobs)
      const answers = await writeAgain(db, send, jobs, patience)
      if (!hadTurn && !(await takeTurnIfLate())) return answers
      return unknown.length > 0 && (await dropSecond(send, unknown)) > 0 ? withStates(send, answers) : answers
    })
  const hasKeys = jobs.some(({ idempotencyKey }) => idempotencyKey !== null)
  return hasKeys ? unlessHeld(db, jobs, wereHeld, write) : write(null)
}

/** The same answers with the states that the jobs have now. */
async function withStates(send: Send, answers: readonly Enqueued[]): Promise<readonly Enqueued[]> {
  const states = await statesOf(
    send,
    answers.map(({ id }) => id),
  )
  return answers.map((answer) =>
    'state' in answer ? { ...answer, state: states.get(answer.id) ?? answer.state } : answer,
  )
}

function writeAgain(
  db: Database,
  send: Send,
  jobs: readonly NewJob[],
  patience: string | null = null,
): Promise<readonly Enqueued[]> {
  return jobs.every(isOnFastPath) ? writePlainThrough(db, send, jobs) : writeThrough(db, send, jobs, patience)
}

/** Takes back the second places of jobs that were just written, and of which a worker had said before that they run or have ended. Returns
 *  how many those are. The caller has the turn. */
async function dropSecond(send: Send, written: readonly { readonly id: string }[]): Promise<number> {
  const [[dropped] = []] = await send(DROP_SECOND, [plainArrayOf(written.map(({ id }) => id))])
  return Number(dropped)
}

/** A key that was used again belongs to the newest of its jobs: the others had ended by then, or there would be no newer one. */
function lastOfEachKey(jobs: readonly NewJob[]): readonly NewJob[] {
  const last = new Map<string, string>()
  const name = ({ queue, idempotencyKey }: NewJob) => `${queue} ${idempotencyKey!.key}`
  for (const job of jobs) if (job.idempotencyKey !== null) last.set(name(job), job.id)
  if (last.size === 0) return jobs
  const isLast = (job: NewJob) => job.idempotencyKey === null || last.get(name(job)) === job.id
  return jobs.map((job) => (isLast(job) ? job : withoutKey(job)))
}

/** The same job without its key and what goes with that. */
export function withoutKey(job: NewJob): NewJob {
  const { replace: _, ...others } = job
  return { ...others, idempotencyKey: null }
}

/** Fires ticks again under the ids their jobs had. */
export async function ticksAgain(
  db: Database,
  requests: readonly FiredTicks[],
  onReady: (queue: string) => void,
): Promise<number> {
  let count = 0
  for (const request of requests) {
    count += await unlessRefused([request], async () => {
      const jobs = await db.transaction('again', async (send) => {
        await send(TURN, [])
        const deleted = new Set((await send(DELETED, [plainArrayOf([...request.made])])).map(([id]) => id))
        const made = new Set([...request.made].filter((id) => !deleted.has(id)))
        const written = await fireAgain(db, send, request, made)
        if (written.length > 0) await dropSecond(send, written)
        return written
      })
      for (const { queue } of jobs) onReady(queue)
      return jobs.length
    })
  }
  return count
}

// Leases that the server does not have, and settlements that it does not know. Finished jobs are left alone, and so are those that somebody
// else has claimed since. A dead job with an older fence had been requeued before it was claimed, which was lost as well.
const MISSING = statement(
  'missing_leases',
  `
SELECT lease.id::text, EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = lease.id)::text,
       EXISTS (SELECT FROM :schema.dead WHERE dead.id = lease.id)::text
  FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS lease (id, fence, is_settled)
 WHERE NOT EXISTS (SELECT FROM :schema.finished WHERE finished.id = lease.id)
   AND NOT EXISTS (SELECT FROM :schema.deleted WHERE deleted.id = lease.id)
   AND NOT EXISTS (SELECT FROM :schema.dead WHERE dead.id = lease.id AND coalesce(dead.fence, 0) >= lease.fence)
   AND NOT EXISTS (SELECT FROM :schema.running
                    WHERE running.id = lease.id
                      AND (running.fence > lease.fence OR running.fence = lease.fence AND NOT lease.is_settled))
   AND ${SETTLED_STATE} IS NULL`,
)

// A job whose claim was lost waits as it did before, or runs under an older claim. It is taken from there and runs under the fence it was
// claimed with. One that the server does not know at all gets its row in running alone, and only where $10 allows it.
const CLAIM_AGAIN = statement(
  'claim_again',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lease AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::smallint[], $7::smallint[], $8::smallint[], $9::text[],
                $10::boolean[], $11::float8[])
           AS lease (id, fence, queue, type, priority, attempt, crashes, worker, may_be_new, lease_ms)
), place AS MATERIALIZED (
  SELECT jobs.queue, jobs.priority, jobs.position, jobs.id, jobs.type, lease.fence
    FROM lease
   CROSS JOIN LATERAL (
     SELECT jobs.queue, jobs.priority, jobs.position, jobs.id, jobs.type FROM :schema.jobs WHERE jobs.id = lease.id OFFSET 0
   ) AS jobs
), from_blocked AS (
  DELETE FROM :schema.blocked WHERE blocked.id = ANY ($2)
  RETURNING id, priority, 0 AS attempt, 0 AS crashes, queue, type, track, group_name
), unlinked AS (
  DELETE FROM :schema.parents WHERE parents.child = ANY (ARRAY(SELECT id FROM from_blocked))
), from_scheduled AS (
  DELETE FROM :schema.scheduled
   WHERE scheduled.id = ANY ($2)
     AND coalesce(scheduled.fence, 0) < (SELECT lease.fence FROM lease WHERE lease.id = scheduled.id)
  RETURNING id, priority, attempt, crashes, queue, type, track, group_name
), from_ready AS (
  DELETE FROM :schema.ready USING place
   WHERE ready.queue = place.queue AND ready.priority = place.priority AND ready.position = place.position
     AND ready.id = place.id AND NOT ready.moved AND coalesce(ready.fence, 0) < place.fence
  RETURNING ready.id, ready.priority, ready.attempt, ready.crashes, ready.queue, ready.type, 0 AS track, ''::text AS group_name
), from_moved AS (
  DELETE FROM :schema.ready
   WHERE ready.id = ANY ($2) AND ready.moved
     AND coalesce(ready.fence, 0) < (SELECT lease.fence FROM lease WHERE lease.id = ready.id)
  RETURNING id, priority, attempt, crashes, queue, type, 0 AS track, ''::text AS group_name
), from_held AS (
  DELETE FROM :schema.held
   WHERE held.id = ANY ($2)
     AND coalesce(held.fence, 0) < (SELECT lease.fence FROM lease WHERE lease.id = held.id)
  RETURNING id, priority, attempt, crashes, queue, type, track, group_name
), taken AS MATERIALIZED (
  SELECT * FROM from_blocked UNION ALL SELECT * FROM from_scheduled
  UNION ALL SELECT * FROM from_ready UNION ALL SELECT * FROM from_moved UNION ALL SELECT * FROM from_held
), older AS (
  UPDATE :schema.running
     SET fence = lease.fence, worker = coalesce(lease.worker, running.worker), claimed_at = moment.now,
         attempt = coalesce(lease.attempt, running.attempt), leased_until = moment.now + lease.lease_ms * interval '1 millisecond'
    FROM lease, moment
   WHERE running.id = ANY ($2) AND running.id = lease.id AND running.fence < lease.fence
  RETURNING running.id
), fresh AS MATERIALIZED (
  SELECT lease.id, lease.priority, lease.queue, lease.type
    FROM lease
   WHERE lease.may_be_new
     AND NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = lease.id)
     AND NOT EXISTS (SELECT FROM :schema.running WHERE running.id = lease.id)
     AND NOT EXISTS (SELECT FROM :schema.finished WHERE finished.id = lease.id)
     AND NOT EXISTS (SELECT FROM :schema.dead WHERE dead.id = lease.id)
), restored AS MATERIALIZED (
  SELECT id, priority, attempt, crashes, queue, type, track, group_name FROM taken
  UNION ALL
  SELECT id, coalesce(priority, 0), NULL, NULL, queue, coalesce(type, ''), 0, '' FROM fresh
), leased AS (
  INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested,
                               queue, type, worker, track, group_name)
  SELECT restored.id, lease.fence, moment.now, moment.now + lease.lease_ms * interval '1 millisecond', restored.priority,
         coalesce(lease.attempt, restored.attempt + 1, 1), coalesce(lease.crashes, restored.crashes, 0), false, false,
         restored.queue, restored.type, coalesce(lease.worker, 'unknown'), restored.track, restored.group_name
    FROM restored
    JOIN lease USING (id)
   CROSS JOIN moment
  RETURNING id
)
SELECT id::text, 'claimed' FROM leased
UNION ALL
SELECT id::text, 'claimed' FROM older
UNION ALL
SELECT lease.id::text, 'held'
  FROM lease
 WHERE EXISTS (SELECT FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence)`,
)
/** How often a lease is taken for that another transaction has moved the job while it was taken: a due job becomes ready, a child is
 *  released. Neither moves the job a second time, and nobody claims it meanwhile. */
const MOVED_MAX = 3

/** What became of the leases. */
interface LeasesAgain {
  readonly claimed: number
  readonly settled: number
  /** Those of jobs that the server does not know, unless they were to be taken as well. */
  readonly left: readonly RememberedLease[]
}

/** How long a claim that is only restored to be settled would last. */
const BRIEF_LEASE_MS = 30_000

/** Restores claims that the server has lost, and settles again what it does not know to be settled. A job that the server does not know is
 *  left until its producer has said it again, because limits, keys and children need its facts; with `takesUnknown` it is not waited for. */
export async function leaseAgain(
  db: Database,
  leases: readonly RememberedLease[],
  { onReady, takesUnknown }: { readonly onReady: (queue: string) => void; readonly takesUnknown: boolean },
): Promise<LeasesAgain> {
  const missing: RememberedLease[] = []
  const left: RememberedLease[] = []
  const dead = new Set<string>()
  for (const some of piecesOf(leases, LOOK)) {
    const values = [
      plainArrayOf(some.map(({ id }) => id)),
      plainArrayOf(some.map(({ fence }) => fence)),
      arrayOf(some.map(({ settled }) => settled !== null)),
    ]
    const rows = await db.send('again', MISSING, values)
    const isKnown = new Map(rows.map(([id, known]) => [id!, known === 'true']))
    for (const [id, , isDead] of rows) if (isDead === 'true') dead.add(id!)
    const found = some.filter(({ id }) => isKnown.has(id))
    missing.push(...found.filter(({ id }) => takesUnknown || isKnown.get(id)))
    if (!takesUnknown) left.push(...found.filter(({ id }) => !isKnown.get(id)))
  }
  let [claimed, settled] = [0, 0]
  for (const some of piecesOf(missing, BATCH)) {
    const ready = new Set<string>()
    await unlessRefused(some, async (part) => {
      const counts = await db.transaction('again', (send) =>
        leaseThrough(db, send, part, { dead, onReady: (queue) => ready.add(queue) }),
      )
      claimed += counts.claimed
      settled += counts.settled
      return part.length
    })
    ready.forEach(onReady)
  }
  return { claimed, settled, left }
}

async function leaseThrough(
  db: Database,
  send: Send,
  leases: readonly RememberedLease[],
  { dead, onReady }: { readonly dead: ReadonlySet<string>; readonly onReady: (queue: string) => void },
): Promise<Omit<LeasesAgain, 'left'>> {
  await send(TURN, [])
  const requeued = leases.flatMap(({ id }) => (dead.has(id) ? [id] : []))
  if (requeued.length > 0) await requeueThrough(db, send, requeued, 'holdfast', onReady)
  const restored = await claimThrough(db, send, leases)
  const settlements = leases.flatMap(({ settled }): SettledJob[] => (settled === null ? [] : [settled]))
  const results = await settle(db, oneByOne(send), settlements, { isInTransaction: true, onReady })
  const settledIds = new Set(results.filter(({ result }) => result === 'settled').map(({ id }) => id))
  return { claimed: restored.filter((id) => !settledIds.has(id)).length, settled: settledIds.size }
}

/** Takes jobs from where they wait, and returns those that it took. A statement does not find a job that another transaction moves while it
 *  runs: it waits for that transaction, sees that the job has left the one table, and does not see it in the other. The next statement does.
 *  A job that was left there would run again. */
async function claimThrough(db: Database, send: Send, leases: readonly RememberedLease[]): Promise<readonly string[]> {
  const claimed: string[] = []
  let rest = leases
  for (let tries = 0; tries < MOVED_MAX && rest.length > 0; tries++) {
    const rows = await send(CLAIM_AGAIN, [
      db.now(),
      plainArrayOf(rest.map(({ id }) => id)),
      plainArrayOf(rest.map(({ fence }) => fence)),
      arrayOf(rest.map(({ claim, settled }) => (claim ?? settled!).queue)),
      arrayOf(rest.map(({ claim }) => claim?.type ?? null)),
      arrayOf(rest.map(({ claim }) => claim?.priority ?? null)),
      arrayOf(rest.map(({ claim }) => claim?.attempt ?? null)),
      arrayOf(rest.map(({ claim }) => claim?.crashes ?? null)),
      arrayOf(rest.map(({ claim }) => claim?.worker ?? null)),
      // A job that goes on waiting needs its facts: it runs again when its producer says it again.
      arrayOf(rest.map(({ settled }) => settled === null || isFinished(settled.settlement.state))),
      arrayOf(rest.map(({ claim }) => claim?.leaseMs ?? BRIEF_LEASE_MS)),
    ])
    const taken = new Set(rows.map(([id]) => id!))
    for (const [id, how] of rows) if (how === 'claimed') claimed.push(id!)
    rest = rest.filter(({ id }) => !taken.has(id))
  }
  return claimed
}

/** Does something with all of them; when the store refuses that, with each half, down to the one that it refuses. */
async function unlessRefused<T>(all: readonly T[], act: (some: readonly T[]) => Promise<number>): Promise<number> {
  try {
    return await act(all)
  } catch (error) {
    if (!isHoldfastError(error, 'store_refused')) throw error
    if (all.length === 1) return 0
    const middle = all.length >> 1
    return (await unlessRefused(all.slice(0, middle), act)) + (await unlessRefused(all.slice(middle), act))
  }
}

function piecesOf<T>(all: readonly T[], size: number): readonly (readonly T[])[] {
  const pieces: (readonly T[])[] = []
  for (let from = 0; from < all.length; from += size) pieces.push(all.slice(from, from + size))
  return pieces
}

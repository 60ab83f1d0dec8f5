// signal, and settle for jobs that wait for one. migrations/0021_signals.ts says why no signal is missed. ◄── settle.ts

import type { SettledJob } from '../../core/job.js'
import type { NewSignal, SignalResult } from '../../core/kept/contract.js'
import { type ParkedFor, SIGNALS_MAX } from '../../core/kept/kept.js'
import type { JobState } from '../../core/states.js'
import type { Call, Database, SendTogether } from './database.js'
import { arrayOf, plainArrayOf, type Row, statement } from './statement.js'

/** A settlement by which a job waits for a signal. */
type Parked = SettledJob & { readonly wait: ParkedFor }

function isParked(job: SettledJob): job is Parked {
  return job.wait !== undefined && job.settlement.state === 'scheduled'
}

/** Sends the statements of a settlement, and around them, in the same commit, what lets jobs wait for a signal. Answers with those that have it. */
export async function sendWithParked(
  db: Database,
  send: SendTogether,
  jobs: readonly SettledJob[],
  calls: readonly Call[],
): Promise<{ readonly answers: readonly Row[][]; readonly woken: readonly SettledJob[] }> {
  const parked = jobs.filter(isParked)
  if (parked.length === 0) return { answers: await send(calls), woken: [] }
  const all = await send([park(db, parked), ...calls, wakeParked(db, parked)])
  const ids = new Set(all.at(-1)!.map(([id]) => id))
  return { answers: all.slice(1, -1), woken: parked.filter(({ id }) => ids.has(id)) }
}

// Before the statement that ends the leases: the rows are locked from here to the commit. A later claim of the job has a larger fence.
const PARK = statement(
  'park',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
INSERT INTO :schema.waits (id, fence, name, turn, seen, since, until)
SELECT parked.id, parked.fence, parked.name, parked.turn, parked.seen, moment.now,
       moment.now + parked.delay_ms * interval '1 millisecond'
  FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::integer[], $6::integer[], $7::float8[])
         AS parked (id, fence, name, turn, seen, delay_ms)
 CROSS JOIN moment
 CROSS JOIN LATERAL (
   SELECT FROM :schema.running WHERE running.id = parked.id AND running.fence = parked.fence OFFSET 0
 ) AS held
 ORDER BY parked.id
    ON CONFLICT ON CONSTRAINT waits_one_for_each_job DO UPDATE
   SET fence = excluded.fence, name = excluded.name, turn = excluded.turn, seen = excluded.seen, until = excluded.until,
       since = CASE WHEN waits.name = excluded.name AND waits.turn = excluded.turn THEN waits.since ELSE excluded.since END
 WHERE waits.fence IS NULL OR waits.fence <= excluded.fence`,
)

const WAKE = statement('wake_parked', 'SELECT job, in_queue FROM :schema.wake_parked($1::timestamptz, $2::uuid[])')

/** What goes before the statement that settles them. */
function park(db: Database, jobs: readonly Parked[]): Call {
  return [
    PARK,
    [
      db.now(),
      plainArrayOf(jobs.map(({ id }) => id)),
      plainArrayOf(jobs.map(({ fence }) => fence)),
      arrayOf(jobs.map(({ wait }) => wait.name)),
      plainArrayOf(jobs.map(({ wait }) => wait.turn)),
      plainArrayOf(jobs.map(({ wait }) => wait.seen)),
      plainArrayOf(jobs.map(({ settlement }) => ('delayMs' in settlement ? settlement.delayMs : 0))),
    ],
  ]
}

/** What goes behind it. Answers with those whose signal is there: they are ready. */
function wakeParked(db: Database, jobs: readonly Parked[]): Call {
  return [WAKE, [db.now(), plainArrayOf(jobs.map(({ id }) => id))]]
}

const SIGNAL = statement(
  'signal',
  `
SELECT answer.result, answer.in_queue
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::json[], $6::text[]) WITH ORDINALITY AS sent (id, key, name, value, actor, place)
 CROSS JOIN LATERAL :schema.signal_job($1::timestamptz, sent.id, sent.key, sent.name, sent.value, sent.actor, $7::integer) AS answer
 ORDER BY sent.place`,
)

export async function signal(
  db: Database,
  signals: readonly NewSignal[],
  onReady: (queue: string) => void,
): Promise<readonly SignalResult[]> {
  if (signals.length === 0) return []
  // Each locks the row of its job until the commit: in one order in every process, so that no two wait for each other.
  const places = [...signals.keys()].sort((one, other) => compareIds(signals[one]!.id, signals[other]!.id))
  const sent = places.map((place) => signals[place]!)
  const rows = await db.send('operate', SIGNAL, [
    db.now(),
    plainArrayOf(sent.map(({ id }) => id)),
    arrayOf(sent.map(({ key }) => key)),
    arrayOf(sent.map(({ name }) => name)),
    arrayOf(sent.map(({ value }) => value)),
    arrayOf(sent.map(({ by }) => by)),
    SIGNALS_MAX,
  ])
  const answers = new Array<SignalResult>(signals.length)
  for (const [at, place] of places.entries()) answers[place] = readAnswer(signals[place]!.id, rows[at]!)
  for (const queue of new Set(rows.map(([, woken]) => woken))) if (queue != null) onReady(queue)
  return answers
}

function compareIds(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function readAnswer(id: string, [result, queue]: Row): SignalResult {
  if (result === 'missing' || result === 'full') return { id, result }
  if (result !== 'signalled') return { id, result: 'refused', state: result as JobState }
  return { id, result, woken: queue != null }
}

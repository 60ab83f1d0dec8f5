// Sends jobs of the outbox to the store: a batch of one part in a transaction, so that two processes never send the same rows, and rows are
// marked only after the store has answered. A process that dies in between leaves rows that are sent again, which changes nothing: the store
// knows their ids. ◄── dispatcher.ts · next: fate.ts

import { isHoldfastError } from '../../core/errors.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import type { Database, Send } from '../postgres/database.js'
import { arrayOf, plainArrayOf, type Row, statement } from '../postgres/statement.js'
import type { RedisStore } from '../redis/index.js'
import { epochChanged, holdEpoch } from './epochs.js'
import { type Fate, fateOfAnswer, fateOfError, isAboutOneJob, type ParentRow, type SentRow, WAITING } from './fate.js'

/** The most rows, and bytes of jobs, that one batch sends. */
const ROWS_MAX = 500
const BYTES_MAX = 8 * 1024 * 1024

const AGE_MS = `(extract(epoch FROM clock_timestamp() - taken.created_at) * 1000)::bigint::text`
const COLUMNS = `taken.seq::text, taken.job, ${AGE_MS}, taken.tries::text`

// The window ends the batch at so many bytes. Rows behind it were locked for nothing, until the transaction ends.
const TAKE = statement(
  'outbox_take',
  `
WITH taken AS MATERIALIZED (
  SELECT seq, job, created_at, tries, try_at
    FROM :schema.outbox
   WHERE part = $1
     AND sent_at IS NULL
     AND try_at <= clock_timestamp()
   ORDER BY try_at, seq
   LIMIT $2
     FOR UPDATE SKIP LOCKED
), summed AS (
  SELECT taken.*, sum(pg_catalog.octet_length(job)) OVER (ORDER BY try_at, seq) - pg_catalog.octet_length(job) AS before
    FROM taken
)
SELECT ${COLUMNS} FROM summed AS taken WHERE before < $3 ORDER BY taken.try_at, taken.seq`,
)

// Rows that the store may have forgotten by itself would be new jobs to it: they are left alone.
const TAKE_AGAIN = statement(
  'outbox_take_again',
  `
WITH taken AS MATERIALIZED (
  SELECT seq, job, created_at, tries, sent_in
    FROM :schema.outbox
   WHERE part = $1
     AND outcome = 'sent'
     AND sent_in < $2::bigint
     AND try_at <= clock_timestamp()
     AND sent_at > clock_timestamp() - $5::bigint * interval '1 ms'
   ORDER BY sent_in, seq
   LIMIT $3
     FOR UPDATE SKIP LOCKED
), summed AS (
  SELECT taken.*, sum(pg_catalog.octet_length(job)) OVER (ORDER BY sent_in, seq) - pg_catalog.octet_length(job) AS before
    FROM taken
)
SELECT ${COLUMNS} FROM summed AS taken WHERE before < $4 ORDER BY taken.sent_in, taken.seq`,
)

const PARENTS = statement(
  'outbox_parents',
  `SELECT id::text, coalesce(outcome, 'waiting'), holder::text FROM :schema.outbox WHERE id = ANY ($1::uuid[])`,
)

// A row that waits longer keeps what it was: one that was sent in an earlier life stays one that is to be sent again.
const MARK = statement(
  'outbox_mark',
  `
UPDATE :schema.outbox
   SET outcome = coalesce(fate.outcome, outbox.outcome),
       sent_at = CASE WHEN fate.outcome IS NULL THEN outbox.sent_at ELSE clock_timestamp() END,
       sent_in = CASE WHEN fate.outcome IS NULL THEN outbox.sent_in ELSE $6::bigint END,
       holder  = fate.holder,
       why     = fate.why,
       tries   = CASE WHEN fate.outcome IS NULL THEN outbox.tries + 1 ELSE 0 END,
       try_at  = CASE WHEN fate.outcome IS NULL THEN clock_timestamp() + fate.wait_ms * interval '1 ms' ELSE '-infinity' END
  FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::text[], $5::integer[]) AS fate (seq, outcome, holder, why, wait_ms)
 WHERE outbox.seq = fate.seq`,
)

interface Sending {
  readonly db: Database
  readonly store: RedisStore
  readonly part: number
  /** The life of the server of this part, as it was a moment ago. */
  readonly epoch: string
  /** For how long the store knows a job at least. */
  readonly knownMs: number
}

export interface Batch {
  readonly rows: readonly SentRow[]
  /** What becomes of each. */
  readonly fates: readonly Fate[]
}

/** Sends one batch of one part, and answers what became of its rows once that is committed. */
export function sendBatch({ db, store, part, epoch, knownMs }: Sending): Promise<Batch> {
  return db.transaction('upkeep', async (send) => {
    const number = await holdEpoch(send, part, epoch)
    if (number === null) throw epochChanged(part)
    const again = await send(TAKE_AGAIN, [part, number, ROWS_MAX, BYTES_MAX, knownMs])
    const fresh = again.length > 0 ? [] : await send(TAKE, [part, ROWS_MAX, BYTES_MAX])
    const rows = [...again.map((row) => readRow(row, true)), ...fresh.map((row) => readRow(row, false))]
    if (rows.length === 0) return { rows, fates: [] }
    const fates = await sendRows(store, rows, await parentsOf(send, rows))
    // Asked on the connection that the jobs were sent on: had its server been replaced meanwhile, they may be gone.
    if ((await store.epochOf(part)) !== epoch) throw epochChanged(part)
    await send(MARK, [
      plainArrayOf(rows.map(({ seq }) => seq)),
      arrayOf(fates.map(({ outcome }) => outcome)),
      arrayOf(fates.map(({ holder }) => holder)),
      arrayOf(fates.map(({ why }) => why)),
      plainArrayOf(fates.map(({ waitMs }) => waitMs)),
      number,
    ])
    return { rows, fates }
  })
}

function readRow([seq, job, ageMs, tries]: Row, isRepeat: boolean): SentRow {
  return { seq: seq!, job: asOfNow(JSON.parse(job!) as NewJob, Number(ageMs)), tries: Number(tries), isRepeat }
}

/** The job as it would be enqueued now: its delay and the time of its key count from its own enqueue. */
function asOfNow(job: NewJob, ageMs: number): NewJob {
  const { when, idempotencyKey: key } = job
  const delayMs = when !== null && 'delayMs' in when ? when.delayMs - ageMs : null
  const ttlMs = key === null || key.ttlMs === null ? null : key.ttlMs - ageMs
  return {
    ...job,
    ...(delayMs === null ? {} : { when: delayMs > 0 ? { delayMs } : null }),
    ...(ttlMs === null ? {} : { idempotencyKey: ttlMs > 0 ? { key: key!.key, ttlMs } : null }),
  }
}

/** What the outbox has of the jobs that these come after. */
async function parentsOf(send: Send, rows: readonly SentRow[]): Promise<ReadonlyMap<string, ParentRow>> {
  const ids = [...new Set(rows.flatMap(({ job }) => job.after))]
  if (ids.length === 0) return new Map()
  const found = await send(PARENTS, [plainArrayOf(ids)])
  return new Map(
    found.map(([id, outcome, holder]) => [id!, { outcome: outcome as ParentRow['outcome'], holder: holder ?? null }]),
  )
}

/** Sends what can be sent now, and says what becomes of each row. */
async function sendRows(
  store: RedisStore,
  rows: readonly SentRow[],
  parents: ReadonlyMap<string, ParentRow>,
): Promise<readonly Fate[]> {
  const here = new Set(rows.map(({ job }) => job.id))
  const isEarly = ({ job }: SentRow) => job.after.some((id) => parents.get(id)?.outcome === 'waiting' && !here.has(id))
  const sent = rows.filter((row) => !isEarly(row)).map((row) => ({ ...row, job: afterHolders(row.job, parents) }))
  const fates = new Map<string, Fate>()
  const note = (those: readonly SentRow[], answers: readonly Enqueued[]) => {
    for (const [at, row] of those.entries()) fates.set(row.seq, fateOfAnswer(row, answers[at]!, parents))
  }
  try {
    if (sent.length > 0) note(sent, await store.enqueue(sent.map(({ job }) => job)))
  } catch (error) {
    if (!isHoldfastError(error) || !isAboutOneJob(error)) throw error
    // One of them cannot be written. The others must not wait for it.
    for (const row of sent) {
      try {
        note([row], await store.enqueue([row.job]))
      } catch (own) {
        fates.set(row.seq, fateOfError(row, own))
      }
    }
  }
  return rows.map(({ seq }) => fates.get(seq) ?? WAITING)
}

/** A job that comes after one that was not created, because another had its key, comes after that one. */
function afterHolders(job: NewJob, parents: ReadonlyMap<string, ParentRow>): NewJob {
  if (!job.after.some((id) => parents.get(id)?.holder != null)) return job
  return { ...job, after: [...new Set(job.after.map((id) => parents.get(id)?.holder ?? id))] }
}

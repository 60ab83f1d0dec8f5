// Sends completions: jobs that their handlers settled in a transaction are settled in the store. ◄── dispatcher.ts

import type { Emit } from '../../core/events.js'
import type { SettledJob } from '../../core/job.js'
import type { OutboxStep } from '../../core/outbox.js'
import { isFinished, type JobState } from '../../core/states.js'
import type { Database } from '../postgres/database.js'
import { arrayOf, plainArrayOf, statement } from '../postgres/statement.js'
import type { RedisStore } from '../redis/index.js'
import { epochChanged, holdEpoch } from './epochs.js'

const ROWS_MAX = 200
const BATCHES_MAX = 20
const WAIT_MS = 1_000
const WAIT_MS_MAX = 30_000

// Those that wait, and those that were sent in an earlier life of the server.
const TAKE = statement(
  'outbox_take_completions',
  `
WITH waiting AS MATERIALIZED (
  SELECT completion, tries
    FROM :schema.outbox_completions
   WHERE part = $1
     AND sent_at IS NULL
     AND try_at <= clock_timestamp()
   ORDER BY try_at
   LIMIT ${ROWS_MAX}
     FOR UPDATE SKIP LOCKED
), again AS MATERIALIZED (
  SELECT completion, tries
    FROM :schema.outbox_completions
   WHERE part = $1
     AND sent_at IS NOT NULL
     AND sent_in < $2::bigint
     AND try_at <= clock_timestamp()
     AND sent_at > clock_timestamp() - $3::bigint * interval '1 ms'
   ORDER BY sent_in
   LIMIT ${ROWS_MAX}
     FOR UPDATE SKIP LOCKED
)
SELECT completion, tries::text FROM waiting
 UNION ALL
SELECT completion, tries::text FROM again`,
)

const MARK = statement(
  'outbox_mark_completions',
  `
UPDATE :schema.outbox_completions AS kept
   SET sent_at = CASE WHEN asked.is_sent THEN clock_timestamp() ELSE kept.sent_at END,
       sent_in = CASE WHEN asked.is_sent THEN $4::bigint ELSE kept.sent_in END,
       tries   = CASE WHEN asked.is_sent THEN 0 ELSE kept.tries + 1 END,
       try_at  = CASE WHEN asked.is_sent THEN '-infinity' ELSE clock_timestamp() + asked.wait_ms * interval '1 ms' END
  FROM unnest($1::uuid[], $2::boolean[], $3::integer[]) AS asked (id, is_sent, wait_ms)
 WHERE kept.id = asked.id`,
)

interface Sending {
  readonly db: Database
  readonly store: RedisStore
  readonly part: number
  readonly epoch: string
  readonly knownMs: number
}

interface Taken {
  readonly settled: SettledJob
  readonly tries: number
}

interface SentCompletion {
  readonly taken: Taken
  /** The state of a job that ended otherwise. */
  readonly lostTo: JobState | null
  readonly isSent: boolean
}

export async function sendCompletions(sending: Sending, emit: Emit): Promise<OutboxStep> {
  let sent = 0
  for (let batches = 0; batches < BATCHES_MAX; batches++) {
    const done = await sendBatch(sending)
    for (const { taken, lostTo, isSent } of done) {
      const { id, queue } = taken.settled
      if (isSent) sent++
      if (lostTo !== null) emit({ name: 'outbox.completion_lost', id, queue, state: lostTo })
    }
    if (done.length === 0) return { sent, isDone: true }
  }
  return { sent, isDone: false }
}

function sendBatch({ db, store, part, epoch, knownMs }: Sending): Promise<readonly SentCompletion[]> {
  return db.transaction('upkeep', async (send) => {
    const number = await holdEpoch(send, part, epoch)
    if (number === null) throw epochChanged(part)
    const rows = await send(TAKE, [part, number, knownMs])
    const taken = rows.map(([text, tries]) => ({ settled: JSON.parse(text!) as SettledJob, tries: Number(tries) }))
    if (taken.length === 0) return []
    const done = await settleAll(store, taken)
    if ((await store.epochOf(part)) !== epoch) throw epochChanged(part)
    await send(MARK, [
      plainArrayOf(done.map(({ taken: one }) => one.settled.id)),
      arrayOf(done.map(({ isSent }) => isSent)),
      plainArrayOf(done.map(({ taken: one }) => Math.min(WAIT_MS_MAX, WAIT_MS * 2 ** Math.min(one.tries, 10)))),
      number,
    ])
    return done
  })
}

/**
 * Settles each under its lease. Where that is lost and the job is not finished, it waits: the next claim of the job finds the row, and settles
 * the job without running it.
 */
async function settleAll(store: RedisStore, taken: readonly Taken[]): Promise<readonly SentCompletion[]> {
  const answers = await store.settle(taken.map(({ settled }) => settled))
  const done: SentCompletion[] = []
  for (const [at, one] of taken.entries()) {
    if (answers[at]!.result === 'settled') {
      done.push({ taken: one, lostTo: null, isSent: true })
      continue
    }
    const job = await store.get(one.settled.id)
    const isSent = job === null || isFinished(job.state)
    done.push({ taken: one, lostTo: isSent && job !== null && job.state !== 'succeeded' ? job.state : null, isSent })
  }
  return done
}

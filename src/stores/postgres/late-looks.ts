// Looks at the children of jobs that have just been settled, a moment later. The settlement itself saw the children that were there when
// it began; one that was committed while it ran looked at its parents before the settlement's own commit. This look comes after both.

import type { Enqueued } from '../../core/job.js'
import type { Database, Send } from './database.js'
import { statement } from './statement.js'
import { childrenOf, unblock, unblockAfter } from './unblock.js'

/** How long jobs gather. One look for all of them costs the server about as much as a claim that finds nothing. */
const GATHER_MS = 50
const RETRY_MS = 1_000
/** Beyond this, which takes an outage, the oldest are left to their children's second looks. */
const WAITING_MAX = 100_000
const BATCH_MAX = 5_000
/** When to look after a caller's own transaction, whose commit nobody sees. Promote looks as well, in its own time. */
const AFTER_TRANSACTION_MS = [25, 250, 1_000]

/** The most pages of announced looks that one call makes: more than one, so that second looks at many children keep up. */
const CHECK_PAGES_MAX = 10

// First looks before second ones, each in the order of the jobs' ids and so of their age. The last column tells them apart.
const ANNOUNCED = statement(
  'links_to_check',
  `
SELECT link_checks.job::text, (link_checks.look_at = '-infinity')::text
  FROM :schema.link_checks
 WHERE link_checks.look_at <= coalesce($1::timestamptz, clock_timestamp())
 ORDER BY link_checks.look_at, link_checks.job
 LIMIT $2`,
)

/** Makes the looks that transactions have announced and that are due, a few pages of them, and answers how many jobs became ready. */
export async function checkLinks(
  db: Database,
  send: Send,
  limit: number,
  onReady: (queue: string) => void,
): Promise<number> {
  let ready = 0
  const onOneReady = (queue: string) => {
    ready++
    onReady(queue)
  }
  for (let pages = 0; pages < CHECK_PAGES_MAX; pages++) {
    const rows = await send(ANNOUNCED, [db.now(), limit])
    const first = [...new Set(rows.filter(([, isFirst]) => isFirst === 'true').map(([job]) => job!))]
    const jobs = [...new Set(rows.map(([job]) => job!))]
    if (jobs.length > 0) await unblock(db, send, jobs, [], onOneReady)
    // Each that is looked at for the first time may be a child or a parent.
    if (first.length > 0) await unblockAfter(db, send, first, onOneReady, true)
    if (rows.length < limit) break
  }
  return ready
}

export class LateLooks {
  readonly #db: Database
  readonly #send: Send
  readonly #onReady: (queue: string) => void
  #waiting: string[] = []
  #timer: NodeJS.Timeout | null = null
  #looking: Promise<void> = Promise.resolve()
  readonly #afterTransaction = new Map<number, { again: boolean }>()
  #isChecking = false
  #isDueAgain = false
  #isClosed = false

  constructor(db: Database, onReady: (queue: string) => void) {
    this.#db = db
    this.#send = (sql, values) => db.send('settle', sql, values)
    this.#onReady = onReady
  }

  /** Jobs have ended, and the transaction that ended them has committed. */
  add(ids: readonly string[]): void {
    for (const id of ids) this.#waiting.push(id)
    if (this.#waiting.length > WAITING_MAX) this.#waiting.splice(0, this.#waiting.length - WAITING_MAX)
    this.#lookIn(GATHER_MS)
  }

  /** A caller's transaction has announced looks, and will commit or not. */
  afterTransaction(): void {
    for (const ms of AFTER_TRANSACTION_MS) this.#checkIn(ms)
  }

  /** A caller's transaction has written these, and looks are announced for those that are blocked. */
  afterEnqueue(answers: readonly Enqueued[]): void {
    if (answers.some((answer) => 'state' in answer && answer.state === 'blocked')) this.afterTransaction()
  }

  #lookIn(ms: number): void {
    if (this.#timer !== null || this.#isClosed || this.#waiting.length === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#looking = this.#look()
    }, ms)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const ids = this.#waiting.splice(0, BATCH_MAX)
    if (ids.length === 0) return
    try {
      const children = await childrenOf(this.#send, ids)
      if (children.length > 0) await unblockAfter(this.#db, this.#send, ids, this.#onReady, true)
      this.#lookIn(GATHER_MS)
    } catch {
      // The store is away, or somebody holds a child for a moment.
      this.#waiting.unshift(...ids)
      this.#lookIn(RETRY_MS)
    }
  }

  // While one is due another is not set: it is set when that one has fired, for those who came meanwhile.
  #checkIn(ms: number): void {
    if (this.#isClosed) return
    const due = this.#afterTransaction.get(ms)
    if (due !== undefined) {
      due.again = true
      return
    }
    const own = { again: false }
    this.#afterTransaction.set(ms, own)
    setTimeout(() => {
      this.#afterTransaction.delete(ms)
      if (own.again) this.#checkIn(ms)
      void this.#check()
    }, ms).unref()
  }

  // One at a time: two would look at the same jobs, and settlements would wait for both.
  async #check(): Promise<void> {
    this.#isDueAgain = true
    if (this.#isChecking) return
    this.#isChecking = true
    while (this.#isDueAgain && !this.#isClosed) {
      this.#isDueAgain = false
      // A failure leaves them to promote.
      await checkLinks(this.#db, this.#send, BATCH_MAX, this.#onReady).catch(() => {})
    }
    this.#isChecking = false
  }

  /** Makes the looks that are due, once, and none after that. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#looking
    while (this.#waiting.length > 0) {
      const before = this.#waiting.length
      await this.#look()
      if (this.#waiting.length >= before) return
    }
  }
}

// ctx.complete(tx) over an outbox: the settlement is a row of the caller's transaction. Whoever would run, settle or rescue a job looks here
// first, because the row decides: the store learns of it a moment later. ◄── store.ts · next: completions-dispatch.ts

import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../../core/errors.js'
import { type Lease, leaseName, leaseOf, type SettledJob } from '../../core/job.js'
import type { JobStore, Queryable, SettleResult, Watch } from '../../core/job-store.js'
import type { Database } from '../postgres/database.js'
import { arrayOf, plainArrayOf, statement } from '../postgres/statement.js'
import type { PartOf } from './rows.js'

/** How long the answer that nobody writes completions is good. */
const UNUSED_MS = 1_000
/** Leases with a transaction of this process that may still be open. */
const OPEN_MAX = 100_000

const USED = statement('outbox_used', `SELECT since::text FROM :schema.outbox_use WHERE what = 'completions'`)
const USE = statement(
  'outbox_use',
  `
INSERT INTO :schema.outbox_use (what) VALUES ('completions')
    ON CONFLICT (what) DO UPDATE SET since = outbox_use.since
RETURNING ((extract(epoch FROM clock_timestamp() - since)) * 1000)::bigint::text`,
)

// The lock says that a transaction is completing the job, before its row can be seen.
const lockOf = (id: string) => `pg_catalog.hashtextextended(':schema_text.outbox_completions ' || ${id}::text, 0)`

const LOCK = statement(
  'outbox_lock',
  `SELECT count(pg_catalog.pg_advisory_xact_lock(${lockOf('asked.id')}))::text FROM unnest($1::uuid[]) AS asked (id)`,
)

const WRITE = statement(
  'outbox_complete',
  `
INSERT INTO :schema.outbox_completions (id, part, fence, completion)
SELECT new.id, new.part, new.fence, new.completion
  FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::text[]) AS new (id, part, fence, completion)
    ON CONFLICT (id) DO NOTHING`,
)

const OWN = statement(
  'outbox_completed',
  `
SELECT kept.id::text
  FROM unnest($1::uuid[], $2::bigint[]) AS asked (id, fence)
  JOIN :schema.outbox_completions AS kept ON kept.id = asked.id AND kept.fence = asked.fence`,
)

const OPEN = statement(
  'outbox_open',
  `
SELECT asked.id::text
  FROM unnest($1::uuid[]) AS asked (id)
 WHERE NOT pg_catalog.pg_try_advisory_xact_lock_shared(${lockOf('asked.id')})`,
)

const FIND = statement(
  'outbox_find_completions',
  `SELECT id::text, completion FROM :schema.outbox_completions WHERE id = ANY ($1::uuid[])`,
)

const FORGET = statement(
  'outbox_forget_completions',
  `DELETE FROM :schema.outbox_completions WHERE id = ANY ($1::uuid[])`,
)

export class Completions {
  readonly #db: Database
  readonly #partOf: PartOf
  #isUsed = false
  #askedMs = Number.NEGATIVE_INFINITY
  /** Leases that were completed in transactions of this process, which may have committed or not. */
  readonly #open = new Set<string>()

  constructor(db: Database, partOf: PartOf) {
    this.#db = db
    this.#partOf = partOf
  }

  /** Whether anybody has ever completed a job here. While that is not so, nothing has to be asked for. */
  async isUsed(): Promise<boolean> {
    if (this.#isUsed || performance.now() - this.#askedMs < UNUSED_MS) return this.#isUsed
    // Nobody can complete the first job while PostgreSQL is away.
    const rows = await this.#db.send('claim', USED, []).catch(() => [])
    this.#askedMs = performance.now()
    this.#isUsed = rows.length > 0
    return this.#isUsed
  }

  /** Settles jobs in the transaction of a caller. */
  async write(store: JobStore, tx: Queryable, jobs: readonly SettledJob[]): Promise<readonly SettleResult[]> {
    const send = this.#db.through(tx)
    await this.#beginUse()
    const { lost } = await store.watch(jobs.map(leaseOf))
    const gone = new Set(lost.map(leaseName))
    const held = jobs.filter((job) => !gone.has(leaseName(job)))
    const ids = plainArrayOf(held.map(({ id }) => id))
    const fences = plainArrayOf(held.map(({ fence }) => fence))
    if (held.length > 0) {
      await send(LOCK, [ids])
      const parts = plainArrayOf(held.map((job) => this.#partOf(job)))
      await send(WRITE, [ids, parts, fences, arrayOf(held.map((job) => JSON.stringify(job)))])
    }
    // Another run of the job may have completed it: then the row is that one's.
    const own = new Set(held.length === 0 ? [] : (await send(OWN, [ids, fences])).map(([id]) => id))
    return jobs.map((job) => {
      const isOwn = own.has(job.id) && !gone.has(leaseName(job))
      if (isOwn) this.#remember(job)
      return { ...leaseOf(job), result: isOwn ? 'settled' : 'lost', state: isOwn ? 'succeeded' : null }
    })
  }

  // Once in the life of the tables: every process must have learned that completions exist before the first one commits.
  async #beginUse(): Promise<void> {
    if (this.#isUsed) return
    const [row] = await this.#db.send('upkeep', USE, [])
    const sinceMs = Number(row?.[0] ?? 0)
    if (sinceMs < 2 * UNUSED_MS) await sleep(2 * UNUSED_MS - sinceMs)
    this.#isUsed = true
  }

  #remember(lease: Lease): void {
    if (this.#open.size >= OPEN_MAX) this.#open.delete(this.#open.values().next().value!)
    this.#open.add(leaseName(lease))
  }

  /** The store's `watch`: a lease that was completed here is settled once its transaction has committed. */
  async watch(store: JobStore, leases: readonly Lease[]): Promise<Watch> {
    const mine = leases.filter((lease) => this.#open.has(leaseName(lease)))
    if (mine.length === 0) return store.watch(leases)
    const done = await this.find(mine.map(({ id }) => id))
    const isDone = (lease: Lease) => done.get(lease.id)?.fence === lease.fence
    const settled = mine.filter(isDone)
    // The row decides. Should the store be away, it learns of it later.
    if (settled.length > 0) await store.settle(settled.map(({ id }) => done.get(id)!)).catch(() => {})
    for (const lease of settled) this.#open.delete(leaseName(lease))
    const others = leases.filter((lease) => !settled.includes(lease))
    if (others.length === 0) return { lost: settled, cancelled: [], settled }
    const watch = await store.watch(others)
    return { ...watch, lost: [...watch.lost, ...settled], settled: [...watch.settled, ...settled] }
  }

  /** The store's `settle`, for those who would end leases that handlers may have completed: rescue, and the worker when a handler has failed. */
  async settle(store: JobStore, jobs: readonly SettledJob[], onlyExpired: boolean): Promise<readonly SettleResult[]> {
    const doubtful = onlyExpired
      ? (await this.isUsed())
        ? jobs
        : []
      : jobs.filter((job) => this.#open.has(leaseName(job)))
    if (doubtful.length === 0) return store.settle(jobs, { onlyExpired })
    const { done, open } = await this.#standing(doubtful.map(({ id }) => id))
    const locked = new Set(doubtful.filter(({ id }) => open.has(id) && !done.has(id)))
    // One that was completed has ended as that says, under whichever lease it is now.
    const sent = jobs
      .filter((job) => !locked.has(job))
      .map((job) => (done.has(job.id) ? { ...done.get(job.id)!, fence: job.fence } : job))
    const answers = sent.length === 0 ? [] : await store.settle(sent, { onlyExpired })
    const byLease = new Map(answers.map((answer) => [leaseName(answer), answer]))
    return jobs.map((job) => {
      if (locked.has(job)) return { ...leaseOf(job), result: 'locked', state: null }
      this.#open.delete(leaseName(job))
      return byLease.get(leaseName(job))!
    })
  }

  /** The completions that have committed, by job. */
  async find(ids: readonly string[]): Promise<ReadonlyMap<string, SettledJob>> {
    if (ids.length === 0) return new Map()
    const rows = await this.#db.send('claim', FIND, [plainArrayOf(ids)])
    return new Map(rows.map(([id, text]) => [id!, JSON.parse(text!) as SettledJob]))
  }

  /** The completions that have committed, and the jobs that open transactions are completing. */
  async #standing(ids: readonly string[]): Promise<{
    readonly done: ReadonlyMap<string, SettledJob>
    readonly open: ReadonlySet<string>
  }> {
    const asked = [plainArrayOf(ids)]
    return this.#db.transaction('settle', async (send) => {
      // First the locks and then the rows: what was locked a moment ago can be seen by the second statement.
      const open = await send(OPEN, asked)
      const rows = await send(FIND, asked)
      return {
        open: new Set(open.map(([id]) => id!)),
        done: new Map(rows.map(([id, text]) => [id!, JSON.parse(text!) as SettledJob])),
      }
    })
  }

  /** Jobs begin a new life: what was completed in the one before says nothing about it. */
  async revive(ids: readonly string[]): Promise<void> {
    if (ids.length > 0 && (await this.isUsed())) await this.#db.send('operate', FORGET, [plainArrayOf(ids)])
  }
}

/** Raised in place of a claim while it cannot be known which of its jobs were completed. */
export function cannotKnow(cause: unknown): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new HoldfastError(
    'store_unavailable',
    `the outbox cannot say which of the claimed jobs were completed in a transaction, so none is run: ${why}`,
    { retryable: true, cause },
  )
}

// One step of the outbox: for each part of the store, what waits is sent, and what was sent long enough ago is dropped. A part whose server is
// away does not keep the others waiting. ◄── ../../upkeep/outbox.ts · next: dispatch.ts

import { type HoldfastError, isHoldfastError } from '../../core/errors.js'
import type { Emit } from '../../core/events.js'
import type { OutboxStep } from '../../core/outbox.js'
import type { Database } from '../postgres/database.js'
import { statement } from '../postgres/statement.js'
import type { RedisStore } from '../redis/index.js'
import { sendCompletions } from './completions-dispatch.js'
import { deleteAgain } from './deletes.js'
import { type Batch, sendBatch } from './dispatch.js'
import { dropOldRows } from './drop.js'
import { noteEpoch } from './epochs.js'

/** The most batches of one part in a step: stopping waits for a step to end. */
const BATCHES_MAX = 20
/** How long a look for other servers of Redis is good while nothing waits. */
const LOOK_MS = 1_000
/** How often old rows are dropped, at most. */
const DROP_MS = 10_000

interface DispatcherDeps {
  readonly db: Database
  readonly store: RedisStore
  /** How long rows stay after they were sent. */
  readonly keepMs: number
  /** How long the store keeps finished jobs. */
  readonly retentionMs: number
  readonly emit: Emit
}

// Which parts have rows that wait, and which have rows that a failover of their server would lose.
const WORK = statement(
  'outbox_work',
  `
SELECT part::text,
       (EXISTS (SELECT FROM :schema.outbox WHERE outbox.part = asked.part AND sent_at IS NULL AND try_at <= clock_timestamp())
        OR EXISTS (SELECT FROM :schema.outbox_completions AS completion
                    WHERE completion.part = asked.part AND sent_at IS NULL AND try_at <= clock_timestamp()))::text,
       (EXISTS (SELECT FROM :schema.outbox WHERE outbox.part = asked.part AND outcome = 'sent')
        OR EXISTS (SELECT FROM :schema.outbox_completions AS completion
                    WHERE completion.part = asked.part AND sent_at IS NOT NULL)
        OR EXISTS (SELECT FROM :schema.outbox_deletes AS gone WHERE gone.part = asked.part))::text
  FROM pg_catalog.generate_series(0, $1::integer - 1) AS asked (part)`,
)

export class Dispatcher {
  readonly #deps: DispatcherDeps
  readonly #lookedMs = new Map<number, number>()
  readonly #droppedMs = new Map<number, number>()

  constructor(deps: DispatcherDeps) {
    this.#deps = deps
  }

  async step(): Promise<OutboxStep> {
    const { db, store } = this.#deps
    const rows = await db.send('upkeep', WORK, [store.shardCount])
    const parts = rows
      .map(([part, waits, keeps]) => ({ part: Number(part), waits: waits === 'true', keeps: keeps === 'true' }))
      .filter(({ part, waits, keeps }) => waits || (keeps && this.#isDue(part)))
    const ends = await Promise.allSettled(parts.map(({ part }) => this.#stepOf(part)))
    const failures = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []))
    const isAway = (error: unknown) => isHoldfastError(error) && error.retryable
    const worst = failures.find((error) => !isAway(error)) ?? failures[0]
    if (worst !== undefined && (failures.length === ends.length || !isAway(worst))) throw worst
    const steps = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
    return { sent: steps.reduce((sum, { sent }) => sum + sent, 0), isDone: steps.every(({ isDone }) => isDone) }
  }

  #isDue(part: number): boolean {
    return performance.now() - (this.#lookedMs.get(part) ?? Number.NEGATIVE_INFINITY) >= LOOK_MS
  }

  async #stepOf(part: number): Promise<OutboxStep> {
    const { db, store, emit, retentionMs } = this.#deps
    const epoch = await store.epochOf(part)
    await noteEpoch(db, part, epoch, emit)
    this.#lookedMs.set(part, performance.now())
    let isDeleted = false
    for (let batches = 0; batches < BATCHES_MAX && !isDeleted; batches++) {
      isDeleted = await deleteAgain({ db, store, part, epoch })
    }
    let sent = 0
    let isDone = false
    for (let batches = 0; batches < BATCHES_MAX && !isDone; batches++) {
      const batch = await sendBatch({ db, store, part, epoch, knownMs: retentionMs })
      sent += this.#report(batch)
      isDone = batch.rows.length === 0
    }
    const completions = await sendCompletions({ db, store, part, epoch, knownMs: retentionMs }, emit)
    await this.#drop(part)
    return { sent: sent + completions.sent, isDone: isDeleted && isDone && completions.isDone }
  }

  async #drop(part: number): Promise<void> {
    const { db, keepMs, retentionMs } = this.#deps
    const nowMs = performance.now()
    if (nowMs - (this.#droppedMs.get(part) ?? Number.NEGATIVE_INFINITY) < Math.min(DROP_MS, keepMs)) return
    this.#droppedMs.set(part, nowMs)
    await dropOldRows(db, { part, keepMs, knownMs: retentionMs })
  }

  /** Reports what became of the rows, and answers how many the store has taken. */
  #report({ rows, fates }: Batch): number {
    const { emit, store } = this.#deps
    let [sent, repeated] = [0, 0]
    for (const [at, { outcome, holder, why }] of fates.entries()) {
      const { job, isRepeat } = rows[at]!
      const { id, type, queue } = job
      if (outcome === 'sent') {
        sent++
        if (isRepeat) repeated++
      } else if (outcome === 'replaced' || outcome === 'deduplicated') {
        emit({ name: 'outbox.deduplicated', id, type, queue, holder: holder!, replaced: outcome === 'replaced' })
      } else if (outcome === 'refused') {
        emit({ name: 'outbox.refused', id, type, queue, why: why! })
        const record = { actor: 'holdfast', action: 'outbox_refused', job: id, target: queue, details: { why } }
        void store.record(record).catch((error: unknown) => {
          emit({ name: 'store.failed', during: 'record a refusal', error: error as HoldfastError })
        })
      }
    }
    if (sent > 0) emit({ name: 'outbox.sent', count: sent, repeated })
    return sent
  }
}

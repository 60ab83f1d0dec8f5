// Transactions of another program beside the workers: one that holds a key for long, and some that commit late while another holds
// a snapshot. They enqueue through the product, in their own transactions.

import type pg from 'pg'
import type { EnqueueOptions } from '../../../src/client/enqueue-options.js'
import type { Holdfast } from '../../../src/holdfast.js'
import { seededRandom } from '../../../src/testing/seeded-random.js'
import type { GeneratedPayload } from '../../gen/mix.js'
import type { Recorder } from '../../gen/recorder.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { flowOf } from '../flow-load.js'
import { JOBS } from '../load.js'
import type { FaultProxy } from '../proxy.js'
import { sleep } from '../sleep.js'
import { onServer } from './on-server.js'

/** Longer than any allowed lateness. */
const HOLD_MS = 16_000
const LATE_COMMITS = 12
const LATE_MAX_MS = 4_000

export class Stranger {
  readonly proxy: FaultProxy
  readonly #holdfast: Holdfast
  readonly #recorder: Recorder
  readonly #hasFlow: boolean
  #count = 0

  constructor(holdfast: Holdfast, proxy: FaultProxy, { recorder, hasFlow }: { recorder: Recorder; hasFlow: boolean }) {
    this.proxy = proxy
    this.#hasFlow = hasFlow
    this.#holdfast = holdfast
    this.#recorder = recorder
  }

  /** Its connection, for an operator who is past the links of workers and producers too. */
  get operator(): Holdfast {
    return this.#holdfast
  }

  /** Enqueues a key that a running job holds and leaves the transaction open until long after that job has ended. */
  async holdKey(server: () => PostgresServer, isCommitted: boolean, begin: () => void): Promise<void> {
    const idempotencyKey = `stranger-${this.#count}`
    const first = this.#payload({ kind: 'slow', ms: 2_000 })
    this.#invoke(first, idempotencyKey)
    const { id, created } = await this.#holdfast.enqueue(JOBS.slow, first, { idempotencyKey })
    this.#recorder.write({ ev: 'enqueue.ok', key: first.key, job: id, created })
    await onServer(server, async (sql) => {
      await sql.query('BEGIN')
      const again = this.#payload()
      const answer = await this.#enqueue(sql, again, { idempotencyKey })
      begin()
      await sleep(HOLD_MS)
      await this.#end(sql, again, { ...answer, isCommitted })
    })
  }

  /** Enqueues in transactions that commit one after the other, while a snapshot from before them is held. */
  async commitLate(server: () => PostgresServer, begin: () => void): Promise<void> {
    await onServer(server, async (snapshot) => {
      await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await snapshot.query('SELECT count(*) FROM pg_class')
      begin()
      const late = Array.from({ length: LATE_COMMITS }, (_, number) => {
        return onServer(server, (sql) => this.#commitAfter(sql, (LATE_MAX_MS * (number + 1)) / LATE_COMMITS))
      })
      await Promise.all(late)
      await sleep(HOLD_MS)
      await snapshot.query('ROLLBACK')
    })
  }

  async #commitAfter(sql: pg.Client, ms: number): Promise<void> {
    await sql.query('BEGIN')
    const payload = this.#payload()
    const answer = await this.#enqueue(sql, payload, this.#hasFlow ? this.#flow() : {})
    await sleep(ms)
    // Under flow control some are rolled back: nobody may have waited for them.
    await this.#end(sql, payload, { ...answer, isCommitted: !this.#hasFlow || this.#count % 3 > 0 })
  }

  /** The group and limits of a job, in a group that has others. A caller's transaction cannot wait for room. */
  #flow(): EnqueueOptions {
    const { options, job } = flowOf(seededRandom(this.#count))
    if (job !== null) return { queue: 'bill', group: 'b0' }
    const { onFull: _, ...rest } = options
    return rest
  }

  #payload(changes: Partial<GeneratedPayload> = {}): GeneratedPayload {
    const key = `stranger-job-${++this.#count}`
    return { seq: -this.#count, kind: 'fast', ms: 1, failures: 0, effect: 'outside', ...changes, key }
  }

  #invoke({ key }: GeneratedPayload, idempotencyKey: string | null): void {
    this.#recorder.write({ ev: 'enqueue.invoke', key, idempotencyKey })
  }

  async #enqueue(sql: pg.Client, payload: GeneratedPayload, options: EnqueueOptions): Promise<Answer> {
    this.#invoke(payload, (options.idempotencyKey as string | undefined) ?? null)
    try {
      const { id, created } = await this.#holdfast.enqueue(JOBS.fast, payload, { ...options, tx: sql })
      return { job: id, created }
    } catch (error) {
      this.#recorder.write({ ev: 'enqueue.info', key: payload.key, job: null })
      throw error
    }
  }

  /** Ends the transaction. Its promises hold from the commit on. */
  async #end(sql: pg.Client, { key }: GeneratedPayload, answer: Answer & { isCommitted: boolean }): Promise<void> {
    const { job, created, isCommitted } = answer
    try {
      await sql.query(isCommitted ? 'COMMIT' : 'ROLLBACK')
    } catch (error) {
      this.#recorder.write({ ev: 'enqueue.info', key, job: null })
      throw error
    }
    if (isCommitted) this.#recorder.write({ ev: 'enqueue.ok', key, job, created })
    else this.#recorder.write({ ev: 'enqueue.fail', key, job: null })
  }

  async close(): Promise<void> {
    await this.#holdfast.close()
    this.#recorder.close()
    await this.proxy.close()
  }
}

interface Answer {
  readonly job: string
  readonly created: boolean
}

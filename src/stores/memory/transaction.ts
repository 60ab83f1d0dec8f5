// A transaction of the memory store, for tests of code that enqueues and completes jobs in its own transaction. What is written in it is
// kept aside until it commits. It has no tables: what the tested code sends to its own is answered by the test.

import { HoldfastError, invalidOption } from '../../core/errors.js'
import type { Enqueued, NewJob, SettledJob } from '../../core/job.js'
import type { Queryable, SettleResult } from '../../core/job-store.js'
import type { JobState } from '../../core/states.js'
import { enqueue } from './enqueue.js'
import { keyHolder } from './keys.js'
import { heldJob, type Memory } from './memory.js'
import { settle } from './settle.js'

/** Answers the statements of the tested code. */
export type AnswerQuery = (text: string, values: unknown[]) => unknown[] | Promise<unknown[]>

/** Changes the memory as one step, and announces what became ready. */
export type Apply = (step: (nowMs: number) => void) => Promise<void>

/** A transaction of one memory store. */
export class MemoryTransaction implements Queryable {
  /** What the tested code sent to its own tables, in order. */
  readonly queries: { readonly text: string; readonly values: readonly unknown[] }[] = []
  readonly #memory: Memory
  readonly #apply: Apply
  readonly #answer: AnswerQuery
  readonly #jobs: NewJob[] = []
  readonly #steps: ((nowMs: number) => void)[] = []
  #end: 'committed' | 'rolled back' | null = null

  constructor(memory: Memory, apply: Apply, answer: AnswerQuery) {
    if (typeof answer !== 'function') throw invalidOption('begin takes a function that answers queries', answer)
    this.#memory = memory
    this.#apply = apply
    this.#answer = answer
  }

  /** Records a statement and answers as the test says, by default with no rows. */
  async query(text: string, values: unknown[] = []): Promise<{ rows: unknown[] }> {
    this.#checkOpen('take a query')
    this.queries.push({ text, values })
    return { rows: await this.#answer(text, values) }
  }

  /** Makes everything that was written in it happen, in order. */
  async commit(): Promise<void> {
    this.#checkOpen('commit')
    this.#end = 'committed'
    await this.#apply((nowMs) => {
      for (const step of this.#steps) step(nowMs)
    })
  }

  /** Forgets what was written in it. */
  async rollback(): Promise<void> {
    this.#checkOpen('be rolled back')
    this.#end = 'rolled back'
  }

  /** Whether it belongs to this memory. */
  isOf(memory: Memory): boolean {
    return this.#memory === memory
  }

  /** Answers as an enqueue does, and writes when it commits. */
  enqueue(jobs: readonly NewJob[], nowMs: number): Enqueued[] {
    this.#checkOpen('take jobs')
    const answers = jobs.map((job) => this.#write(job, nowMs))
    const accepted = jobs.filter((_, index) => 'created' in answers[index]! && answers[index].created)
    this.#steps.push((commitMs) => void enqueue(this.#memory, accepted, { nowMs: commitMs }))
    return answers
  }

  /** Answers as a settlement does, and settles when it commits. */
  settle(jobs: readonly SettledJob[]): SettleResult[] {
    this.#checkOpen('settle jobs')
    this.#steps.push((nowMs) => void settle(this.#memory, jobs, false, nowMs))
    return jobs.map(({ id, fence, queue, settlement }) => {
      const isHeld = heldJob(this.#memory, { id, fence, queue }) !== null
      return isHeld
        ? { id, fence, queue, result: 'settled', state: settlement.state }
        : { id, fence, queue, result: 'lost', state: null }
    })
  }

  #write(job: NewJob, nowMs: number): Enqueued {
    const known = this.#jobs.find(({ id }) => id === job.id)
    if (known !== undefined || this.#memory.jobs.has(job.id)) return { id: job.id, created: true, state: stateOf(job) }
    const own = this.#jobs.find(({ queue, idempotencyKey }) => queue === job.queue && isSameKey(idempotencyKey, job))
    if (own !== undefined) return { id: own.id, created: false, state: stateOf(own) }
    const holder = keyHolder(this.#memory, job, nowMs)
    if (holder !== null) {
      const state = this.#memory.jobs.get(holder.jobId)?.state ?? 'succeeded'
      return { id: holder.jobId, created: false, state }
    }
    const exists = (id: string) => this.#memory.jobs.has(id) || this.#jobs.some((one) => one.id === id)
    const unknownParent = job.after.find((id) => !exists(id))
    if (unknownParent !== undefined) return { id: job.id, unknownParent }
    this.#jobs.push(job)
    return { id: job.id, created: true, state: stateOf(job) }
  }

  #checkOpen(verb: string): void {
    if (this.#end === null) return
    throw new HoldfastError(
      'wrong_state',
      `this transaction cannot ${verb}: it was ${this.#end} already; begin another`,
    )
  }
}

function isSameKey(key: NewJob['idempotencyKey'], { idempotencyKey }: NewJob): boolean {
  return key !== null && idempotencyKey !== null && key.key === idempotencyKey.key
}

function stateOf({ after, when }: NewJob): JobState {
  if (after.length > 0) return 'blocked'
  return when === null ? 'ready' : 'scheduled'
}

/** The transaction, if it is one of this memory. Raises `unsupported` for any other: a memory store can take part in none. */
export function transactionOf(memory: Memory, tx: Queryable): MemoryTransaction {
  if (tx instanceof MemoryTransaction && tx.isOf(memory)) return tx
  throw new HoldfastError(
    'unsupported',
    'the memory store takes part in its own transactions alone, got another tx: take one from begin() of testHoldfast(), leave it out, or connect to PostgreSQL',
  )
}

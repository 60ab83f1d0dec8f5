// Writes imported jobs as the store takes them, so that writing them again changes nothing. ◄── run.ts

import { setTimeout as sleep } from 'node:timers/promises'
import { isHoldfastError } from '../core/errors.js'
import { enqueueRefused } from '../core/flow/refusals.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { Queryable } from '../core/job-store.js'
import type { Store } from '../core/store.js'
import type { Planned } from './contract.js'

const TRIES_MAX = 8
const PAUSE_MS = 250

/**
 * Writes a batch, and answers with the ids of those that are here without their keys: a job whose key another job holds was accepted all the
 * same, and is not dropped. Without `tx` the calls are repeated while the store is away, for some seconds. Raises what flow control refuses,
 * such as `queue_full`.
 */
export async function writeBatch(
  store: Store,
  batch: readonly Planned[],
  tx: Queryable | undefined,
): Promise<ReadonlySet<string>> {
  const jobs = batch.map(({ job }) => job)
  const answers = await enqueue(store, jobs, tx)
  const held = jobs
    .filter(({ id }, index) => answers[index]!.id !== id)
    .map((job): NewJob => ({ ...job, idempotencyKey: null }))
  if (held.length > 0) await enqueue(store, held, tx)
  await bury(store, batch, tx)
  return new Set(held.map(({ id }) => id))
}

async function enqueue(store: Store, jobs: readonly NewJob[], tx: Queryable | undefined): Promise<readonly Enqueued[]> {
  const answers = await repeat(tx, () => store.enqueue(jobs, tx === undefined ? {} : { tx }))
  for (const answer of answers) if ('refused' in answer) throw enqueueRefused(answer.id, answer.refused)
  return answers
}

async function bury(store: Store, batch: readonly Planned[], tx: Queryable | undefined): Promise<void> {
  const burials = batch.flatMap(({ job: { id }, death, old }) =>
    death === null
      ? []
      : [{ id, attempt: death.attempt, error: death.error, worker: `imported from ${old.queue}`.slice(0, 100) }],
  )
  if (burials.length > 0) await repeat(tx, () => store.bury(burials, { tx }))
}

/** Calls again what may be repeated. Inside a transaction nothing may: the caller begins that again. */
async function repeat<T>(tx: Queryable | undefined, call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await call()
    } catch (error) {
      if (tx !== undefined || tries === TRIES_MAX || !isHoldfastError(error) || !error.retryable) throw error
      await sleep(PAUSE_MS * tries)
    }
  }
}

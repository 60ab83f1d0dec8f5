// Jobs whose enqueue had no answer. The server may have taken them, a worker may have run them, and then another server may have taken
// over that does not know them, see writeUnanswered. ◄── failover-store.ts · next: say-again.ts

import { isHoldfastError } from '../../core/errors.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import type { EnqueueRequest } from '../../core/job-store.js'
import type { Database } from './database.js'
import { MEMORY_DEFAULTS, type MemoryBounds } from './failover-options.js'
import { answerFull, type FullQueues } from './full-queues.js'
import type { KnownQueues } from './known-queues.js'
import type { LateLooks } from './late-looks.js'
import { writeUnanswered } from './say-again.js'

/** The unanswered jobs of one store. Known by id: with a codec each try has other objects. */
export class UnansweredJobs {
  readonly #ms: number
  readonly #max: number
  readonly #nowMs: () => number
  /** When each was tried last, the longest ago first. */
  readonly #triedMs = new Map<string, number>()

  constructor({ ms, jobs }: Pick<MemoryBounds, 'ms' | 'jobs'>, nowMs: () => number = () => performance.now()) {
    // One try can take longer than a short memory lasts.
    this.#ms = Math.max(ms, MEMORY_DEFAULTS.ms)
    this.#max = jobs
    this.#nowMs = nowMs
  }

  /** They were sent, or would have been, and nobody knows whether the server has them. */
  add(jobs: readonly NewJob[]): void {
    const nowMs = this.#nowMs()
    for (const { id } of jobs) {
      this.#triedMs.delete(id)
      this.#triedMs.set(id, nowMs)
    }
    // A caller that has given up does not say so.
    for (const [id, triedMs] of this.#triedMs) {
      if (nowMs - triedMs <= this.#ms && this.#triedMs.size <= this.#max) break
      this.#triedMs.delete(id)
    }
  }

  /** The server has answered. */
  answered(jobs: readonly NewJob[]): void {
    if (this.#triedMs.size > 0) for (const { id } of jobs) this.#triedMs.delete(id)
  }

  /** Costs nothing while every enqueue was answered. */
  hasAny(jobs: readonly NewJob[]): boolean {
    return this.#triedMs.size > 0 && jobs.some(({ id }) => this.#triedMs.has(id))
  }
}

export interface UnansweredParts {
  readonly db: Database
  readonly knownQueues: KnownQueues
  readonly fullQueues: FullQueues
  readonly lateLooks: LateLooks
  readonly onReady: (queue: string) => void
}

/** The contract's `enqueue` for such jobs, without a claim. Null where the role has no right to take a turn, because it was made before there
 *  was such a right. Then nothing was written. */
export async function enqueueUnanswered(
  parts: UnansweredParts,
  jobs: readonly NewJob[],
  { wereHeld = [] }: EnqueueRequest,
): Promise<readonly Enqueued[] | null> {
  try {
    return await write(parts, jobs, wereHeld)
  } catch (error) {
    if (isHoldfastError(error, 'access_denied')) return null
    throw error
  }
}

async function write(
  parts: UnansweredParts,
  jobs: readonly NewJob[],
  wereHeld: readonly NewJob[],
): Promise<readonly Enqueued[]> {
  const { db, knownQueues, fullQueues, lateLooks, onReady } = parts
  await knownQueues.add(jobs)
  const refusals = (await fullQueues.refuse(jobs)) ?? null
  if (refusals !== null) return answerFull(jobs, refusals, (rest) => write(parts, rest, wereHeld))
  if (jobs.length === 0) return []
  const answers = await writeUnanswered(db, jobs, wereHeld)
  lateLooks.afterEnqueue(answers)
  const isReady = (answer: Enqueued) => 'state' in answer && answer.state === 'ready'
  for (const queue of new Set(jobs.filter((_, index) => isReady(answers[index]!)).map(({ queue }) => queue)))
    onReady(queue)
  return answers
}

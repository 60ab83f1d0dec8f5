// No job is run that was completed in a transaction. Its lease may have run out before that could be sent, or a failover may have lost its claim:
// the store gives it out again then, and whoever gets it settles it. ◄── store.ts

import type { Emit } from '../../core/events.js'
import type { ClaimedJob, SettledJob } from '../../core/job.js'
import type { Claim, JobStore } from '../../core/job-store.js'
import { type Completions, cannotKnow } from './completions.js'

/** When jobs are claimed again of which it could not be known whether they were completed. */
const GIVEN_BACK_MS = 5_000
/** No job has this id. */
const NOBODY = '00000000-0000-7000-8000-000000000000'

export class ClaimGuard {
  readonly #store: JobStore
  readonly #completions: Completions
  readonly #emit: Emit
  /** Whether the last look failed. */
  #isBlind = false

  constructor(store: JobStore, completions: Completions, emit: Emit) {
    this.#store = store
    this.#completions = completions
    this.#emit = emit
  }

  /** The claim without the jobs that were completed, which are settled. Raises `store_unavailable` when that cannot be known. */
  async claim(claiming: () => Promise<Claim>): Promise<Claim> {
    // Nothing is claimed while it would have to be given back.
    if (this.#isBlind) await this.#look([NOBODY])
    const claim = await claiming()
    if (claim.jobs.length === 0 || !(await this.#completions.isUsed())) return claim
    let done: ReadonlyMap<string, SettledJob>
    try {
      done = await this.#look(claim.jobs.map(({ id }) => id))
    } catch (error) {
      await this.#store.settle(claim.jobs.map(givenBack))
      throw error
    }
    if (done.size === 0) return claim
    const settled = claim.jobs.flatMap((job) => (done.has(job.id) ? [{ ...done.get(job.id)!, fence: job.fence }] : []))
    await this.#store.settle(settled)
    for (const { id, type, queue } of claim.jobs) {
      if (done.has(id))
        this.#emit({ name: 'job.settled', id, type, queue, state: 'succeeded', reason: null, delayMs: null })
    }
    return { ...claim, jobs: claim.jobs.filter(({ id }) => !done.has(id)) }
  }

  async #look(ids: readonly string[]): Promise<ReadonlyMap<string, SettledJob>> {
    try {
      const done = await this.#completions.find(ids)
      this.#isBlind = false
      return done
    } catch (error) {
      this.#isBlind = true
      throw cannotKnow(error)
    }
  }
}

/** Nothing was run: the attempt does not count. */
function givenBack({ id, fence, queue, attempt, crashes, idempotencyKey, flow }: ClaimedJob): SettledJob {
  return {
    ...{ id, fence, queue, idempotencyKey, result: null, error: null, ranMs: null },
    settlement: { state: 'scheduled', attempt: attempt - 1, crashes, delayMs: GIVEN_BACK_MS },
    ...(flow === undefined ? {} : { flow }),
  }
}

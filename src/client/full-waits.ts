// Enqueues that found their queue or group full and wait for room. They hold no connection: each tries again after a growing pause.
// ◄── client.ts

import { isHoldfastError } from '../core/errors.js'
import { enqueueRefused } from '../core/flow/refusals.js'
import type { FullRefusal } from '../core/flow/views.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'
import { aborted } from './enqueue-errors.js'
import { type EnqueueReports, fullOf } from './enqueue-reports.js'
import { acceptOne, type JobHandle, type Wait } from './job-handle.js'

/** How long an enqueue waits for room. */
const WAIT_MS_MAX = 30_000
const PAUSE_MS_MIN = 50
const PAUSE_MS_MAX = 1_000

/** What the call said about waiting. */
interface Patience {
  readonly onFull?: 'reject' | 'wait' | undefined
  readonly signal?: AbortSignal | undefined
}

interface FullWaitsDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly wait: Wait
  readonly reports: Pick<EnqueueReports, 'written' | 'refused' | 'close'>
}

/** The enqueues of one client that wait for room. */
export class FullWaits {
  readonly #deps: FullWaitsDeps
  // Only of calls that said something: most do not, and pay nothing here.
  readonly #patience = new WeakMap<NewJob, Patience>()
  readonly #closed = new AbortController()

  constructor(deps: FullWaitsDeps) {
    this.#deps = deps
  }

  /** Remembers what a call said, until its job is answered. */
  note(job: NewJob, patience: Patience): void {
    if (patience.onFull !== undefined || patience.signal !== undefined) this.#patience.set(job, patience)
  }

  /** The answer for one job, or the promise of one while it waits for room. Raises what the store refused. */
  accept(job: NewJob, answer: Enqueued): JobHandle | Promise<JobHandle> {
    const full = fullOf(answer)
    const { wait } = this.#deps
    if (full === null) return this.#deps.reports.written(job, acceptOne(answer, wait))
    this.#deps.reports.refused(answer)
    const { onFull = full.onFull, signal } = this.#patience.get(job) ?? {}
    return onFull === 'wait' ? this.#wait(job, full, signal) : acceptOne(answer, wait)
  }

  /** Ends every wait: the jobs that wait are not written. */
  close(): void {
    this.#closed.abort()
    this.#deps.reports.close()
  }

  async #wait(job: NewJob, first: FullRefusal, signal: AbortSignal | undefined): Promise<JobHandle> {
    const { ports, wait } = this.#deps
    const untilMs = ports.clock.monotonic() + WAIT_MS_MAX
    // A signal for each: Node.js warns of a leak when more than ten listen to one.
    const stop = AbortSignal.any(signal === undefined ? [this.#closed.signal] : [signal, this.#closed.signal])
    let full = first
    for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      const leftMs = untilMs - ports.clock.monotonic()
      if (leftMs <= 0 || this.#closed.signal.aborted) throw enqueueRefused(job.id, full)
      if (signal?.aborted) throw aborted([job], 'no')
      await sleep(ports.timers, Math.min(leftMs, pauseMs * (0.5 + ports.random.float() / 2)), stop)
      if (stop.aborted) continue
      const answer = await this.#tryAgain(job)
      const again = answer === null ? full : fullOf(answer)
      if (again === null) return this.#deps.reports.written(job, acceptOne(answer!, wait))
      full = again
    }
  }

  /** Null when the store did not answer: the same id is sent again. */
  async #tryAgain(job: NewJob): Promise<Enqueued | null> {
    try {
      const [answer] = await this.#deps.store.enqueue([job])
      return answer!
    } catch (error) {
      if (isHoldfastError(error) && error.retryable) return null
      throw error
    }
  }
}

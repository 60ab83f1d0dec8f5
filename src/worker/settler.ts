// Settlements on their way to the store. They gather while one call is in flight, and a moment longer, and go together in the
// next; each lease is kept, and extended, until the store has confirmed. A settlement is never given up silently: what the store cannot
// take now is sent again, and a row it refuses is found and sent without what may have offended it.

import { Contact } from '../core/contact.js'
import { type ErrorCode, HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { SettledJob } from '../core/job.js'
import type { JobStore, SettleResult } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'
import type { HeldJob } from './held-job.js'
import { writeNotes } from './notes.js'

const BATCH_JOBS_MAX = 1_000
const BATCH_BYTES_MAX = 4 * 1024 * 1024
// A batch of this size is worth its way at once. A smaller one leaves a gap to the last, a multiple of how long that one took:
// nobody waits for it, and a busy store gets fewer and larger ones. Its jobs would run again if the process died meanwhile.
const BATCH_WORTH = 64
const GAP_FACTOR = 2
const GAP_MS_MAX = 50
// A job that its handler's transaction, left open, holds locked is sent again after this time.
const LOCKED_WAIT_MS = 1_000

export interface SettlerDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  /** The store has answered for this job, or never will: its lease is this worker's no longer. */
  readonly onDone: (held: HeldJob, answer: SettleResult | null) => void
  /** A batch is through, and there is room again. */
  readonly onFlushed: () => void
}

/** The settler of one worker. */
export class Settler {
  readonly #deps: SettlerDeps
  readonly #contact: Contact
  readonly #giveUp = new AbortController()
  #gathering: HeldJob[] = []
  #head = 0
  #isBusy = false
  #locked = 0
  #nextMs = Number.NEGATIVE_INFINITY
  #onIdle: (() => void)[] = []

  constructor(deps: SettlerDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'settle')
  }

  /** Takes a job whose settlement is decided. It is sent after everything that ends in the same turn of the event loop. */
  add(held: HeldJob): void {
    this.#gathering.push(held)
    if (this.#isBusy) return
    this.#isBusy = true
    this.#deps.ports.timers.soon(() => void this.#flushAll())
  }

  /** Waits for company, when the last batch was sent only just before. */
  async #gather(): Promise<void> {
    if (this.#gathering.length - this.#head >= BATCH_WORTH || this.#onIdle.length > 0) return
    const { clock, timers } = this.#deps.ports
    const waitMs = Math.ceil(this.#nextMs - clock.monotonic())
    if (waitMs > 0) await sleep(timers, waitMs, this.#giveUp.signal)
  }

  /** Resolves when every settlement has been answered. */
  whenIdle(): Promise<void> {
    if (!this.#isBusy && this.#locked === 0) return Promise.resolve()
    return new Promise((resolve) => this.#onIdle.push(resolve))
  }

  /** Sends nothing again: a worker that stops cannot wait for a store that does not come back. The leases run out. */
  giveUp(): void {
    this.#giveUp.abort()
  }

  async #flushAll(): Promise<void> {
    const { clock } = this.#deps.ports
    while (this.#head < this.#gathering.length) {
      await this.#gather()
      const beganMs = clock.monotonic()
      await this.#flush(this.#takeBatch())
      const nowMs = clock.monotonic()
      this.#nextMs = nowMs + Math.min(GAP_MS_MAX, GAP_FACTOR * (nowMs - beganMs))
      this.#deps.onFlushed()
    }
    this.#isBusy = false
    this.#tellIdle()
  }

  #tellIdle(): void {
    if (this.#isBusy || this.#locked > 0) return
    for (const tell of this.#onIdle.splice(0)) tell()
  }

  #takeBatch(): HeldJob[] {
    const from = this.#head
    let bytes = 0
    while (this.#head < this.#gathering.length && this.#head - from < BATCH_JOBS_MAX && bytes < BATCH_BYTES_MAX) {
      bytes += sizeOf(this.#gathering[this.#head++]!.settled!)
    }
    const batch = this.#gathering.slice(from, this.#head)
    if (this.#head === this.#gathering.length) {
      this.#gathering = []
      this.#head = 0
    }
    return batch
  }

  /** Sends a batch until it is answered. Never raises. */
  async #flush(batch: readonly HeldJob[]): Promise<void> {
    for (;;) {
      try {
        await writeNotes(batch, this.#deps)
        const answers = await this.#deps.store.settle(batch.map((held) => held.settled!))
        this.#contact.found()
        this.#answered(batch, answers)
        return
      } catch (error) {
        const waitMs = this.#contact.lost(error)
        if (isRefusal(error)) return this.#isolate(batch, error)
        if (this.#giveUp.signal.aborted) return this.#abandon(batch)
        await sleep(this.#deps.ports.timers, waitMs, this.#giveUp.signal)
      }
    }
  }

  #answered(batch: readonly HeldJob[], answers: readonly SettleResult[]): void {
    for (let index = 0; index < batch.length; index++) {
      const held = batch[index]!
      let answer = answers[index]
      if (answer?.id !== held.id) answer = answers.find(({ id, fence }) => id === held.id && fence === held.fence)
      if (answer?.result === 'locked') void this.#sendLater(held)
      else this.#deps.onDone(held, answer ?? null)
    }
  }

  // Somebody's transaction decides about the job. Its lease is extended meanwhile, like that of any job in hand.
  async #sendLater(held: HeldJob): Promise<void> {
    this.#locked++
    await sleep(this.#deps.ports.timers, LOCKED_WAIT_MS, this.#giveUp.signal)
    this.#locked--
    if (this.#giveUp.signal.aborted) this.#abandon([held])
    else this.add(held)
    this.#tellIdle()
  }

  // One bad row must not hold up its neighbours: halve until it stands alone, then send it bare.
  async #isolate(batch: readonly HeldJob[], error: unknown): Promise<void> {
    if (batch.length > 1) {
      const middle = batch.length >> 1
      await this.#flush(batch.slice(0, middle))
      await this.#flush(batch.slice(middle))
      return
    }
    const held = batch[0]!
    if (held.isStripped) return this.#abandon(batch)
    held.isStripped = true
    held.settled = strip(held.settled!, error)
    await this.#flush(batch)
  }

  // The events of the failed calls have said why; the lease runs out and rescue decides about the job.
  #abandon(batch: readonly HeldJob[]): void {
    for (const held of batch) {
      const error = new HoldfastError(
        'store_unavailable',
        `the settlement of job ${held.id} (fence ${held.fence}) never reached the store: its lease runs out and it is rescued`,
      )
      this.#deps.emit({ name: 'store.failed', during: 'settle', error })
      this.#deps.onDone(held, null)
    }
  }
}

// These are about the store, not about what it was sent, and pass.
const PASSING: readonly ErrorCode[] = [
  'store_unavailable',
  'store_read_only',
  'access_denied',
  'schema_missing',
  'schema_too_new',
  'closed',
]

function isRefusal(error: unknown): boolean {
  return !isHoldfastError(error) || !(error.retryable || PASSING.includes(error.code))
}

function strip(settled: SettledJob, error: unknown): SettledJob {
  const why = isHoldfastError(error) ? error.message : 'the store could not take it'
  return {
    ...settled,
    result: settled.result === null ? null : JSON.stringify({ unserializable: true, why: 'the store refused it' }),
    error:
      settled.error === null
        ? null
        : {
            name: 'HoldfastError',
            code: 'store_refused',
            message: `the error was lost on its way: ${why}`.slice(0, 500),
          },
  }
}

function sizeOf({ result, error }: SettledJob): number {
  const errorLength = error === null ? 0 : error.message.length + (error.stack?.length ?? 0)
  return 200 + (result?.length ?? 0) + errorLength
}

// Writes what the jobs of one worker keep. Entries gather while one call is in flight, and each is sent until the store has answered, as long as its
// job has its lease and was not told to stop. ◄── keeper.ts · next: ../stores/postgres/kept.ts

import { Contact } from '../core/contact.js'
import { isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { leaseOf } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { KeptOf } from '../core/kept/contract.js'
import type { KeptEntry } from '../core/kept/kept.js'
import { type Ports, sleep } from '../core/ports.js'
import type { HeldJob } from './held-job.js'

const BATCH_ENTRIES_MAX = 500
const BATCH_BYTES_MAX = 4 * 1024 * 1024

interface Waiting {
  readonly held: HeldJob
  readonly sent: KeptOf
  readonly resolve: (isKept: boolean) => void
  readonly reject: (error: unknown) => void
}

/** What a worker's jobs keep, on its way to the store. */
export class KeptWrites {
  readonly #store: JobStore
  readonly #ports: Ports
  readonly #contact: Contact
  #waiting: Waiting[] = []
  #isBusy = false

  constructor(deps: { readonly store: JobStore; readonly ports: Ports; readonly emit: Emit }) {
    this.#store = deps.store
    this.#ports = deps.ports
    this.#contact = new Contact(deps, 'keep')
  }

  /** Resolves when the store has answered: false when the job's lease no longer holds. */
  keep(held: HeldJob, entry: KeptEntry): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ held, sent: { ...leaseOf(held), entry }, resolve, reject })
      if (this.#isBusy) return
      this.#isBusy = true
      this.#ports.timers.soon(() => void this.#flushAll())
    })
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) await this.#flush(this.#take())
    this.#isBusy = false
  }

  #take(): Waiting[] {
    let [count, bytes] = [0, 0]
    while (count < this.#waiting.length && count < BATCH_ENTRIES_MAX && bytes < BATCH_BYTES_MAX) {
      bytes += this.#waiting[count++]!.sent.entry.value?.length ?? 0
    }
    return this.#waiting.splice(0, count)
  }

  /** Never raises: the answer goes to those who wait. */
  async #flush(batch: readonly Waiting[]): Promise<void> {
    try {
      const answers = await this.#store.keep(batch.map(({ sent }) => sent))
      this.#contact.found()
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index] === true)
    } catch (error) {
      await this.#failed(batch, error)
    }
  }

  async #failed(batch: readonly Waiting[], error: unknown): Promise<void> {
    if (isHoldfastError(error) && error.retryable) {
      const waitMs = this.#contact.lost(error)
      const [going, over] = [batch.filter(({ held }) => mayWrite(held)), batch.filter(({ held }) => !mayWrite(held))]
      for (const { reject } of over) reject(error)
      this.#waiting.unshift(...going)
      if (going.length > 0) await sleep(this.#ports.timers, waitMs)
      return
    }
    // What the store refuses must not hold up the others.
    if (batch.length > 1) for (const one of batch) await this.#flush([one])
    else batch[0]!.reject(error)
  }
}

/** Whether a job may still keep something: it runs, and was not told to stop. */
export function mayWrite(held: HeldJob): boolean {
  return held.phase !== 'ended' && !held.isLost && held.abortReason === null
}

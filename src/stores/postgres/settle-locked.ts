// settle, around locked rows: a job that an open transaction holds, usually its own handler's, delays no other. ◄── store.ts · next: settle.ts

import { isHoldfastError } from '../../core/errors.js'
import { leaseName, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import type { Database, SendTogether } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import type { Floors } from './floors.js'
import { settle } from './settle.js'

const KNOWN_LOCKED_MAX = 1_000

/** Settles jobs on a connection of our own. A job locked by somebody's open transaction, usually its own handler's, is answered as
 *  `locked` and delays no other job: the first time by the lane's lock timeout, later not at all. */
export class Settling {
  readonly #db: Database
  readonly #send: SendTogether
  readonly #onEnded: (ids: readonly string[]) => void
  readonly #floors: Floors
  readonly #locked = new Set<string>()

  constructor(db: Database, floors: Floors, onEnded: (ids: readonly string[]) => void) {
    this.#db = db
    this.#floors = floors
    this.#onEnded = onEnded
    this.#send = (calls) => db.sendTogether('settle', calls)
  }

  async settle(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    if (this.#locked.size === 0) return this.#settleFast(jobs, onReady)
    const isKnown = (job: SettledJob) => this.#locked.has(leaseName(job))
    const others = await this.#settleFast(
      jobs.filter((job) => !isKnown(job)),
      onReady,
    )
    const known = await this.#settleUnlocked(jobs.filter(isKnown), onReady)
    const results = new Map([...others, ...known].map((result) => [leaseName(result), result]))
    return jobs.map((job) => results.get(leaseName(job))!)
  }

  async #settleFast(jobs: readonly SettledJob[], onReady: (queue: string) => void): Promise<readonly SettleResult[]> {
    try {
      const hasOldSnapshot = this.#floors.isOn
      return await settle(this.#db, this.#send, jobs, { onReady, onEnded: this.#onEnded, hasOldSnapshot })
    } catch (error) {
      if (!isHoldfastError(error) || error.details.sqlState !== LOCK_NOT_AVAILABLE) throw error
      return this.#settleUnlocked(jobs, onReady)
    }
  }

  async #settleUnlocked(
    jobs: readonly SettledJob[],
    onReady: (queue: string) => void,
  ): Promise<readonly SettleResult[]> {
    const options = { skipLocked: true, onReady, onEnded: this.#onEnded }
    const results = await settle(this.#db, this.#send, jobs, options)
    if (this.#locked.size > KNOWN_LOCKED_MAX) this.#locked.clear()
    for (const result of results) {
      if (result.result === 'locked') this.#locked.add(leaseName(result))
      else this.#locked.delete(leaseName(result))
    }
    return results
  }
}

// A store with its calls observed: how long claims take and the results of settlements. On request it drops extensions.

import type { Store } from '../../src/core/store.js'
import { Histogram } from './histogram.js'
import type { RecordFile } from './records.js'
import { SplitLog } from './split.js'
import type { SplitWatch } from './split-watch.js'

/** The results of a process's settlements since its start. */
export interface StoreCounts {
  succeeded: number
  retried: number
  dead: number
  /** Released, to be run by any worker. */
  released: number
  cancelled: number
  /** Settlements that were refused because the lease was lost. */
  lost: number
  claims: number
  claimedJobs: number
  emptyClaims: number
}

export interface StoreWatchOptions {
  readonly record: RecordFile | null
  /** False answers every extension as if it had taken effect, and extends nothing. */
  readonly extends: boolean
  /** Times claims by their parts. */
  readonly split: SplitWatch
}

export class StoreWatch {
  readonly claims: Histogram = new Histogram()
  readonly claimSplits: SplitLog = new SplitLog()
  readonly counts: StoreCounts = {
    succeeded: 0,
    retried: 0,
    dead: 0,
    released: 0,
    cancelled: 0,
    lost: 0,
    claims: 0,
    claimedJobs: 0,
    emptyClaims: 0,
  }
  readonly #options: StoreWatchOptions

  constructor(options: StoreWatchOptions) {
    this.#options = options
  }

  /** The same store, observed. Claims that find no jobs are counted apart, because no job waits for them. */
  wrap(store: Store): Store {
    const { counts, claims, claimSplits } = this
    const { split } = this.#options
    const watched: Store = {
      ...store,
      async claim(request) {
        const before = split.before()
        const sentMs = performance.now()
        const claim = await store.claim(request)
        if (claim.jobs.length === 0) counts.emptyClaims++
        else {
          claims.add(performance.now() - sentMs)
          const parts = before === null ? null : split.after(before)
          if (parts !== null) claimSplits.add(parts)
          counts.claims++
          counts.claimedJobs += claim.jobs.length
        }
        return claim
      },
      settle: async (jobs, options) => {
        const results = await store.settle(jobs, options)
        // A rescue settles jobs of other processes. A settlement in a caller's transaction holds once that commits, which it
        // nearly always does.
        if (options?.onlyExpired !== true) for (const result of results) this.#settled(result)
        return results
      },
    }
    if (this.#options.extends) return watched
    // Without its own extender the heartbeat calls this store.
    return { ...watched, extender: () => null, extend: async () => ({ lost: [], cancelled: [] }) }
  }

  #settled({ id, fence, result, state }: Awaited<ReturnType<Store['settle']>>[number]): void {
    const { counts } = this
    if (result === 'lost') counts.lost++
    else if (state === 'succeeded') counts.succeeded++
    else if (state === 'retrying') counts.retried++
    else if (state === 'dead') counts.dead++
    else if (state === 'cancelled') counts.cancelled++
    else counts.released++
    const word = result === 'lost' ? 'lost' : (state ?? 'unknown')
    this.#options.record?.run({ mark: 'settled', id, fence, attempt: 0, word, atMs: Date.now() })
  }
}

// A store with its calls observed: how long each claim takes, and how many jobs have succeeded. Listening to events instead would
// make the worker create three of them for each job, and that would change the timing.

import type { Store } from '../../../src/core/store.js'

export interface SeenClaim {
  /** When it was sent, by performance.now(). */
  readonly sentMs: number
  readonly tookMs: number
  readonly jobs: number
}

export interface Watcher {
  claimed(claim: SeenClaim): void
  succeeded(jobs: number): void
}

/** The same store, with a watcher notified of every claim and every success. */
export function watchStore(store: Store, watcher: Watcher): Store {
  return {
    ...store,
    async claim(request) {
      const sentMs = performance.now()
      const claim = await store.claim(request)
      watcher.claimed({ sentMs, tookMs: performance.now() - sentMs, jobs: claim.jobs.length })
      return claim
    },
    async settle(jobs, options) {
      const results = await store.settle(jobs, options)
      let succeeded = 0
      for (const { result, state } of results) if (result === 'settled' && state === 'succeeded') succeeded++
      watcher.succeeded(succeeded)
      return results
    },
  }
}

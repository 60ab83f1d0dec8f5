// A store that is watched from outside: how long each claim takes, and how many jobs have succeeded. Listening to events
// instead would have the worker make three of them for each job, which is what is being timed.

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

/** The same store, with a watcher told of every claim and of every job that succeeded. */
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

// The contract of a store, in three parts. Only the composition root takes a whole `Store`; everybody else takes the part they need:
//
//   job-store.ts       the life of a job                client, worker
//   upkeep-store.ts    what moves jobs on by itself     upkeep
//   operator-store.ts  what people do and look at       the client's operator calls
//
// The memory store is the contract's executable form; the conformance suite in testing/store-suite holds every store to it.
//
// Five rules hold for every call:
// - Time is the store's own. No caller's clock decides anything, and delays count from the moment a call is applied.
// - What a worker writes names a lease, never an id alone. A lease that no longer holds is reported, not raised.
// - Every call may be repeated after its answer was lost, and the repetition changes nothing.
// - The store wakes. A call that made jobs ready, or asked for the cancel of a running job, reports it to the listeners of every process
//   after its commit; no caller does. It may be early (a caller's own transaction has not committed), late or lost: workers poll as well.
// - A call raises HoldfastError: `store_unavailable` (retryable; it may or may not have taken effect), `store_refused`,
//   `store_read_only` or `access_denied`.

import type { Emit } from './events.js'
import type { ExtenderSpec, JobStore } from './job-store.js'
import type { OperatorStore } from './operator-store.js'
import type { UpkeepStore } from './upkeep-store.js'

/** A whole store, and its end. */
export interface Store extends JobStore, UpkeepStore, OperatorStore {
  readonly kind: ExtenderSpec['kind']
  /** The store's own events go there from now on. Absent where it has none. */
  reportTo?(emit: Emit): void
  close(): Promise<void>
}

// Promote: jobs whose time has come, or whose parents have finished, become ready.

import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { Store } from '../core/store.js'
import { jittered } from './loop.js'

const BATCH = 1_000
const CALLS_MAX = 20
// Due jobs this close together become ready in one call.
const WAIT_MS_MIN = 5
const WAIT_MS = 1_000
// With nothing due soon: jobs given a nearer time in this process nudge, those of other processes are promoted there.
const IDLE_WAIT_MS = 4_000

/** Promotes what is due, as far as one turn goes, and returns how long until the next is needed. */
export async function promoteDue(deps: { store: Store; ports: Ports; emit: Emit }): Promise<number> {
  const { store, ports, emit } = deps
  let count = 0
  for (let calls = 0; calls < CALLS_MAX; calls++) {
    const { promoted, queues, nextDueMs } = await store.promote(BATCH)
    count += promoted
    if (promoted > 0) {
      store.wake(queues)
      emit({ name: 'job.promoted', count: promoted })
    }
    if (promoted < BATCH) {
      const usualMs = jittered(count > 0 ? WAIT_MS : IDLE_WAIT_MS, ports)
      return Math.max(WAIT_MS_MIN, Math.min(usualMs, nextDueMs ?? usualMs))
    }
  }
  // There is more. The pause lets others have the store, and a stop get through.
  return WAIT_MS_MIN
}

// Bulk: actions on many jobs are done batch by batch, by every process that does upkeep.

import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

// The most batches in one step: stopping waits for a step to end.
const STEPS_MAX = 20
// The wait for an action with a rate limit, which may do more jobs by then.
const WAIT_MS = 250
// The wait with nothing to do. An action started in this process nudges this loop; one started elsewhere is done there too.
const IDLE_WAIT_MS = 10_000

export interface BulkDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
}

/** Does what is due, and returns how long to wait. */
export async function stepBulks({ store, ports, emit }: BulkDeps): Promise<number> {
  for (let steps = 0; steps < STEPS_MAX; steps++) {
    const step = await store.stepBulk()
    if (step === null) {
      const isOpen = steps > 0 || (await hasOpen(store))
      return jittered(isOpen ? WAIT_MS : IDLE_WAIT_MS, ports)
    }
    emit({ name: 'bulk.stepped', ...step })
  }
  return 0
}

/** True when an action waits because of its rate limit. */
async function hasOpen(store: UpkeepStore): Promise<boolean> {
  return (await store.bulks(10)).some(({ state }) => state === 'waiting' || state === 'running')
}

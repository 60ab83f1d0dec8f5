// Bulk: actions on many jobs are done batch by batch, by every process that does upkeep.

import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

// Batches of one turn: after them promote and the others have their say.
const STEPS_MAX = 20
// A paced action earns its next jobs meanwhile.
const WAIT_MS = 250
// With nothing to do: one that is asked for in this process nudges, one of another process is done there as well.
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

/** True when an action waits for its pace. */
async function hasOpen(store: UpkeepStore): Promise<boolean> {
  return (await store.bulks(10)).some(({ state }) => state === 'waiting' || state === 'running')
}

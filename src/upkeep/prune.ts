// Prune: what has run out goes, and the days to come are prepared.

import { isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { Store } from '../core/store.js'
import { jittered } from './loop.js'

const WAIT_MS = 60_000

export interface PruneDeps {
  readonly store: Store
  readonly ports: Ports
  readonly emit: Emit
  readonly retentionMs: number
}

/** Prunes once and returns how long to wait. */
export async function pruneOnce({ store, ports, emit, retentionMs }: PruneDeps): Promise<number> {
  try {
    const { days, rows } = await store.prune({ retentionMs })
    if (days.length > 0 || rows > 0) emit({ name: 'prune.done', days, rows })
  } catch (error) {
    // A role that may not do it now may not a second later either: it is said once a turn, not as often as for a lost store.
    if (!isHoldfastError(error, 'access_denied')) throw error
    emit({ name: 'store.failed', during: 'prune', error })
  }
  return jittered(WAIT_MS, ports)
}

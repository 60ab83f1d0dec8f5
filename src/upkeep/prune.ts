// Prune: what has run out goes, and the days to come are prepared.

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
  const { days, rows } = await store.prune({ retentionMs })
  if (days.length > 0 || rows > 0) emit({ name: 'prune.done', days, rows })
  return jittered(WAIT_MS, ports)
}

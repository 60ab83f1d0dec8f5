// The audit log is kept for a year, or for `auditRetention`. Older lines are deleted in small batches, oldest first.

import { isHoldfastError } from '../core/errors.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

/** The most lines that are kept, whatever their age. These are some gigabytes, and nobody reads that far back. */
const LINES_MAX = 10_000_000
const WAIT_MS = 600_000
/** The wait while there are more to delete. */
const SOON_MS = 1_000

interface PruneAuditDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly keptMs: number
}

/** Prunes the audit log once and returns how long to wait. */
export async function pruneAuditOnce({ store, ports, keptMs }: PruneAuditDeps): Promise<number> {
  try {
    const lines = await store.pruneAudit({ keptMs, linesMax: LINES_MAX })
    return jittered(lines > 0 ? SOON_MS : WAIT_MS, ports)
  } catch (error) {
    // Only the owner of the tables may delete lines. A process with fewer rights leaves it to the others.
    if (!isHoldfastError(error, 'access_denied')) throw error
    return jittered(WAIT_MS, ports)
  }
}

// Marks leases whose handlers are about to start.

import type { Lease } from '../../core/job.js'
import { heldJob, type Memory } from './memory.js'

export function begin(memory: Memory, leases: readonly Lease[]): void {
  for (const lease of leases) {
    const job = heldJob(memory, lease)
    if (job !== null) job.lease!.begun = true
  }
}

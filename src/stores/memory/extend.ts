// Makes leases last longer, and tells which are lost and which jobs somebody asked to cancel.

import { type Lease, leaseOf } from '../../core/job.js'
import type { Extension, Watch } from '../../core/job-store.js'
import { heldJob, type Memory } from './memory.js'
import { put, take } from './moves.js'
import { repeated } from './settle.js'

export function extend(memory: Memory, leases: readonly Lease[], leaseMs: number, nowMs: number): Extension {
  for (const lease of leases) {
    const job = heldJob(memory, lease)
    if (job === null) continue
    take(memory, job)
    job.lease!.leasedUntilMs = nowMs + leaseMs
    put(memory, job)
  }
  const { lost, cancelled } = watch(memory, leases)
  return { lost, cancelled }
}

export function watch(memory: Memory, leases: readonly Lease[]): Watch {
  return {
    settled: leases.filter((lease) => repeated(memory, lease).result === 'settled').map(leaseOf),
    lost: leases.filter((lease) => heldJob(memory, lease) === null).map(leaseOf),
    cancelled: leases.filter((lease) => heldJob(memory, lease)?.lease?.cancelRequested).map(leaseOf),
  }
}

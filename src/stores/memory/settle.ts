// Ends leases and puts their jobs where the settlements say.

import { type Lease, leaseOf, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import { isFinished } from '../../core/states.js'
import { copyOf } from './copy.js'
import { stopGroup } from './groups.js'
import { freeSlots } from './held.js'
import { park } from './kept.js'
import { holdOff, settleCost } from './limits.js'
import { FRONT, heldJob, type Job, type Memory } from './memory.js'
import { goOn, put, putFinished, putReady, putTimed, take, unblock } from './moves.js'

export function settle(
  memory: Memory,
  settledJobs: readonly SettledJob[],
  onlyExpired: boolean,
  nowMs: number,
): SettleResult[] {
  const finishedIds: string[] = []
  const waitingIds: Lease[] = []
  const results = settledJobs.map((settled): SettleResult => {
    const lease = leaseOf(settled)
    const job = heldJob(memory, settled)
    if (job === null) return repeated(memory, settled)
    if (onlyExpired && job.lease!.leasedUntilMs > nowMs) return { ...lease, result: 'lost', state: null }
    endLease(memory, job, settled, nowMs)
    if (settled.holdOff !== undefined) holdOff(memory, job, settled.holdOff, nowMs)
    if (settled.spent !== undefined) settleCost(memory, job, settled.spent, nowMs)
    // The worker that let its lease run out may still be alive: its own settlement must not pass for a repetition.
    if (onlyExpired) job.fence += 1
    if (isFinished(job.state)) finishedIds.push(lease.id)
    if (job.state === 'blocked') waitingIds.push(lease)
    return { ...lease, result: 'settled', state: job.state }
  })
  unblock(memory, finishedIds, nowMs)
  goOn(memory, waitingIds, nowMs)
  return results.map((result) => withState(memory, result, waitingIds))
}

/** A job whose children have all ended has moved on. */
function withState(memory: Memory, result: SettleResult, waiting: readonly Lease[]): SettleResult {
  if (result.state !== 'blocked' || !waiting.some(({ id }) => id === result.id)) return result
  return { ...result, state: memory.jobs.get(result.id)!.state }
}

/** What became of a job whose lease no longer holds: settled under that lease earlier, or lost. */
export function repeated(memory: Memory, settled: Lease): SettleResult {
  const lease = leaseOf(settled)
  const job = memory.jobs.get(lease.id)
  // A job that was never claimed has no fence, so that nothing can repeat.
  const tookEffect = job !== undefined && job.state !== 'running' && job.fence > 0 && job.fence === lease.fence
  return tookEffect ? { ...lease, result: 'settled', state: job.state } : { ...lease, result: 'lost', state: null }
}

function endLease(memory: Memory, job: Job, settled: SettledJob, nowMs: number): void {
  const { settlement, error, result } = settled
  const lease = job.lease!
  const startedAtMs = settled.ranMs === null ? lease.claimedAtMs : nowMs - settled.ranMs
  if (error !== null) {
    job.attempts.push({
      attempt: job.attempt,
      worker: lease.worker,
      startedAt: new Date(startedAtMs),
      finishedAt: new Date(nowMs),
      error: copyOf(error),
    })
  }
  take(memory, job)
  freeSlots(memory, job)
  job.lease = null
  job.attempt = settlement.attempt
  job.crashes = settlement.crashes
  const ending = { finishedAtMs: nowMs, startedAtMs, worker: lease.worker, result }
  if (lease.cancelRequested && !isFinished(settlement.state)) putFinished(memory, job, 'cancelled', ending)
  else if (settlement.state === 'ready') putReady(memory, job, FRONT, nowMs)
  else if (settlement.state === 'retrying' || settlement.state === 'scheduled') {
    putTimed(memory, job, settlement.state, nowMs + settlement.delayMs)
    if (settled.wait !== undefined) park(memory, job, settled.wait, nowMs)
  } else if (settlement.state === 'blocked') {
    job.state = 'blocked'
    job.waitsOn = settled.children ?? { ids: [], wakesEarly: false }
    put(memory, job)
  } else if (settlement.state === 'dead') {
    putFinished(memory, job, 'dead', { ...ending, result: null, reason: settlement.reason, error: copyOf(error) })
    stopGroup(memory, job)
  } else putFinished(memory, job, settlement.state, ending)
}

// A run aimed at one situation that is rare otherwise: a job that was lost twice with its worker, and so is on its last chance, and one that
// kills its process, both in the hands of one worker, over a slow link.

import type { Chance } from './chance.js'
import type { Plan } from './plan.js'
import type { PlannedFault } from './plan-faults.js'
import type { PlannedAct, PlannedJob } from './plan-jobs.js'

const QUEUE = 'alpha'
const ENQUEUE_MS = 100

/** The same plan with these jobs, faults and processes instead. */
export function aimAtSuspects(chance: Chance, plan: Plan): Plan {
  const healMs = chance.between(9_000, 14_000)
  const [first, second] = plan.processes
  return {
    ...plan,
    healMs,
    legMs: { min: 0.1, max: chance.pick([20, 150]) },
    wakeLoss: 0,
    enqueueTimeoutMs: 12_000,
    // The second process has no worker. It rescues what the first one loses.
    processes: [
      { ...first!, hasWorker: true, concurrency: chance.whole(2, 4), prefetch: 0, pollMinMs: 50, queues: [QUEUE] },
      { ...second!, hasWorker: false },
    ],
    schedules: [],
    acts: [drawJobs(chance)],
    faults: drawFaults(chance, healMs).map((fault, index) => ({ ...fault, index })),
    harmful: ['poison'],
    flow: null,
  }
}

/** The one that works is claimed first, each time. All start together once, so that the first crash makes suspects of both. */
function drawJobs(chance: Chance): PlannedAct {
  const job: Omit<PlannedJob, 'kind' | 'priority' | 'payload'> = {
    ...{ queue: QUEUE, maxAttempts: 12, timeout: null, delayMs: null, maxAgeMs: null, idempotencyKey: null },
    retry: { backoff: 'fixed', base: 50, cap: 2_000, jitter: false },
    onParentDead: 'cancel',
  }
  const ms = Math.round(chance.between(600, 2_400))
  const innocent: PlannedJob = {
    ...job,
    kind: 'slow',
    priority: 5,
    payload: { key: 'k0', effect: 'outside', ms, times: 1 },
  }
  const poison: PlannedJob = {
    ...job,
    kind: 'poison',
    priority: 0,
    payload: { key: 'k1', effect: 'none', ms: 1, times: 1 },
  }
  return { act: 'enqueue', atMs: ENQUEUE_MS, process: 1, jobs: [innocent, poison], isTogether: true, child: null }
}

/** The worker is killed while the innocent one runs alone, and the link is slow nearly all the time. */
function drawFaults(chance: Chance, healMs: number): Omit<PlannedFault, 'index'>[] {
  const crashes = Array.from({ length: chance.pick([1, 1, 2]) }, () => ({
    kind: 'crash' as const,
    atMs: chance.between(2_000, healMs - 2_500),
    forMs: chance.between(200, 600),
    target: 'p0',
    degree: 1,
  }))
  const slow = {
    kind: 'slow' as const,
    atMs: 1_500,
    forMs: healMs - 2_000,
    target: 'all',
    degree: chance.pick([0.05, 0.3]),
  }
  return [...crashes, slow].sort((one, other) => one.atMs - other.atMs)
}

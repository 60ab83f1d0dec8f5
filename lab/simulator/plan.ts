// The plan of one seed: its processes, their calls and the faults. Each kind of fault is on or off for a whole run and has its own
// rate. So rare combinations occur, and so do runs without faults.

import type { CatchUp, Overlap } from '../../src/core/schedule.js'
import { Chance } from './chance.js'
import { drawFaults, type PlannedFault } from './plan-faults.js'
import { drawFlow, type PlannedFlow } from './plan-flow.js'
import { drawActs, type Harmful, type PlannedAct } from './plan-jobs.js'
import { aimAtSuspects } from './plan-suspects.js'
import { QUEUES } from './queue-names.js'

export interface PlannedProcess {
  readonly name: string
  readonly skewMs: number
  readonly rate: number
  readonly hasWorker: boolean
  readonly concurrency: number
  readonly prefetch: number
  readonly pollMinMs: number
  readonly queues: readonly string[]
  /** Whether it has an event listener: without one, most events are not made. */
  readonly isHeard: boolean
}

interface PlannedSchedule {
  readonly name: string
  readonly everyMs: number
  readonly catchUp: CatchUp
  readonly overlap: Overlap
  readonly queue: string
  /** How long the job of a tick takes. */
  readonly ms: number
}

export interface Plan {
  readonly seed: number
  readonly leaseMs: number
  readonly holdMs: number
  /** How long a call of the store waits for its answer. */
  readonly deadlineMs: number
  readonly enqueueTimeoutMs: number
  readonly drainMs: number
  readonly legMs: { readonly min: number; readonly max: number }
  readonly wakeLoss: number
  readonly processes: readonly PlannedProcess[]
  readonly schedules: readonly PlannedSchedule[]
  readonly acts: readonly PlannedAct[]
  readonly faults: readonly PlannedFault[]
  readonly harmful: readonly Harmful[]
  /** Null in a run without flow control. */
  readonly flow: PlannedFlow | null
  /** Virtual time after which no fault happens. */
  readonly healMs: number
}

/** The share of runs without faults. */
const FAULTLESS_SHARE = 0.2

/** The share of runs that are aimed at suspects, beside those that are drawn freely. */
const SUSPECTS_SHARE = 0.02

/** What all runs are about, instead of what their seeds draw: a hunt for a bug of one part need not run the others. */
export type Aim = 'flow' | 'suspects'

/** The plan of a seed, always the same one. */
export function drawPlan(seed: number, aim: Aim | null = null): Plan {
  const chance = new Chance(`seed ${seed}`)
  const plan = drawFreely(seed, chance, aim === 'flow')
  const ofAim = chance.fork('aim')
  const isAimed = ofAim.happens(SUSPECTS_SHARE)
  return aim === 'suspects' || (aim === null && isAimed) ? aimAtSuspects(ofAim, plan) : plan
}

function drawFreely(seed: number, chance: Chance, hasFlow: boolean): Plan {
  const isFaultless = chance.happens(FAULTLESS_SHARE)
  const healMs = chance.between(3_000, 8_000)
  const leaseMs = chance.whole(1_000, 2_500)
  const harmful = (['poison', 'blocking', 'outliving'] as const).filter(() => !isFaultless && chance.happens(0.3))
  const processes = drawProcesses(chance.fork('processes'))
  const schedules = drawSchedules(chance.fork('schedules'), processes[0]!.concurrency)
  const deadlineMs = chance.whole(400, 1_500)
  const names = processes.map(({ name }) => name)
  const faults = drawFaults(chance.fork('faults'), { names, healMs, leaseMs, isFaultless, schedules: schedules.length })
  const flow = drawFlow(chance.fork('flow'), { healMs, isSure: hasFlow })
  const goesBack = faults.some(({ kind }) => kind === 'clock back')
  return {
    seed,
    leaseMs,
    // Workers extend every third of a lease and may have to try again.
    holdMs: Math.ceil(leaseMs / 2) + 1_000,
    deadlineMs,
    enqueueTimeoutMs: chance.whole(3_000, 12_000),
    drainMs: chance.pick([300, 2_000, 15_000]),
    legMs: { min: 0.1, max: chance.pick([0.5, 2, 20]) },
    wakeLoss: chance.pick([0, 0, 0.2, 1]),
    processes,
    schedules,
    acts: drawActs(chance.fork('acts'), { healMs, leaseMs, harmful, goesBack, flow }),
    faults,
    harmful,
    flow,
    healMs,
  }
}

function drawProcesses(chance: Chance): PlannedProcess[] {
  const count = chance.pick([2, 2, 2, 3, 4])
  return Array.from({ length: count }, (_, index) => ({
    name: `p${index}`,
    // The clocks of machines are wrong in every run, because nothing may depend on them. It does not count as a fault.
    skewMs: chance.happens(0.5) ? chance.between(-3_600_000, 3_600_000) : chance.between(-50, 50),
    rate: 1 + chance.between(-0.005, 0.005),
    hasWorker: index === 0 || chance.happens(0.75),
    concurrency: chance.whole(1, 6),
    prefetch: chance.pick([0, 2, 20]),
    pollMinMs: chance.pick([50, 300, 1_000]),
    // One process serves all queues, so that every job has a worker.
    queues: index === 0 || chance.happens(0.6) ? QUEUES : [chance.pick(QUEUES)],
    isHeard: chance.happens(0.3),
  }))
}

function drawSchedules(chance: Chance, slots: number): PlannedSchedule[] {
  const count = chance.pick([0, 0, 0, 0, 1, 2])
  return Array.from({ length: count }, (_, index) => ({
    name: `every-${index}`,
    everyMs: chance.pick([2_000, 3_000, 5_000]),
    catchUp: chance.pick(['skip', 'latest', 'all'] as const),
    overlap: chance.pick(['allow', 'skip'] as const),
    queue: chance.pick(QUEUES),
    // Ticks run before other jobs. Two schedules with long jobs would leave a worker with few slots no time for anything else.
    ms: chance.pick([5, 200, slots > 2 ? 4_000 : 600]),
  }))
}

// Makes the faults of a plan happen, and ends them.

import type { ProcessEvent } from '../history/events.js'
import type { FaultPlan } from './link.js'
import { isOrdinary, type PlannedFault } from './plan-faults.js'
import type { Server } from './server.js'
import type { SimulatedProcess } from './simulated-process.js'
import type { Timeline } from './timeline.js'

export interface InjectorDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly faultPlan: FaultPlan
  readonly processes: readonly SimulatedProcess[]
  readonly write: (event: ProcessEvent) => void
}

const SLOW_MAX_MS = 2_500

/** Plans every fault. */
export function injectFaults(deps: InjectorDeps, faults: readonly PlannedFault[]): void {
  for (const fault of faults) {
    deps.timeline.after(fault.atMs, () => {
      recordFault(deps, 'fault.begin', fault)
      const end = begin(deps, fault)
      deps.timeline.after(fault.forMs, () => {
        end()
        recordFault(deps, 'fault.end', fault)
      })
    })
  }
}

function recordFault(
  { timeline, server, write }: InjectorDeps,
  ev: 'fault.begin' | 'fault.end',
  fault: PlannedFault,
): void {
  const { kind, target, index } = fault
  const about = { kind, target, index, storeAt: server.nowMs, ...(isOrdinary(kind) ? {} : { disables: target }) }
  write({ ev, ...about, process: 'simulator', processRun: 0, mono: timeline.nowMs })
}

/** Begins a fault and returns what ends it. */
function begin({ server, faultPlan, processes }: InjectorDeps, fault: PlannedFault): () => void {
  const { kind, forMs, degree, target } = fault
  const struck = processes.find(({ name }) => name === target)
  const nothing = () => {}
  switch (kind) {
    case 'crash':
      struck?.crash(forMs)
      return nothing
    case 'stop':
      struck?.stop(forMs)
      return nothing
    case 'deploy':
      struck?.deploy(forMs)
      return nothing
    case 'cut':
      faultPlan.cutOff.add(target)
      return () => void faultPlan.cutOff.delete(target)
    case 'lost requests':
      faultPlan.requestLoss = degree
      return () => {
        faultPlan.requestLoss = 0
      }
    case 'lost answers':
      faultPlan.answerLoss = degree
      return () => {
        faultPlan.answerLoss = 0
      }
    case 'slow':
      faultPlan.slow = { share: degree, maxMs: SLOW_MAX_MS }
      return () => {
        faultPlan.slow = { share: 0, maxMs: 0 }
      }
    case 'down':
      server.goDown()
      return () => server.comeUp()
    case 'clock forward':
    case 'clock back':
      server.jump(Math.round(degree))
      return nothing
  }
}

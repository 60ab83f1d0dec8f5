// Flow control of a run: what it begins with, what operators change, and the look whether anything is held that could start.

import type { LimitSettings, QueueFlow, Rate } from '../../src/core/flow/settings.js'
import type { Actors } from './acts.js'
import type { Plan } from './plan.js'
import type { PlannedFlow, PlannedFlowAct } from './plan-flow.js'
import type { Server } from './server.js'
import type { Living, SimulatedProcess } from './simulated-process.js'
import type { Timeline } from './timeline.js'

interface FlowActorDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly processes: readonly SimulatedProcess[]
  readonly plan: Plan
  readonly actors: Actors
}

/** How often is looked, and how long a job may be held that could start. Where wake-ups are lost, or were turned off by a call that came
 *  through and on again by one that did not, a worker finds it when it polls. */
const LOOK_MS = 100
const HELD_MS_MAX = 1_000
const POLLED_MS_MAX = 8_000
/** How long a process takes at most until it works as usual: after its start, and after a fault of anything. */
const SETTLE_MS = 2_000
const RECOVER_MS = 8_000
const RESUME_EVERY_MS = 2_000

/** Sets flow control of a run, and changes it. */
export class FlowActors {
  readonly #deps: FlowActorDeps
  readonly #flow: PlannedFlow

  constructor(deps: FlowActorDeps, flow: PlannedFlow) {
    this.#deps = deps
    this.#flow = flow
  }

  /** What holds before the first process starts. */
  begin(): void {
    const { server, actors, plan } = this.#deps
    // A history is read by the store's times, which say nothing where its clock was set.
    if (!plan.faults.some(({ kind }) => kind.startsWith('clock'))) server.truth.tellFlow()
    const apply = (name: string, ...args: unknown[]) => void server.apply(name, [...args, 'plan'], 'plan')
    for (const { name, settings } of this.#flow.limits) apply('setLimit', name, settings)
    for (const { queue, flow } of this.#flow.queues) apply('setQueue', queue, { limits: {}, flow })
    for (const act of this.#flow.acts) actors.operate(act.atMs, act.process, (living) => this.#do(living, act))
    this.#look()
  }

  /** After the last fault everything must come to its end, so nothing is held back for good. Calls of before may still arrive. */
  heal(lateMs: number): void {
    const { timeline, actors } = this.#deps
    timeline.after(lateMs, () => {
      for (const { name, settings } of this.#flow.limits) {
        actors.insist(async ({ holdfast }) => {
          await holdfast.setLimit(name, limitOptions({ ...settings, breaker: null }))
          await holdfast.releaseBreaker(name)
        })
      }
      this.#resumeGroups()
    })
  }

  /** Again and again: the death of a job may stop a group at any time. */
  #resumeGroups(): void {
    const { timeline, actors, server } = this.#deps
    for (const { queue, group } of server.truth.flow.rules.pausedGroups) {
      actors.insist(({ holdfast }) => holdfast.resumeGroup(queue, group))
    }
    timeline.after(RESUME_EVERY_MS, () => this.#resumeGroups())
  }

  #do({ holdfast }: Living, act: PlannedFlowAct): Promise<unknown> {
    const { actors } = this.#deps
    switch (act.act) {
      case 'set limit':
        return holdfast.setLimit(act.name, limitOptions(act.settings))
      case 'set queue':
        return holdfast.setQueue(act.queue, queueOptions(act.flow))
      case 'set group':
        return holdfast.setGroup(act.queue, act.group, { concurrency: act.concurrency, weight: act.weight })
      case 'pause group':
        actors.later(act.forMs, (living) => living.holdfast.resumeGroup(act.queue, act.group))
        return holdfast.pauseGroup(act.queue, act.group)
      case 'hold breaker':
        actors.later(act.forMs, (living) => living.holdfast.releaseBreaker(act.name))
        return act.forced === 'open' ? holdfast.openBreaker(act.name) : holdfast.closeBreaker(act.name)
    }
  }

  /** Looks for what is held and could start, while all that could excuse it is long over. */
  #look(): void {
    const { timeline, server, plan, processes } = this.#deps
    const { flow } = server.truth
    const isUndisturbed = plan.wakeLoss === 0 && plan.faults.length + plan.harmful.length === 0
    const boundMs = isUndisturbed ? HELD_MS_MAX : POLLED_MS_MAX
    const workers = this.#isCalm() ? processes.flatMap((process) => process.workingFor(SETTLE_MS) ?? []) : []
    const idle = workers.filter(({ id, concurrency }) => {
      const held = flow.heldBy(id)
      // A job that was lost with its worker before runs alone.
      return held.length < concurrency && held.every(({ crashes }) => crashes === 0)
    })
    flow.lookAtIdle(idle, { nowMs: server.nowMs, boundMs })
    timeline.after(LOOK_MS, () => this.#look())
  }

  #isCalm(): boolean {
    const { timeline, plan } = this.#deps
    return plan.faults.every(({ atMs, forMs }) => {
      return timeline.nowMs < atMs || timeline.nowMs > atMs + forMs + RECOVER_MS
    })
  }
}

function rateOption({ limit, perMs, burst, counts }: Rate): {
  limit: number
  per: number
  burst: number
  counts: Rate['counts']
} {
  return { limit, per: perMs, burst, counts }
}

function boundsOf({ concurrency, rate }: Pick<LimitSettings, 'concurrency' | 'rate'>): {
  concurrency?: number
  rate?: ReturnType<typeof rateOption>
} {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rate === null ? {} : { rate: rateOption(rate) }),
  }
}

/** What a caller would have written. */
function limitOptions(settings: LimitSettings): Parameters<Living['holdfast']['setLimit']>[1] {
  const { breaker } = settings
  if (breaker === null) return boundsOf(settings)
  const { withinMs: within, cooldownMs: cooldown, ...rest } = breaker
  return { ...boundsOf(settings), breaker: { ...rest, within, cooldown } }
}

function queueOptions(flow: QueueFlow): Parameters<Living['holdfast']['setQueue']>[1] {
  const { ordered, onRetry, onDead } = flow.groups
  const order = ordered ? { ordered, onRetry, onDead } : {}
  return { ...boundsOf(flow), groups: { ...boundsOf(flow.groups), ...order } }
}

// Flow control as gauges: how full limits are, what their breakers do, and how much queues hold back. ◄── store-metrics.ts

import type { Gauge, Registry } from 'prom-client'
import type { BreakerPosition } from '../core/flow/breaker.js'
import type { FlowCounts, LimitCount, QueueFlowCount } from '../core/flow/counts.js'
import { gaugesOf } from './gauges.js'
import type { BoundedNames } from './names.js'

const STATES: Readonly<Record<BreakerPosition, number>> = { closed: 0, half_open: 1, open: 2 }

export interface FlowGaugesDeps {
  readonly registry: Registry
  readonly queues: BoundedNames
  readonly limits: BoundedNames
}

export class FlowGauges {
  readonly #deps: FlowGaugesDeps
  readonly #gauges: ReturnType<typeof makeGauges>

  constructor(deps: FlowGaugesDeps) {
    this.#deps = deps
    this.#gauges = makeGauges(deps.registry)
  }

  reset(): void {
    for (const gauge of Object.values(this.#gauges)) gauge.reset()
  }

  show({ limits, queues }: FlowCounts): void {
    const states = new Map<string, number>()
    for (const limit of limits) this.#showLimit(limit, states)
    // Of several limits under one label the worst.
    for (const [limit, state] of states) this.#gauges.breaker.set({ limit }, state)
    for (const queue of queues ?? []) this.#showQueue(queue)
  }

  #showLimit({ name, running, capacity, tokens, position, forced }: LimitCount, states: Map<string, number>): void {
    const gauges = this.#gauges
    const limit = this.#deps.limits.of(name)
    gauges.running.inc({ limit }, running)
    if (capacity !== null) gauges.capacity.inc({ limit }, capacity)
    if (tokens !== null) gauges.tokens.inc({ limit }, tokens)
    if (position === null) return
    states.set(limit, Math.max(states.get(limit) ?? 0, STATES[position]))
    gauges.forced.inc({ limit }, forced === null ? 0 : 1)
  }

  #showQueue({ queue: name, held, groups, stopped, arrivals }: QueueFlowCount): void {
    const queue = this.#deps.queues.of(name)
    const add = (gauge: Gauge<'queue'>, count: number) => gauge.inc({ queue }, count)
    add(this.#gauges.held, held)
    add(this.#gauges.groups, groups)
    add(this.#gauges.stopped, stopped)
    add(this.#gauges.arrivals, arrivals)
  }
}

function makeGauges(registry: Registry) {
  const gauge = gaugesOf(registry)
  return {
    running: gauge('limit_running', 'Jobs that count in the limit now.', ['limit']),
    capacity: gauge('limit_capacity', 'Jobs that may run in it concurrently; absent without a bound.', ['limit']),
    tokens: gauge('limit_tokens', 'Whole tokens of its rate; absent without a rate.', ['limit']),
    breaker: gauge('limit_breaker_state', 'Its breaker: 0 closed, 1 half open, 2 open; absent without one.', ['limit']),
    forced: gauge('limit_breaker_forced', '1 while an operator holds its breaker.', ['limit']),
    held: gauge('flow_held', 'Ready jobs with a group or limits.', ['queue']),
    groups: gauge('flow_groups_waiting', 'Groups that have ready jobs.', ['queue']),
    stopped: gauge('flow_groups_stopped', 'Groups that stopped because a job of them died.', ['queue']),
    arrivals: gauge('flow_arrivals', 'Events that no claim has looked at yet.', ['queue']),
  }
}

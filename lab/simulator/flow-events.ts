// What flow control allows, as events of the history: written whenever it differs from what was written before.

import type { Memory } from '../../src/stores/memory/memory.js'
import type { FlowEvent } from '../history/events.js'
import type { FlowRules } from './flow-rules.js'

type Unnumbered = FlowEvent extends infer Event
  ? Event extends FlowEvent
    ? Omit<Event, 'order' | 'at'>
    : never
  : never

/** Watches what holds. Bounds are those that were asked for; where breakers stand, and until when something waits, only the store knows. */
export class FlowEvents {
  readonly #memory: Memory
  readonly #rules: FlowRules
  readonly #written = new Map<string, string>()

  constructor(memory: Memory, rules: FlowRules) {
    this.#memory = memory
    this.#rules = rules
  }

  /** What has changed since the last look. */
  changes(): Unnumbered[] {
    return [...this.#limits(), ...this.#queues(), ...this.#groups()].filter((event) => {
      const name = nameOf(event)
      const text = JSON.stringify(event)
      if (this.#written.get(name) === text) return false
      this.#written.set(name, text)
      return true
    })
  }

  *#limits(): Iterable<Unnumbered> {
    for (const [limit, { breaker, settings, notBeforeMs }] of this.#memory.limits) {
      const { concurrency, rate } = this.#rules.boundsOf(limit)
      const isBroken = settings.breaker !== null || breaker.forced !== null
      const shown = isBroken ? { position: breaker.position, probes: settings.breaker?.probes ?? 1 } : null
      const notBefore = notBeforeMs === 0 ? null : notBeforeMs
      yield { ev: 'limit', limit, concurrency, rate, breaker: shown, notBefore }
    }
  }

  *#queues(): Iterable<Unnumbered> {
    for (const queue of this.#memory.queues.keys()) {
      const { concurrency, rate, ordered, onRetry } = this.#rules.groupsOf(queue)
      yield { ev: 'groups', queue, concurrency, rate, ordered, onRetry }
    }
  }

  *#groups(): Iterable<Unnumbered> {
    for (const [queue, groups] of this.#memory.groups) {
      for (const [group, { notBeforeMs }] of groups) {
        const { isPaused, override } = this.#rules.ownOf(queue, group)
        yield { ev: 'group', queue, group, isPaused, notBefore: notBeforeMs === 0 ? null : notBeforeMs, override }
      }
    }
  }
}

function nameOf(event: Unnumbered): string {
  if (event.ev === 'limit') return event.limit
  return event.ev === 'groups' ? `groups ${event.queue}` : `${event.queue}\0${event.group}`
}

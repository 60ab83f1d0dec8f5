// Tells that queues refuse jobs because they are full: once when it begins, then with a count every ten seconds, so that a flood of
// refusals is not a flood of events. ◄── enqueue-reports.ts

import type { Emit } from '../core/events.js'
import type { FullRefusal } from '../core/flow/views.js'
import type { Ports, Timer } from '../core/ports.js'

const EVERY_MS = 10_000
/** The most queues that are counted apart. Those beyond it are reported one by one. */
const QUEUES_MAX = 1_000

interface Counted {
  last: FullRefusal
  count: number
}

export class FullReports {
  readonly #deps: { readonly ports: Ports; readonly emit: Emit }
  readonly #counted = new Map<string, Counted>()
  #timer: Timer | null = null

  constructor(deps: { readonly ports: Ports; readonly emit: Emit }) {
    this.#deps = deps
  }

  /** A job was refused, or waits, because its queue or group is full. */
  note(refusal: FullRefusal): void {
    const known = this.#counted.get(refusal.queue)
    if (known !== undefined) {
      known.last = refusal
      known.count++
      return
    }
    this.#tell(refusal, 1)
    if (this.#counted.size >= QUEUES_MAX) return
    this.#counted.set(refusal.queue, { last: refusal, count: 0 })
    this.#timer ??= this.#deps.ports.timers.after(EVERY_MS, () => this.flush())
  }

  /** Tells what was counted since. A queue that refused nothing meanwhile is forgotten. */
  flush(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const [queue, { last, count }] of this.#counted) {
      this.#counted.set(queue, { last, count: 0 })
      if (count === 0) this.#counted.delete(queue)
      else this.#tell(last, count)
    }
    if (this.#counted.size > 0) this.#timer = this.#deps.ports.timers.after(EVERY_MS, () => this.flush())
  }

  /** Tells what is left, for the last time. */
  close(): void {
    this.flush()
    this.#timer?.cancel()
    this.#timer = null
  }

  #tell(refusal: FullRefusal, count: number): void {
    const { queue, maxDepth } = refusal
    const group = refusal.code === 'group_full' ? refusal.group : null
    this.#deps.emit({ name: 'queue.full', queue, group, maxDepth, count })
  }
}

// Finds groups that waited although nothing kept them: a job, a free slot of its group and of each of its limits, and an idle worker that
// knows it. A wait ends with the next start of the group; waits within the bound are dropped as they are read.

import type { Ability, Span, Spans } from './ability.js'
import type { Busy, FaultRecord } from './events.js'
import { type Life, type Reading, report } from './life.js'
import { shown } from './steps.js'

/** The jobs that wait in one group with one set of limits. In ordered groups the limits of all count. */
interface Line {
  readonly waiting: Map<Life, number>
  readonly keys: Set<string>
  since: number
}

interface Wait {
  readonly life: Life
  readonly keys: readonly string[]
  readonly from: number
  readonly to: number
}

export class FlowHeld {
  readonly #reading: Reading
  readonly #terms: { readonly heldMs: number; readonly allowanceMs: number } | null
  readonly #recoverMs: number
  readonly #lines = new Map<string, Line>()
  readonly #waits: Wait[] = []
  /** Faults, and spans of overload under -1: both leave a backlog, which takes time to work off. */
  readonly #faults: { readonly index: number; readonly from: number; to: number }[] = []

  constructor(reading: Reading) {
    this.#reading = reading
    const flow = reading.run?.flow
    const isChecked = flow !== undefined && flow.heldMs !== null && reading.run?.lateness != null
    this.#terms = isChecked ? { heldMs: flow.heldMs!, allowanceMs: flow.allowanceMs } : null
    this.#recoverMs = reading.run?.lateness?.recoverMs ?? 0
  }

  /** A job became ready. `keys` are its group and its limits. */
  waits(name: string, life: Life, keys: readonly string[], surelyAt: number): void {
    if (this.#terms === null) return
    let line = this.#lines.get(name)
    if (line === undefined) {
      line = { waiting: new Map(), keys: new Set(), since: surelyAt }
      this.#lines.set(name, line)
    }
    if (!line.waiting.has(life)) line.waiting.set(life, surelyAt)
    for (const key of keys) line.keys.add(key)
  }

  /** It was claimed, or waits no longer. */
  left(name: string, life: Life, at: number): void {
    const line = this.#lines.get(name)
    if (line === undefined || !line.waiting.has(life)) return
    this.#keep(line, life, at)
    line.waiting.delete(life)
    const [next] = line.waiting.values()
    if (next === undefined) this.#lines.delete(name)
    else line.since = Math.max(at, next)
  }

  #keep(line: Line, life: Life, to: number): void {
    const { since: from } = line
    if (to - from > this.#terms!.heldMs) this.#waits.push({ life, keys: [...line.keys], from, to })
  }

  read(event: FaultRecord | Busy): void {
    if (event.ev === 'busy') {
      this.#faults.push({ index: -1, from: event.storeAt, to: event.untilAt + this.#recoverMs })
      return
    }
    const { ev, index, storeAt } = event
    if (storeAt === undefined) return
    if (ev === 'fault.begin') this.#faults.push({ index, from: storeAt, to: Number.POSITIVE_INFINITY })
    else {
      const fault = this.#faults.findLast((known) => known.index === index)
      if (fault !== undefined) fault.to = storeAt + this.#recoverMs
    }
  }

  /** Called once everything is read. */
  check(ability: Ability | null, closed: (key: string) => Spans): void {
    if (this.#terms === null || ability === null) return
    const healedAt = this.#reading.run?.healedAt ?? null
    for (const fault of this.#faults) {
      if (fault.to === Number.POSITIVE_INFINITY && healedAt !== null) fault.to = healedAt + this.#recoverMs
    }
    for (const wait of this.#waits) this.#checkWait(wait, ability, closed)
  }

  #checkWait({ life, keys, from, to }: Wait, ability: Ability, closed: (key: string) => Spans): void {
    const { queue, type } = life.stored!
    let open = ability.idle(queue, type, 0).parts(from, to)
    for (const key of keys) open = open.flatMap((span) => without(span, closed(key)))
    const { flow } = this.#reading.counts
    for (const span of open) {
      const ms = span.to - span.from
      flow.longestHeldMs = Math.max(flow.longestHeldMs, ms)
      if (ms <= this.#allowedMs(span)) continue
      const what = `waited with its group from ${shown(span.from)} to ${shown(span.to)}, ${ms.toFixed(0)} ms, beside free slots and an idle worker of ${queue}`
      report(this.#reading, 'I22', life.job, what)
      return
    }
  }

  #allowedMs({ from, to }: Span): number {
    const { heldMs, allowanceMs } = this.#terms!
    const isDisturbed = this.#faults.some((fault) => fault.from < to && fault.to > from)
    return isDisturbed ? heldMs + allowanceMs : heldMs
  }
}

/** What is left of a span without others. */
function without({ from, to }: Span, others: Spans): Span[] {
  const left: Span[] = []
  let at = from
  for (const other of others.parts(from, to)) {
    if (other.from > at) left.push({ from: at, to: other.from })
    at = other.to
  }
  if (at < to) left.push({ from: at, to })
  return left
}

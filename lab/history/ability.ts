// When each worker of a run could take a job: it was up, it could reach the store, and one of its slots was idle. The workers'
// supervisor records the first two by the store's clock. The third is known from the leases they held.

import type { Busy, FaultRecord, RunBegun, WorkerGone, WorkerUp } from './events.js'

/** A span of store time. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** Spans that do not overlap, in order, each with the total length up to it. */
export class Spans {
  readonly #spans: readonly Span[]
  readonly #sums: Float64Array

  constructor(spans: readonly Span[]) {
    this.#spans = joined(spans)
    this.#sums = new Float64Array(this.#spans.length + 1)
    this.#spans.forEach(({ from, to }, index) => {
      this.#sums[index + 1] = this.#sums[index]! + to - from
    })
  }

  /** How much of the time from one moment to another is within them. */
  within(from: number, to: number): number {
    return Math.max(0, this.#upTo(to) - this.#upTo(from))
  }

  /** What of the time from one moment to another is within them. */
  parts(from: number, to: number): Span[] {
    const parts: Span[] = []
    for (let index = this.#endingAfter(from); index < this.#spans.length; index++) {
      const span = this.#spans[index]!
      if (span.from >= to) break
      parts.push({ from: Math.max(from, span.from), to: Math.min(to, span.to) })
    }
    return parts
  }

  /** The first that ends after a moment. */
  #endingAfter(at: number): number {
    let low = 0
    let high = this.#spans.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#spans[middle]!.to <= at) low = middle + 1
      else high = middle
    }
    return low
  }

  #upTo(at: number): number {
    let low = 0
    let high = this.#spans.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#spans[middle]!.from < at) low = middle + 1
      else high = middle
    }
    const last = this.#spans[low - 1]
    return last === undefined ? 0 : this.#sums[low - 1]! + Math.min(at, last.to) - last.from
  }
}

function joined(spans: readonly Span[]): Span[] {
  const sorted = [...spans].filter(({ from, to }) => to > from).sort((a, b) => a.from - b.from)
  const result: { from: number; to: number }[] = []
  for (const { from, to } of sorted) {
    const last = result[result.length - 1]
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to)
    else result.push({ from, to })
  }
  return result
}

/** A change in what can be expected of a worker, at this time. */
interface Change {
  readonly at: number
  readonly by: number
}

interface Known {
  readonly up: WorkerUp
  downAt: number
  /** Leases taken (+1) and ended (−1). */
  readonly held: Change[]
}

export class Ability {
  readonly #terms: NonNullable<RunBegun['lateness']>
  /** In the order they came up. A worker that was paused comes up again under its name. */
  readonly #workers: Known[] = []
  readonly #held = new Map<string, Change[]>()
  readonly #faults: { readonly begun: FaultRecord; to: number }[] = []
  readonly #busy: Span[] = []
  readonly #pauses = new Map<string, { from: number; to: number }[]>()
  readonly #idle = new Map<string, Spans>()

  constructor(terms: NonNullable<RunBegun['lateness']>) {
    this.#terms = terms
  }

  /** A lease was taken or ended. */
  holds(worker: string, at: number, by: 1 | -1): void {
    const held = this.#held.get(worker)
    if (held === undefined) this.#held.set(worker, [{ at, by }])
    else held.push({ at, by })
  }

  paused(queue: string, at: number, isPaused: boolean): void {
    const pauses = this.#pauses.get(queue) ?? []
    this.#pauses.set(queue, pauses)
    const last = pauses[pauses.length - 1]
    const isOpen = last !== undefined && last.to === Number.POSITIVE_INFINITY
    if (isPaused && !isOpen) pauses.push({ from: at, to: Number.POSITIVE_INFINITY })
    else if (!isPaused && isOpen) last.to = at
  }

  /** Takes a record of the workers' supervisor. */
  read(event: WorkerUp | WorkerGone | FaultRecord | Busy): void {
    if (event.ev === 'worker.up') {
      const held = this.#held.get(event.worker) ?? []
      this.#workers.push({ up: event, downAt: Number.POSITIVE_INFINITY, held })
    } else if (event.ev === 'worker.down') {
      const known = this.#workers.findLast(({ up }) => up.worker === event.worker)
      if (known !== undefined) known.downAt = Math.min(known.downAt, event.storeAt)
    } else if (event.ev === 'busy') {
      this.#busy.push({ from: event.storeAt, to: event.untilAt })
    } else if (event.ev === 'fault.begin') {
      if (event.disables !== undefined) this.#faults.push({ begun: event, to: Number.POSITIVE_INFINITY })
    } else {
      const fault = this.#faults.find(({ begun, to }) => begun.index === event.index && to === Number.POSITIVE_INFINITY)
      if (fault !== undefined) fault.to = (event.storeAt ?? fault.to) + this.#terms.recoverMs
    }
  }

  /** A fault without a recorded end is over when everything is whole. */
  endsBy(healedAt: number | null): void {
    for (const fault of this.#faults) {
      if (fault.to === Number.POSITIVE_INFINITY && healedAt !== null) fault.to = healedAt + this.#terms.recoverMs
    }
  }

  /** When some worker that takes such jobs had been able to for long enough, while the queue was not paused. */
  idle(queue: string, type: string, graceMs: number = this.#terms.graceMs): Spans {
    const able = this.#workers.filter(({ up }) => serves(up, queue, type))
    // Most queues and types have the same workers.
    const name = `${graceMs}\0${queue}\0${able.map(({ up }) => up.worker).join('\0')}`
    let idle = this.#idle.get(name)
    if (idle === undefined) {
      const pauses = (this.#pauses.get(queue) ?? []).flatMap(({ from, to }) => edges(from, to + graceMs))
      idle = new Spans(able.flatMap((known) => this.#spansOf(known, { slots: known.up.slots, graceMs }, pauses)))
      this.#idle.set(name, idle)
    }
    return idle
  }

  /** When the worker was up and could reach the store. */
  whole(worker: string): Spans {
    const lives = this.#workers.filter(({ up }) => up.worker === worker)
    return new Spans(
      lives.flatMap((known) =>
        this.#spansOf(known, { slots: Number.POSITIVE_INFINITY, graceMs: this.#terms.graceMs }, []),
      ),
    )
  }

  /** Spans without hindrance that are longer than the grace time, each from the end of the grace time on. */
  #spansOf(
    { up, downAt, held }: Known,
    { slots, graceMs }: { readonly slots: number; readonly graceMs: number },
    also: readonly Change[],
  ): Span[] {
    const struck = this.#faults.filter(({ begun }) => begun.disables === 'all' || begun.disables === up.of)
    const against: Change[] = [
      ...struck.flatMap(({ begun, to }) => edges(begun.storeAt ?? begun.mono, to)),
      ...this.#busy.flatMap(({ from, to }) => edges(from, to)),
    ]
    const changes = [
      ...[...against, ...also].map((change) => ({ ...change, isLease: false })),
      ...(slots === Number.POSITIVE_INFINITY ? [] : held).map((change) => ({ ...change, isLease: true })),
      { at: up.storeAt, by: 0, isLease: false },
    ].sort((a, b) => a.at - b.at)
    const spans: Span[] = []
    let isAgainst = 0
    let leases = 0
    let openSince: number | null = null
    const close = (at: number) => {
      const from = openSince === null ? at : openSince + graceMs
      if (from < at) spans.push({ from, to: at })
      openSince = null
    }
    for (const { at, by, isLease } of changes) {
      if (at >= downAt) break
      if (isLease) leases += by
      else isAgainst += by
      if (at < up.storeAt) continue
      const isOpen = isAgainst === 0 && leases < slots
      if (isOpen && openSince === null) openSince = Math.max(at, up.storeAt)
      else if (!isOpen && openSince !== null) close(at)
    }
    if (openSince !== null) close(downAt)
    return spans
  }
}

function serves({ queues, types }: WorkerUp, queue: string, type: string): boolean {
  return queues.includes(queue) && (types === null || types.includes(type))
}

function edges(from: number, to: number): Change[] {
  return [
    { at: from, by: 1 },
    { at: to, by: -1 },
  ]
}

// When each worker of a run could take a job: it was up, it could reach the store, and one of its slots was idle. The workers'
// supervisor records the first two by the store's clock. The third is known from the leases they held. For a job in a long backlog a worker
// is not idle while it takes and settles those before it, though a slot is free between any two claims.

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

/** A job was taken and settled, and had waited since then. */
interface Taken {
  readonly at: number
  readonly since: number
}

interface Known {
  readonly up: WorkerUp
  downAt: number
  /** Leases taken (+1) and ended (−1). */
  readonly held: Change[]
  readonly taken: Taken[]
}

/** Jobs that began to wait within this long of each other are judged alike: as the last of them. */
const ALIKE_MS = 10_000

export class Ability {
  readonly #terms: NonNullable<RunBegun['lateness']>
  /** In the order they came up. A worker that was paused comes up again under its name. */
  readonly #workers: Known[] = []
  readonly #held = new Map<string, Change[]>()
  readonly #taken = new Map<string, Taken[]>()
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

  /** A job was taken that had waited since then, and was settled. */
  took(worker: string, taken: Taken): void {
    const all = this.#taken.get(worker)
    if (all === undefined) this.#taken.set(worker, [taken])
    else all.push(taken)
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
      const taken = this.#taken.get(event.worker) ?? []
      this.#workers.push({ up: event, downAt: Number.POSITIVE_INFINITY, held, taken })
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
    return this.#idleBehind(queue, type, { graceMs, since: null })
  }

  /** The same for a job that has waited since then: a worker that takes those before it is not idle. */
  idleFor(queue: string, type: string, since: number): Spans {
    return this.#idleBehind(queue, type, {
      graceMs: this.#terms.graceMs,
      since: Math.ceil(since / ALIKE_MS) * ALIKE_MS,
    })
  }

  #idleBehind(
    queue: string,
    type: string,
    { graceMs, since }: { readonly graceMs: number; readonly since: number | null },
  ): Spans {
    const able = this.#workers.filter(({ up }) => serves(up, queue, type))
    // Most queues and types have the same workers.
    const name = `${since}\0${graceMs}\0${queue}\0${able.map(({ up }) => up.worker).join('\0')}`
    let idle = this.#idle.get(name)
    if (idle === undefined) {
      const pauses = (this.#pauses.get(queue) ?? []).flatMap(({ from, to }) => edges(from, to + graceMs))
      idle = new Spans(able.flatMap((known) => this.#spansOf(known, { slots: known.up.slots, graceMs, since }, pauses)))
      this.#idle.set(name, idle)
    }
    return idle
  }

  /** When the worker was up and could reach the store. */
  whole(worker: string): Spans {
    const lives = this.#workers.filter(({ up }) => up.worker === worker)
    return new Spans(
      lives.flatMap((known) =>
        this.#spansOf(known, { slots: Number.POSITIVE_INFINITY, graceMs: this.#terms.graceMs, since: null }, []),
      ),
    )
  }

  /** Spans without hindrance that are longer than the grace time, each from the end of the grace time on. */
  #spansOf(
    { up, downAt, held, taken }: Known,
    { slots, graceMs, since }: { readonly slots: number; readonly graceMs: number; readonly since: number | null },
    also: readonly Change[],
  ): Span[] {
    const before = since === null ? [] : taken.filter((one) => one.since <= since)
    const struck = this.#faults.filter(({ begun }) => begun.disables === 'all' || begun.disables === up.of)
    const against: Change[] = [
      ...struck.flatMap(({ begun, to }) => edges(begun.storeAt ?? begun.mono, to)),
      ...this.#busy.flatMap(({ from, to }) => edges(from, to)),
    ]
    const changes = [
      ...[...against, ...also].map((change) => ({ ...change, isLease: false, isTaken: false })),
      ...(slots === Number.POSITIVE_INFINITY ? [] : held).map((change) => ({
        ...change,
        isLease: true,
        isTaken: false,
      })),
      ...before.map(({ at }) => ({ at, by: 0, isLease: false, isTaken: true })),
      { at: up.storeAt, by: 0, isLease: false, isTaken: false },
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
    for (const { at, by, isLease, isTaken } of changes) {
      if (at >= downAt) break
      if (isLease) leases += by
      else isAgainst += by
      if (at < up.storeAt) continue
      const isOpen = isAgainst === 0 && leases < slots
      if (isTaken && openSince !== null) close(at)
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

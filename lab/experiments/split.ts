// Where the time of calls to the store went: the server's work, waiting for a processor on either side, and the rest.

import { percentile } from '../bench/statistics.js'

/** One call, in milliseconds. The server's parts are null when its process can't be seen from here. */
export type CallSplit = readonly [
  total: number,
  serverRun: number | null,
  serverWait: number | null,
  clientWait: number,
]

/** The parts of a call. `own` is what is left of the total without both waits. */
const SPLIT_PARTS = ['total', 'own', 'serverRun', 'serverWait', 'clientWait', 'rest'] as const
type Part = (typeof SPLIT_PARTS)[number]
type Parts = Readonly<Record<Part, number | null>>

/** Many calls, in milliseconds. */
export interface SplitSummary {
  readonly calls: number
  readonly p50: Parts
  /** Of each part by itself, so the parts need not add up. */
  readonly p99: Parts
  /** The mean over the slowest hundredth of the calls: here the parts add up, unless both sides waited at the same time. */
  readonly slowest: Parts
}

const SLOWEST_SHARE = 0.01
const KEPT_MAX = 200_000

/** Keeps calls. When it is full it keeps every second one, and every second from then on. */
export class SplitLog {
  #calls: CallSplit[] = []
  #stride = 1
  #seen = 0

  add(call: CallSplit): void {
    if (this.#seen++ % this.#stride !== 0) return
    this.#calls.push(call)
    if (this.#calls.length < KEPT_MAX) return
    this.#calls = this.#calls.filter((_, index) => index % 2 === 0)
    this.#stride *= 2
  }

  addAll(calls: readonly CallSplit[]): void {
    for (const call of calls) this.add(call)
  }

  /** The calls since the last time, to be sent. */
  take(): readonly CallSplit[] {
    const calls = this.#calls
    this.#calls = []
    this.#stride = 1
    this.#seen = 0
    return calls
  }

  /** Null without calls. */
  summary(): SplitSummary | null {
    return summariseSplits(this.#calls)
  }
}

/** Sums calls up; null for none. */
export function summariseSplits(calls: readonly CallSplit[]): SplitSummary | null {
  if (calls.length === 0) return null
  const all = calls.map(partsOf).sort((one, other) => one.total! - other.total!)
  const slowest = all.slice(-Math.ceil(SLOWEST_SHARE * all.length))
  const each = (read: (values: readonly number[]) => number, from: readonly Parts[]): Parts =>
    Object.fromEntries(
      SPLIT_PARTS.map((part) => {
        const values = from.map((parts) => parts[part]).filter((value) => value !== null)
        return [part, values.length === 0 ? null : read(values)]
      }),
    ) as unknown as Parts
  const at = (share: number) => (values: readonly number[]) => percentile(values, share)
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  return { calls: all.length, p50: each(at(0.5), all), p99: each(at(0.99), all), slowest: each(mean, slowest) }
}

function partsOf([total, serverRun, serverWait, clientWait]: CallSplit): Parts {
  // Client and server may wait at the same time, so that both together exceed the total.
  const own = Math.max(serverRun ?? 0, total - (serverWait ?? 0) - clientWait)
  const rest = serverRun === null ? null : own - serverRun
  return { total, own, serverRun, serverWait, clientWait, rest }
}

/** One sentence about calls of a kind. */
export function describeSplit(kind: string, { calls, p99, slowest }: SplitSummary): string {
  const ms = (value: number | null) => (value === null ? 'unknown' : value.toFixed(1))
  return (
    `${kind}, ${calls.toLocaleString('en')} timed: p99 ${ms(p99.total)} ms, ${ms(p99.own)} without waiting for a processor ` +
    `(${ms(p99.serverRun)} of processor time on the server). The slowest hundredth took ${ms(slowest.total)} ms on average: ` +
    `${ms(slowest.serverRun)} the server's processor time, ${ms(slowest.serverWait)} the server waiting for a processor, ` +
    `${ms(slowest.clientWait)} the client waiting for one, ${ms(slowest.rest)} the rest.`
  )
}

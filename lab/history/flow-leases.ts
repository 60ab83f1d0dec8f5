// The leases of a limit or a group, one after the other: how many overlap at each moment, and how many start in each stretch of time.

import type { Rate } from '../../src/core/flow/settings.js'
import { Spans } from './ability.js'
import type { FlowTerms } from './flow-terms.js'
import { type Reading, ROOM_MS, report } from './life.js'
import { shown } from './steps.js'

/** A lease, or the time for which a job of an ordered group keeps the others waiting. */
export interface Occupied {
  readonly job: string
  /** The transaction that took it began, wrote its row, and committed. */
  readonly began: number
  readonly at: number
  readonly from: number
  /** It held until then for sure: to the commit that ended it, but no longer than its time. */
  readonly to: number
  /** Nothing of it was left. */
  readonly freed: number
}

/** All leases of one limit or group. They are kept as numbers: a run has millions. */
export class Leases {
  readonly #key: string
  readonly #jobs: string[] = []
  readonly #numbers: number[] = []

  constructor(key: string) {
    this.#key = key
  }

  add({ job, began, at, from, to, freed }: Occupied): void {
    this.#jobs.push(job)
    this.#numbers.push(began, at, from, Math.max(from, to), Math.max(from, freed))
  }

  #at(index: number): Occupied {
    const place = index * 5
    const [began, at, from, to, freed] = this.#numbers.slice(place, place + 5) as [
      ...[began: number, at: number, from: number, to: number, freed: number],
    ]
    return { job: this.#jobs[index]!, began, at, from, to, freed }
  }

  /** In the order of one of their times. */
  #inOrder(column: 1 | 2): Uint32Array {
    const numbers = this.#numbers
    return Uint32Array.from(this.#jobs.keys()).sort((a, b) => numbers[a * 5 + column]! - numbers[b * 5 + column]!)
  }

  #column(column: 0 | 3 | 4): Float64Array {
    return Float64Array.from(this.#jobs, (_, index) => this.#numbers[index * 5 + column]!).sort()
  }

  /** At no moment more than allowed. Only a start is a mistake: what runs when a limit is lowered may end. */
  checkOverlaps(reading: Reading, terms: FlowTerms): void {
    const { flow } = reading.counts
    const ends = this.#column(3)
    let ended = 0
    let started = 0
    for (const index of this.#inOrder(2)) {
      const { job, began, at, from } = this.#at(index)
      started++
      while (ended < ends.length && ends[ended]! <= from) ended++
      // One that ended before it was committed has been counted as ended.
      const running = Math.max(1, started - ended)
      const bounds = terms.bounds(this.#key, began, Math.max(at, from))
      const most = bounds.reduce((highest, bound) => Math.max(highest, bound.most), 0)
      const isProbed = bounds.every((bound) => bound.isProbed)
      if (isProbed) flow.probes++
      if (running === most) flow.filled++
      if (running <= most) continue
      const what = `claimed at ${shown(at)} as number ${running} of at most ${most} of ${nameOf(this.#key)}`
      if (isProbed) report(reading, 'I20', job, `${what}, whose breaker was not closed`)
      else report(reading, 'I11', job, what)
    }
  }

  /** In no stretch of time more starts than its bucket gives. */
  checkRates(reading: Reading, terms: FlowTerms): void {
    let rate: Rate | null = null
    let bucket = newBucket()
    for (const index of this.#inOrder(1)) {
      const { job, began, at, from } = this.#at(index)
      const found = onlyRate(terms, this.#key, began, Math.max(at, from))
      if (found === null || rate === null || !isSame(found, rate)) bucket = newBucket()
      rate = found
      if (rate === null || rate.counts !== 'starts') continue
      const over = bucket.start(rate, { began, at, from })
      if (over === null) continue
      const within = `${over.count} starts within ${over.ms.toFixed(1)} ms`
      const what = `claimed at ${shown(at)} as the last of ${within} of ${nameOf(this.#key)}, which starts ${rate.limit} in ${rate.perMs} ms and ${rate.burst} after a rest`
      report(reading, 'I11', job, what)
    }
  }

  /** When nothing more could start: it was full, shut, or its bucket was empty. What is uncertain counts as such. */
  closed(terms: FlowTerms): Spans {
    const begins = this.#column(0)
    const frees = this.#column(4)
    const moments = Float64Array.from([...begins, ...frees, ...terms.moments(this.#key)]).sort()
    const spans: { from: number; to: number }[] = []
    let [begun, freed] = [0, 0]
    for (const [index, from] of moments.entries()) {
      while (begun < begins.length && begins[begun]! <= from) begun++
      while (freed < frees.length && frees[freed]! <= from) freed++
      const least = terms.bounds(this.#key, from, from).reduce((low, { most }) => Math.min(low, most), Infinity)
      if (begun - freed >= least) spans.push({ from, to: moments[index + 1] ?? Infinity })
    }
    return new Spans([...spans, ...this.#emptied(terms)])
  }

  /** When its bucket was empty. */
  #emptied(terms: FlowTerms): { from: number; to: number }[] {
    const spans: { from: number; to: number }[] = []
    let emptyAt = Number.NEGATIVE_INFINITY
    for (const index of this.#inOrder(1)) {
      const { began, at, from } = this.#at(index)
      const rates = terms.bounds(this.#key, began, from).map((bound) => bound.rate)
      const slowest = rates.reduce(
        (one, other) => (one === null || (other !== null && speed(other) < speed(one)) ? other : one),
        null,
      )
      if (slowest === null) continue
      if (slowest.counts === 'cost') return [{ from: Number.NEGATIVE_INFINITY, to: Infinity }]
      const eachMs = slowest.perMs / slowest.limit
      emptyAt = Math.max(emptyAt, at - slowest.burst * eachMs) + eachMs
      spans.push({ from: began, to: emptyAt + eachMs + ROOM_MS })
    }
    return spans
  }
}

function speed({ limit, perMs }: Rate): number {
  return limit / perMs
}

function isSame(one: Rate, other: Rate): boolean {
  return (
    one.limit === other.limit && one.perMs === other.perMs && one.burst === other.burst && one.counts === other.counts
  )
}

/** The rate that held for sure, or null. */
function onlyRate(terms: FlowTerms, key: string, from: number, to: number): Rate | null {
  const rates = terms.bounds(key, from, to).map((bound) => bound.rate)
  const first = rates[0] ?? null
  return first !== null && rates.every((rate) => rate !== null && isSame(rate, first)) ? first : null
}

/** Counts starts. Between two of them lies at most the time from the beginning of the first one's claim to the row of the second, and
 *  claims of one limit follow each other: none looks at the bucket before the one before it has committed. */
function newBucket(): {
  start(rate: Rate, claim: { began: number; at: number; from: number }): { count: number; ms: number } | null
} {
  let count = 0
  // Small numbers keep their fractions.
  let zero = Number.NaN
  let [claimFrom, before] = [Number.NaN, Number.NEGATIVE_INFINITY]
  let worst = { room: Number.NEGATIVE_INFINITY, at: 0, count: 0 }
  return {
    start(rate, { began, at, from }) {
      const perMs = speed(rate)
      if (from !== claimFrom) {
        if (!Number.isNaN(claimFrom)) before = Math.max(before, claimFrom)
        claimFrom = from
      }
      const earliest = Math.min(at, Math.max(began, before))
      if (Number.isNaN(zero)) zero = earliest
      const room = perMs * (earliest - zero) - count
      if (room > worst.room) worst = { room, at: earliest, count }
      count++
      const isOver = count - perMs * (at - zero) + worst.room > rate.burst + perMs * ROOM_MS + 1e-6
      return isOver ? { count: count - worst.count, ms: at - worst.at } : null
    },
  }
}

function nameOf(key: string): string {
  const [queue, group] = key.split('\0')
  return group === undefined ? `limit "${key}"` : `group "${group}" of queue "${queue}"`
}

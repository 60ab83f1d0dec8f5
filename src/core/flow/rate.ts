// The token bucket of a rate, kept as one time: when it would have been empty if nothing had limited it. A full bucket is one that was
// empty long ago; a start moves the time on by what it takes. Nothing has to be refilled, so nothing runs by itself.

import type { Rate } from './settings.js'

/** The bucket nobody has taken from. */
export const FULL: number = Number.NEGATIVE_INFINITY

// Times are rounded, to a microsecond where PostgreSQL keeps them: a token that is due within this time counts as there. It is only
// looked over, never added to the bucket, so that no error adds up.
const ROUNDING_MS = 0.02

/** Nothing keeps a bucket empty for longer than this and the time it takes to fill: neither a job that cost millions, nor a wrong number. */
const OWED_MAX_MS = 86_400_000
// A bucket that owes more than it can was drawn from while the store's clock was ahead. An hour lies between the two, so that a clock that
// goes back a little forgives no debt.
const AHEAD_MS = OWED_MAX_MS + 3_600_000

/** A bucket as it counts now. One that was drawn from by a clock that was more than a day ahead begins anew: otherwise it would stay empty
 *  until the time that clock showed. */
function standing(rate: Rate, emptyAtMs: number, nowMs: number): number {
  return emptyAtMs - fillMs(rate) > nowMs + AHEAD_MS ? FULL : emptyAtMs
}

function fillMs(rate: Rate): number {
  return (rate.burst * rate.perMs) / rate.limit
}

/** How many tokens there are, at most the burst. Negative while more was spent than there was. */
export function tokensAt(rate: Rate, emptyAtMs: number, nowMs: number): number {
  return Math.min(rate.burst, ((nowMs - standing(rate, emptyAtMs, nowMs)) * rate.limit) / rate.perMs)
}

/** How many starts of price 1 may go now; 0 while the bucket is overdrawn. */
export function startsAt(rate: Rate, emptyAtMs: number, nowMs: number): number {
  const roundingTokens = (ROUNDING_MS * rate.limit) / rate.perMs
  return Math.max(0, Math.floor(tokensAt(rate, emptyAtMs, nowMs) + roundingTokens))
}

/** What a start takes from the bucket. */
export function priceOf(rate: Rate, cost: number): number {
  return rate.counts === 'cost' ? cost : 1
}

/** Whether a start of this price may go. One that costs more than the bucket holds may go when it is full. */
function affords(rate: Rate, emptyAtMs: number, price: number, nowMs: number): boolean {
  return dueInMs(rate, emptyAtMs, price, nowMs) <= ROUNDING_MS
}

function dueInMs(rate: Rate, emptyAtMs: number, price: number, nowMs: number): number {
  return ((Math.min(price, rate.burst) - tokensAt(rate, emptyAtMs, nowMs)) * rate.perMs) / rate.limit
}

/** The bucket after `price` was taken; a negative price gives back. What is given back to a full bucket leaves it as it is: it must be full
 *  by a slower rate, too, which may be set later. */
export function draw(rate: Rate, emptyAtMs: number, price: number, nowMs: number): number {
  const current = standing(rate, emptyAtMs, nowMs)
  const from = price > 0 ? Math.max(current, nowMs - fillMs(rate)) : current
  return Math.min(from + (price * rate.perMs) / rate.limit, nowMs + fillMs(rate) + OWED_MAX_MS)
}

/** How long until a start of this price may go, in whole milliseconds; 0 when it may go now. */
export function waitMsFor(rate: Rate, emptyAtMs: number, price: number, nowMs: number): number {
  if (affords(rate, emptyAtMs, price, nowMs)) return 0
  return Math.max(1, Math.ceil(dueInMs(rate, emptyAtMs, price, nowMs) - ROUNDING_MS))
}

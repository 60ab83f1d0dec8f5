// Cron expressions and time zones. The one module that knows the cron library; it is used for its arithmetic only,
// never for its timers.

import { Cron } from 'croner'
import { HoldfastError, show } from './errors.js'

const EXPRESSION_LENGTH_MAX = 200
const PARSED_MAX = 1_000

// Reading an expression takes a quarter of a millisecond, and each look at a schedule needs it.
const parsed = new Map<string, CronTimes>()

/** A checked expression in a zone. */
export interface CronTimes {
  /** The first time strictly after `afterMs`, or null when there is none. */
  next(afterMs: number): number | null
  /** The first times strictly after `afterMs`, at most `count` of them. */
  following(afterMs: number, count: number): Date[]
  /** The last times from `fromMs` to `toMs`, both included, oldest first; at most `count` of them. */
  between(fromMs: number, toMs: number, count: number): number[]
}

/**
 * Reads an expression of five fields, or six with seconds in front; raises `invalid_schedule` for what is none.
 * One fixed time of day that falls into the gap of a change to summer time runs at the end of the gap, and where it comes
 * twice it runs the first time. Of several times a day those in the gap are left out, and those that come twice run twice.
 */
export function parseCron(expression: unknown, zone: unknown): CronTimes {
  const key = typeof expression === 'string' && typeof zone === 'string' ? `${zone} ${expression}` : ''
  const known = parsed.get(key)
  if (known !== undefined) return known
  const cron = open(expression, zone)
  const times: CronTimes = {
    next: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() ?? null,
    following: (afterMs, count) => cron.nextRuns(count, new Date(afterMs)),
    between: (fromMs, toMs, count) => lastTimes(cron, fromMs, toMs, count),
  }
  if (parsed.size >= PARSED_MAX) parsed.clear()
  parsed.set(key, times)
  return times
}

function lastTimes(cron: Cron, fromMs: number, toMs: number, count: number): number[] {
  const times: number[] = []
  // The library looks strictly before a whole second, and a tick at this very moment counts.
  let beforeMs = Math.floor(toMs / 1_000) * 1_000 + 1_000
  while (times.length < count) {
    const time = cron.previousRuns(1, new Date(beforeMs))[0]?.getTime()
    if (time === undefined || time < fromMs) break
    times.push(time)
    beforeMs = time
  }
  return times.reverse()
}

function open(expression: unknown, zone: unknown): Cron {
  if (typeof expression !== 'string' || expression.length > EXPRESSION_LENGTH_MAX || !isFields(expression)) {
    throw new HoldfastError(
      'invalid_schedule',
      `cron must be five fields such as '0 9 * * 1-5', or six with seconds in front, got ${show(expression)}`,
    )
  }
  checkZone(zone)
  try {
    return new Cron(expression, { ...zoneOptions(zone as string), paused: true })
  } catch (cause) {
    throw new HoldfastError(
      'invalid_schedule',
      `cron ${show(expression)} cannot be read: ${(cause as Error).message.replace(/^CronPattern: /, '')}`,
      { cause },
    )
  }
}

// The zone that needs no rules is a plain offset to the library: thirty times as fast, measured with croner 11.
function zoneOptions(zone: string): { timezone: string } | { utcOffset: number } {
  return zone === 'UTC' ? { utcOffset: 0 } : { timezone: zone }
}

// The library also reads dates and nicknames; a schedule takes fields alone, so that what is stored means one thing.
function isFields(expression: string): boolean {
  const fields = expression.trim().split(/\s+/)
  return (fields.length === 5 || fields.length === 6) && fields.every((field) => /^[0-9A-Za-z*?,/#+-]+$/.test(field))
}

function checkZone(zone: unknown): void {
  try {
    if (typeof zone === 'string' && zone.length > 0) {
      new Intl.DateTimeFormat('en', { timeZone: zone })
      return
    }
  } catch {
    // Fall through to the one message.
  }
  throw new HoldfastError(
    'invalid_schedule',
    `zone must be an IANA time zone such as 'Europe/Berlin' or 'UTC', got ${show(zone)}`,
  )
}

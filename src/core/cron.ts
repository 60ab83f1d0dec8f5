// Cron expressions and time zones. The one module that knows the cron library; it is used for its arithmetic only,
// never for its timers.

import { Cron } from 'croner'
import { checkDate } from './check.js'
import { type Duration, durationMs } from './duration.js'
import { HoldfastError, isHoldfastError, show } from './errors.js'

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
  /** Each job of a time comes up to this much later. */
  readonly jitterMs: number
}

/** What people write for fields. */
const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}
const EVERY_MS_MIN = 1_000
const EVERY_MS_MAX = 366 * 86_400_000
const JITTER_MS_MAX = 86_400_000

/** The parts of an expression: when, how much later at most, and until when. */
const PARTS = /^\s*(.*?)(?:\s+jitter\s+(\S+))?(?:\s+until\s+(\S+))?\s*$/s

/** What may be given apart from the expression. */
export interface CronParts {
  readonly cron?: string | undefined
  readonly every?: Duration | undefined
  readonly jitter?: Duration | undefined
  readonly until?: Date | string | undefined
}

/** The one text that a schedule keeps. Nicknames become fields, so that older versions read them. */
export function cronText({ cron, every, jitter, until }: CronParts): string {
  if ((cron === undefined) === (every === undefined)) {
    throw new HoldfastError(
      'invalid_schedule',
      `a schedule needs either cron or every, got ${cron === undefined ? 'neither' : 'both'}: cron: '0 9 * * 1-5', or every: '30s'`,
    )
  }
  if (cron !== undefined && typeof cron !== 'string') return cron
  const [, when = '', ownJitter, ownUntil] = cron === undefined ? ['', everyText(every!)] : (PARTS.exec(cron) ?? [])
  if ((jitter !== undefined && ownJitter !== undefined) || (until !== undefined && ownUntil !== undefined)) {
    throw new HoldfastError('invalid_schedule', `cron ${show(cron)} says jitter or until already: give it once`)
  }
  const late = jitter === undefined ? ownJitter : `${durationMs(jitter, { name: 'jitter', maxMs: JITTER_MS_MAX })}ms`
  const end = until === undefined ? ownUntil : checkDate('until', until).toISOString()
  const parts = [NICKNAMES[when.toLowerCase()] ?? when, late && `jitter ${late}`, end && `until ${end}`]
  return parts.filter(Boolean).join(' ')
}

function everyText(every: Duration): string {
  const ms = durationMs(every, { name: 'every', minMs: EVERY_MS_MIN, maxMs: EVERY_MS_MAX })
  const [size, unit] = (
    [
      [86_400_000, 'd'],
      [3_600_000, 'h'],
      [60_000, 'm'],
      [1_000, 's'],
      [1, 'ms'],
    ] as const
  ).find(([each]) => ms % each === 0)!
  return `@every ${ms / size}${unit}`
}

/**
 * Reads an expression of five fields, or six with seconds in front; raises `invalid_schedule` for what is none.
 * One fixed time of day that falls into the gap of a change to summer time runs at the end of the gap, and where it comes
 * twice it runs the first time. Of several times a day those in the gap are left out, and those that come twice run twice.
 * A nickname such as @daily and `@every 90s` are read as well, and behind each of them `jitter 5m` and `until <ISO date>`.
 */
export function parseCron(expression: unknown, zone: unknown): CronTimes {
  const key = typeof expression === 'string' && typeof zone === 'string' ? `${zone} ${expression}` : ''
  const known = parsed.get(key)
  if (known !== undefined) return known
  const times = readText(expression, zone)
  if (parsed.size >= PARSED_MAX) parsed.clear()
  parsed.set(key, times)
  return times
}

function readText(expression: unknown, zone: unknown): CronTimes {
  const isText = typeof expression === 'string' && expression.length <= EXPRESSION_LENGTH_MAX
  const [, when = '', jitter, until] = isText ? (PARTS.exec(expression) ?? []) : []
  const fields = NICKNAMES[when.toLowerCase()] ?? when
  const each = /^@every\s+(\S+)$/i.exec(fields)?.[1]
  checkZone(zone)
  try {
    const jitterMs = jitter === undefined ? 0 : durationMs(jitter as Duration, { name: 'jitter', maxMs: JITTER_MS_MAX })
    const times = each === undefined ? cronTimes(open(isText ? fields : expression, zone)) : everyTimes(each)
    const untilMs = until === undefined ? Number.POSITIVE_INFINITY : checkDate('until', until).getTime()
    return { ...endingAt(times, untilMs), jitterMs }
  } catch (error) {
    if (!isHoldfastError(error, 'invalid_option')) throw error
    throw new HoldfastError('invalid_schedule', `cron ${show(expression)} cannot be read: ${error.message}`, {
      cause: error,
    })
  }
}

type Times = Omit<CronTimes, 'jitterMs'>

function cronTimes(cron: Cron): Times {
  return {
    next: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() ?? null,
    following: (afterMs, count) => cron.nextRuns(count, new Date(afterMs)),
    between: (fromMs, toMs, count) => lastTimes(cron, fromMs, toMs, count),
  }
}

/** Multiples of a span, counted from 1970: the same for every process, and after every restart. */
function everyTimes(span: string): Times {
  const ms = durationMs(span as Duration, { name: '@every', minMs: EVERY_MS_MIN, maxMs: EVERY_MS_MAX })
  const first = (afterMs: number) => (Math.floor(afterMs / ms) + 1) * ms
  return {
    next: first,
    following: (afterMs, count) => Array.from({ length: count }, (_, index) => new Date(first(afterMs) + index * ms)),
    between: (fromMs, toMs, count) => {
      const last = Math.floor(toMs / ms) * ms
      const most = Math.max(0, Math.min(count, Math.floor((last - Math.ceil(fromMs / ms) * ms) / ms) + 1))
      return Array.from({ length: most }, (_, index) => last - (most - 1 - index) * ms)
    },
  }
}

function endingAt(times: Times, untilMs: number): Times {
  if (untilMs === Number.POSITIVE_INFINITY) return times
  return {
    next: (afterMs) => {
      const next = times.next(afterMs)
      return next === null || next > untilMs ? null : next
    },
    following: (afterMs, count) => times.following(afterMs, count).filter((time) => time.getTime() <= untilMs),
    between: (fromMs, toMs, count) => times.between(fromMs, Math.min(toMs, untilMs), count),
  }
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
      `cron must be five fields such as '0 9 * * 1-5', six with seconds in front, a nickname such as '@daily', or '@every 90s', got ${show(expression)}`,
    )
  }
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

// The library also reads dates and more nicknames; a schedule takes what is listed here, so that what is stored means one thing.
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

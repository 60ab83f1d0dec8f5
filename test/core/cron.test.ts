import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CronTimes, parseCron } from '../../src/core/cron.js'
import { raised } from './raises.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

function timesAfter(times: CronTimes, from: string, count: number): string[] {
  const found: string[] = []
  let at: number | null = Date.parse(from)
  while (found.length < count) {
    at = times.next(at)
    if (at === null) break
    found.push(new Date(at).toISOString().slice(0, 16))
  }
  return found
}

describe('parseCron', () => {
  test('five fields are minutes, hours, days, months and days of the week', () => {
    const times = parseCron('30 9 * * 1-5', 'UTC')

    expect(timesAfter(times, '2026-01-16T00:00Z', 3)).toEqual([
      '2026-01-16T09:30',
      '2026-01-19T09:30',
      '2026-01-20T09:30',
    ])
  })

  test('six fields have seconds in front', () => {
    expect(parseCron('*/15 * * * * *', 'UTC').next(1_000)).toBe(15_000)
  })

  test('fields are read in their zone', () => {
    expect(timesAfter(parseCron('0 9 * * *', 'Asia/Kolkata'), '2026-01-15T00:00Z', 1)).toEqual(['2026-01-15T03:30'])
  })

  test('the next time lies strictly after the moment', () => {
    const noon = Date.UTC(2026, 0, 15, 12)
    const times = parseCron('0 12 * * *', 'UTC')

    expect(times.next(noon - 1)).toBe(noon)
    expect(times.next(noon)).toBe(noon + DAY)
  })

  test('names, last days and nth days are understood', () => {
    expect(timesAfter(parseCron('0 0 L FEB *', 'UTC'), '2026-01-01T00:00Z', 2)).toEqual([
      '2026-02-28T00:00',
      '2027-02-28T00:00',
    ])
    expect(timesAfter(parseCron('0 0 * * FRI#2', 'UTC'), '2026-01-01T00:00Z', 1)).toEqual(['2026-01-09T00:00'])
  })

  test('a date that exists in some years waits for them', () => {
    expect(timesAfter(parseCron('0 0 29 2 *', 'UTC'), '2026-01-01T00:00Z', 2)).toEqual([
      '2028-02-29T00:00',
      '2032-02-29T00:00',
    ])
  })

  test.each(['0 0 30 2 *', '0 0 31 4 *', '0 0 31 2,4,6,9,11 *'])(
    'a date that never comes has no time: %s',
    (expression) => {
      const times = parseCron(expression, 'UTC')

      expect(times.next(0)).toBeNull()
      expect(times.between(0, 4 * 366 * DAY, 10)).toEqual([])
    },
  )

  test.each([
    '',
    '* * * *',
    '* * * * * * *',
    '@reboot',
    '@every',
    '@every 10ms',
    '@every 400d',
    '@every x',
    '* * * * * until tomorrow',
    '* * * * * jitter 2d',
    '2026-01-15T12:00:00',
    '0 0 32 * *',
    '60 * * * *',
    '0 24 * * *',
    '0 0 * 13 *',
    '0 0 * * 9',
    '5-1 * * * *',
    '*/0 * * * *',
    'a * * * *',
    '* * * * (',
    `0 ${'0,'.repeat(100)}0 * * *`,
    ['* * * * *'],
    5,
    null,
    undefined,
  ])('%j is no expression', (expression) => {
    parseCron('* * * * *', 'UTC')

    expect(() => parseCron(expression, 'UTC')).toThrow(raised('invalid_schedule', 'cron'))
  })

  test.each(['', 'Mars/Olympus', 'Europe/', 5, null, undefined])('%j is no zone', (zone) => {
    expect(() => parseCron('* * * * *', zone)).toThrow(
      raised('invalid_schedule', `zone must be an IANA time zone such as 'Europe/Berlin' or 'UTC'`),
    )
  })
})

describe('between', () => {
  test('the last times up to a moment, both ends included, oldest first', () => {
    const times = parseCron('0 * * * *', 'UTC')
    const noon = Date.UTC(2026, 0, 15, 12)

    expect(times.between(noon - 2 * HOUR, noon, 10)).toEqual([noon - 2 * HOUR, noon - HOUR, noon])
    expect(times.between(noon - 2 * HOUR + 1, noon - 1, 10)).toEqual([noon - HOUR])
    expect(times.between(noon - 9 * HOUR, noon + 999, 2)).toEqual([noon - HOUR, noon])
    expect(times.between(noon + 1, noon, 10)).toEqual([])
  })

  test('a moment within a second counts the time at its beginning', () => {
    const times = parseCron('* * * * * *', 'UTC')

    expect(times.between(9_000, 10_500, 10)).toEqual([9_000, 10_000])
  })
})

describe('changes to and from summer time', () => {
  test('one time of day that falls into the gap runs at its end', () => {
    expect(timesAfter(parseCron('30 2 * * *', 'Europe/Berlin'), '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ])
  })

  test('one time of day that comes twice runs the first time', () => {
    expect(timesAfter(parseCron('30 2 * * *', 'Europe/Berlin'), '2026-10-24T12:00Z', 2)).toEqual([
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ])
  })

  test('of several times a day those in the gap are left out', () => {
    expect(timesAfter(parseCron('30 2,3 * * *', 'Europe/Berlin'), '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:30',
      '2026-03-30T00:30',
    ])
  })

  test('of several times a day those that come twice run twice', () => {
    expect(timesAfter(parseCron('30 2,3 * * *', 'Europe/Berlin'), '2026-10-24T12:00Z', 3)).toEqual([
      '2026-10-25T00:30',
      '2026-10-25T01:30',
      '2026-10-25T02:30',
    ])
  })

  test('every half hour is every half hour, whatever the clock on the wall does', () => {
    for (const from of ['2026-03-28T22:00Z', '2026-10-24T22:00Z']) {
      const times = timesAfter(parseCron('*/30 * * * *', 'Europe/Berlin'), from, 20)

      const expected = times.map((_, index) => new Date(Date.parse(from) + (index + 1) * 30 * MINUTE))
      expect(times).toEqual(expected.map((date) => date.toISOString().slice(0, 16)))
    }
  })
})

describe('against every minute of the days around a change', () => {
  const transitions = [
    ['Europe/Berlin', '2026-03-29T01:00Z'],
    ['Europe/Berlin', '2026-10-25T01:00Z'],
    ['America/New_York', '2026-03-08T07:00Z'],
    ['America/New_York', '2026-11-01T06:00Z'],
    // Half an hour only.
    ['Australia/Lord_Howe', '2026-10-03T15:30Z'],
    ['Australia/Lord_Howe', '2026-04-04T15:00Z'],
    // At midnight: the day begins at one.
    ['Africa/Cairo', '2026-04-23T22:00Z'],
    // A quarter of an hour off, no change at all.
    ['Asia/Kathmandu', '2026-06-01T00:00Z'],
  ] as const

  test.each(transitions)('%s around %s', (zone, change) => {
    const fromMs = Date.parse(change) - 15 * HOUR
    const untilMs = Date.parse(change) + 15 * HOUR
    const walls = wallClock(zone, fromMs, untilMs)
    fc.assert(
      fc.property(anyFields, (fields) => {
        const times = parseCron(`${fields.minute} ${fields.hour} * * *`, zone)

        const expected = oracle(fields, walls)
        expect(iterate(times, fromMs - 1, untilMs)).toEqual(expected)
        expect(times.between(fromMs, untilMs, 10_000)).toEqual(expected)
      }),
      { numRuns: 25 },
    )
  })
})

function iterate(times: CronTimes, afterMs: number, untilMs: number): number[] {
  const found: number[] = []
  for (let at = times.next(afterMs); at !== null && at <= untilMs; at = times.next(at)) found.push(at)
  return found
}

interface Wall {
  readonly ms: number
  /** Minutes since the beginning of some day, on the clock on the wall. */
  readonly minutes: number
}

/** What the clock on the wall shows at every minute. */
function wallClock(zone: string, fromMs: number, untilMs: number): Wall[] {
  const format = new Intl.DateTimeFormat('en', {
    ...{ timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric' },
    ...{ day: 'numeric', hour: 'numeric', minute: 'numeric' },
  } as const)
  const walls: Wall[] = []
  for (let ms = fromMs; ms <= untilMs; ms += MINUTE) {
    const part = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
    walls.push({ ms, minutes: Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!) / MINUTE })
  }
  return walls
}

type Field = string
const field = (max: number): fc.Arbitrary<Field> =>
  fc.oneof(
    { weight: 1, arbitrary: fc.constant('*') },
    { weight: 4, arbitrary: fc.nat(max).map(String) },
    { weight: 1, arbitrary: fc.uniqueArray(fc.nat(max), { minLength: 2, maxLength: 4 }).map((list) => list.join(',')) },
    { weight: 1, arbitrary: fc.constantFrom(2, 5, 7).map((step) => `*/${step}`) },
  )
/** Hours near the change more often than others. */
const anyFields = fc.record({
  minute: fc.oneof(fc.constantFrom('0', '15', '30', '45'), field(59)),
  hour: fc.oneof(fc.constantFrom('0', '1', '2', '3', '1,2', '2,3'), field(23)),
})

function oracle(fields: { readonly minute: Field; readonly hour: Field }, walls: readonly Wall[]): number[] {
  const isFixed = /^\d+$/.test(fields.minute) && /^\d+$/.test(fields.hour)
  const matches = (minutes: number) =>
    isIn(fields.minute, minutes % 60) && isIn(fields.hour, Math.floor(minutes / 60) % 24)
  const times: number[] = []
  let highest = walls[0]!.minutes - 1
  for (const { ms, minutes } of walls) {
    let isDue = matches(minutes)
    if (isFixed) {
      // Shown before: its turn has been. Passed over: its turn is now.
      if (minutes <= highest) isDue = false
      for (let skipped = highest + 1; skipped < minutes; skipped++) isDue ||= matches(skipped)
    }
    highest = Math.max(highest, minutes)
    if (isDue) times.push(ms)
  }
  return times
}

function isIn(field: Field, value: number): boolean {
  if (field === '*') return true
  if (field.startsWith('*/')) return value % Number(field.slice(2)) === 0
  return field.split(',').includes(String(value))
}

import { describe, expect, test } from 'vitest'
import { nextClockChange, offsetMinutes } from '../../dashboard/src/time/clock-change.js'
import { absoluteText, durationText, fullText, relativeText, runText } from '../../dashboard/src/time/format.js'
import { clockNote, cronWords, zoneDistance } from '../../dashboard/src/views/schedules/words.js'

const NOON = Date.parse('2026-11-15T12:00:00.250Z')

describe('lengths of time', () => {
  test.each([
    [0, '0ms'],
    [840, '840ms'],
    [1_000, '1s'],
    [1_250, '1.3s'],
    [59_999, '59s'],
    [60_000, '1m'],
    [245_000, '4m 5s'],
    [3_600_000, '1h'],
    [11_520_000, '3h 12m'],
    [187_200_000, '2d 4h'],
    [-5, '0ms'],
  ])('%d ms reads %s', (ms, text) => {
    expect(durationText(ms)).toBe(text)
  })

  test.each([
    [0, 'now'],
    [-1_400, 'now'],
    [-12_000, '12s ago'],
    [-180_000, '3m ago'],
    [240_000, 'in 4m'],
    [-90_000_000, '25h ago'],
    [-5 * 86_400_000, '5d ago'],
    [-400 * 86_400_000, '13mo ago'],
    [-1_000 * 86_400_000, '2y ago'],
  ])('%d ms from now reads %s', (distance, text) => {
    expect(relativeText(NOON + distance, NOON)).toBe(text)
  })
})

describe('moments', () => {
  test('today shows only the time, this year the day, another year the year', () => {
    expect(absoluteText(NOON - 60_000, NOON, 'UTC')).toBe('11:59:00')
    expect(absoluteText(Date.parse('2026-03-02T08:05:09Z'), NOON, 'UTC')).toBe('2 Mar 08:05:09')
    expect(absoluteText(Date.parse('2024-03-02T08:05:09Z'), NOON, 'UTC')).toBe('2 Mar 2024 08:05')
  })

  test('a day is one of the zone, not of UTC', () => {
    const lateEvening = Date.parse('2026-11-14T20:00:00Z')

    expect(absoluteText(lateEvening, NOON, 'Asia/Tokyo')).toBe('05:00:00')
  })

  test('the whole of a time has its milliseconds and its zone', () => {
    expect(fullText(NOON, 'UTC')).toBe('Sun 15 Nov 2026, 12:00:00.250 UTC')
  })

  test('a run shows seconds only where they matter', () => {
    expect(runText(Date.parse('2026-11-16T09:00:00Z'), 'UTC')).toBe('Mon 16 Nov, 09:00')
    expect(runText(Date.parse('2026-11-16T09:00:30Z'), 'UTC')).toBe('Mon 16 Nov, 09:00:30')
  })
})

describe('changes of the clocks', () => {
  test('the hour Berlin puts its clocks forward is found to the minute', () => {
    const change = nextClockChange('Europe/Berlin', Date.parse('2026-03-20T10:00:00Z'), 45)

    expect(change).toEqual({ atMs: Date.parse('2026-03-29T01:00:00Z'), minutes: 60 })
  })

  test('half an hour on Lord Howe is a change like any other', () => {
    const change = nextClockChange('Australia/Lord_Howe', Date.parse('2026-03-20T10:00:00Z'), 45)

    expect(change?.minutes).toBe(-30)
  })

  test('a zone without changes, and one beyond the days looked at, have none', () => {
    expect(nextClockChange('UTC', NOON, 400)).toBeNull()
    expect(nextClockChange('Europe/Berlin', NOON, 20)).toBeNull()
  })

  test('offsets are signed, and an unknown zone counts as UTC', () => {
    expect(offsetMinutes('Asia/Kolkata', NOON)).toBe(330)
    expect(offsetMinutes('America/New_York', NOON)).toBe(-300)
    expect(offsetMinutes('Nowhere/Land', NOON)).toBe(0)
  })
})

describe('schedules in words', () => {
  test('a cron expression is put in words, and an invalid one is not', () => {
    expect(cronWords('30 8 * * 1-5')).toBe('At 08:30, Monday through Friday')
    expect(cronWords('not cron')).toBeNull()
  })

  test('a clock change soon is announced with its direction', () => {
    const march = Date.parse('2026-03-20T10:00:00Z')

    expect(clockNote('Europe/Berlin', march)).toMatch(/^Clocks in Europe\/Berlin go forward an hour on Sun 29 Mar:/)
    expect(clockNote('Europe/Berlin', Date.parse('2026-10-20T10:00:00Z'))).toMatch(/go back an hour on Sun 25 Oct:/)
    expect(clockNote('UTC', march)).toBeNull()
  })

  test('the distance of two zones is shown both ways', () => {
    const atMs = Date.parse('2026-11-15T12:00:00Z')

    expect(zoneDistance('Asia/Kolkata', 'UTC', atMs)).toBe('5.5 h ahead of you')
    expect(zoneDistance('America/New_York', 'UTC', atMs)).toBe('5 h behind you')
    expect(zoneDistance('UTC', 'UTC', atMs)).toBeNull()
  })
})

import { expect, test } from 'vitest'
import { bytesText, countOf, countText, rateText, shareOf, shortText } from '../../dashboard/src/numbers.js'
import { readDuration, writeDuration } from '../../dashboard/src/views/queues/durations.js'
import { durationMs } from '../../src/core/duration.js'

test.each([
  [0, '0'],
  [9_999, '9,999'],
  [10_000, '10k'],
  [12_345, '12.3k'],
  [99_960, '100k'],
  [999_499, '999k'],
  [999_500, '1M'],
  [4_120_000, '4.1M'],
  [2_500_000_000, '2.5B'],
  [-12_345, '-12.3k'],
])('%d is short as %s', (value, text) => {
  expect(shortText(value)).toBe(text)
})

test.each([
  [0, '0'],
  [0.01, '<0.1'],
  [0.34, '0.3'],
  [2, '2'],
  [11.6, '12'],
  [14_200, '14.2k'],
])('%d per second reads %s', (value, text) => {
  expect(rateText(value)).toBe(text)
})

test('an estimate is marked as one', () => {
  expect(countText(1_284, true)).toBe('1,284')
  expect(countText(1_284_000, false)).toBe('~1.3M')
  expect(countOf(1, 'job')).toBe('1 job')
  expect(countOf(2, 'job', false)).toBe('~2 jobs')
})

test('sizes and shares have bounds', () => {
  expect([bytesText(999), bytesText(1_500), bytesText(2_000_000)]).toEqual(['999 B', '1.5 KB', '2 MB'])
  expect([shareOf(1, 0), shareOf(3, 2), shareOf(-1, 2), shareOf(1, 4)]).toEqual([0, 1, 0, 0.25])
})

test('a duration is written so that the library reads the same', () => {
  for (const ms of [0, 1, 250, 1_000, 90_000, 3_600_000, 86_400_000, 259_200_000, 90_061_001]) {
    const text = writeDuration(ms)

    expect(durationMs(text, { name: 'it' })).toBe(ms)
    expect(readDuration(text)).toBe(ms)
  }
})

test('invalid durations are not read', () => {
  for (const text of ['', '5', 'm', '-5m', '5 minutes', '1h30m', 'none']) expect(readDuration(text)).toBeNull()
})

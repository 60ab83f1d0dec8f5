import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DURATION_MS_MAX, durationMs, showMs } from '../../src/core/duration.js'
import { raised } from './raises.js'

const rule = { name: 'delay' }

describe('durationMs', () => {
  test.each([
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['1.5s', 1_500],
    ['0.0004s', 0],
    ['0s', 0],
    [1_500, 1_500],
    [0.5, 1],
    [0, 0],
  ])('%s is %d ms', (written, ms) => {
    expect(durationMs(written, rule)).toBe(ms)
  })

  test.each([
    ['', 'empty'],
    ['5', 'no unit'],
    ['5 s', 'a space'],
    ['-5s', 'a sign'],
    ['1e3ms', 'an exponent'],
    ['5w', 'an unknown unit'],
    ['5S', 'an upper-case unit'],
    ['1000000000000000d', 'too many digits'],
    [Number.NaN, 'not a number'],
    [Number.POSITIVE_INFINITY, 'no end'],
    [null, 'null'],
    [undefined, 'undefined'],
    [5n, 'a bigint'],
    [{}, 'an object'],
  ])('%s is refused: %s', (written, _why) => {
    expect(() => durationMs(written, rule)).toThrow(raised('invalid_option', 'delay must be a duration such as'))
  })

  test('what lies outside the rule is refused with its bounds', () => {
    const bounded = { name: 'lease', minMs: 1_000, maxMs: 60_000 }

    expect(durationMs('1s', bounded)).toBe(1_000)
    expect(durationMs('1m', bounded)).toBe(60_000)
    expect(() => durationMs(999, bounded)).toThrow(
      raised('invalid_option', 'lease must be between 1s and 60s, got 999'),
    )
    expect(() => durationMs('61s', bounded)).toThrow(raised('invalid_option', 'got "61s"'))
  })

  test('without a rule a duration lasts from nothing to a hundred years', () => {
    expect(durationMs(DURATION_MS_MAX, rule)).toBe(DURATION_MS_MAX)
    expect(() => durationMs(-1, rule)).toThrow(raised('invalid_option', 'between 0ms and 36500d'))
    expect(() => durationMs(DURATION_MS_MAX + 1, rule)).toThrow(raised('invalid_option'))
  })
})

describe('showMs', () => {
  test.each([
    [0, '0ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [1_550, '1.6s'],
    [119_900, '119.9s'],
    [120_000, '2m'],
    [7_199_000, '120m'],
    [7_200_000, '2h'],
    [172_799_000, '48h'],
    [172_800_000, '2d'],
  ])('%d ms are shown as %s', (ms, shown) => {
    expect(showMs(ms)).toBe(shown)
  })

  test('what is shown is a duration again, off by less than a twentieth', () => {
    fc.assert(
      fc.property(fc.nat(DURATION_MS_MAX), (ms) => {
        expect(Math.abs(durationMs(showMs(ms), rule) - ms)).toBeLessThanOrEqual(ms / 20)
      }),
    )
  })
})

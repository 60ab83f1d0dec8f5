import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { backoffMs, RETRY_DEFAULTS, type RetryPolicy, resolveRetry } from '../../src/core/retry.js'
import { raised } from './raises.js'

const most = () => 1 - Number.EPSILON
const steady = { baseMs: 1_000, capMs: 60_000, jitter: false } as const

describe('resolveRetry', () => {
  test('what is left out takes the defaults', () => {
    expect(resolveRetry('retry', {})).toEqual(RETRY_DEFAULTS)
  })

  test('durations become milliseconds', () => {
    const policy = resolveRetry('retry', { backoff: 'linear', base: '2s', cap: '5m', jitter: false })

    expect(policy).toEqual({ backoff: 'linear', baseMs: 2_000, capMs: 300_000, jitter: false })
  })

  test('a list gives each wait by itself', () => {
    expect(resolveRetry('retry', { backoff: ['1s', '1m', 500] }).backoff).toEqual([1_000, 60_000, 500])
  })

  test('a base or a step above the default cap raises the cap', () => {
    expect(resolveRetry('retry', { base: '2h' }).capMs).toBe(7_200_000)
    expect(resolveRetry('retry', { backoff: ['1m', '1d'] }).capMs).toBe(86_400_000)
  })

  test('what cannot be meant is refused', () => {
    expect(() => resolveRetry('retry', { base: '1m', cap: '1s' })).toThrow(raised('invalid_option', 'retry.cap'))
    expect(() => resolveRetry('retry', { base: 'soon' as '1s' })).toThrow(raised('invalid_option', 'retry.base'))
    expect(() => resolveRetry('retry', { backoff: 'quadratic' as 'fixed' })).toThrow(
      raised('invalid_option', "retry.backoff must be one of 'exponential', 'linear', 'fixed', got \"quadratic\""),
    )
    expect(() => resolveRetry('retry', { backoff: [] })).toThrow(raised('invalid_option', '1 to 100 durations'))
    expect(() => resolveRetry('retry', { backoff: Array(101).fill('1s') })).toThrow(raised('invalid_option', '101'))
    expect(() => resolveRetry('retry', { backoff: ['1s', '-1s'] })).toThrow(raised('invalid_option', 'backoff[1]'))
    expect(() => resolveRetry('retry', { jitter: 1 as never })).toThrow(raised('invalid_option', 'retry.jitter'))
    expect(() => resolveRetry('retry', { factor: 2 } as never)).toThrow(raised('invalid_option', '"factor"'))
  })
})

describe('backoffMs', () => {
  test.each([
    ['exponential', [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]],
    ['linear', [1_000, 2_000, 3_000, 4_000]],
    ['fixed', [1_000, 1_000, 1_000]],
  ] as const)('%s waits without jitter', (backoff, waits) => {
    const found = waits.map((_, index) => backoffMs({ ...steady, backoff }, index + 1, most))

    expect(found).toEqual(waits)
  })

  test('the last step of a list repeats', () => {
    const policy: RetryPolicy = { ...steady, backoff: [10, 20, 30] }

    expect([1, 2, 3, 4, 99].map((attempt) => backoffMs(policy, attempt, most))).toEqual([10, 20, 30, 30, 30])
  })

  test('a list that was stored empty waits as long as the cap', () => {
    expect(backoffMs({ ...steady, backoff: [] }, 1, most)).toBe(60_000)
  })

  test('the first wait stands for attempts below one', () => {
    expect(backoffMs({ ...steady, backoff: 'exponential' }, 0, most)).toBe(1_000)
  })

  test('full jitter draws from all of the wait', () => {
    const policy: RetryPolicy = { ...steady, backoff: 'fixed', jitter: true }

    expect(backoffMs(policy, 1, () => 0)).toBe(0)
    expect(backoffMs(policy, 1, () => 0.25)).toBe(250)
    expect(backoffMs(policy, 1, most)).toBe(999)
  })

  test('every wait is a whole number from 0 to the cap, and jitter never makes one longer', () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.nat(20_000),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (policy, attempt, chance) => {
          const waitMs = backoffMs(policy, attempt, () => chance)

          expect(Number.isInteger(waitMs)).toBe(true)
          expect(waitMs).toBeGreaterThanOrEqual(0)
          expect(waitMs).toBeLessThanOrEqual(policy.capMs)
          expect(waitMs).toBeLessThanOrEqual(backoffMs({ ...policy, jitter: false }, attempt, () => chance))
        },
      ),
    )
  })

  test('waits that grow never shrink from one attempt to the next', () => {
    const growing = anyPolicy.filter(({ backoff }) => !Array.isArray(backoff))
    fc.assert(
      fc.property(growing, fc.integer({ min: 1, max: 2_000 }), (policy, attempt) => {
        const plain = { ...policy, jitter: false }

        expect(backoffMs(plain, attempt + 1, most)).toBeGreaterThanOrEqual(backoffMs(plain, attempt, most))
      }),
    )
  })
})

const ms = fc.nat(100 * 365 * 86_400_000)
const anyPolicy: fc.Arbitrary<RetryPolicy> = fc.record({
  backoff: fc.oneof(fc.constantFrom('exponential', 'linear', 'fixed'), fc.array(ms, { minLength: 1, maxLength: 100 })),
  baseMs: ms,
  capMs: ms,
  jitter: fc.boolean(),
})

import { describe, expect, test } from 'vitest'
import { LIMIT_DEFAULTS, resolveLimits } from '../../src/core/limits.js'

describe('resolveLimits', () => {
  test('the defaults hold where nobody says anything', () => {
    expect(resolveLimits()).toEqual(LIMIT_DEFAULTS)
    expect(resolveLimits(null, undefined, {})).toEqual(LIMIT_DEFAULTS)
  })

  test('each bound comes from the first source that has it', () => {
    const retry = { backoff: 'fixed', baseMs: 1, capMs: 1, jitter: false } as const

    const limits = resolveLimits({ maxAttempts: 3 }, { maxAttempts: 5, timeoutMs: 10 }, { timeoutMs: 20, retry })

    expect(limits).toEqual({ maxAttempts: 3, timeoutMs: 10, retry, maxAgeMs: null })
  })

  test('null is a word of its own: no bound, and nothing is inherited', () => {
    expect(resolveLimits({ timeoutMs: null }, { timeoutMs: 10 }).timeoutMs).toBeNull()
  })
})

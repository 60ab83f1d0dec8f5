import { describe, expect, test } from 'vitest'
import { ERROR_CODES, HoldfastError, isHoldfastError, show } from '../../src/core/errors.js'

describe('HoldfastError', () => {
  test('an error carries its code, and is not retryable unless it is given as such', () => {
    const error = new HoldfastError('job_dead', 'job 4182 is dead')

    expect(error).toMatchObject({ name: 'HoldfastError', code: 'job_dead', retryable: false, details: {} })
    expect(error).toBeInstanceOf(Error)
    expect('cause' in error).toBe(false)
  })

  test('cause, details and retryable are kept', () => {
    const cause = new Error('socket closed')

    const error = new HoldfastError('store_unavailable', 'no answer', { cause, retryable: true, details: { port: 1 } })

    expect(error.cause).toBe(cause)
    expect(error).toMatchObject({ retryable: true, details: { port: 1 } })
  })

  test('an error of ours is known by its name and code, whichever copy of the package made it', () => {
    const foreign = Object.assign(new Error('closed'), { name: 'HoldfastError', code: 'closed' })

    expect(isHoldfastError(foreign)).toBe(true)
    expect(isHoldfastError(foreign, 'closed')).toBe(true)
    expect(isHoldfastError(foreign, 'aborted')).toBe(false)
    expect(isHoldfastError(new Error('closed'))).toBe(false)
    expect(isHoldfastError({ name: 'HoldfastError', code: 'closed' })).toBe(false)
  })

  test('as JSON it has its message, name, code, retryable and details, and neither stack nor cause', () => {
    const cause = new Error('password authentication failed')
    const error = new HoldfastError('store_unavailable', 'no answer', { cause, retryable: true, details: { port: 1 } })

    expect(JSON.parse(JSON.stringify({ error }))).toEqual({
      error: {
        name: 'HoldfastError',
        code: 'store_unavailable',
        message: 'no answer',
        retryable: true,
        details: { port: 1 },
      },
    })
  })

  test('no code is listed twice', () => {
    expect(new Set(ERROR_CODES).size).toBe(ERROR_CODES.length)
  })
})

describe('show', () => {
  test.each([
    ['a "b"\n', '"a \\"b\\"\\n"'],
    [5, '5'],
    [5n, '5n'],
    [true, 'true'],
    [null, 'null'],
    [undefined, 'undefined'],
    [() => 1, 'a function'],
    [Symbol('x'), 'a symbol'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [new Date(Number.NaN), 'an invalid Date'],
    [[1, 2], 'an array of 2'],
    [{ secret: 1 }, 'an object'],
  ])('a value looks short and on one line: %#', (value, shown) => {
    expect(show(value)).toBe(shown)
  })

  test('a long text is cut', () => {
    const shown = show('x'.repeat(200))

    expect(shown).toHaveLength(79)
    expect(shown.endsWith('…"')).toBe(true)
  })
})

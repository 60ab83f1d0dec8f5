import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ERROR_BYTES_MAX,
  encodeError,
  encodePayload,
  encodeResult,
  JSON_DEPTH_MAX,
  RESULT_BYTES_MAX,
  safeText,
} from '../../src/core/json.js'
import { raised } from './raises.js'

const KIB = 1024

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { value }
  return value
}

function circle(): object {
  const value: { self?: object } = {}
  value.self = value
  return value
}

function isStorable(text: string): boolean {
  // A lone surrogate does not come back from UTF-8.
  return !text.includes('\u0000') && Buffer.from(text).toString() === text
}

describe('encodePayload', () => {
  test('a payload becomes its JSON, and nothing becomes null', () => {
    expect(encodePayload('send', { to: 'ann', at: new Date(0) }, KIB)).toBe(
      '{"to":"ann","at":"1970-01-01T00:00:00.000Z"}',
    )
    expect(encodePayload('send', undefined, KIB)).toBe('null')
  })

  test('a NUL or a lone surrogate travels escaped', () => {
    const text = encodePayload('send', '\u0000\ud800', KIB)

    expect(text).toBe('"\\u0000\\ud800"')
    expect(JSON.parse(text)).toBe('\u0000\ud800')
  })

  test('what has no JSON form is refused', () => {
    expect(() => encodePayload('send', () => 1, KIB)).toThrow(
      raised('invalid_payload', 'the payload of "send" must be a JSON value, got function'),
    )
    expect(() => encodePayload('send', Symbol('x'), KIB)).toThrow(raised('invalid_payload', 'got symbol'))
    expect(() => encodePayload('send', 5n, KIB)).toThrow(raised('invalid_payload', 'cannot be written as JSON'))
    expect(() => encodePayload('send', circle(), KIB)).toThrow(
      raised('invalid_payload', /JSON: Converting circular [^\n]*$/),
    )
  })

  test('what its own code throws while it is written is reported', () => {
    const throwing = (thrown: unknown) => ({
      toJSON() {
        throw thrown
      },
    })

    expect(() => encodePayload('send', throwing(new Error('no')), KIB)).toThrow(raised('invalid_payload', 'JSON: no'))
    expect(() => encodePayload('send', throwing('no'), KIB)).toThrow(raised('invalid_payload', 'JSON: no'))
    expect(() => encodePayload('send', throwing(null), KIB)).toThrow(raised('invalid_payload', 'JSON: null'))
  })

  test('the limit counts bytes, not characters', () => {
    const bytesMax = 32

    expect(encodePayload('send', 'x'.repeat(30), bytesMax)).toHaveLength(32)
    expect(encodePayload('send', 'é'.repeat(15), bytesMax)).toHaveLength(17)
    expect(() => encodePayload('send', 'é'.repeat(16), bytesMax)).toThrow(
      raised('payload_too_large', 'is 34 bytes, the limit is 32'),
    )
    expect(() => encodePayload('send', 'x'.repeat(31), bytesMax)).toThrow(
      expect.objectContaining({ details: { bytes: 33, bytesMax: 32 } }),
    )
  })

  test('a payload may be nested so deep and no deeper', () => {
    expect(() => encodePayload('send', nested(JSON_DEPTH_MAX), 64 * KIB)).not.toThrow()
    expect(() => encodePayload('send', nested(JSON_DEPTH_MAX + 1), 64 * KIB)).toThrow(
      raised('invalid_payload', 'nested deeper than 500 levels'),
    )
    expect(() => encodePayload('send', nested(100_000), 1024 * KIB)).toThrow(
      raised('invalid_payload', 'nested too deeply'),
    )
  })

  test('brackets inside strings nest nothing', () => {
    const value = { text: '[{"\\'.repeat(1_000) }

    expect(JSON.parse(encodePayload('send', value, 64 * KIB))).toEqual(value)
  })

  test('what is written can be read again', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        expect(JSON.parse(encodePayload('send', value, KIB * KIB))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })
})

describe('encodeResult', () => {
  test('a result becomes its JSON, and nothing stays nothing', () => {
    expect(encodeResult({ ok: true })).toBe('{"ok":true}')
    expect(encodeResult(null)).toBe('null')
    expect(encodeResult(undefined)).toBeNull()
  })

  test.each([
    [() => 1, /a function is not a JSON value/],
    [Symbol('x'), /a symbol is not a JSON value/],
    [5n, /BigInt/],
    [circle(), /circular/],
    [nested(JSON_DEPTH_MAX + 1), /^nested too deeply$/],
    [nested(100_000), /call stack/],
    ['x'.repeat(RESULT_BYTES_MAX), /^1048578 bytes, the limit is 1048576$/],
    [
      {
        toJSON() {
          throw 'no'
        },
      },
      /^no$/,
    ],
  ])('what cannot be kept leaves a marker that says why: %#', (value, why) => {
    const marker = JSON.parse(encodeResult(value)!)

    expect(marker).toEqual({ unserializable: true, why: expect.stringMatching(why) })
  })

  test('no value makes it raise', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withNullPrototype: true, withDate: true, withMap: true }),
        (value) => {
          const text = encodeResult(value)

          if (text !== null) expect(() => JSON.parse(text)).not.toThrow()
        },
      ),
    )
  })
})

describe('encodeError', () => {
  test('an error keeps name, message, code and stack', () => {
    const error = Object.assign(new TypeError('out of ink'), { code: 'E_INK' })

    const stored = encodeError(error)

    expect(stored).toEqual({ name: 'TypeError', message: 'out of ink', code: 'E_INK', stack: error.stack })
  })

  test('a code that is no text and a stack that is missing are left out', () => {
    const error = Object.assign(new Error('no'), { code: 404, stack: undefined })

    expect(encodeError(error)).toEqual({ name: 'Error', message: 'no' })
  })

  test.each([
    ['no', 'no'],
    [null, 'null'],
    [undefined, 'undefined'],
    [5n, '5'],
    [{ status: 503 }, '{"status":503}'],
    [Object.create(null), '{}'],
    [{ toJSON: () => undefined }, '[object Object]'],
    [circle(), 'what was thrown cannot be read'],
  ])('whatever else was thrown becomes a message: %#', (thrown, message) => {
    expect(encodeError(thrown)).toEqual({ name: 'Error', message })
  })

  test('an error that cannot be read is kept all the same', () => {
    const hostile = new Error('no')
    Object.defineProperty(hostile, 'name', {
      get() {
        throw new Error('ha')
      },
    })

    expect(encodeError(hostile)).toEqual({ name: 'Error', message: 'what was thrown cannot be read' })
  })

  test('a huge error is cut to what may be kept', () => {
    const huge = '✂'.repeat(100_000)
    const error = Object.assign(new Error(huge), { name: huge, code: huge, stack: huge })

    const stored = encodeError(error)

    expect(Buffer.byteLength(JSON.stringify(stored))).toBeLessThanOrEqual(ERROR_BYTES_MAX)
  })
})

describe('safeText', () => {
  test('NUL and lone surrogates are replaced', () => {
    expect(safeText('a\u0000b\ud800c\udc00d', 100)).toBe('a\ufffdb\ufffdc\ufffdd')
  })

  test('what is storable and short enough is left as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        const storable = Buffer.from(text).toString().replaceAll('\u0000', '')

        expect(safeText(storable, Buffer.byteLength(storable))).toBe(storable)
      }),
    )
  })

  test('the result is always storable and within the limit', () => {
    const units = fc.constantFrom('a', 'é', '✂', '🎈', '\ud83c', '\udf88', '\u0000')
    fc.assert(
      fc.property(fc.string({ unit: units, maxLength: 300 }), fc.integer({ min: 16, max: 400 }), (text, bytesMax) => {
        const safe = safeText(text, bytesMax)

        expect(isStorable(safe)).toBe(true)
        expect(Buffer.byteLength(safe)).toBeLessThanOrEqual(bytesMax)
        expect(safe.endsWith('… (cut)') || !safe.includes('(cut)')).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })

  test('a cut text ends with a mark', () => {
    const safe = safeText('x'.repeat(1_000), 100)

    expect(safe).toMatch(/^x+… \(cut\)$/)
    expect(safe.length).toBeGreaterThan(70)
  })
})

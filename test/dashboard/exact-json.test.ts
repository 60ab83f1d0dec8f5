import { describe, expect, test } from 'vitest'
import { ExactNumber, parseExact } from '../../dashboard/src/api/exact-json.js'

describe('numbers in JSON', () => {
  const canReadSource = (() => {
    let source: unknown
    JSON.parse('1', ((_key: string, _value: unknown, context?: { source?: string }) => {
      source = context?.source
    }) as () => void)
    return source !== undefined
  })()

  test('ordinary JSON is parsed as usual', () => {
    const text = '{"a":[1,-2.5e3,true,null,"0123456789012345678901"],"b":{"__proto__":1}}'

    expect(JSON.stringify(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)))
  })

  test.skipIf(!canReadSource)('digits beyond a number are kept (needs JSON.parse with source text)', () => {
    expect(parseExact('{"id":9007199254740993}')).toEqual({ id: new ExactNumber('9007199254740993') })
  })
})

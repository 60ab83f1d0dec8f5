import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ExactNumber, parseExact } from '../../dashboard/src/api/exact-json.js'
import * as readers from '../../dashboard/src/api/read.js'
import { clockNote, cronWords, zoneDistance } from '../../dashboard/src/views/schedules/words.js'

describe('answers of the server', () => {
  test.each(Object.entries(readers).filter(([name]) => name !== 'readQueue'))(
    '%s reads whatever comes',
    (_name, read) => {
      fc.assert(
        fc.property(fc.jsonValue(), (value) => {
          expect(() => read(value as never)).not.toThrow()
        }),
      )
    },
  )

  test('an estimate is told from a count in either spelling', () => {
    expect(readers.readCount({ count: 5, exact: false })).toEqual({ count: 5, exact: false })
    expect(readers.readCount({ count: 5, isExact: false })).toEqual({ count: 5, exact: false })
    expect(readers.readCount({ count: 5 })).toEqual({ count: 5, exact: true })
  })

  test('a bulk action tells how far it is', () => {
    const bulk = readers.readBulk({
      id: 'b',
      action: 'requeue',
      filter: 'state:dead',
      by: 'ada',
      expected: { count: 9 },
      matched: 4,
    })

    expect(bulk).toMatchObject({ filter: 'state:dead', actor: 'ada', expected: 9, matched: 4, perSecond: null })
  })
})

describe('numbers in JSON', () => {
  const canReadSource = (() => {
    let source: unknown
    JSON.parse('1', ((_key: string, _value: unknown, context?: { source?: string }) => {
      source = context?.source
    }) as () => void)
    return source !== undefined
  })()

  test('ordinary JSON is parsed as ever', () => {
    const text = '{"a":[1,-2.5e3,true,null,"0123456789012345678901"],"b":{"__proto__":1}}'

    expect(JSON.stringify(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)))
  })

  test.skipIf(!canReadSource)('digits beyond a number are kept (needs JSON.parse with source text)', () => {
    expect(parseExact('{"id":9007199254740993}')).toEqual({ id: new ExactNumber('9007199254740993') })
  })
})

describe('schedules in words', () => {
  test('an expression is put in words, and one that is none is left', () => {
    expect(cronWords('30 8 * * 1-5')).toBe('At 08:30, Monday through Friday')
    expect(cronWords('not cron')).toBeNull()
  })

  test('a change of the clocks in sight is told with its direction', () => {
    const march = Date.parse('2026-03-20T10:00:00Z')

    expect(clockNote('Europe/Berlin', march)).toMatch(/^Clocks in Europe\/Berlin go forward an hour on Sun 29 Mar:/)
    expect(clockNote('Europe/Berlin', Date.parse('2026-10-20T10:00:00Z'))).toMatch(/go back an hour on Sun 25 Oct:/)
    expect(clockNote('UTC', march)).toBeNull()
  })

  test('the distance of two zones is told both ways', () => {
    const atMs = Date.parse('2026-11-15T12:00:00Z')

    expect(zoneDistance('Asia/Kolkata', 'UTC', atMs)).toBe('5.5 h ahead of you')
    expect(zoneDistance('America/New_York', 'UTC', atMs)).toBe('5 h behind you')
    expect(zoneDistance('UTC', 'UTC', atMs)).toBeNull()
  })
})

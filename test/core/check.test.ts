import { describe, expect, test } from 'vitest'
import {
  checkBoolean,
  checkChoice,
  checkDate,
  checkId,
  checkKey,
  checkKeys,
  checkName,
  checkTags,
  checkText,
  checkWhole,
  isId,
  KEY_LENGTH_MAX,
  NAME_LENGTH_MAX,
  TAG_LENGTH_MAX,
  TAGS_MAX,
} from '../../src/core/check.js'
import { raised } from './raises.js'

const ID = '019bc186-de00-73c9-b3c9-ebfd2b30f05c'

describe('names', () => {
  test.each(['a', 'send_email', 'billing:eu/v2', 'x@host-1', '7', 'A'.repeat(NAME_LENGTH_MAX)])(
    '%s can be a name',
    (name) => {
      expect(checkName('queue', name)).toBe(name)
    },
  )

  test.each(['', '_a', '-a', 'a b', 'é', 'a\n', 'A'.repeat(NAME_LENGTH_MAX + 1), 7, null, undefined, ['a']])(
    '%j cannot be a name',
    (name) => {
      expect(() => checkName('queue', name)).toThrow(raised('invalid_name', 'queue must be 1 to 100 characters'))
    },
  )
})

describe('texts', () => {
  test.each(['welcome:42', 'ключ "a, b" \\', '🎈', ' ', 'k'.repeat(KEY_LENGTH_MAX)])('%s can be a key', (key) => {
    expect(checkKey(key)).toBe(key)
  })

  test.each(['', 'a\u0000', 'a\nb', '\u0085', '\ud800', 'a\udc00', 'k'.repeat(KEY_LENGTH_MAX + 1), 42, null])(
    '%j cannot be a key',
    (key) => {
      expect(() => checkKey(key)).toThrow(raised('invalid_option', 'idempotencyKey must be 1 to 200 characters'))
    },
  )

  test('a text is checked against the length it may have', () => {
    expect(checkText('by', 'ann', 3)).toBe('ann')
    expect(() => checkText('by', 'anna', 3)).toThrow(raised('invalid_option', 'by must be 1 to 3 characters'))
    expect(() => checkText('by', '', 3)).toThrow(raised('invalid_option'))
    expect(() => checkText('by', '\t', 3)).toThrow(raised('invalid_option'))
    expect(() => checkText('by', 3, 3)).toThrow(raised('invalid_option'))
  })

  test('tags come back without repeats', () => {
    expect(checkTags(['red', 'blue', 'red'])).toEqual(['red', 'blue'])
    expect(checkTags([])).toEqual([])
  })

  test('what is no list of tags is refused', () => {
    expect(() => checkTags('red')).toThrow(raised('invalid_option', 'tags must be an array of at most 16 strings'))
    expect(() => checkTags(Array(TAGS_MAX + 1).fill('a'))).toThrow(raised('invalid_option', 'an array of 17'))
    for (const tag of ['', 'a\u0000', '\udc00', 'x'.repeat(TAG_LENGTH_MAX + 1), 7, null]) {
      expect(() => checkTags(['fine', tag])).toThrow(raised('invalid_option', 'a tag must be 1 to 100 characters'))
    }
  })
})

describe('ids', () => {
  test('an id is a UUID in lower case with dashes', () => {
    expect(isId(ID)).toBe(true)
    expect(checkId('after', ID)).toBe(ID)
    for (const value of [ID.toUpperCase(), ID.replaceAll('-', ''), `${ID} `, `{${ID}}`, '', 5, null]) {
      expect(isId(value)).toBe(false)
      expect(() => checkId('after', value)).toThrow(raised('invalid_option', 'after must be a job id'))
    }
  })
})

describe('numbers, choices and flags', () => {
  test('a whole number lies within its bounds', () => {
    expect(checkWhole('limit', 1, 1, 5)).toBe(1)
    expect(checkWhole('limit', 5, 1, 5)).toBe(5)
    for (const value of [0, 6, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '3', 3n, null]) {
      expect(() => checkWhole('limit', value, 1, 5)).toThrow(
        raised('invalid_option', 'limit must be a whole number from 1 to 5'),
      )
    }
  })

  test('a choice is one of those there are', () => {
    expect(checkChoice('overlap', 'skip', ['allow', 'skip'])).toBe('skip')
    expect(() => checkChoice('overlap', 'queue', ['allow', 'skip'])).toThrow(
      raised('invalid_option', `overlap must be one of 'allow', 'skip', got "queue"`),
    )
  })

  test('a flag is true or false, and nothing that looks like it', () => {
    expect(checkBoolean('jitter', false)).toBe(false)
    for (const value of [0, 1, 'true', null, undefined]) {
      expect(() => checkBoolean('jitter', value)).toThrow(raised('invalid_option', 'jitter must be true or false'))
    }
  })
})

describe('dates', () => {
  test.each([
    ['2026-01-15T12:00:00Z', Date.UTC(2026, 0, 15, 12)],
    ['2026-01-15T12:00Z', Date.UTC(2026, 0, 15, 12)],
    ['2026-01-15T12:00:00.123456Z', Date.UTC(2026, 0, 15, 12, 0, 0, 123)],
    ['2026-01-15T12:00:00+02:00', Date.UTC(2026, 0, 15, 10)],
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
  ])('%s is read', (written, ms) => {
    expect(checkDate('runAt', written).getTime()).toBe(ms)
  })

  test('a Date is taken as it is', () => {
    const date = new Date(0)

    expect(checkDate('runAt', date)).toBe(date)
  })

  test.each([
    '2026-01-15',
    '2026-01-15T12:00:00',
    '2026-02-30T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-15T25:00:00Z',
    '2026-01-15T12:60:00Z',
    '15 January 2026',
    'now',
    '',
    1_768_478_400_000,
    null,
    undefined,
    new Date(Number.NaN),
    new Date(-1),
    new Date(Date.UTC(10_000, 0)),
  ])('%j is refused', (written) => {
    expect(() => checkDate('runAt', written)).toThrow(
      raised('invalid_option', 'runAt must be a Date or an ISO date with a time zone, in the years 1970 to 9999'),
    )
  })
})

describe('checkKeys', () => {
  test('known options pass, also when none is given', () => {
    expect(() => checkKeys('enqueue', { queue: 'a' }, ['queue', 'delay'])).not.toThrow()
    expect(() => checkKeys('enqueue', {}, ['queue'])).not.toThrow()
  })

  test('an unknown option is named, with those there are', () => {
    expect(() => checkKeys('enqueue', { que: 'a' }, ['queue', 'delay'])).toThrow(
      raised('invalid_option', 'enqueue has no option "que"; it knows queue, delay'),
    )
  })

  test.each([null, undefined, 'a', 5, ['queue']])('%j is no object of options', (options) => {
    expect(() => checkKeys('enqueue', options, ['queue'])).toThrow(
      raised('invalid_option', 'enqueue must be an object'),
    )
  })
})

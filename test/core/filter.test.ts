import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseFilter, readFilter } from '../../src/core/filter.js'
import { FILTER_FIELDS, FILTER_KEYS } from '../../src/core/filter-fields.js'
import { formatFilter } from '../../src/core/filter-format.js'
import type { JobFilter } from '../../src/core/job-filter.js'
import { DEAD_REASONS, JOB_STATES } from '../../src/core/states.js'
import { raised } from './raises.js'

const ID = '019ca945-0a09-7878-92ce-4430c91506ae'

describe('parseFilter', () => {
  test.each<[string, JobFilter]>([
    ['', {}],
    ['  \n\t ', {}],
    ['state:dead', { states: ['dead'] }],
    ['state:dead,retrying queue:mail_*', { states: ['dead', 'retrying'], queues: ['mail_*'] }],
    ['-state:dead -state:ready,running', { notStates: ['dead', 'ready', 'running'] }],
    ['type:send_*,sweep -type:a -queue:b', { types: ['send_*', 'sweep'], notTypes: ['a'], notQueues: ['b'] }],
    ['tag:eu,us tag:vip -tag:test', { tags: [['eu', 'us'], ['vip']], notTags: ['test'] }],
    ['tag:"two words","a,b"', { tags: [['two words', 'a,b']] }],
    ['tag:"say \\"hi\\" \\\\"', { tags: [['say "hi" \\']] }],
    ['reason:attempts,crashed', { reasons: ['attempts', 'crashed'] }],
    ['worker:mail-1:*', { workers: ['mail-1:*'] }],
    [`id:${ID}`, { ids: [ID] }],
    ['key:welcome:42', { keys: ['welcome:42'] }],
    ['schedule:nightly', { schedules: ['nightly'] }],
    ['fingerprint:00ab', { fingerprints: ['00ab'] }],
    ['error:"timed out",refused error:db', { errors: [['timed out', 'refused'], ['db']] }],
    ['payload.user.id:42', { payload: [{ path: ['user', 'id'], anyOf: [42] }] }],
    ['payload.a:1,-1.5e3,true,null,x', { payload: [{ path: ['a'], anyOf: [1, -1500, true, null, 'x'] }] }],
    ['payload.a:"1","*"', { payload: [{ path: ['a'], anyOf: ['1', '*'] }] }],
    ['payload.a:*', { payload: [{ path: ['a'], anyOf: null }] }],
    ['payload.a:""', { payload: [{ path: ['a'], anyOf: [''] }] }],
    ['payload.a:-0,1e999,007', { payload: [{ path: ['a'], anyOf: [0, '1e999', '007'] }] }],
    ['payload."a.b".0."c:d":x', { payload: [{ path: ['a.b', '0', 'c:d'], anyOf: ['x'] }] }],
    [
      'attempt:2,>3 attempt:<=9 priority:=-1',
      {
        attempt: [
          [
            { op: '=', value: 2 },
            { op: '>', value: 3 },
          ],
          [{ op: '<=', value: 9 }],
        ],
        priority: [[{ op: '=', value: -1 }]],
      },
    ],
    [
      'created:<1h created:>=2026-11-01 finished:<2026-11-01T10:00+02:00',
      {
        created: [
          { op: '<', ageMs: 3_600_000 },
          { op: '>=', atMs: Date.UTC(2026, 10, 1) },
        ],
        finished: [{ op: '<', atMs: Date.UTC(2026, 10, 1, 8) }],
      },
    ],
  ])('%s', (text, filter) => {
    expect(parseFilter(text)).toEqual(filter)
  })

  test.each<[string, number, RegExp]>([
    ['state:ded', 7, /expected a state \(blocked, .*cancelled\), got "ded"; did you mean "dead"\?/],
    ['queue:a stat:dead', 9, /expected a key .*got "stat"; did you mean "state"\?/],
    ['dead', 1, /expected key:value/],
    [ID, 1, new RegExp(`did you mean "id:${ID}"`)],
    ['id:0199', 4, /expected a job's whole id/],
    ['queue:', 7, /expected a value/],
    ['queue:a,,b', 9, /expected a value/],
    ['queue:a,', 9, /expected a value/],
    ['queue:a queue:b', 9, /expected queue only once, as queue:one,other for either/],
    ['queue:b%d', 7, /expected a name, in which \* stands for anything/],
    ['tag:"open', 5, /a quoted text that ends/],
    ['tag:"a\\n"', 5, /a quoted text that ends/],
    ['tag:"a"b', 8, /a blank or a comma after a value/],
    ['tag:"a\u0000b"', 5, /characters of text/],
    ['attempt:many', 9, /a whole number, with/],
    ['attempt:>', 9, /a whole number, with/],
    ['created:1h', 9, /expected <, <=, > or >= and an age/],
    ['created:<2026-02-30', 9, /an age such as 2h or a date/],
    ['created:<2026-11-01T10:00', 9, /an age such as 2h or a date/],
    ['created:<1y', 9, /an age such as 2h or a date/],
    ['created:<1h,>2h', 12, /one time for each term/],
    ['payload:1', 8, /a path, as in payload.user.id:42/],
    ['payload.:1', 9, /a key or an index/],
    ['payload.a.-1:1', 11, /a key or an index/],
    ['payload.a b:1', 10, /a colon after payload/],
    ['-payload.a:1', 1, /key:value/],
    ['reason:dead', 8, /the reason of a death \(attempts/],
    [`tag:${'x'.repeat(101)}`, 5, /1 to 100 characters of text/],
  ])('%s is refused where the mistake is', (text, position, message) => {
    expect(() => parseFilter(text)).toThrow(raised('invalid_filter', message))
    expect(() => parseFilter(text)).toThrow(expect.objectContaining({ details: expect.objectContaining({ position }) }))
  })

  test('what is too long is refused', () => {
    expect(() => parseFilter(`tag:${'x'.repeat(1_000)}`)).toThrow(raised('invalid_filter', 'at most 1000 characters'))
    expect(() => parseFilter('tag:a '.repeat(21))).toThrow(raised('invalid_filter', 'at most 20 terms'))
    expect(() => parseFilter(`tag:${'a,'.repeat(20)}a`)).toThrow(raised('invalid_filter', 'at most 20 values'))
    expect(() => parseFilter(`-tag:${'a,'.repeat(19)}a -tag:b`)).toThrow(raised('invalid_filter', 'at most 20 of'))
  })

  test('an error lists the keys there are', () => {
    expect(() => parseFilter('x:1')).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ keys: FILTER_KEYS, suggestion: null }) }),
    )
  })
})

const several = <T>(one: fc.Arbitrary<T>) => fc.array(one, { minLength: 1, maxLength: 3 })
const text = fc.string({ minLength: 1, maxLength: 20 }).filter((value) => !/[\p{Cc}\p{Cs}]/u.test(value))
const name = fc.stringMatching(/^[a-z0-9*][a-z0-9*_.:/@-]{0,10}$/)
const number = fc.record({
  op: fc.constantFrom('=', '<', '<=', '>', '>='),
  value: fc.integer({ min: -999_999_999, max: 999_999_999 }),
})
const time = fc.oneof(
  fc.record({ op: fc.constantFrom('<', '<=', '>', '>='), ageMs: fc.nat(10 ** 12) }),
  fc.record({ op: fc.constantFrom('<', '<=', '>', '>='), atMs: fc.nat(4 * 10 ** 12) }),
)
const scalar = fc.oneof(
  text,
  fc.constant(''),
  fc.constantFrom('1', 'true', 'null', '*', '-0', '1e5'),
  fc.boolean(),
  fc.constant(null),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
)
const path = several(text.filter((part) => !/^[+-]/.test(part)))
const fields: Record<string, fc.Arbitrary<unknown>> = {
  ...{ states: several(fc.constantFrom(...JOB_STATES)), notStates: several(fc.constantFrom(...JOB_STATES)) },
  ...{ queues: several(name), notQueues: several(name), types: several(name), notTypes: several(name) },
  ...{ tags: several(several(text)), notTags: several(text), reasons: several(fc.constantFrom(...DEAD_REASONS)) },
  ...{
    workers: several(text),
    ids: several(fc.constant(ID)),
    groups: several(text),
    keys: several(text),
    schedules: several(text),
  },
  fingerprints: several(fc.stringMatching(/^[0-9a-f]{1,14}$/)),
  errors: several(several(text)),
  payload: several(fc.record({ path, anyOf: fc.option(several(scalar)) })),
  ...{ attempt: several(several(number)), priority: several(several(number)) },
  ...{ created: several(time), finished: several(time) },
}
const filters = fc
  .subarray(Object.keys(fields), { maxLength: 3 })
  .chain((names) =>
    fc.record(Object.fromEntries(names.map((field) => [field, fields[field]!]))),
  ) as fc.Arbitrary<JobFilter>

describe('formatFilter', () => {
  test('every field can be written', () => {
    expect(Object.keys(fields).sort()).toEqual(FILTER_FIELDS.map(({ name: field }) => field).sort())
  })

  test('what it writes is read back as the same filter', () => {
    fc.assert(
      fc.property(filters, (filter) => {
        fc.pre(formatFilter(filter).length <= 1_000)
        expect(parseFilter(formatFilter(filter))).toEqual(filter)
      }),
      { numRuns: 500 },
    )
  })

  test('terms have a fixed order and quotes only where they are needed', () => {
    const text = 'created:<90m payload.n:"7" tag:"a b",c queue:"mail" state:"dead" created:>=2026-11-01T00:00:00Z'

    expect(formatFilter(parseFilter(text))).toBe(
      'state:dead queue:mail tag:"a b",c payload.n:"7" created:<90m created:>=2026-11-01',
    )
  })
})

describe('readFilter', () => {
  test('a structured filter is taken as it is', () => {
    fc.assert(
      fc.property(filters, (filter) => {
        expect(readFilter(filter)).toBe(filter)
      }),
    )
  })

  test.each<[unknown, RegExp]>([
    [null, /expected text or an object, got null/],
    [['state'], /expected text or an object/],
    [{ state: 'dead' }, /expected a field of a filter .*got "state"; did you mean "states"/],
    [{ states: 'dead' }, /expected states as an array of 1 to 20/],
    [{ states: [] }, /expected states as an array of 1 to 20/],
    [{ states: ['ded'] }, /expected a state in states .*got "ded"; did you mean "dead"/],
    [{ queues: ["'; --"] }, /expected a name/],
    [{ tags: ['eu'] }, /expected tags as an array/],
    [{ tags: [[1]] }, /got 1/],
    [{ payload: [{ path: [], anyOf: null }] }, /a path of keys and indices/],
    [{ payload: [{ path: ['-1'], anyOf: null }] }, /a path of keys and indices/],
    [{ payload: [{ path: ['a'], anyOf: [{}] }] }, /text, a number, true, false or null/],
    [{ payload: [{ path: ['a'], anyOf: ['\u0000'] }] }, /text, a number, true, false or null/],
    [{ payload: [7] }, /\{ path, anyOf \}/],
    [{ attempt: [[{ op: '!', value: 1 }]] }, /\{ op, value \}/],
    [{ attempt: [[{ op: '=', value: 1.5 }]] }, /\{ op, value \}/],
    [{ created: [{ op: '=', atMs: 1 }] }, /\{ op, atMs \} or \{ op, ageMs \}/],
    [{ created: [{ op: '<', atMs: 1, ageMs: 1 }] }, /\{ op, atMs \} or \{ op, ageMs \}/],
    [{ created: [{ op: '<', atMs: -1 }] }, /\{ op, atMs \} or \{ op, ageMs \}/],
    [{ errors: Array(21).fill(['x']) }, /array of 1 to 20/],
    [{ errors: Array(15).fill(['x']), tags: Array(15).fill(['x']) }, /at most 20 terms, got 30/],
  ])('%j is refused', (filter, message) => {
    expect(() => readFilter(filter)).toThrow(raised('invalid_filter', message))
  })

  test('a field that is undefined counts as absent', () => {
    expect(readFilter({ states: undefined, queues: ['a'] })).toEqual({ states: undefined, queues: ['a'] })
  })
})

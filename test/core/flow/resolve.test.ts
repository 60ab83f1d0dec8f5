// Flow control as users write it: what it means, and what is refused.

import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '../../../src/core/errors.js'
import {
  checkCost,
  checkGroup,
  checkLimitName,
  checkLimitNames,
  type GroupOptions,
  type QueueFlowOptions,
  type RateOption,
  resolveLimit,
  resolveOverride,
  resolveQueueFlow,
  resolveRate,
} from '../../../src/core/flow/resolve.js'
import { raised } from '../raises.js'

const raises = (code: ErrorCode, run: () => unknown) => expect(run).toThrow(raised(code) as Error)
const rate = (value: unknown) => resolveRate('rate', value as RateOption)
const queue = (value: unknown) => resolveQueueFlow(value as QueueFlowOptions)
const groups = (value: unknown) => resolveQueueFlow({ groups: value as GroupOptions })

describe('a rate', () => {
  test.each([
    ['100/s', { limit: 100, perMs: 1_000, burst: 100, counts: 'starts' }],
    ['1000/m', { limit: 1_000, perMs: 60_000, burst: 1_000, counts: 'starts' }],
    ['5/h', { limit: 5, perMs: 3_600_000, burst: 5, counts: 'starts' }],
    ['1/d', { limit: 1, perMs: 86_400_000, burst: 1, counts: 'starts' }],
    [
      { limit: 5, per: '10s' },
      { limit: 5, perMs: 10_000, burst: 5, counts: 'starts' },
    ],
    [
      { limit: 5, per: 250, burst: 50 },
      { limit: 5, perMs: 250, burst: 50, counts: 'starts' },
    ],
    [
      { limit: 5, per: '1s', counts: 'cost' },
      { limit: 5, perMs: 1_000, burst: 5, counts: 'cost' },
    ],
  ])('%j is read', (value, expected) => {
    expect(rate(value)).toEqual(expected)
  })

  test.each([
    '100',
    '100/y',
    '-1/s',
    '0/s',
    '1.5/s',
    '99999999999/s',
    ' 1/s',
    '1/s ',
    '',
    100,
    null,
    [],
    true,
    {},
    { limit: 5 },
    { per: '1s' },
    { limit: 0, per: '1s' },
    { limit: -1, per: '1s' },
    { limit: 1.5, per: '1s' },
    { limit: Number.NaN, per: '1s' },
    { limit: Number.POSITIVE_INFINITY, per: '1s' },
    { limit: 1e10, per: '1s' },
    { limit: 1, per: 0 },
    { limit: 1, per: '-1s' },
    { limit: 1, per: '400d' },
    { limit: 1, per: 'soon' },
    { limit: 1, per: '1s', burst: 0 },
    { limit: 1, per: '1s', burst: 1e10 },
    { limit: 1, per: '1s', bursts: 2 },
    { limit: 1, per: '1s', counts: 'bytes' },
  ])('%j is refused', (value) => {
    raises('invalid_option', () => rate(value))
  })
})

describe('a limit', () => {
  test('bounds nothing when it says nothing', () => {
    expect(resolveLimit('stripe', {})).toEqual({ concurrency: null, rate: null, adaptive: null, breaker: null })
  })

  test.each([0, -1, 1.5, 100_001, '5', null, Number.NaN])('with concurrency %j is refused', (concurrency) => {
    raises('invalid_option', () => resolveLimit('stripe', { concurrency: concurrency as number }))
  })

  test('with an option nobody knows is refused', () => {
    raises('invalid_option', () => resolveLimit('stripe', { concurency: 5 } as object))
    raises('invalid_option', () => resolveLimit('stripe', null as unknown as object))
  })

  test('names itself in what is wrong with it', () => {
    expect(() => resolveLimit('stripe', { concurrency: 0 })).toThrow(/limit "stripe": concurrency must be/)
  })

  test('may find its concurrency by itself', () => {
    const settings = resolveLimit('stripe', { concurrency: { min: 2, max: 50 } })

    expect(settings).toMatchObject({ concurrency: null, adaptive: { min: 2, max: 50 } })
    for (const concurrency of [
      { min: 0, max: 5 },
      { min: 5, max: 4 },
      { min: 1 },
      { max: 4 },
      { min: 1, max: 2, step: 1 },
      {},
    ]) {
      raises('invalid_option', () => resolveLimit('stripe', { concurrency: concurrency as never }))
    }
  })

  test('may have a breaker, with defaults', () => {
    expect(resolveLimit('stripe', { breaker: {} }).breaker).toEqual({
      ...{ failures: 0.5, of: 20, withinMs: 30_000, cooldownMs: 15_000, probes: 3 },
    })
  })

  test('says how long its breaker stays open at most, where it should not be ten minutes', () => {
    const { breaker } = resolveLimit('stripe', { breaker: { cooldown: '2s', cooldownMax: '4s' } })

    expect(breaker).toMatchObject({ cooldownMs: 2_000, cooldownMaxMs: 4_000 })
  })

  test.each([
    { failures: 0 },
    { failures: 1.1 },
    { failures: '0.5' },
    { failures: Number.NaN },
    { of: 0 },
    { within: '10ms' },
    { within: '2h' },
    { cooldown: 0 },
    { cooldown: '2h' },
    { cooldown: '10s', cooldownMax: '5s' },
    { cooldownMax: '2h' },
    { probes: 0 },
    { threshold: 5 },
    null,
    true,
  ])('with the breaker %j is refused', (breaker) => {
    raises('invalid_option', () => resolveLimit('stripe', { breaker: breaker as never }))
  })

  test('has a name like any other, but not that of a queue', () => {
    expect(checkLimitName('limit', 'type:charge')).toBe('type:charge')
    raises('invalid_name', () => checkLimitName('limit', 'queue:billing'))
    for (const name of ['', ' a', 'a b', 'x'.repeat(101), 5, null])
      raises('invalid_name', () => checkLimitName('limit', name))
  })
})

describe('flow control of a queue', () => {
  test('is absent when its options say nothing about it', () => {
    expect(queue({})).toBe(undefined)
    expect(queue({ retention: '7d' })).toBe(undefined)
  })

  test('is complete when one option says something', () => {
    expect(queue({ concurrency: 5 })).toEqual({
      concurrency: 5,
      rate: null,
      groups: {
        concurrency: null,
        rate: null,
        ordered: false,
        onRetry: 'wait',
        onDead: 'continue',
        maxDepth: null,
      },
      maxDepth: null,
      onFull: 'reject',
      agingMs: null,
    })
  })

  test('takes what each group may do', () => {
    expect(groups({ ordered: true, onRetry: 'pass', onDead: 'stop' })).toMatchObject({
      groups: { ordered: true, onRetry: 'pass', onDead: 'stop', concurrency: null },
    })
    expect(groups({ concurrency: 1, ordered: true })).toMatchObject({ groups: { concurrency: 1 } })
  })

  test('takes back-pressure and aging', () => {
    expect(queue({ maxDepth: 100, onFull: 'wait', aging: '1m' })).toMatchObject({
      ...{ maxDepth: 100, onFull: 'wait', agingMs: 60_000 },
    })
    for (const bad of [
      { maxDepth: 0 },
      { maxDepth: 1.5 },
      { maxDepth: 1e9 },
      { onFull: 'drop' },
      { aging: 0 },
      { aging: '1x' },
    ]) {
      raises('invalid_option', () => queue(bad))
    }
  })

  test('refuses ordered groups that run several', () => {
    expect(() => groups({ ordered: true, concurrency: 2 })).toThrow(/have no order/)
  })

  test.each([
    { ordered: 'yes' },
    { onRetry: 'wait' },
    { onDead: 'stop' },
    { ordered: true, onRetry: 'skip' },
    { ordered: true, onDead: 'wait' },
    { concurrency: 0 },
    { rate: '0/s' },
    { order: true },
    5,
    null,
    [],
  ])('refuses groups %j', (value) => {
    raises('invalid_option', () => groups(value))
  })
})

describe('settings of a group', () => {
  test('have a weight of 1 unless they say otherwise', () => {
    expect(resolveOverride({})).toEqual({ concurrency: null, rate: null, weight: 1 })
    expect(resolveOverride({ concurrency: 3, weight: 7, rate: '2/s' })).toMatchObject({ concurrency: 3, weight: 7 })
  })

  test.each([{ weight: 0 }, { weight: 1.5 }, { weight: 1_001 }, { weight: -1 }, { ordered: true }, 5])(
    '%j is refused',
    (value) => {
      raises('invalid_option', () => resolveOverride(value as object))
    },
  )
})

describe('what a job says', () => {
  test('a group is 1 to 200 characters of text', () => {
    expect(checkGroup('acme')).toBe('acme')
    expect(checkGroup('漢'.repeat(200))).toHaveLength(200)
    for (const group of ['', 'x'.repeat(201), 'a\u0000b', 'a\nb', '\ud800', 5, null, undefined]) {
      raises('invalid_option', () => checkGroup(group))
    }
  })

  test('limits are named once, in order', () => {
    expect(checkLimitNames(['stripe', 'ledger', 'stripe'])).toEqual(['ledger', 'stripe'])
    expect(checkLimitNames([])).toEqual([])
  })

  test('a job names at most four limits', () => {
    expect(checkLimitNames(['a', 'b', 'c', 'd', 'a'])).toHaveLength(4)
    raises('invalid_option', () => checkLimitNames(['a', 'b', 'c', 'd', 'e']))
  })

  test('limits are a list of names', () => {
    raises('invalid_option', () => checkLimitNames('stripe'))
    raises('invalid_name', () => checkLimitNames(['queue:billing']))
    raises('invalid_name', () => checkLimitNames([5]))
  })

  test('a cost is a whole number', () => {
    expect(checkCost(0)).toBe(0)
    expect(checkCost(1_000)).toBe(1_000)
    for (const cost of [-1, 1.5, 1e10, '5', Number.NaN]) raises('invalid_option', () => checkCost(cost))
  })
})

// How many jobs a group gets in one turn.

import { expect, test } from 'vitest'
import { turnLength } from '../../../src/core/flow/turn.js'

const FACTS = { amount: 10, groups: 1_000, concurrency: null, weight: 1 }

test('a turn is one job where there are more groups than jobs asked for', () => {
  expect(turnLength(FACTS)).toBe(1)
})

test('a turn is an even share of the claim, rounded up', () => {
  expect(turnLength({ ...FACTS, groups: 3 })).toBe(4)
  expect(turnLength({ ...FACTS, groups: 1 })).toBe(10)
})

test('a group that may run up to four gets them in one turn', () => {
  expect(turnLength({ ...FACTS, concurrency: 3 })).toBe(3)
  expect(turnLength({ ...FACTS, concurrency: 50 })).toBe(4)
})

test('the weight multiplies a turn', () => {
  expect(turnLength({ ...FACTS, weight: 3 })).toBe(3)
  expect(turnLength({ ...FACTS, groups: 3, weight: 3 })).toBe(12)
})

test('a turn is never empty', () => {
  expect(turnLength({ ...FACTS, amount: 0, groups: 0 })).toBe(1)
})

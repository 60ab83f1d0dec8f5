// Holdfast over other contenders, round by round.

import { expect, test } from 'vitest'
import { ratiosOf } from '../../lab/bench/ratios.js'
import type { Result } from '../../lab/bench/run.js'

function result(contender: string, round: number, jobs: number, p50?: number): Result {
  return {
    ...{ contender, round, jobs, measure: 'both', seconds: 1, nodeCpuUs: 0, serverCpuUs: 0 },
    ...{ walBytes: null, commits: null, deadTuples: null },
    ...(p50 === undefined ? {} : { p50, p99: 2 * p50 }),
  }
}

test('each round is compared with itself, and the least ratio is shown', () => {
  const results = [
    ...[result('holdfast', 1, 80), result('bare-sql', 1, 100)],
    ...[result('holdfast', 2, 120), result('bare-sql', 2, 100)],
    ...[result('holdfast', 3, 180), result('bare-sql', 3, 200)],
  ]

  expect(ratiosOf(results)).toEqual([
    {
      measure: 'both',
      figure: 'jobs/s',
      of: 'holdfast',
      contender: 'bare-sql',
      rounds: 3,
      least: 0.8,
      middle: 0.9,
      most: 1.2,
    },
  ])
})

test('times are compared where both were timed', () => {
  const ratios = ratiosOf([result('holdfast', 1, 10, 3), result('bullmq-redis', 1, 10, 2), result('bare-sql', 1, 10)])

  expect(ratios.map(({ figure, contender, least }) => [figure, contender, least])).toEqual([
    ['jobs/s', 'bullmq-redis', 1],
    ['p50 ms', 'bullmq-redis', 1.5],
    ['p99 ms', 'bullmq-redis', 1.5],
    ['jobs/s', 'bare-sql', 1],
  ])
})

test('Holdfast on Redis is compared with what runs on Redis', () => {
  const ratios = ratiosOf([result('holdfast-redis', 1, 30), result('bullmq-redis', 1, 10), result('bare-sql', 1, 10)])

  expect(ratios.map(({ of, contender, middle }) => [of, contender, middle])).toEqual([
    ['holdfast-redis', 'bullmq-redis', 3],
  ])
})

test('a round in which one of the two failed is left out', () => {
  expect(ratiosOf([result('holdfast', 1, 10), result('bare-sql', 2, 10)])).toEqual([])
})

// Two builds in turns: medians of each, and their ratio.

import { describe, expect, test } from 'vitest'
import { summariseTurns, type Turn } from '../../lab/turns/summary.js'

const spread = (p50: number, p99: number) => ({ count: 10, p50, p99, max: p99 })

function turn(build: Turn['build'], round: number, serverUs: number | null, load = '2 × 64, 100/s'): Turn {
  const report = {
    seconds: 10,
    accepted: 1_000,
    done: 1_000,
    serverUs,
    workersUs: 20_000,
    producersUs: 10_000,
    claims: spread(2, 8),
    enqueues: spread(4, 16),
    claimSplit: null,
    enqueueSplit: null,
    readyAtStart: 0,
    readyAtEnd: 0,
  }
  return { load, rate: 100, build, round, report }
}

describe('two builds in turns', () => {
  test('each load has the medians of both builds and this build over the other', () => {
    const { rows } = summariseTurns([
      turn('other', 1, 170_000),
      turn('this', 1, 70_000),
      turn('this', 2, 60_000),
      turn('other', 2, 900_000),
      turn('other', 3, 150_000),
      turn('this', 3, 900_000),
    ])

    expect(rows.map(({ build, windows, cpuUsPerJob }) => [build, windows, cpuUsPerJob])).toEqual([
      ['other', 3, 200],
      ['this', 3, 100],
      ['this / other', null, 0.5],
    ])
    expect(rows[2]).toMatchObject({ donePerSecond: 1, workersUsPerJob: 1, claimP99Ms: 1 })
  })

  test('loads are kept apart', () => {
    const { rows } = summariseTurns([turn('other', 1, 1, 'one'), turn('this', 1, 1, 'two')])

    expect(rows.map(({ load, build, windows }) => [load, build, windows])).toEqual([
      ['one', 'other', 1],
      ['one', 'this', 0],
      ['one', 'this / other', null],
      ['two', 'other', 0],
      ['two', 'this', 1],
      ['two', 'this / other', null],
    ])
  })

  test('a figure that was not measured has no ratio', () => {
    const { rows } = summariseTurns([turn('other', 1, null), turn('this', 1, 70_000)])

    expect(rows[2]).toMatchObject({ cpuUsPerJob: null, claimOwnP99Ms: null })
  })
})

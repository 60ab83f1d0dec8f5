// Tables for people, and the medians in them.

import { describe, expect, test } from 'vitest'
import type { Result } from '../../lab/bench/run.js'
import { summariseAll } from '../../lab/bench/summary.js'
import { formatTable } from '../../lab/bench/table.js'

test('text is on the left, numbers on the right, a dash stands for no value', () => {
  const rows = [
    { name: 'a', speed: 12_345.6, share: 0.257 },
    { name: 'long one', speed: null, share: 1 },
  ]

  const lines = formatTable({
    columns: [
      { title: 'name', read: (row) => row.name },
      { title: 'jobs/s', read: (row) => row.speed },
      { title: 'share', read: (row) => row.share, digits: 2 },
    ],
    rows,
  })

  expect(lines).toEqual(['name      jobs/s  share', 'a         12,346   0.26', 'long one       –      1'])
})

describe('summaries', () => {
  const order = { measures: ['drain', 'keys'], contenders: ['ours', 'theirs'] }
  const result = (contender: string, round: number, jobs: number): Result => ({
    measure: 'drain',
    contender,
    round,
    jobs,
    seconds: 2,
    nodeCpuUs: jobs * 10,
    serverCpuUs: jobs * 30,
    walBytes: contender === 'ours' ? jobs * 1_000 : null,
    commits: null,
    deadTuples: null,
  })

  test('are medians over the rounds, for each job where requested', () => {
    const [ours] = summariseAll([result('ours', 1, 300), result('ours', 2, 100), result('ours', 3, 200)], [], order)

    expect(ours).toMatchObject({
      rounds: 3,
      jobs: 200,
      jobsPerSecond: 100,
      serverCpuUsPerJob: 30,
      nodeCpuUsPerJob: 10,
      walBytesPerJob: 1_000,
      commitsPerJob: null,
      p50Ms: null,
    })
  })

  test('come in the order of the measures and contenders, and those that are absent have no figures', () => {
    const absences = [{ measure: 'keys', contender: 'theirs', why: 'it has none' }]

    const summaries = summariseAll([result('theirs', 1, 10), result('ours', 1, 10)], absences, order)

    expect(summaries.map(({ measure, contender, rounds }) => [measure, contender, rounds])).toEqual([
      ['drain', 'ours', 1],
      ['drain', 'theirs', 1],
      ['keys', 'theirs', 0],
    ])
    expect(summaries[2]!.jobsPerSecond).toBeNull()
  })
})

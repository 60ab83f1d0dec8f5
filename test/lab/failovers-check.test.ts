// The checker of the experiment with failovers: each thing that must not happen is found when it does.

import { describe, expect, test } from 'vitest'
import { checkRound, type RoundFacts } from '../../lab/failovers/check.js'
import { parseLines } from '../../lab/failovers/lines.js'

const RIGHT = [
  'accepted a plain 1000',
  'accepted b failing 1001',
  'began a 1 - 1002',
  'ended a 1 succeeded 1003',
  'began b 1 - 1004',
  'ended b 1 failed 1005',
  'began b 2 - 1006',
  'ended b 2 succeeded 1007',
  'began c 1 each@5000 1008',
  'ended c 1 succeeded 1009',
]

function check(lines: readonly string[], changes: Partial<RoundFacts> = {}) {
  const ended = new Map([...'abc'].map((id) => [id, 'finished'] as const))
  return checkRound({
    ...parseLines(lines.join('\n')),
    ...{ acceptedByKilled: [], whereabouts: ended, named: null },
    ...changes,
  })
}

describe('the check of a failover', () => {
  test('finds nothing where everything ended once, also a job that failed once as planned', () => {
    expect(check(RIGHT)).toEqual({
      ...{ lost: [], twice: [], ticksTwice: [], dead: [], missing: [], outside: [], isNumberEnough: true },
    })
  })

  test.each(['missing', 'waiting'] as const)('finds an accepted job that is %s', (where) => {
    const whereabouts = new Map([
      ['a', where],
      ['b', 'finished'],
    ] as const)

    expect(check(RIGHT, { whereabouts }).lost).toEqual(['a'])
  })

  test('finds a job that ran twice in one attempt', () => {
    expect(check([...RIGHT, 'began a 1 - 1010']).twice).toEqual(['a'])
  })

  test('finds a job that ran again after it had succeeded', () => {
    expect(check([...RIGHT, 'began a 2 - 1010']).twice).toEqual(['a'])
  })

  test('finds a tick that became two jobs', () => {
    expect(check([...RIGHT, 'began d 1 each@5000 1010']).ticksTwice).toEqual(['each@5000'])
  })

  test('finds a job that died', () => {
    expect(check(RIGHT, { whereabouts: new Map([['a', 'dead']]) }).dead).toEqual(['a'])
  })

  test('a job of a killed producer that is not there is missing, and it must be in the named window', () => {
    const acceptedByKilled = [
      { id: 'x', kind: 'plain', atMs: 2_000 },
      { id: 'y', kind: 'plain', atMs: 3_000 },
    ]
    const named = { fromMs: 1_500, untilMs: 2_500, jobsMax: 1 }

    expect(check(RIGHT, { acceptedByKilled, named })).toMatchObject({
      ...{ missing: ['x', 'y'], outside: ['y'], isNumberEnough: false },
    })
    expect(check(RIGHT, { acceptedByKilled, named: null }).outside).toEqual(['x', 'y'])
    expect(check([...RIGHT, 'began x 1 - 1', 'ended x 1 succeeded 2'], { acceptedByKilled, named }).missing).toEqual([
      'y',
    ])
  })
})

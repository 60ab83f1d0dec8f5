import { describe, expect, test } from 'vitest'
import { DEAD_REASONS, isFinished, isMove, isWaiting, JOB_STATES } from '../../src/core/states.js'

describe('states', () => {
  test('the moves between states are these and no others', () => {
    const moves = JOB_STATES.map((from) => [from, JOB_STATES.filter((to) => isMove(from, to))])

    expect(Object.fromEntries(moves)).toEqual({
      blocked: ['scheduled', 'ready', 'cancelled'],
      scheduled: ['ready', 'cancelled'],
      ready: ['scheduled', 'running', 'cancelled'],
      running: ['scheduled', 'ready', 'retrying', 'succeeded', 'dead', 'cancelled'],
      retrying: ['ready', 'cancelled'],
      succeeded: [],
      dead: ['ready', 'cancelled'],
      cancelled: [],
    })
  })

  test('a state is waiting, running or finished, and only one of them', () => {
    expect(JOB_STATES.filter(isFinished)).toEqual(['succeeded', 'dead', 'cancelled'])
    expect(JOB_STATES.filter(isWaiting)).toEqual(['blocked', 'scheduled', 'ready', 'retrying'])
    expect(JOB_STATES.filter((state) => !isFinished(state) && !isWaiting(state))).toEqual(['running'])
  })

  test('the reasons of the dead are these', () => {
    expect(DEAD_REASONS).toEqual(['attempts', 'dropped', 'expired', 'crashed', 'invalid'])
  })
})

import { describe, expect, test } from 'vitest'
import {
  ACTIONS_BY_STATE,
  allows,
  DEAD_REASONS,
  isFinished,
  isMove,
  isWaiting,
  JOB_ACTIONS,
  JOB_STATES,
} from '../../src/core/states.js'

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

  test('an action fits these states and no others', () => {
    const fits = JOB_ACTIONS.map((action) => [action, JOB_STATES.filter((state) => allows(state, action))])

    expect(Object.fromEntries(fits)).toEqual({
      cancel: ['blocked', 'scheduled', 'ready', 'running', 'retrying'],
      requeue: ['dead'],
      discard: ['dead'],
      update: ['blocked', 'scheduled', 'ready', 'retrying'],
      run: ['scheduled', 'retrying'],
    })
  })

  test('whatever an action moves a job to is a move that exists', () => {
    for (const state of JOB_STATES) {
      const actions = ACTIONS_BY_STATE[state]
      expect(actions.includes('cancel') || actions.includes('discard')).toBe(isMove(state, 'cancelled'))
      if (actions.includes('requeue') || actions.includes('run')) expect(isMove(state, 'ready')).toBe(true)
    }
  })

  test('the reasons of the dead are these', () => {
    expect(DEAD_REASONS).toEqual(['attempts', 'dropped', 'expired', 'crashed', 'invalid'])
  })
})

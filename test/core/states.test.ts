import { describe, expect, test } from 'vitest'
import { allows, DEAD_REASONS, isFinished, JOB_ACTIONS, JOB_STATES } from '../../src/core/states.js'

describe('states', () => {
  test('a job is finished in these states and no others', () => {
    expect(JOB_STATES.filter(isFinished)).toEqual(['succeeded', 'dead', 'cancelled'])
  })

  test('an action fits these states and no others', () => {
    const fits = JOB_ACTIONS.map((action) => [action, JOB_STATES.filter((state) => allows(state, action))])

    expect(Object.fromEntries(fits)).toEqual({
      cancel: ['blocked', 'scheduled', 'ready', 'running', 'retrying'],
      requeue: ['dead'],
      discard: ['dead'],
      update: ['blocked', 'scheduled', 'ready', 'retrying'],
      run: ['scheduled', 'retrying'],
      delete: ['blocked', 'scheduled', 'ready', 'retrying', 'succeeded', 'dead', 'cancelled'],
    })
  })

  test('the reasons of the dead are these', () => {
    expect(DEAD_REASONS).toEqual(['attempts', 'dropped', 'expired', 'crashed', 'invalid'])
  })
})

// The letters of a job's state in its standing.

import { HoldfastError, show } from '../../core/errors.js'
import type { JobState } from '../../core/states.js'

const STATES: Readonly<Record<string, JobState>> = {
  B: 'blocked',
  S: 'scheduled',
  Q: 'ready',
  R: 'running',
  T: 'retrying',
  F: 'succeeded',
  D: 'dead',
  C: 'cancelled',
}

const LETTERS = new Map(Object.entries(STATES).map(([letter, state]) => [state, letter]))

export function stateOfLetter(letter: string): JobState {
  const state = STATES[letter]
  if (state !== undefined) return state
  throw new HoldfastError(
    'store_refused',
    `a job in Redis has the state ${show(letter)}, which this version does not know: something else has written to its keys`,
  )
}

export function letterOfState(state: JobState): string {
  return LETTERS.get(state)!
}

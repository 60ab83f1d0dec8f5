// The states of a job and the moves between them that exist. Everything that changes a state is one of these moves.

/** Where a job stands. */
export const JOB_STATES = [
  'blocked',
  'scheduled',
  'ready',
  'running',
  'retrying',
  'succeeded',
  'dead',
  'cancelled',
] as const

export type JobState = (typeof JOB_STATES)[number]

/** Why a job is dead. */
export const DEAD_REASONS = ['attempts', 'dropped', 'expired', 'crashed', 'invalid'] as const

export type DeadReason = (typeof DEAD_REASONS)[number]

const MOVES: Readonly<Record<JobState, readonly JobState[]>> = {
  blocked: ['ready', 'scheduled', 'cancelled'],
  scheduled: ['ready', 'cancelled'],
  ready: ['running', 'scheduled', 'cancelled'],
  // A snoozed job goes from running to scheduled: its attempt is given back and its time set anew.
  running: ['succeeded', 'retrying', 'scheduled', 'dead', 'ready', 'cancelled'],
  retrying: ['ready', 'cancelled'],
  succeeded: [],
  dead: ['ready', 'cancelled'],
  cancelled: [],
}

/** True when a job may go from one state to the other in one step. */
export function isMove(from: JobState, to: JobState): boolean {
  return MOVES[from].includes(to)
}

/** True for a state no worker will ever move the job out of. */
export function isFinished(state: JobState): state is 'succeeded' | 'dead' | 'cancelled' {
  return state === 'succeeded' || state === 'dead' || state === 'cancelled'
}

/** True for a state in which a job has not been claimed and may still be changed by `update`. */
export function isWaiting(state: JobState): state is 'blocked' | 'scheduled' | 'ready' | 'retrying' {
  return state === 'blocked' || state === 'scheduled' || state === 'ready' || state === 'retrying'
}

// The states of a job, and the actions each state allows.

/** The states of a job, in the order of its life. */
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

/** True for a state no worker will ever move the job out of. */
export function isFinished(state: JobState): state is 'succeeded' | 'dead' | 'cancelled' {
  return state === 'succeeded' || state === 'dead' || state === 'cancelled'
}

/** What an operator can do to one job. `run` ends its wait for a time: it is `update` with `runAt: null`. */
export const JOB_ACTIONS = ['cancel', 'requeue', 'discard', 'update', 'run', 'delete'] as const

export type JobAction = (typeof JOB_ACTIONS)[number]

/** Which actions a job's state allows. Stores refuse the others; what people see offers only these. */
const ACTIONS_BY_STATE: Readonly<Record<JobState, readonly JobAction[]>> = {
  blocked: ['cancel', 'update', 'delete'],
  scheduled: ['cancel', 'update', 'run', 'delete'],
  ready: ['cancel', 'update', 'delete'],
  // Its worker is asked to stop it.
  running: ['cancel'],
  retrying: ['cancel', 'update', 'run', 'delete'],
  succeeded: ['delete'],
  dead: ['requeue', 'discard', 'delete'],
  cancelled: ['delete'],
}

/** True when a job in this state allows the action. */
export function allows(state: JobState, action: JobAction): boolean {
  return ACTIONS_BY_STATE[state].includes(action)
}

// What an operator can do to a job in each state. The server decides; this only keeps what cannot work from being offered.

import type { BulkAction, JobState } from './api/types.js'

const ALLOWED: Readonly<Record<BulkAction, readonly JobState[]>> = {
  cancel: ['blocked', 'scheduled', 'ready', 'running', 'retrying'],
  requeue: ['dead'],
  discard: ['dead'],
}

/** True when the action can change a job in that state. */
export function canDo(action: BulkAction, state: JobState): boolean {
  return ALLOWED[action].includes(state)
}

/** True for states in which priority, time and payload may still be changed. */
export function canUpdate(state: JobState): boolean {
  return state === 'blocked' || state === 'scheduled' || state === 'ready' || state === 'retrying'
}

/** True when there is a time to wait for that can be cut short. */
export function canRunNow(state: JobState): boolean {
  return state === 'scheduled' || state === 'retrying'
}

/** The words for what was done: "12 jobs are requeued". */
export const DONE_WORDS: Readonly<Record<BulkAction, string>> = {
  cancel: 'cancelled',
  requeue: 'requeued',
  discard: 'discarded',
}

export const ACTION_WORDS: Readonly<Record<BulkAction, string>> = {
  cancel: 'Cancel',
  requeue: 'Requeue',
  discard: 'Discard',
}

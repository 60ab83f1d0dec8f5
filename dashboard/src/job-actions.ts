// The words for what an operator does to jobs. Which action a state allows is in core/states.

import type { BulkAction } from './api/types.js'

/** On buttons: "Requeue 12 jobs". */
export const ACTION_WORDS: Readonly<Record<BulkAction, string>> = {
  cancel: 'Cancel',
  requeue: 'Requeue',
  discard: 'Discard',
  delete: 'Delete',
}

/** For what was done: "12 jobs requeued". */
export const DONE_WORDS: Readonly<Record<BulkAction, string>> = {
  cancel: 'cancelled',
  requeue: 'requeued',
  discard: 'discarded',
  delete: 'deleted',
}

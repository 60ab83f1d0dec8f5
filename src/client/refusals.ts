// What the store refused on one job, said as an error.

import { HoldfastError } from '../core/errors.js'
import type { Missing, Refused } from '../core/operator-store.js'
import { isFinished, type JobState } from '../core/states.js'

/** What was asked, and which jobs it is for. */
export interface Asked {
  /** As in "cannot be …". */
  readonly verb: string
  /** Completes "only …", what to do instead included. */
  readonly only: string
}

/** `wrong_state`, `job_not_found` or `key_conflict`. */
export function refusal(result: Refused | Missing, { verb, only }: Asked): HoldfastError {
  const { id } = result
  if (result.result === 'missing') {
    return new HoldfastError('job_not_found', `there is no job ${id}: it never existed, or was pruned`, {
      details: { id },
    })
  }
  const { state, heldBy } = result
  if (heldBy === null) {
    return new HoldfastError(
      'key_conflict',
      `job ${id} cannot be ${verb} at this moment: a transaction that has not ended holds its idempotency key; end it, and try again`,
      { retryable: true, details: { id, state, heldBy } },
    )
  }
  if (heldBy !== undefined) {
    return new HoldfastError(
      'key_conflict',
      `job ${id} cannot be ${verb}: job ${heldBy} has taken its idempotency key since; wait for that one or cancel it`,
      { details: { id, state, heldBy } },
    )
  }
  return new HoldfastError('wrong_state', `job ${id} cannot be ${verb}: it is ${already(state)}; only ${only}`, {
    details: { id, state },
  })
}

function already(state: JobState): string {
  return isFinished(state) ? `${state} already` : state
}

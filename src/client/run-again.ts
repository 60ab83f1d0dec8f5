// A finished job once more: a new job with what the old one was given.

import { checkId } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { OperatorStore } from '../core/operator-store.js'
import { isFinished } from '../core/states.js'
import { type ByOption, resolveBy } from './job-actions.js'
import type { EnqueueResult } from './job-handle.js'

interface RunAgainDeps {
  readonly store: JobStore & OperatorStore
  nextId(): string
  enqueue(job: NewJob): Promise<EnqueueResult>
}

/** Enqueues a job like a finished one. Raises `job_not_found`, and `wrong_state` for a job that has not finished. */
export async function runAgain(
  { store, nextId, enqueue }: RunAgainDeps,
  id: string,
  options?: ByOption,
): Promise<EnqueueResult> {
  const by = resolveBy('runAgain', options)
  const job = await store.get(checkId('id', id))
  if (job === null) {
    throw new HoldfastError('job_not_found', `there is no job ${id}: it never existed, or was pruned`, {
      details: { id },
    })
  }
  if (!isFinished(job.state)) {
    throw new HoldfastError(
      'wrong_state',
      `job ${id} cannot be run again: it is ${job.state}, and only a finished job can be; requeue() revives a dead one in its place`,
      { details: { id, state: job.state } },
    )
  }
  const { queue, type, version, priority, maxAttempts, tags, flow } = job
  const made: NewJob = {
    ...{ id: nextId(), queue, type, version, priority, tags, limits: { maxAttempts } },
    ...{
      payload: JSON.stringify(job.payload),
      when: null,
      idempotencyKey: null,
      after: [],
      onParentDead: 'cancel',
      trace: null,
    },
    ...(flow === undefined ? {} : { flow }),
  }
  const result = await enqueue(made)
  await store.record({ actor: by, action: 'run again', job: id, target: result.id, details: null })
  return result
}

// Claims for the tests of failovers.

import type { ClaimedJob, NewJob } from '../../src/core/job.js'

/** The job as it is claimed under a fence. */
export function claimed(job: NewJob, fence: number): ClaimedJob {
  const { id, queue, type, payload, version, priority } = job
  return {
    ...{ id, queue, type, payload, version, priority, fence },
    ...{ attempt: 1, crashes: 0, createdAtMs: 0, limits: {}, queueLimits: {} },
    ...{ idempotencyKey: null, tags: [], trace: null },
  }
}

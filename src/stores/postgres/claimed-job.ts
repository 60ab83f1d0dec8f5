// The columns of a claimed job, as both claims return them. ◄── claim.ts, claim-flow.ts

import type { ClaimedJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import { readOptions, readQueueLimits, readTags } from './options-column.js'
import type { Row } from './statement.js'

/** Reads the columns of a claimed job. `limits` are those of its queue, if they are known already. */
export function readClaimedJob(row: Row, limits?: JobLimits): ClaimedJob {
  const [id, fence, queue, type, priority, attempt, crashes, payload, version, created, kept, tags, settings] = row
  const options = readOptions(kept!)
  return {
    id: id!,
    fence: Number(fence),
    queue: queue!,
    type: type!,
    priority: Number(priority),
    attempt: Number(attempt),
    crashes: Number(crashes),
    payload: payload!,
    version: Number(version),
    createdAtMs: Number(created),
    limits: options.limits ?? {},
    queueLimits: limits ?? readQueueLimits(settings!),
    idempotencyKey: options.key ?? null,
    ...(options.flow === undefined ? {} : { flow: options.flow }),
    tags: readTags(tags!),
    trace: options.trace ?? null,
  }
}

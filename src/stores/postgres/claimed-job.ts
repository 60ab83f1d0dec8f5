// The columns of a claimed job, as both claims return them. ◄── claim.ts, claim-flow.ts

import type { JobFlow } from '../../core/flow/job-flow.js'
import type { ClaimedJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import { originOf } from '../../core/origin.js'
import { readOptions, readQueueLimits, readTags } from './options-column.js'
import type { Row } from './statement.js'

/** Reads the columns of a claimed job. `limits` are those of its queue, if they are known already; `usualFlow` is that of a plain job. */
export function readClaimedJob(row: Row, limits?: JobLimits, usualFlow?: JobFlow): ClaimedJob {
  const [id, fence, queue, type, priority, attempt, crashes, payload, version, created, kept, tags, settings] = row
  const options = readOptions(kept!)
  const flow = options.flow ?? usualFlow
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
    ...(flow === undefined ? {} : { flow }),
    tags: readTags(tags!),
    trace: options.trace ?? null,
    ...originOf(options),
  }
}

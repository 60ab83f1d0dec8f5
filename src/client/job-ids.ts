// The ids of new jobs. Where the store keeps queues apart an id says the part of its job. ◄── prepare.ts

import type { JobFlow } from '../core/flow/job-flow.js'
import type { QueueParts } from '../core/queue-parts.js'
import { childId } from './child-id.js'
import type { EnqueueOptions, JobTerms } from './enqueue-options.js'

export type NextId = (
  terms: Pick<JobTerms, 'queue' | 'idempotencyKey'>,
  flow: JobFlow | undefined,
  options: Pick<EnqueueOptions, 'child' | 'enqueuedBy'> | undefined,
) => string

export function jobIds(makeId: () => string, parts: QueueParts | undefined): NextId {
  return ({ queue, idempotencyKey }, flow, options) => {
    // Made again from its parent and its name, and then in the same part.
    const child = options?.child === undefined ? null : childId(options.enqueuedBy!, options.child)
    if (parts === undefined) return child ?? makeId()
    const isFree = child === null && idempotencyKey === null && (flow?.group ?? null) === null
    return parts.mark(child ?? makeId(), queue, isFree)
  }
}

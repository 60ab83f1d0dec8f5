// What the functions that enqueue answer, as callers get it. ◄── enqueue.ts, enqueue-plain.ts

import type { FlowRefusal } from '../../core/flow/views.js'
import type { ClaimedJob, Enqueued, NewJob } from '../../core/job.js'
import { originOf } from '../../core/origin.js'
import { tooManyQueues } from '../../core/queue-limit.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import { longId } from './ids.js'
import { queueLimits } from './queues.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

export interface Enqueueing {
  readonly redis: Redis
  readonly queuesMax: number
}

/** Names the queues of a call that would have made too many. */
export function refused({ redis, queuesMax }: Enqueueing, jobs: readonly NewJob[]): (error: unknown) => never {
  return (error) => {
    if (redis.refusal(error) !== 'HFQUEUES') throw error
    throw tooManyQueues([...new Set(jobs.map(({ queue }) => queue))], queuesMax)
  }
}

interface Answer {
  readonly kind: string
  readonly id: string
  readonly detail: string
}

/** What the caller gets for one job. */
export function answerOf(
  job: NewJob,
  { kind, id, detail }: Answer,
  { claim, settings, nowMs }: { claim: ClaimOnEnqueue | undefined; settings: string; nowMs: number },
): Enqueued {
  if (kind === 'refused') return { id, refused: readRefusal(job, detail) }
  if (kind === 'orphan') return { id, unknownParent: longId(detail) }
  if (kind === 'claimed' && claim !== undefined) {
    return { id, created: true, state: 'running', claimed: claimedJob(job, Number(detail), settings, nowMs) }
  }
  const state = stateOfLetter(detail)
  if (kind === 'replaced') return { id, created: false, replaced: true, state }
  return { id, created: kind === 'created', state }
}

/** Why flow control refuses a job: held.ts has the words. */
function readRefusal({ queue, flow }: NewJob, detail: string): FlowRefusal {
  const [code, first, onFull] = detail.split(' ') as [FlowRefusal['code'], string, 'reject' | 'wait']
  switch (code) {
    case 'limit_unknown':
      return { code, limit: first }
    case 'too_many_tracks':
      return { code, max: Number(first) }
    case 'queue_full':
      return { code, queue, maxDepth: Number(first), onFull }
    case 'group_full':
      return { code, queue, group: flow?.group ?? '', maxDepth: Number(first), onFull }
  }
}

function claimedJob(job: NewJob, fence: number, settings: string, nowMs: number): ClaimedJob {
  const { id, queue, type, payload, version, priority, limits, idempotencyKey, tags, trace } = job
  return {
    ...{ id, fence, queue, type, payload, version, priority, attempt: 1, crashes: 0, createdAtMs: nowMs, limits },
    ...{ queueLimits: queueLimits(settings), idempotencyKey, tags, trace },
    ...originOf(job),
  }
}

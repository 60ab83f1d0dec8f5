// enqueue: writes jobs, then wakes the workers. ◄── client/group-commit.ts · next: enqueue-plain.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { EnqueueRequest } from '../../core/job-store.js'
import type { Database } from './database.js'
import { writeClaimed } from './enqueue-claimed.js'
import { writeGeneral, writeThrough } from './enqueue-general.js'
import { isOnFastPath, writePlain, writePlainThrough } from './enqueue-plain.js'
import { answerFull, type FullQueues } from './full-queues.js'
import type { KnownQueues } from './known-queues.js'
import type { LateLooks } from './late-looks.js'
import type { WakeUps } from './wake.js'

/** What an enqueue touches. */
export interface EnqueueParts {
  readonly db: Database
  readonly knownQueues: KnownQueues
  readonly wakeUps: WakeUps
  readonly lateLooks: LateLooks
  readonly fullQueues: FullQueues
}

/** The contract's `enqueue`. */
export async function enqueue(
  parts: EnqueueParts,
  jobs: readonly NewJob[],
  request: EnqueueRequest,
): Promise<readonly Enqueued[]> {
  const { knownQueues, fullQueues, wakeUps, lateLooks } = parts
  // A queue is listed with its first job. Null, and not a promise, for almost every call.
  const listing = knownQueues.add(jobs)
  if (listing !== null) await listing
  const refusals = (await fullQueues.refuse(jobs)) ?? null
  if (refusals !== null)
    return answerFull(jobs, refusals, (rest) => enqueue(parts, rest, { ...request, claim: undefined }))
  const answers = jobs.length === 0 ? [] : await write(parts.db, jobs, request)
  const isInTransaction = request.tx !== undefined
  if (isInTransaction) lateLooks.afterEnqueue(answers)
  for (const [queue, count] of countReady(jobs, answers)) {
    if (isInTransaction) wakeUps.readySoon(queue)
    else wakeUps.enqueued(queue, count)
  }
  return answers
}

/** Writes jobs, all or none; the answers are in the order of the jobs. */
function write(
  db: Database,
  jobs: readonly NewJob[],
  { tx, claim, wereHeld = [] }: EnqueueRequest,
): Promise<readonly Enqueued[]> {
  const isFast = jobs.every(isOnFastPath)
  if (tx !== undefined) return (isFast ? writePlainThrough : writeThrough)(db, db.through(tx), jobs)
  if (!isFast) return writeGeneral(db, jobs, { claim, wereHeld })
  return claim === undefined ? writePlain(db, jobs) : writeClaimed(db, jobs, claim)
}

/** How many jobs became ready in each queue. */
function countReady(jobs: readonly NewJob[], answers: readonly Enqueued[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const [index, answer] of answers.entries()) {
    const { queue } = jobs[index]!
    // A claim that met a job whose payload was being replaced has passed it over.
    const isReady = 'created' in answer && (answer.created || answer.replaced) && answer.state === 'ready'
    if (isReady) counts.set(queue, (counts.get(queue) ?? 0) + 1)
  }
  return counts
}

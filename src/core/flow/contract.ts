// What flow control adds to the contract of a store (job-store.ts).
//
// enqueue: A job under flow control is never leased by its enqueue, and no enqueue waits for a group or a limit. A job that names a limit
// nobody has set, whose set of limits is one too many for its queue, or whose queue or group is full, is not written: its answer has
// `refused`. Only a job that would be ready now is refused as too many, and a store may let a little more through.
//
// claim: A queue has flow control when its settings have `flow`, when a job with a group or limits was written to it, or when it was told
// to wait. Its claims run one after the other, over all processes. What they give keeps, at every moment, every limit of
// - the queue: its concurrency counts all its running jobs, plain ones too; its rate counts their starts;
// - the group, over all tracks of the queue: concurrency, rate, pause. Jobs without a group have no such limit;
// - each limit the job names: over all queues and types. A job counts in all of its limits, or does not start.
// Nothing is counted anywhere: what runs is the leases that stand, so that a slot comes back with the settlement or the rescue. Ordered
// groups give one job at a time, the earliest enqueued first, and none while one that has started waits for a time (`onRetry: 'wait'`).
//
// Jobs of one queue with one set of limits are a track; the queue's plain jobs are one too. Tracks share a claim evenly, and one that
// cannot use its share leaves it to the others. Within a track the groups take turns of `turnLength`. A group whose turn is over goes
// behind all others. A claim that ends within a turn leaves the rest of it to the next claim. Of the jobs of a claim some may be claimed ahead.
// Turns are as long as if those were not asked for, and a round of turns that reaches what is asked for beside them is the last one: so each
// group gives at most one turn to them. Plain jobs of the queue are claimed ahead as any others. Priority counts inside a group only. In a
// group that is not ordered, jobs of types the worker does not know are passed over; an ordered one waits for a worker that knows its first.
//
// A group that runs one job at a time (its concurrency is 1, or it is ordered) gives several to a claim with `batches`, in one turn: its first
// job and, if nothing of the group runs, those of the same type that come next, up to `max`, the room of the claim, its limits and its
// rates, of which each takes its token. In an ordered group the batch ends before the first job of another type or set of limits; in others
// those are passed over, though a store may give up after a few hundred. A job that was lost with its worker (`crashes`) is given alone. The
// group is busy until the last of them is settled. The jobs of a batch follow each other in the answer, each with `batch`.
//
// settle: The slots of the job in its group and limits are free with the same commit, and the queues with jobs that may have waited for
// them are woken. No settlement waits for a group or a limit. In an ordered group a job that was released or is due again comes before
// those that were enqueued after it; the death of one pauses a group with `onDead: 'stop'`. `holdOff` lets nothing of its scope start
// before that time.

import type { BreakerMove, OutcomeReport } from './views.js'

/** What flow control adds to a claim. */
export interface FlowRequest {
  /** The types of which the worker runs several jobs of one group together. Absent: a group of one job at a time gives one. */
  readonly batches?: readonly ClaimBatch[]
}

/** A type whose jobs a worker runs together, and how many at most. */
export interface ClaimBatch {
  readonly type: string
  readonly max: number
}

/** What workers report. */
export interface FlowStore {
  /** Adds what became of jobs to the limits they count in, for breakers and adaptive concurrency, and moves those. Answers with the
   *  breakers this call moved. Limits that have neither are passed over. It counts twice when repeated. */
  observe(reports: readonly OutcomeReport[]): Promise<readonly BreakerMove[]>
}

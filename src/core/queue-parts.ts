// A store that keeps its queues apart, as a Redis Cluster does: a queue is whole in one part, unless it is spread over several.

/** The most parts that a queue can be spread over. */
export const SPREAD_MAX = 16

/** Which part has a queue. Enqueues of one part are written together, and those of another part do not wait for them. */
export interface QueueParts {
  /** How many parts there are, and so over how many a queue can be spread. */
  readonly count: number
  /** The part of a queue; with the id of a job, of that job. */
  of(queue: string, id?: string): number
  /** An id that says its part, made of one that does not. `isFree`: the job has no key and no group, so that it may be in any part of a queue
   *  that is spread. Without it the answer is the same for the same id and queue. */
  mark(id: string, queue: string, isFree?: boolean): string
}

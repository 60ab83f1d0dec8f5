// A store that keeps its queues apart, as a Redis Cluster does: a queue is whole in one part.

/** Which part has a queue. Enqueues of one part are written together, and those of another part do not wait for them. */
export interface QueueParts {
  of(queue: string): number
  /** An id that says its part, made of one that does not. The same for the same id and queue. */
  mark(id: string, queue: string): string
}

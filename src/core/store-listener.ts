// What a store tells the processes that use it.

/** What a store reports on its own, from any process. Each report may be lost: only speed depends on it. */
export interface StoreListener {
  /** Jobs became ready in a queue. `isOwnEnqueue` when an enqueue through this very store wrote them. */
  ready?(queue: string, isOwnEnqueue: boolean): void
  /** Somebody may have asked to cancel a running job. A hint, which any program that can connect may forge: `watch` knows. */
  cancel?(id: string): void
  /** Another process wrote a job that becomes due in this time. */
  due?(dueInMs: number): void
  /** Another process works. */
  stirred?(): void
  /** Announcements of other processes may not arrive any more. */
  deaf?(): void
  /** They arrive from now on. What was announced before was missed, so every queue counts as woken once: a job would wait for a poll. */
  hears?(): void
}

// What follows jobs from their enqueue to their end. The library knows no tracing system: the program that sets a tracer brings one.

import type { JobContext } from './definition.js'
import type { ClaimedJob } from './job.js'

/** What an enqueue call asks for. */
export interface TracedEnqueue {
  readonly count: number
  /** Null when the jobs of one call differ. */
  readonly type: string | null
  readonly queue: string | null
}

/** What an enqueue call was answered, as far as tracing cares: one job or many. */
export type TracedAnswer = { readonly id: string; readonly created: boolean } | readonly { readonly created: boolean }[]

/** How an attempt ended. Its error has a name but no message: messages quote payloads. */
export interface TracedEnd {
  readonly outcome: string
  readonly errorName: string | null
}

/** Follows jobs. None of its methods may throw but by passing on what the function it calls throws. */
export interface JobTracer {
  /** Calls `write` with the W3C trace context to keep with the jobs, or null, and returns its promise. */
  enqueue<Answer extends TracedAnswer>(
    call: TracedEnqueue,
    write: (trace: string | null) => Promise<Answer>,
  ): Promise<Answer>
  /** Calls `run`, which calls the handler of `job`, and returns what it returns. `waitMs` is null of later attempts. */
  run<Returned>(
    job: ClaimedJob,
    about: { readonly context: JobContext; readonly waitMs: number | null },
    run: () => Returned,
  ): Returned
  /** The attempt of a job that was given to `run` is over. */
  ended(job: ClaimedJob, end: TracedEnd): void
}

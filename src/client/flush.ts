// What goes into one flush of calls that were gathered, and in which order. ◄── group-commit.ts

import type { NewJob } from '../core/job.js'

/** The most a flush holds, so that one statement stays short and its memory bounded. A single call may be larger. */
const FLUSH_JOBS_MAX = 1_000
const FLUSH_BYTES_MAX = 8 * 1024 * 1024

interface Gathered {
  readonly jobs: readonly NewJob[]
  readonly bytes: number
}

/** How many of the first `most` calls fit into one flush. The first one fits, however large it is. */
export function countFitting(calls: readonly Gathered[], most: number): number {
  let jobs = 0
  let bytes = 0
  let count = 0
  for (; count < most; count++) {
    const call = calls[count]!
    jobs += call.jobs.length
    bytes += call.bytes
    if (count > 0 && (jobs > FLUSH_JOBS_MAX || bytes > FLUSH_BYTES_MAX)) break
  }
  return count
}

/** Calls with a time go last: a worker can claim only the first jobs as they are written, and only those that are ready. */
export function readyFirst<C extends Gathered>(calls: readonly C[]): readonly C[] {
  const isReady = ({ jobs }: Gathered) => jobs[0]!.when === null
  if (calls.every(isReady)) return calls
  return [...calls.filter(isReady), ...calls.filter((call) => !isReady(call))]
}

// Why a worker claims. ◄── fetcher.ts

/** Why a claim is made; of several reasons the last one here counts. */
const REASONS = ['poll', 'probe', 'start', 'follow', 'wake', 'backlog', 'own enqueue'] as const
export type Reason = (typeof REASONS)[number]

// A claim for these reasons waits until its pace allows it. A job that this process enqueued is claimed without that: until then the
// enqueues that follow cannot reserve slots, and every job would take two commits instead of one.
export const PACED: ReadonlySet<Reason> = new Set(['wake', 'follow'])

/** The reason that counts of two. */
export function strongest(one: Reason | null, other: Reason): Reason {
  return one === null || REASONS.indexOf(other) > REASONS.indexOf(one) ? other : one
}

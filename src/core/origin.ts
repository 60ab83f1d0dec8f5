// Where a job comes from: the schedule that made it, the jobs it comes after, the job whose handler enqueued it. Most jobs have none
// of these, and carry nothing for it.

/** What made a job, and what it waited for. */
export interface JobOrigin {
  /** Ids of the jobs it came after, in the order of its enqueue. */
  readonly after: readonly string[]
  readonly schedule: { readonly name: string; readonly tickMs: number } | null
  /** Id of the job whose handler enqueued it. */
  readonly enqueuedBy: string | null
}

/** A job that may say where it comes from. */
export interface HasOrigin {
  /** Absent for a job that has no parents and was made by no schedule and no handler. */
  readonly origin?: JobOrigin | undefined
}

/** The part of a claimed job that says where it comes from; nothing for most. */
export function originOf(facts: {
  readonly after?: readonly string[] | undefined
  readonly schedule?: JobOrigin['schedule'] | undefined
  readonly enqueuedBy?: string | null | undefined
}): HasOrigin {
  const { after = NONE, schedule = null, enqueuedBy = null } = facts
  if (after.length === 0 && schedule === null && enqueuedBy === null) return NOWHERE
  return { origin: { after, schedule, enqueuedBy } }
}

const NONE: readonly string[] = []
const NOWHERE: HasOrigin = {}

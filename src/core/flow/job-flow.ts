// What a job says about flow control: its group, and the limits it counts in.

/** The longest name of a group, in characters. */
export const GROUP_LENGTH_MAX = 200
/** The most limits a job may name. The limit of its type comes on top. */
export const JOB_LIMITS_MAX = 4
/** The most sets of limits that the jobs of one queue may have: each set is a track of its own. */
export const TRACKS_MAX = 64
/** The most a start may cost. */
export const COST_MAX = 1_000_000_000

/** A job under flow control. A plain job has none of it. */
export interface JobFlow {
  /** The tenant or entity it belongs to, within its queue; null for a job that has limits alone. */
  readonly group: string | null
  /** Names of the limits it counts in, in order, without repeats. */
  readonly limits: readonly string[]
  /** What its start takes from rates that count cost. 1 unless it says otherwise. */
  readonly cost: number
}

/** The limit that holds a queue's own concurrency and rate. It is set with the queue. */
export function queueLimitName(queue: string): string {
  return `queue:${queue}`
}

/** The limit of a type everywhere. */
export function typeLimitName(type: string): string {
  return `type:${type}`
}

/** Whether a limit belongs to a type. It comes with the type's definition, so that jobs may name it before anybody has set it. */
export function isTypeLimit(name: string): boolean {
  return name.startsWith('type:')
}

/** Whether a limit belongs to a queue, so that it is set with the queue and never named by a job. */
export function isQueueLimit(name: string): boolean {
  return name.startsWith('queue:')
}

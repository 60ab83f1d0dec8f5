// Flow control, which this store does not have yet. What asks for it is refused whole, before anything is written.

import { HoldfastError } from '../../core/errors.js'
import type { NewJob } from '../../core/job.js'
import type { Schedule } from '../../core/schedule.js'
import type { Store } from '../../core/store.js'
import type { QueueSettings } from '../../core/views.js'

function lacking(what: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `${what}: the Redis store of this version has no flow control (groups, limits, rates, breakers); leave it out, or connect to PostgreSQL`,
  )
}

/** Raises `unsupported` when one of the jobs has a group or limits. */
export function refuseFlow(jobs: readonly NewJob[]): void {
  const found = jobs.find(({ flow }) => flow !== undefined)
  if (found !== undefined) throw lacking(`job ${found.id} of type "${found.type}" has a group or limits`)
}

/** Raises `unsupported` when the settings of a queue have a part about flow control. */
export function refuseQueueFlow(queue: string, { flow }: QueueSettings): void {
  if (flow !== undefined) throw lacking(`the settings of queue "${queue}" have a part about flow control`)
}

/** Raises `unsupported` when a schedule's jobs would have a group or limits. */
export function refuseScheduleFlow({ name, flow }: Schedule): void {
  if (flow !== undefined) throw lacking(`the jobs of schedule "${name}" have a group or limits`)
}

type FlowCalls = Pick<
  Store,
  | 'observe'
  | 'setLimit'
  | 'removeLimit'
  | 'limits'
  | 'forceBreaker'
  | 'setGroup'
  | 'pauseGroup'
  | 'resumeGroup'
  | 'groups'
  | 'flowCounts'
  | 'stoppedGroups'
  | 'tracks'
  | 'neighbours'
>

/** The calls about flow control: those that look find nothing, those that change something are refused. */
export const NO_FLOW: FlowCalls = {
  observe: async () => [],
  setLimit: async (name) => {
    throw lacking(`limit "${name}" was not set`)
  },
  removeLimit: async () => 'missing',
  limits: async () => [],
  forceBreaker: async () => false,
  setGroup: async (_, group) => {
    throw lacking(`group "${group}" was not set`)
  },
  pauseGroup: async (_, group) => {
    throw lacking(`group "${group}" was not paused`)
  },
  resumeGroup: async (_, group) => {
    throw lacking(`group "${group}" was not resumed`)
  },
  groups: async () => ({ groups: [], next: null }),
  flowCounts: async () => ({ limits: [], queues: [] }),
  stoppedGroups: async () => [],
  tracks: async () => [],
  neighbours: async () => ({ running: [], before: [], after: [] }),
}

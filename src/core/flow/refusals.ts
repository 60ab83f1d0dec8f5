// What flow control refuses, in the words of every store and client.

import { HoldfastError } from '../errors.js'
import { LIMITS_MAX } from './settings.js'
import type { FlowRefusal } from './views.js'

/** The error of every store that has as many limits as it takes. */
export function tooManyLimits(name: string): HoldfastError {
  return new HoldfastError(
    'too_many_limits',
    `limit "${name}" cannot be made: there may be ${LIMITS_MAX}; remove some with removeLimit(), or use groups for what there is one of for each tenant`,
    { details: { limit: name, max: LIMITS_MAX } },
  )
}

/** The error for the name of a queue's limit where a limit of its own is meant. */
export function limitOfQueue(name: string): HoldfastError {
  return new HoldfastError(
    'invalid_name',
    `limit "${name}" belongs to a queue: set it with setQueue("${name.slice(6)}", …)`,
  )
}

/** The error for a queue over several shards that should have flow control: each shard would keep it for itself. */
export function spreadWithFlow(what: string): HoldfastError {
  return new HoldfastError(
    'invalid_option',
    `a queue that is or was spread over shards can have no concurrency, rate, groups, maxDepth or aging of its own, ${what}: name a limit in its jobs (setLimit), which holds over all shards, or use another queue`,
  )
}

/** The error for a limit nobody has set. */
export function limitUnknown(what: string, limit: string): HoldfastError {
  return new HoldfastError(
    'limit_unknown',
    `${what} names limit "${limit}", which nobody has set: set it with setLimit("${limit}", {}) or correct the name`,
    { details: { limit } },
  )
}

/** The error for a job that a store refused to write. */
export function enqueueRefused(id: string, refusal: FlowRefusal): HoldfastError {
  switch (refusal.code) {
    case 'limit_unknown':
      return limitUnknown(`job ${id} was not enqueued: it`, refusal.limit)
    case 'too_many_tracks':
      return new HoldfastError(
        'too_many_tracks',
        `job ${id} was not enqueued: the jobs of a queue may have ${refusal.max} different sets of limits; use fewer, or groups for what there is one of for each tenant`,
        { details: { max: refusal.max } },
      )
    case 'queue_full':
      return new HoldfastError(
        'queue_full',
        `job ${id} was not enqueued: queue "${refusal.queue}" has its ${refusal.maxDepth} ready jobs; try again later, add workers, or raise maxDepth`,
        { retryable: true, details: { queue: refusal.queue, maxDepth: refusal.maxDepth } },
      )
    case 'group_full':
      return new HoldfastError(
        'group_full',
        `job ${id} was not enqueued: group "${refusal.group}" of queue "${refusal.queue}" has its ${refusal.maxDepth} ready jobs; try again later or raise groups.maxDepth`,
        { retryable: true, details: { queue: refusal.queue, group: refusal.group, maxDepth: refusal.maxDepth } },
      )
  }
}

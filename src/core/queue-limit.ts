// The error of every store that has as many queues as it takes.

import { HoldfastError } from './errors.js'

export function tooManyQueues(names: readonly string[], max: number): HoldfastError {
  return new HoldfastError(
    'too_many_queues',
    `${shown(names)} cannot be made: there may be ${max} queues; remove some with removeQueue(), raise queuesMax of the store, or use fewer`,
    { details: { max } },
  )
}

/** Of a role that may do nothing but enqueue. */
export function tooManyQueuesOfRole(names: readonly string[], max: number, cause: unknown): HoldfastError {
  return new HoldfastError(
    'too_many_queues',
    `${shown(names)} cannot be made: the role this process connects as may only enqueue, and has made ${max} queues; enqueue there once as a worker, operator or owner, remove some with removeQueue(), or use fewer`,
    { cause, details: { max } },
  )
}

function shown(names: readonly string[]): string {
  return `${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''}`
}

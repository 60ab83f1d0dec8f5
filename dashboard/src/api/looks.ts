// The looks at the system that several pages share, each with how often it is asked while live.

import { readMe, readOverview, readWarnings } from './read.js'
import { type Resource, useResource } from './resource.js'
import type { Me, Overview, Warning } from './types.js'

/** All queues with their counts and rates. Events keep it fresh; asking is the fall-back. */
export function useOverview(): Resource<Overview> {
  return useResource('v1/queues', { everyMs: 5_000, read: readOverview })
}

export function useWarnings(): Resource<readonly Warning[]> {
  return useResource('v1/warnings', { everyMs: 10_000, read: readWarnings })
}

export function useMe(): Resource<Me> {
  return useResource('v1/me', { everyMs: 300_000, read: readMe })
}

/** What the one who looks may do. Nothing is offered before it is known; the server decides in any case. */
export interface Rights {
  readonly operate: boolean
  readonly enqueue: boolean
  readonly readPayload: boolean
  /** What holds for all queues, such as the retention. */
  readonly allQueues: boolean
}

export function useRights(): Rights {
  const me = useMe().value
  if (me === null) return { operate: false, enqueue: false, readPayload: false, allQueues: false }
  const has = (scope: string) => me.scopes.includes('admin') || me.scopes.includes(scope)
  return {
    operate: !me.readOnly && has('operate'),
    enqueue: !me.readOnly && has('enqueue'),
    readPayload: has('read:payload'),
    allQueues: !me.isKept,
  }
}

// The answers that several pages share, each with how often it is refreshed.

import { type Resource, useResource } from './resource.js'
import type { Me, Outbox, Overview, Schedule, Warning, Worker } from './types.js'

/** All queues with their counts and rates. Events keep it fresh; polling is the fallback. */
export function useOverview(): Resource<Overview> {
  return useResource('v1/queues', { everyMs: 5_000 })
}

export function useWarnings(): readonly Warning[] | null {
  return (
    useResource<{ readonly warnings: readonly Warning[] }>('v1/warnings', { everyMs: 10_000 }).value?.warnings ?? null
  )
}

/** What waits in the outbox. Null where the store has none, or the user may not see it, or it is not known yet. */
export function useOutbox(): Outbox | null {
  const me = useMe()
  const isWanted = me?.outbox === true && me.queues === null
  const found = useResource<{ readonly outbox: Outbox | null }>(isWanted ? 'v1/outbox' : null, { everyMs: 5_000 })
  return found.value?.outbox ?? null
}

/** The workers; with `everyMs` null they are read once. */
export function useWorkers(
  everyMs: number | null,
  isWanted: boolean = true,
): Resource<{ readonly workers: readonly Worker[] }> {
  return useResource(isWanted ? 'v1/workers' : null, { everyMs })
}

/** The schedules; with `everyMs` null they are read once. */
export function useSchedules(
  everyMs: number | null,
  isWanted: boolean = true,
): Resource<{ readonly schedules: readonly Schedule[] }> {
  return useResource(isWanted ? 'v1/schedules' : null, { everyMs })
}

export function useMe(): Me | null {
  return useResource<Me>('v1/me', { everyMs: 300_000 }).value
}

/** What the user may do. Nothing is offered before it is known; the server decides in any case. */
export interface Rights {
  readonly operate: boolean
  readonly enqueue: boolean
  readonly delete: boolean
  readonly readPayload: boolean
  /** May change what applies to all queues, such as the retention. */
  readonly allQueues: boolean
}

export function useRights(): Rights {
  const me = useMe()
  if (me === null) return { operate: false, enqueue: false, delete: false, readPayload: false, allQueues: false }
  const has = (scope: Me['scopes'][number]) => me.scopes.includes('admin') || me.scopes.includes(scope)
  return {
    operate: !me.readOnly && has('operate'),
    enqueue: !me.readOnly && has('enqueue'),
    delete: !me.readOnly && has('delete'),
    readPayload: has('read:payload'),
    allQueues: me.queues === null,
  }
}

// What flow control knows about one job.

import { FULL, priceOf, waitMsFor } from '../../core/flow/rate.js'
import type { FlowStanding } from '../../core/flow/views.js'
import { groupOf, groupSettings, limitsOf } from './held.js'
import { viewOf } from './limits.js'
import type { Job, Memory } from './memory.js'

export function flowStanding(memory: Memory, job: Job, nowMs: number): FlowStanding {
  const cost = job.facts.flow?.cost ?? 1
  const limits = limitsOf(job).flatMap((name) => {
    const limit = memory.limits.get(name)
    if (limit === undefined) return []
    const { rate } = limit.settings
    const waitMs = rate === null ? 0 : waitMsFor(rate, limit.emptyAtMs, priceOf(rate, cost), nowMs)
    return [{ ...viewOf(memory, name, limit, nowMs), waitMs }]
  })
  return { group: groupOf(job) === '' ? null : groupStanding(memory, job, cost, nowMs), limits }
}

function groupStanding(memory: Memory, job: Job, cost: number, nowMs: number): FlowStanding['group'] {
  const { queue } = job.facts
  const name = groupOf(job)
  const { ordered, ...settings } = groupSettings(memory, queue)
  const kept = memory.groups.get(queue)?.get(name)
  const rate = kept?.override?.rate ?? settings.rate
  const isOfGroup = (other: Job) => other.facts.queue === queue && groupOf(other) === name
  return {
    name,
    concurrency: ordered ? 1 : (kept?.override?.concurrency ?? settings.concurrency),
    running: memory.running.values.filter(isOfGroup).length,
    ordered,
    paused: kept?.paused ?? false,
    stoppedBy: kept?.stoppedBy ?? null,
    until: kept !== undefined && kept.notBeforeMs > nowMs ? new Date(kept.notBeforeMs) : null,
    waitMs: rate === null ? 0 : waitMsFor(rate, kept?.emptyAtMs ?? FULL, priceOf(rate, cost), nowMs),
    first: ordered ? firstOf(memory, job, isOfGroup, settings.onRetry === 'wait') : null,
  }
}

/** The job for which those of an ordered group wait, unless it is this one. */
function firstOf(
  memory: Memory,
  job: Job,
  isOfGroup: (other: Job) => boolean,
  waitsForRetry: boolean,
): { readonly id: string; readonly state: string; readonly runAt: Date | null } | null {
  const isBefore = ({ state, fence }: Job) =>
    state === 'running' ||
    state === 'ready' ||
    (waitsForRetry && fence > 0 && (state === 'retrying' || state === 'scheduled'))
  const [first] = [...memory.jobs.values()]
    .filter((other) => isOfGroup(other) && isBefore(other))
    .sort((one, other) => one.order - other.order)
  if (first === undefined || first === job) return null
  return { id: first.facts.id, state: first.state, runAt: first.runAtMs === null ? null : new Date(first.runAtMs) }
}

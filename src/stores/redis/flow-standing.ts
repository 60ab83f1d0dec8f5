// What flow control knows about one job.

import type { JobFlow } from '../../core/flow/job-flow.js'
import { FULL, priceOf, waitMsFor } from '../../core/flow/rate.js'
import type { GroupOverride } from '../../core/flow/settings.js'
import { NO_GROUP_SETTINGS } from '../../core/flow/settings.js'
import type { FlowStanding } from '../../core/flow/views.js'
import type { QueueSettings } from '../../core/views.js'
import { longId } from './ids.js'
import { type KeptLimit, LIMIT_VALUES, readLimit, viewOf } from './limit-row.js'
import { lua } from './lua.js'
import { stateOfLetter } from './states.js'

/**
 * What standing.ts asks for. Answers with three lists, or none for a queue without flow control: the settings of the queue; then of the
 * group, if there is one: settings or '', running, '1' when paused, job that stopped it or '', until or '', empty or '', the first job of an
 * ordered group with its state and time, or ''; and eleven values for each limit that is there.
 */
export const FLOW_STANDING: string = lua`
local function heads(work, key)
  local first = redis.call('ZRANGE', work.b .. key, 0, 0)[1]
  return first and jobOf(work, first)
end

-- The job for which those of an ordered group wait, unless it is this one.
local function firstOfGroup(work, job)
  local name, waits = job.queue .. ' ' .. job.flow.group, held.settings(work, job.queue).groups.onRetry == 'wait'
  local found = { heads(work, 'busy:' .. name) or nil }
  if waits then found[#found + 1] = heads(work, 'again:' .. name) or nil end
  for _, track in ipairs(held.tracks(work, job.queue)) do
    found[#found + 1] = heads(work, placeKey(job.queue, track, job.flow.group)) or nil
  end
  local first
  for _, other in ipairs(found) do
    if not first or other.flow.order < first.flow.order then first = other end
  end
  if not first or first.id == job.id then return { '', '', '' } end
  local isTimed = first.state == 'S' or first.state == 'T'
  return { first.id, first.state, isTimed and text(first.at) or '' }
end

local function flowOfJob(work, job)
  local queue = queueOf(work, job.queue)
  if queue.flow == '' then return {} end
  local group, limits_, values = held.groupOf(job), {}, {}
  if group ~= '' then
    local entry = groups.of(work, job.queue, group)
    local first = held.isOrdered(work, job.queue, group) and firstOfGroup(work, job) or { '', '', '' }
    values = {
      entry.override and entry.json or '', text(sizeOf(work, 'busy:' .. job.queue .. ' ' .. group)), entry.isPaused and '1' or '',
      entry.stoppedBy or '', entry.untilAt > work.t and text(entry.untilAt) or '', rates.field(entry.emptyAt) or '',
      first[1], first[2], first[3]
    }
  end
  local names = { 'queue:' .. job.queue }
  -- In a cluster the caller asks the homes of the others.
  for _, name in ipairs(not work.shard and job.flow and job.flow.names or {}) do names[#names + 1] = name end
  for _, name in ipairs(names) do
    for _, value in ipairs(limitValues(work, name) or {}) do limits_[#limits_ + 1] = value end
  end
  return { queue.settings, values, limits_ }
end
`

/** Reads what flowOfJob answers; null for a plain job of a queue without flow control. */
export function readFlowStanding(
  value: readonly unknown[],
  flow: JobFlow | undefined,
  nowMs: number,
  elsewhere: readonly KeptLimit[] = [],
): FlowStanding | null {
  if (value.length === 0) return null
  const [settings, ofGroup, values] = value as [string, string[], unknown[]]
  const cost = flow?.cost ?? 1
  const found: KeptLimit[] = []
  for (let at = 0; at < values.length; at += LIMIT_VALUES) found.push(readLimit(values.slice(at, at + LIMIT_VALUES)))
  const limits = [...found, ...elsewhere].map((limit) => {
    const { rate } = limit.settings
    const waitMs = rate === null ? 0 : waitMsFor(rate, limit.emptyAtMs, priceOf(rate, cost), nowMs)
    return { ...viewOf(limit, nowMs), waitMs }
  })
  const group = flow?.group ?? null
  const queueFlow = (JSON.parse(settings) as QueueSettings).flow
  return { group: group === null ? null : groupStanding(group, queueFlow?.groups, ofGroup, { cost, nowMs }), limits }
}

function groupStanding(
  name: string,
  { ordered, ...settings }: typeof NO_GROUP_SETTINGS = NO_GROUP_SETTINGS,
  values: readonly string[],
  { cost, nowMs }: { readonly cost: number; readonly nowMs: number },
): FlowStanding['group'] {
  const [own, running, paused, stoppedBy, until, empty, first, state, runAt] = values as readonly [
    ...[string, string, string, string, string, string, string, string, string],
  ]
  const override = own === '' ? null : (JSON.parse(own) as GroupOverride)
  const rate = override?.rate ?? settings.rate
  const emptyAtMs = empty === '' ? FULL : Number(empty)
  return {
    name,
    concurrency: ordered ? 1 : (override?.concurrency ?? settings.concurrency),
    running: Number(running),
    ordered,
    paused: paused === '1',
    stoppedBy: stoppedBy === '' ? null : longId(stoppedBy),
    until: until === '' ? null : new Date(Number(until)),
    waitMs: rate === null ? 0 : waitMsFor(rate, emptyAtMs, priceOf(rate, cost), nowMs),
    first:
      first === ''
        ? null
        : { id: longId(first), state: stateOfLetter(state), runAt: runAt === '' ? null : new Date(Number(runAt)) },
  }
}

// Limits and queues under flow control, in numbers.

import { FLOW_COUNT_MAX, FLOW_COUNTED_MAX, type FlowCounts, type QueueFlowCount } from '../../core/flow/counts.js'
import type { LimitView } from '../../core/flow/views.js'
import { limits } from './limits.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * flowing: answers with the queues that have flow control. flowCounts: ARGV most, most groups that are looked at, queues; answers with four
 * values for each: name, ready jobs with a group or limits, groups those belong to, groups that have stopped.
 */
export const FLOW_COUNTS: string = lua`
reads('flowing', function(work, args)
  local names = {}
  for _, name in ipairs(redis.call('ZRANGE', work.b .. 'flowing', 0, -1)) do
    if string.find(queueOf(work, name).flow, '[ts]') then names[#names + 1] = name end
  end
  return names
end)

local function hasWaiting(work, queue, group)
  for _, track in ipairs(held.tracks(work, queue)) do
    if sizeOf(work, placeKey(queue, track, group)) > 0 then return true end
  end
  return false
end

-- Groups with ready jobs. In a queue of very many all are counted that have any.
local function groupsWaiting(work, queue, lookedMax)
  local all, count = redis.call('ZCARD', work.b .. 'groups:' .. queue), 0
  if all > lookedMax then return all end
  for _, group in ipairs(redis.call('ZRANGE', work.b .. 'groups:' .. queue, 0, -1)) do
    if hasWaiting(work, queue, group) then count = count + 1 end
  end
  return count
end

reads('flowCounts', function(work, args)
  local most, answer = tonumber(args[3]), {}
  for i = 5, #args do
    local queue, ready, stopped = args[i], 0, 0
    for _, track in ipairs(held.tracks(work, queue)) do ready = ready + sizeOf(work, 'held:' .. queue .. ' ' .. track) end
    if held.settings(work, queue).groups.ordered then
      local from = '[' .. queue .. ' '
      stopped = #redis.call('ZRANGEBYLEX', work.b .. 'stopped', from, '(' .. queue .. '!', 'LIMIT', 0, most)
    end
    local counts = { math.min(ready, most), math.min(groupsWaiting(work, queue, tonumber(args[4])), most), stopped }
    answer[#answer + 1] = queue
    for _, count in ipairs(counts) do answer[#answer + 1] = text(count) end
  end
  return answer
end)
`

const PORTION = 20
const LOOKED_MAX = 1_000
/** Counting ends after about this time, without an answer about queues. */
const COUNT_MS_MAX = 1_000

export async function flowCounts(redis: Redis): Promise<FlowCounts> {
  return { limits: limitCounts(await limits(redis)), queues: await queueCounts(redis) }
}

/** The first limits, in numbers. */
export function limitCounts(views: readonly LimitView[]): FlowCounts['limits'] {
  return views.slice(0, FLOW_COUNTED_MAX).map(({ name, running, concurrency, level, tokens, until, breaker }) => ({
    ...{ name, running, capacity: level ?? concurrency, tokens, isHeldOff: until !== null },
    ...{ position: breaker?.position ?? null, forced: breaker?.forced ?? null },
  }))
}

export async function queueCounts(redis: Redis): Promise<readonly QueueFlowCount[] | null> {
  const { value: all } = await redis.read<string[]>('look', 'flowing', [])
  const names = all.slice(0, FLOW_COUNTED_MAX)
  const found: QueueFlowCount[] = []
  const startMs = performance.now()
  for (let at = 0; at < names.length; at += PORTION) {
    if (performance.now() - startMs > COUNT_MS_MAX) return null
    const args = [FLOW_COUNT_MAX, LOOKED_MAX, ...names.slice(at, at + PORTION)]
    const { value } = await redis.read<string[]>('look', 'flowCounts', args)
    for (let from = 0; from < value.length; from += 4) {
      const [queue, held, groups, stopped] = value.slice(from, from + 4) as [string, string, string, string]
      const counts = { held: Number(held), groups: Number(groups), stopped: Number(stopped) }
      found.push({ queue, ...counts, arrivals: 0, repaired: 0 })
    }
  }
  return found
}

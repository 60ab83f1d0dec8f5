// What operators see of flow control beyond limits and groups: who waits for a limit, which groups have stopped, who is around a job.

import {
  type Neighbour,
  type Neighbours,
  type NeighboursRequest,
  type StoppedGroup,
  TRACK_READY_MAX,
  TRACKS_SHOWN_MAX,
  type TracksRequest,
  type TrackView,
} from '../../core/flow/views.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * tracks: ARGV limit or '', most, queues or none for all; answers with three values for each: queue, limits with commas, ready jobs.
 * stoppedGroups: ARGV limit; answers with three values for each: queue, group, id of the job that stopped it.
 * neighbours: ARGV id, queue, group, limit; answers with three lists of ids and types: running, before, after.
 */
export const FLOW_LOOKS: string = lua`
do
reads('tracks', function(work, args)
  local limit, most, answer, queues = args[3], tonumber(args[4]), {}, slice(args, 5)
  if #queues == 0 then queues = redis.call('ZRANGE', work.b .. 'flowing', 0, -1) end
  for _, queue in ipairs(queues) do
    for _, track in ipairs(held.tracks(work, queue)) do
      local isSought = limit == '' or string.find(',' .. track .. ',', ',' .. limit .. ',', 1, true)
      if track ~= '-' and isSought and #answer < 3 * most then
        local size = sizeOf(work, 'held:' .. queue .. ' ' .. track)
        for _, value in ipairs({ queue, track, text(size) }) do answer[#answer + 1] = value end
      end
    end
  end
  return answer
end)

reads('stoppedGroups', function(work, args)
  local limit, answer, from = tonumber(args[3]), {}, 0
  while #answer < 3 * limit do
    local names = redis.call('ZRANGE', work.b .. 'stopped', from, from + limit - 1)
    for _, name in ipairs(names) do
      local queue, group = string.match(name, '^(%S+) (.*)$')
      if held.isOrdered(work, queue, group) and #answer < 3 * limit then
        local values = { queue, group, groups.of(work, queue, group).stoppedBy }
        for _, value in ipairs(values) do answer[#answer + 1] = value end
      end
    end
    if #names < limit then break end
    from = from + limit
  end
  return answer
end)

local function shown(work, ids, limit)
  local list = {}
  load(work, 's', ids)
  load(work, 'f', ids)
  for i = 1, math.min(limit, #ids) do
    list[#list + 1] = ids[i]
    list[#list + 1] = jobOf(work, ids[i]).type
  end
  return list
end

-- Ids of a group's ready jobs on one side of a score, the nearest first.
local function around(work, queue, group, score, limit, isAfter)
  local found = {}
  for _, track in ipairs(held.tracks(work, queue)) do
    local place, members = work.b .. placeKey(queue, track, group), nil
    if isAfter then
      members = redis.call('ZRANGEBYSCORE', place, '(' .. text(score), '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
    else
      members = redis.call('ZREVRANGEBYSCORE', place, '(' .. text(score), '-inf', 'WITHSCORES', 'LIMIT', 0, limit)
    end
    addWithScores(found, track, members)
  end
  table.sort(found, function(one, other)
    if isAfter then return one.score < other.score end
    return one.score > other.score
  end)
  local ids = {}
  for i = 1, math.min(limit, #found) do ids[i] = found[i].id end
  return ids
end

reads('neighbours', function(work, args)
  local id, queue, group, limit = args[3], args[4], args[5], tonumber(args[6])
  local running, before, after = {}, {}, {}
  for _, other in ipairs(redis.call('ZRANGE', work.b .. 'busy:' .. queue .. ' ' .. group, 0, -1)) do
    if other ~= id then running[#running + 1] = other end
  end
  local job = jobOf(work, id)
  if job and job.flow and job.state == 'Q' and job.queue == queue and job.flow.group == group then
    local score = held.scoreOf(work, job)
    before, after = around(work, queue, group, score, limit, false), around(work, queue, group, score, limit, true)
  end
  running = sorted(running)
  while #running > limit do table.remove(running) end
  return { shown(work, running, limit), shown(work, before, limit), shown(work, after, limit) }
end)
end
`

export async function tracks(redis: Redis, { queues, limit }: TracksRequest): Promise<readonly TrackView[]> {
  if (queues?.length === 0) return []
  const { value } = await redis.read<string[]>('look', 'tracks', [limit ?? '', TRACKS_SHOWN_MAX, ...(queues ?? [])])
  const found: TrackView[] = []
  for (let at = 0; at < value.length; at += 3) {
    const [queue, names, ready] = value.slice(at, at + 3) as [string, string, string]
    found.push({ queue, limits: names.split(','), ready: Math.min(Number(ready), TRACK_READY_MAX) })
  }
  const keyOf = ({ queue, limits }: TrackView) => `${queue} ${limits.join()}`
  return found.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
}

export async function stoppedGroups(redis: Redis, limit: number): Promise<readonly StoppedGroup[]> {
  const { value } = await redis.read<string[]>('look', 'stoppedGroups', [limit])
  const found: StoppedGroup[] = []
  for (let at = 0; at < value.length; at += 3) {
    const [queue, group, stoppedBy] = value.slice(at, at + 3) as [string, string, string]
    found.push({ queue, group, stoppedBy: longId(stoppedBy) })
  }
  return found
}

export async function neighbours(redis: Redis, { id, queue, group, limit }: NeighboursRequest): Promise<Neighbours> {
  const { value } = await redis.read<[string[], string[], string[]]>('look', 'neighbours', [
    shortId(id),
    queue,
    group,
    limit,
  ])
  const [running, before, after] = value
  return { running: readNeighbours(running), before: readNeighbours(before), after: readNeighbours(after) }
}

function readNeighbours(values: readonly string[]): Neighbour[] {
  const found: Neighbour[] = []
  for (let at = 0; at < values.length; at += 2) found.push({ id: longId(values[at]!), type: values[at + 1]! })
  return found
}

// Counts the jobs in each state, and finds how long the oldest has been ready.

import type { Depth } from '../../core/operating.js'
import { ATTEMPTS_WINDOW, type QueueStats } from '../../core/views.js'
import { lua } from './lua.js'
import { allQueues } from './queues.js'
import type { Redis } from './redis.js'

/**
 * depths: ARGV queues; answers with seven values for each: blocked, scheduled, ready, running, retrying, dead, age of the oldest in ms.
 * attempts: ARGV queue or '', how many; answers with the attempts of the newest jobs that succeeded or died.
 */
export const STATS: string = lua`
-- Priorities that one look for the oldest job goes through, and jobs and bytes that one look for attempts does.
local LANES_MAX = 1000
local LOOKED_MAX = 5000
local LOOKED_BYTES_MAX = 8388608

-- Within a lane positions grow with time, so its first job is its oldest. Those that go newest first are at the end of the front lane, and the
-- last of them is the oldest.
local function oldestIn(work, place)
  local oldest, from = 0, '-inf'
  for _ = 1, LANES_MAX do
    local first = redis.call('ZRANGEBYSCORE', work.b .. place, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not first[1] then break end
    from = text((math.floor(tonumber(first[2]) / LANE) + 1) * LANE)
    local last = redis.call('ZREVRANGEBYSCORE', work.b .. place, '(' .. from, first[2], 'LIMIT', 0, 1)
    for _, id in ipairs({ first[1], last[1] }) do oldest = math.max(oldest, work.t - jobOf(work, id).at) end
  end
  return oldest
end

local function depthOf(work, name)
  local depth = {}
  for i, value in ipairs(redis.call('HMGET', work.b .. 'q:' .. name, unpack(QUEUE_COUNTS))) do depth[i] = tonumber(value or 0) end
  depth[7] = 0
  for _, track in ipairs(depth[3] > 0 and held.tracks(work, name) or {}) do
    local first = redis.call('ZRANGE', work.b .. 'held:' .. name .. ' ' .. track, 0, 0, 'WITHSCORES')[2]
    if first then depth[7] = math.max(depth[7], work.t - first) end
  end
  if depth[3] > 0 then
    depth[7] = math.max(depth[7], oldestIn(work, 'line:' .. name))
    for _, kind in ipairs(redis.call('SMEMBERS', work.b .. 'parked:' .. name)) do
      depth[7] = math.max(depth[7], oldestIn(work, parkOf(name, kind)))
    end
  end
  return depth
end

reads('depths', function(work, args)
  local answer = {}
  for i = 3, #args do
    for _, value in ipairs(depthOf(work, args[i])) do answer[#answer + 1] = value end
  end
  return answer
end)

reads('attempts', function(work, args)
  local queue, limit, answer, before, looked, bytes = args[3], tonumber(args[4]), {}, '', 0, 0
  while looked < LOOKED_MAX and bytes < LOOKED_BYTES_MAX do
    local ids, isEnd = idsOfChunks(work, before, 64)
    load(work, 's', ids)
    for _, id in ipairs(ids) do
      local job = leasedJob(work, id)
      if job and (job.state == 'F' or job.state == 'D') then
        if queue ~= '' then
          local isOther = withFacts(work, job).queue ~= queue
          bytes = bytes + #work.f[id]
          work.f[id] = nil
          if isOther then job = nil end
        end
        if job then answer[#answer + 1] = job.attempt end
        if #answer == limit then return answer end
      end
    end
    looked = looked + #ids
    if isEnd then break end
    before = ids[#ids]
  end
  return answer
end)
`

const DEPTH_VALUES = 7
const PORTION = 500

/** How many jobs of a queue are in each state. */
export type CountedDepth = Depth & { readonly oldestAgeS: number }

/** The depths of queues, in order. */
export async function depthsOf(redis: Redis, names: readonly string[]): Promise<CountedDepth[]> {
  const found: CountedDepth[] = []
  for (let at = 0; at < names.length; at += PORTION) {
    const { value } = await redis.read<number[]>('look', 'depths', names.slice(at, at + PORTION))
    for (let from = 0; from < value.length; from += DEPTH_VALUES) found.push(readDepth(value.slice(from)))
  }
  return found
}

export function readDepth(values: readonly number[]): CountedDepth {
  const [blocked, scheduled, ready, running, retrying, dead, ageMs] = values as readonly [
    ...[number, number, number, number, number, number, number],
  ]
  return { blocked, scheduled, ready, running, retrying, dead, oldestAgeS: ageMs / 1_000 }
}

export async function stats(redis: Redis, queue: string | null): Promise<QueueStats> {
  const names = queue === null ? (await allQueues(redis)).map(({ name }) => name) : [queue]
  const [depths, attempts] = await Promise.all([depthsOf(redis, names), attemptsOf(redis, queue, ATTEMPTS_WINDOW)])
  return statsOf(addDepths(depths), attempts)
}

/** The attempts of the newest jobs that succeeded or died. */
export async function attemptsOf(redis: Redis, queue: string | null, window: number): Promise<number[]> {
  return (await redis.read<number[]>('look', 'attempts', [queue ?? '', window])).value
}

export function statsOf(depth: CountedDepth, attempts: number[]): QueueStats {
  const sorted = attempts.sort((one, other) => one - other)
  return { ...depth, attemptsP99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0, isExact: true }
}

const EMPTY: CountedDepth = { blocked: 0, scheduled: 0, ready: 0, running: 0, retrying: 0, dead: 0, oldestAgeS: 0 }

export function addDepths(depths: readonly CountedDepth[]): CountedDepth {
  return depths.reduce(
    (sum, each) => ({
      blocked: sum.blocked + each.blocked,
      scheduled: sum.scheduled + each.scheduled,
      ready: sum.ready + each.ready,
      running: sum.running + each.running,
      retrying: sum.retrying + each.retrying,
      dead: sum.dead + each.dead,
      oldestAgeS: Math.max(sum.oldestAgeS, each.oldestAgeS),
    }),
    EMPTY,
  )
}

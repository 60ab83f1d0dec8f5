// Drops what has run out: finished jobs past their retention, keys, ticks, workers, series. Jobs go chunk by chunk from the oldest; live and
// dead ones stay where they are.

import { SERIES_KEPT_MS } from '../../core/operating.js'
import type { Pruned } from '../../core/upkeep-store.js'
import { lua } from './lua.js'
import { allQueues, type KnownQueue } from './queues.js'
import type { Redis } from './redis.js'

/**
 * prune: ARGV longest retention in ms, chunks to go through, how long series are kept, then nothing when all queues have one retention, or that of queues without one, and
 * queue and retention of each other. Answers with: rows that went, '1' when there is more to do, jobs that went before their day,
 * then the days of the jobs that went, counted from 1970.
 */
export const PRUNE: string = lua`
local DAY = 86400000
-- A tick this old cannot come up again: no schedule catches up that far.
local TICK_KEPT = 30 * DAY
-- Workers beat every few seconds; one unseen this long is gone.
local WORKER_KEPT = 600000
-- Keys, ticks, workers and steps of series that go in one call, of each.
local ROWS_MAX = 1000

-- The time in an id: its first 48 bits.
local function idTime(id)
  local ms = 0
  for i = 1, 8 do ms = ms * 64 + string.find(ID_CHARACTERS, string.sub(id, i, i), 1, true) - 1 end
  return ms
end

-- Whole days go, so a job goes when its day and its own end lie before the horizon.
local function pruneJobs(work, horizon, chunksMax, days)
  local from = redis.call('HGET', work.b .. 'meta', 'pruned') or ''
  local chunks = {}
  if from == '' then chunks[1] = '' end
  local bound = from == '' and '-' or '[' .. from
  for _, name in ipairs(redis.call('ZRANGEBYLEX', work.b .. 'chunks', bound, '+', 'LIMIT', 0, chunksMax + 1)) do chunks[#chunks + 1] = name end
  local following = chunks[chunksMax + 1]
  for i = 1, math.min(chunksMax, #chunks) do
    local chunk, left = chunks[i], 0
    if chunk ~= '' and idTime(chunk) >= horizon then
      following = nil
      break
    end
    local standings = redis.call('HGETALL', work.b .. 's:' .. chunk)
    left = redis.call('HLEN', work.b .. 'f:' .. chunk)
    local hasPayloads = redis.call('EXISTS', work.b .. 'b:' .. chunk) == 1
    for s = 1, #standings, 2 do
      local id, job = standings[s], parseStanding({}, standings[s + 1])
      local day = math.floor(idTime(id) / DAY)
      local isOver = job.state == 'F' or job.state == 'C'
      if isOver and (day + 1) * DAY < horizon and job.at < horizon then
        deletes.drop(work, chunk, id, job, hasPayloads)
        days[day] = true
        left = left - 1
      end
    end
    if left == 0 and chunk ~= '' then setScore(work, 'chunks', chunk, false) end
  end
  setField(work, 'meta', 'pruned', following or '')
  return following ~= nil
end

-- So much an id may be ahead of this server's time.
local AHEAD = 60000

-- Jobs of queues with a shorter retention go before their day. Each call goes on where the last one stopped, round and round: a job may
-- finish long after it was made.
local function pruneEarly(work, horizon, chunksMax, usual, own)
  local least = usual
  for _, retention in pairs(own) do least = math.min(least, retention) end
  local from, chunks, count = redis.call('HGET', work.b .. 'meta', 'early') or '', {}, 0
  if from == '' then chunks[1] = '' end
  for _, name in ipairs(redis.call('ZRANGEBYLEX', work.b .. 'chunks', from == '' and '-' or '[' .. from, '+', 'LIMIT', 0, chunksMax + 1)) do
    chunks[#chunks + 1] = name
  end
  local following = chunks[chunksMax + 1]
  if following and idTime(following) >= work.t - least + AHEAD then following = nil end
  for i = 1, math.min(chunksMax, #chunks) do
    local chunk, ids, jobs = chunks[i], {}, {}
    if chunk ~= '' and idTime(chunk) >= work.t - least + AHEAD then break end
    local standings = redis.call('HGETALL', work.b .. 's:' .. chunk)
    for s = 1, #standings, 2 do
      local id, job = standings[s], parseStanding({}, standings[s + 1])
      local isOver = work.standings[id] == nil and (job.state == 'F' or job.state == 'C') and job.at < work.t - least
      local isOfDay = isOver and (math.floor(idTime(id) / DAY) + 1) * DAY < horizon and job.at < horizon
      if isOver and not isOfDay then ids[#ids + 1], jobs[#jobs + 1] = id, job end
    end
    local facts = ids[1] and redis.call('HMGET', work.b .. 'f:' .. chunk, unpack(ids)) or {}
    for k, id in ipairs(ids) do
      local retention = own[string.match(facts[k] or '', '^%d+ %S+ (%S+)')] or usual
      -- One of the longest retention goes with its day.
      if work.t - retention > horizon and jobs[k].at < work.t - retention then
        deletes.drop(work, chunk, id, jobs[k], true)
        count = count + 1
      end
    end
  end
  setField(work, 'meta', 'early', following or '')
  return count, following ~= nil
end

local function pruneKeys(work)
  local rows = 0
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', work.b .. 'keyx', '-inf', text(work.t), 'LIMIT', 0, ROWS_MAX)) do
    local queue, key = string.match(name, '^(%S+) (%S+)$')
    setField(work, 'keys:' .. queue, key, false)
    setScore(work, 'keyx', name, false)
    rows = rows + 1
  end
  return rows
end

local function pruneTicks(work)
  local rows = 0
  for _, name in ipairs(redis.call('SMEMBERS', work.b .. 'ticked')) do
    local key, old = 'ticks:' .. name, '(' .. text(work.t - TICK_KEPT)
    local gone = redis.call('ZRANGEBYSCORE', work.b .. key, '-inf', old, 'LIMIT', 0, ROWS_MAX)
    for _, tick in ipairs(gone) do setScore(work, key, tick, false) end
    if #gone > 0 and #gone == redis.call('ZCARD', work.b .. key) then setMember(work, 'ticked', name, false) end
    rows = rows + #gone
    if rows >= ROWS_MAX then break end
  end
  return rows
end

local function pruneWorkers(work)
  local old = '(' .. text(work.t - WORKER_KEPT)
  local gone = redis.call('ZRANGEBYSCORE', work.b .. 'workers', '-inf', old, 'LIMIT', 0, ROWS_MAX)
  for _, id in ipairs(gone) do
    setScore(work, 'workers', id, false)
    setField(work, 'beats', id, false)
  end
  return #gone
end

local function pruneSeries(work, keptMs)
  local old = '(' .. text(work.t - keptMs)
  local gone = redis.call('ZRANGEBYSCORE', work.b .. 'series', '-inf', old, 'LIMIT', 0, ROWS_MAX)
  for _, bucket in ipairs(gone) do
    later(work, 'DEL', 'ty:' .. bucket)
    later(work, 'DEL', 'sm:' .. bucket)
    setScore(work, 'series', bucket, false)
  end
  return #gone
end

-- What other shards have reported of jobs that none here comes after any more. A child may be on its way: it comes within seconds.
function shards.prune(work)
  local old = redis.call('ZRANGEBYSCORE', work.b .. 'farx', '-inf', text(work.t - WORKER_KEPT), 'LIMIT', 0, ROWS_MAX)
  for _, parent in ipairs(old) do
    local isUsed = next(kidsOf(work, parent)) ~= nil
    setScore(work, 'farx', parent, isUsed and work.t)
    if not isUsed then setField(work, 'far', parent, false) end
  end
end

writes('prune', { 'allow-oom' }, function(work, args)
  local retention, chunksMax, keptMs, days, answer = tonumber(args[3]), tonumber(args[4]), tonumber(args[5]), {}, {}
  local hasMore = pruneJobs(work, work.t - retention, chunksMax, days)
  local early, isOpen, own = 0, false, {}
  for i = 7, #args, 2 do own[args[i]] = tonumber(args[i + 1]) end
  if args[6] then early, isOpen = pruneEarly(work, work.t - retention, chunksMax, tonumber(args[6]), own) end
  hasMore = hasMore or isOpen
  local keys, ticks, workers = pruneKeys(work), pruneTicks(work), pruneWorkers(work)
  local steps, dropped = pruneSeries(work, keptMs), groups.prune(work, ROWS_MAX)
  if work.shard then shards.prune(work) end
  if math.max(keys, ticks, workers, steps, dropped) >= ROWS_MAX then hasMore = true end
  answer[1], answer[2], answer[3] = keys + ticks + workers + dropped, hasMore and '1' or '', early
  for day in pairs(days) do answer[#answer + 1] = day end
  return answer
end)
`

/** Chunks of one call: about 1,300 jobs. */
const CHUNKS_MAX = 20
const DAY_MS = 86_400_000

export async function prune(redis: Redis, retentionMs: number): Promise<Pruned> {
  return pruneShard(redis, retentionsOf(await allQueues(redis), retentionMs))
}

/** How long finished jobs are kept. */
export interface Retentions {
  readonly longest: number
  /** Of queues without one of their own. */
  readonly usual: number
  /** Of the others, in pairs of name and time. */
  readonly own: readonly (string | number)[]
}

export function retentionsOf(queues: readonly KnownQueue[], retentionMs: number): Retentions {
  const own = queues.flatMap(({ name, settings }) =>
    settings.retentionMs === undefined ? [] : [[name, settings.retentionMs] as const],
  )
  const longest = own.reduce((most, [, ms]) => Math.max(most, ms), retentionMs)
  return { longest, usual: retentionMs, own: own.filter(([, ms]) => ms !== retentionMs).flat() }
}

/** Prunes what is past these retentions: whole days when the longest is over. */
export async function pruneShard(redis: Redis, { longest, usual, own }: Retentions): Promise<Pruned> {
  const { value } = await redis.write<[number, string, number, ...number[]]>('upkeep', 'prune', [
    ...[longest, CHUNKS_MAX, SERIES_KEPT_MS],
    ...(own.length === 0 ? [] : [usual, ...own]),
  ])
  const [rows, hasMore, early, ...days] = value
  return {
    days: days.map((day) => new Date(day * DAY_MS).toISOString().slice(0, 10)).sort(),
    rows,
    ...(early === 0 ? {} : { early }),
    postponed: [],
    isDone: hasMore !== '1',
  }
}

// One call of a function: what it has read, and what it will write. Redis does not roll back a script that fails half-way, so a function
// only reads and decides, and one commit at its end writes everything. What can make the commit
// fail is tried before its first write: keys of another type, and rights that the user lacks.

import { lua } from './lua.js'

/** The layout of the keys. A change that older code cannot read makes it one more. */
export const LAYOUT = 1

export const WORK_LUA: string = lua`
-- What flow control, clusters and long jobs add: held.ts, limits.ts, groups.ts, owed.ts, kept.ts and signal.ts fill these. A chunk of Lua
-- has 200 local names at most.
local held, limits, groups, shards, kept = {}, {}, {}, {}, {}

-- A wake-up is published for a queue that had no ready job, and otherwise at most this often.
local WAKE_GAP_MS = 10

local function begin(b, args)
  local meta = redis.call('HMGET', b .. 'meta', 'layout', 'last', 'shard')
  if not meta[1] then error({ err = 'HFMISSING there is no store here' }) end
  if meta[1] ~= LAYOUT then error({ err = 'HFLAYOUT ' .. meta[1] }) end
  local t = tonumber(args[1])
  if not t then
    local time = redis.call('TIME')
    t = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local self, seenLine = args[2], nil
  if meta[3] then self, seenLine = string.match(self, '^(%S+) (%d+)$') end
  return {
    b = b, t = t, self = self, last = meta[2] or '',
    -- Of a store with several shards: which one this is, the newest line of the audit log that the caller knows, and what it owes others.
    shard = tonumber(meta[3] or nil), seenLine = tonumber(seenLine), owed = {},
    chunk = {}, f = {}, s = {}, jobs = {}, queues = {},
    -- What the commit writes. Of several changes to one member or field the last one counts.
    facts = {}, payloads = {}, standings = {}, newChunks = {}, zsets = {}, hashes = {}, sets = {}, counts = {}, total = {}, sums = {}, lists = {}, commands = {},
    woken = {}, told = {}, wokenNames = {}, asked = {}, lines = 0
  }
end

local function change(work, kind, key, member, value)
  local changes = work[kind][key]
  if not changes then
    changes = {}
    work[kind][key] = changes
  end
  changes[member] = value
end

-- Each takes the new value, or false to remove the member or field.
local function setScore(work, key, member, score) change(work, 'zsets', key, member, score) end
local function setField(work, key, field, value) change(work, 'hashes', key, field, value) end
local function setMember(work, key, member, isIn) change(work, 'sets', key, member, isIn) end

-- A field as it will be after the commit.
local function getField(work, key, field)
  local changes = work.hashes[key]
  if changes and changes[field] ~= nil then return changes[field] end
  return redis.call('HGET', work.b .. key, field)
end

-- For commands with a list of members or fields and values: of many jobs that are alike one list is made, and no change for each. Returns
-- the list, to be filled.
local function listFor(work, command, key)
  local list = {}
  work.lists[#work.lists + 1] = { command = command, key = key, values = list }
  return list
end

-- For commands that only add to what is there: RPUSH, XADD, DEL.
local function later(work, ...) work.commands[#work.commands + 1] = { ... } end

local function count(work, queue, state, n)
  local counts = work.counts[queue]
  if not counts then
    counts = {}
    work.counts[queue] = counts
  end
  counts[state] = (counts[state] or 0) + n
  work.total[state] = (work.total[state] or 0) + n
end

-- A queue: whether it is known and paused, its settings, its last position.
local function queueOf(work, name)
  local queue = work.queues[name]
  if not queue then
    local values = redis.call('HMGET', work.b .. 'q:' .. name, 'created', 'paused', 'settings', 'pos', 'woke', 'ready', 'flow', 'renewing')
    queue = {
      isKnown = values[1] and true or false, isPaused = values[2] == '1', settings = values[3] or '{"limits":{}}',
      position = tonumber(values[4] or 0), woke = tonumber(values[5] or 0), ready = tonumber(values[6] or 0),
      -- Why it has flow control, as letters (held.ts); most have none.
      flow = values[7] or '', renewing = values[8]
    }
    work.queues[name] = queue
  end
  return queue
end

local function openQueue(work, name, by)
  local queue = queueOf(work, name)
  if queue.isKnown then return queue end
  queue.isKnown = true
  setScore(work, 'queues', name, 0)
  setField(work, 'q:' .. name, 'created', work.t)
  if by then
    setField(work, 'q:' .. name, 'by', by)
    later(work, 'HINCRBY', 'makers', by, 1)
  end
  return queue
end

local function nextPosition(work, name)
  local queue = queueOf(work, name)
  queue.position, queue.hasMoved = queue.position + 1, true
  return queue.position
end

-- Adds to a number. What is added in one call is written together.
local function addTo(work, key, field, n)
  local fields = work.sums[key]
  if not fields then
    fields = {}
    work.sums[key] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- In a queue with flow control jobs may wait while others can go, so that one that becomes free must be named.
local function wake(work, name, mustTell)
  if mustTell then work.told[name] = true end
  if work.woken[name] then return end
  work.woken[name] = true
  work.wokenNames[#work.wokenNames + 1] = name
end

-- Lines of one shard count on by one. Those of several follow the time, each shard in every sixteenth, and a line is above all that the
-- caller knows: so the lines of all shards have one order.
function shards.nextLine(work)
  if not work.shard then return work.auditLine + 1 end
  local least = math.max(work.auditLine, work.seenLine, work.t * 1024) + 1
  return least + (work.shard - least) % 16
end

-- A line of the audit log. The id of a job, what else it was done to and the details may be ''.
local function audit(work, actor, action, job, target, details)
  if not work.auditLine then
    local newest = redis.call('XREVRANGE', work.b .. 'audit', '+', '-', 'COUNT', 1)[1]
    local line = newest and tonumber(string.match(newest[1], '^%d+')) or 0
    work.auditLine = math.max(line, tonumber(redis.call('HGET', work.b .. 'meta', 'audit') or 0))
  end
  work.auditLine = shards.nextLine(work)
  setField(work, 'meta', 'audit', work.auditLine)
  later(work, 'XADD', 'audit', string.format('%.0f-1', work.auditLine), 'at', string.format('%.0f', work.t),
    'actor', actor, 'action', action, 'job', job, 'target', target, 'details', details)
end

local function text(value)
  if type(value) == 'number' then return string.format('%.0f', value) end
  return value
end

-- Where jobs wait of a type that a claim did not know. Names have no blank, but colons.
local function parkOf(queue, kind) return 'park:' .. queue .. ' ' .. kind end

local function commitZsets(work)
  for key, changes in pairs(work.zsets) do
    local added, removed = {}, {}
    for member, score in pairs(changes) do
      if score then
        added[#added + 1] = text(score)
        added[#added + 1] = member
      else
        removed[#removed + 1] = member
      end
    end
    callWith('ZREM', work.b .. key, removed)
    callWith('ZADD', work.b .. key, added)
  end
end

local function commitHashes(work, hashes)
  for key, changes in pairs(hashes) do
    local set, removed = {}, {}
    for field, value in pairs(changes) do
      if value then
        set[#set + 1] = field
        set[#set + 1] = text(value)
      else
        removed[#removed + 1] = field
      end
    end
    callWith('HDEL', work.b .. key, removed)
    callWith('HSET', work.b .. key, set)
  end
end

local function commitSets(work)
  for key, changes in pairs(work.sets) do
    for member, isIn in pairs(changes) do redis.call(isIn and 'SADD' or 'SREM', work.b .. key, member) end
  end
end

local function byChunk(work, prefix, values)
  local hashes = {}
  for id, value in pairs(values) do
    local key = prefix .. chunkOf(work, id)
    if not hashes[key] then hashes[key] = {} end
    hashes[key][id] = value
  end
  return hashes
end

local function publish(work)
  for _, name in ipairs(work.wokenNames) do
    local queue = queueOf(work, name)
    local isDue = work.told[name] or queue.ready == 0 or work.t - queue.woke >= WAKE_GAP_MS or work.t < queue.woke
    if isDue then
      redis.call('HSET', work.b .. 'q:' .. name, 'woke', text(work.t))
      redis.call('SPUBLISH', work.b .. 'wake', work.self .. ' r ' .. name)
    end
  end
  for _, id in ipairs(work.asked) do redis.call('SPUBLISH', work.b .. 'wake', work.self .. ' c ' .. id) end
end

local function addCounts(key, counts)
  for state, n in pairs(counts) do
    if n ~= 0 then redis.call('HINCRBY', key, state, n) end
  end
end

-- The commands that read the size of a key, and raise when it is of another type.
local SIZES = {
  zsets = 'ZCARD', hashes = 'HLEN', sets = 'SCARD', RPUSH = 'LLEN', LTRIM = 'LLEN', XADD = 'XLEN', XDEL = 'XLEN',
  HINCRBY = 'HLEN', HINCRBYFLOAT = 'HLEN', LPUSH = 'LLEN', HSET = 'HLEN', ZADD = 'ZCARD', ZREM = 'ZCARD', ZREMRANGEBYRANK = 'ZCARD'
}

local function demand(work, known, command, ...)
  if known[command] then return end
  known[command] = true
  if not redis.acl_check_cmd(command, ...) then error({ err = 'NOPERM no permission to run ' .. command .. ' on ' .. work.b .. '*' }) end
end

-- Raises when the commit could not be written to its end. The keys of facts, standings, queues and meta need no look: they were read.
local function tryCommit(work)
  local b, known = work.b, {}
  if next(work.zsets) then
    demand(work, known, 'ZADD', b, '0', '0')
    demand(work, known, 'ZREM', b, '0')
  end
  demand(work, known, 'HSET', b, '0', '0')
  demand(work, known, 'HDEL', b, '0')
  if next(work.total) then
    demand(work, known, 'HINCRBY', b, '0', '1')
    redis.call('HLEN', b .. 'counts')
  end
  for key in pairs(work.sums) do
    demand(work, known, 'HINCRBY', b, '0', '1')
    redis.call('HLEN', b .. key)
  end
  for _, each in ipairs(work.lists) do
    demand(work, known, each.command, b, '0', '0')
    redis.call(SIZES[each.command], b .. each.key)
  end
  if next(work.sets) then
    demand(work, known, 'SADD', b, '0')
    demand(work, known, 'SREM', b, '0')
  end
  for _, kind in ipairs({ 'zsets', 'hashes', 'sets' }) do
    for key in pairs(work[kind]) do
      local isRead = key == 'meta' or string.sub(key, 1, 2) == 'q:'
      if not isRead then redis.call(SIZES[kind], b .. key) end
    end
  end
  for _, command in ipairs(work.commands) do
    demand(work, known, command[1], b, unpack(command, 3))
    local size = SIZES[command[1]]
    if size then redis.call(size, b .. command[2]) end
  end
  if work.wokenNames[1] or work.asked[1] then demand(work, known, 'SPUBLISH', b .. 'wake', '') end
end

local function commit(work)
  if work.held then held.dropEmpty(work) end
  if work.slotted then limits.report(work) end
  tryCommit(work)
  for _, chunk in ipairs(work.newChunks) do redis.call('ZADD', work.b .. 'chunks', 0, chunk) end
  -- First, because ranks count before anything else has changed.
  for _, each in ipairs(work.lists) do callWith(each.command, work.b .. each.key, each.values) end
  commitHashes(work, byChunk(work, 'f:', work.facts))
  commitHashes(work, byChunk(work, 'b:', work.payloads))
  commitHashes(work, byChunk(work, 's:', work.standings))
  if work.grown then
    redis.call('HSET', work.b .. 'meta', 'last', work.last)
  end
  commitZsets(work)
  commitHashes(work, work.hashes)
  commitSets(work)
  for name, queue in pairs(work.queues) do
    if queue.hasMoved then redis.call('HSET', work.b .. 'q:' .. name, 'pos', text(queue.position)) end
  end
  for queue, counts in pairs(work.counts) do addCounts(work.b .. 'q:' .. queue, counts) end
  addCounts(work.b .. 'counts', work.total)
  for key, sums in pairs(work.sums) do addCounts(work.b .. key, sums) end
  for _, command in ipairs(work.commands) do
    command[2] = work.b .. command[2]
    redis.call(unpack(command))
  end
  for chunk in pairs(work.grown or {}) do
    if redis.call('HLEN', work.b .. 'f:' .. chunk) > CHUNK_MAX then cut(work.b, chunk) end
  end
  publish(work)
end
`

// One call of a function: what it has read, and what it will write. Redis does not roll back a script that fails half-way, so a function
// only reads and decides, and one commit at its end writes everything. Nothing in the commit can fail.

import { lua } from './lua.js'

/** The layout of the keys. A change that older code cannot read makes it one more. */
export const LAYOUT = 1

export const WORK_LUA: string = lua`
-- A wake-up is published for a queue that had no ready job, and otherwise at most this often.
local WAKE_GAP_MS = 10

local function begin(b, args)
  local meta = redis.call('HMGET', b .. 'meta', 'layout', 'last')
  if not meta[1] then error({ err = 'HFMISSING there is no store here' }) end
  if meta[1] ~= LAYOUT then error({ err = 'HFLAYOUT ' .. meta[1] }) end
  local t = tonumber(args[1])
  if not t then
    local time = redis.call('TIME')
    t = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return {
    b = b, t = t, self = args[2], last = meta[2] or '',
    chunk = {}, f = {}, s = {}, jobs = {}, queues = {},
    -- What the commit writes. Of several changes to one member or field the last one counts.
    facts = {}, standings = {}, newChunks = {}, zsets = {}, hashes = {}, sets = {}, counts = {}, total = {}, commands = {},
    woken = {}, wokenNames = {}, asked = {}, lines = 0
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
    local values = redis.call('HMGET', work.b .. 'q:' .. name, 'created', 'paused', 'settings', 'pos', 'woke', 'ready')
    queue = {
      isKnown = values[1] and true or false, isPaused = values[2] == '1', settings = values[3] or '{"limits":{}}',
      position = tonumber(values[4] or 0), woke = tonumber(values[5] or 0), ready = tonumber(values[6] or 0)
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

local function wake(work, name)
  if work.woken[name] then return end
  work.woken[name] = true
  work.wokenNames[#work.wokenNames + 1] = name
end

-- A line of the audit log. The id of a job, what else it was done to and the details may be ''.
local function audit(work, actor, action, job, target, details)
  if not work.auditLine then work.auditLine = tonumber(redis.call('HGET', work.b .. 'meta', 'audit') or 0) end
  work.auditLine = work.auditLine + 1
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
    local isDue = queue.ready == 0 or work.t - queue.woke >= WAKE_GAP_MS or work.t < queue.woke
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

local function commit(work)
  for _, chunk in ipairs(work.newChunks) do redis.call('ZADD', work.b .. 'chunks', 0, chunk) end
  commitHashes(work, byChunk(work, 'f:', work.facts))
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

// Where jobs are: facts and standings are in small hashes, f:<chunk> and s:<chunk>, of neighbouring ids. A chunk is named by its first
// id; the sorted set `chunks` has the names in the order of bytes, and '' is the chunk before all others. A job is in the chunk with the
// greatest name that is not above its id.
//
// A chunk that is full is followed by a new one only for an id above the highest there ever was (meta.last). An id that comes late, from
// a process some milliseconds behind, goes where its neighbours are. A new chunk at a late id would cut off all ids above it: in a
// prototype that lost half of the jobs. A chunk that late ids have made too large is cut into several.

import { lua } from './lua.js'

export const CHUNKS_LUA: string = lua`
local CHUNK = 64
local CHUNK_MAX = 128
-- Redis refuses to unpack more than about 8,000 values.
local UNPACK_MAX = 7000

-- Redis orders by bytes. Lua does so in the C locale only, and a server may have been started in another.
local isByteOrder = 'B' < 'a' and 'Z' < '_' and '-' < '0'

local function less(one, other)
  if isByteOrder then return one < other end
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local function sorted(ids)
  local isSorted = true
  for i = 2, #ids do
    if not less(ids[i - 1], ids[i]) then isSorted = false end
  end
  if not isSorted then table.sort(ids, less) end
  return ids
end

-- Calls a command that takes a list, in portions.
local function callWith(command, key, list)
  for from = 1, #list, UNPACK_MAX do
    redis.call(command, key, unpack(list, from, math.min(from + UNPACK_MAX - 1, #list)))
  end
end

local function isWithin(range, id) return not less(id, range.from) and not (range.to and not less(id, range.to)) end

-- The names of a chunk and of the one behind it, between which an id is.
local function rangeOf(work, id)
  if work.range and isWithin(work.range, id) then return work.range end
  -- Jobs of two neighbouring chunks often alternate.
  work.range, work.other = work.other, work.range
  if work.range and isWithin(work.range, id) then return work.range end
  local key = work.b .. 'chunks'
  work.range = {
    from = redis.call('ZREVRANGEBYLEX', key, '[' .. id, '-', 'LIMIT', 0, 1)[1] or '',
    to = redis.call('ZRANGEBYLEX', key, '(' .. id, '+', 'LIMIT', 0, 1)[1]
  }
  return work.range
end

local function chunkOf(work, id)
  local known = work.chunk[id]
  if known then return known end
  known = rangeOf(work, id).from
  work.chunk[id] = known
  return known
end

-- Divides ids by chunk. Each portion has its chunk, its ids, and their places in the list.
local function portionsOf(work, ids)
  local portions, byChunk, portion, range = {}, {}, nil, nil
  for i = 1, #ids do
    local id = ids[i]
    if not range or not isWithin(range, id) then
      range = rangeOf(work, id)
      portion = byChunk[range.from]
      if not portion then
        portion = { chunk = range.from, ids = {}, places = {} }
        byChunk[range.from] = portion
        portions[#portions + 1] = portion
      end
    end
    local n = #portion.ids + 1
    portion.ids[n], portion.places[n] = id, i
  end
  return portions
end

-- The facts or standings of these ids, by their places in the list; false for none.
local function readPortions(work, kind, portions)
  local values = {}
  for _, portion in ipairs(portions) do
    local ids, places = portion.ids, portion.places
    for from = 1, #ids, 1000 do
      local found = redis.call('HMGET', work.b .. kind .. ':' .. portion.chunk, unpack(ids, from, math.min(from + 999, #ids)))
      for i = 1, #found do values[places[from + i - 1]] = found[i] end
    end
  end
  return values
end

-- Reads what is not known yet of these ids; kind is 'f' for facts or 's' for standings. False stands for none.
local function load(work, kind, ids)
  local known, byChunk, chunks = work[kind], {}, {}
  for _, id in ipairs(ids) do
    if known[id] == nil then
      known[id] = false
      local chunk = chunkOf(work, id)
      local group = byChunk[chunk]
      if not group then
        group = {}
        byChunk[chunk] = group
        chunks[#chunks + 1] = chunk
      end
      group[#group + 1] = id
    end
  end
  for _, chunk in ipairs(chunks) do
    local sought = byChunk[chunk]
    for from = 1, #sought, 1000 do
      local upTo = math.min(from + 999, #sought)
      local values = redis.call('HMGET', work.b .. kind .. ':' .. chunk, unpack(sought, from, upTo))
      for i = from, upTo do known[sought[i]] = values[i - from + 1] end
    end
  end
end

-- The chunk that ids above all others go into, and how many jobs it has.
local function newestChunk(work)
  local newest = work.newChunks[#work.newChunks] or redis.call('ZREVRANGEBYLEX', work.b .. 'chunks', '+', '-', 'LIMIT', 0, 1)[1] or ''
  return newest, redis.call('HLEN', work.b .. 'f:' .. newest) + (work.grown and work.grown[newest] or 0)
end

-- Gives each new id its chunk. What it decides is written by the commit.
local function placeNew(work, ids)
  local last, newest, size = work.last, nil, 0
  work.grown = {}
  for _, id in ipairs(sorted(ids)) do
    if less(last, id) then
      if not newest then
        newest, size = newestChunk(work)
      end
      if size >= CHUNK then
        newest, size = id, 0
        work.newChunks[#work.newChunks + 1] = id
      end
      size = size + 1
      work.chunk[id] = newest
      last = id
    else
      work.chunk[id] = nil
      newest = nil
    end
    local chunk = chunkOf(work, id)
    work.grown[chunk] = (work.grown[chunk] or 0) + 1
  end
  work.last = last
end

-- Cuts a chunk that is too large: every 64 jobs of it become a chunk of their own.
local function cut(b, chunk)
  local ids = sorted(redis.call('HKEYS', b .. 'f:' .. chunk))
  for from = CHUNK + 1, #ids, CHUNK do
    local name = ids[from]
    redis.call('ZADD', b .. 'chunks', 0, name)
    for i = from, math.min(from + CHUNK - 1, #ids) do
      for _, field in ipairs({ 'f', 'b', 's', 'xr', 'xp' }) do
        local kind, name2 = string.sub(field, 1, 1), ids[i] .. string.sub(field, 2)
        local value = redis.call('HGET', b .. kind .. ':' .. chunk, name2)
        if value then
          redis.call('HSET', b .. kind .. ':' .. name, name2, value)
          redis.call('HDEL', b .. kind .. ':' .. chunk, name2)
        end
      end
    end
  end
end
`

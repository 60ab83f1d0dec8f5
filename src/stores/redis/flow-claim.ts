// Claims from a queue that has flow control: tracks share the claim, groups take turns, and no limit is passed. What runs is looked up at
// the beginning of each claim. The order of turns, their length and what is answered are those of the memory store.

import { lua } from './lua.js'

export const FLOW_CLAIM: string = lua`
local claimFlow
do
-- After this time a group is looked at again, whatever it waits for.
local NAP_MAX_MS = 86400000
-- Groups that one claim looks at, naps that end in one, and priorities that one look goes through.
local VISITS_MAX, NAPS_MAX, LEVELS_MAX = 2000, 1000, 1000
local PORTION = 64
-- A group that may run this many gets them in one turn.
local TURN_MIN = 4

-- Jobs of sorted sets in the order of their scores, read as far as they are needed.
local function newLineup(sources, hint, from, upTo)
  return { sources = sources, size = 0, hint = hint, from = from or '-inf', upTo = upTo or '+inf', jobs = {}, at = 1, isEnd = false }
end

local function readMore(look, lineup)
  local work, found, ids = look.work, {}, {}
  lineup.size = lineup.size == 0 and math.max(4, lineup.hint + 1) or lineup.size * 4
  lineup.isEnd = true
  for _, source in ipairs(lineup.sources) do
    local members = redis.call('ZRANGEBYSCORE', work.b .. source, lineup.from, lineup.upTo, 'WITHSCORES', 'LIMIT', 0, lineup.size)
    if #members >= 2 * lineup.size then lineup.isEnd = false end
    addWithScores(found, source, members)
  end
  if #lineup.sources > 1 then table.sort(found, function(one, other) return one.score < other.score end) end
  while #found > lineup.size do table.remove(found) end
  lineup.jobs = found
  for i, each in ipairs(found) do ids[i] = each.id end
  load(work, 's', ids)
  load(work, 'f', ids)
end

local function isKnown(look, job) return not look.types or look.types[job.type] ~= nil end

-- The first job that nobody has taken yet, of those that the worker knows unless any will do. Nil when there is none.
local function firstIn(look, lineup, isAny)
  while true do
    while lineup.at <= #lineup.jobs do
      local each = lineup.jobs[lineup.at]
      if not look.taken[each.id] then
        local job = jobOf(look.work, each.id)
        if isAny or isKnown(look, job) then
          -- The place of a plain job is in a backlog of types that some claim did not know, or in that of all.
          if not job.flow then job.place, job.score = each.place, each.score end
          return job
        end
        if look.passed >= PASSED_MAX then return nil end
        look.passed = look.passed + 1
        if each.place == 'line:' .. look.queue then
          look.strangers[#look.strangers + 1] = { id = each.id, type = job.type, score = each.score }
        end
      end
      lineup.at = lineup.at + 1
    end
    if lineup.isEnd then return nil end
    readMore(look, lineup)
  end
end

local function lineupOf(look, track, group, hint)
  local lineup = track.lineups[group]
  if not lineup then
    lineup = newLineup(track.sources or { placeKey(look.queue, track.name, group) }, hint)
    track.lineups[group] = lineup
  end
  return lineup
end

-- The jobs of each priority, the highest first.
local function levelsOf(lineup, look)
  if lineup.levels then return lineup.levels end
  local levels, from = {}, '-inf'
  for _ = 1, LEVELS_MAX do
    local lowest
    for _, source in ipairs(lineup.sources) do
      local first = redis.call('ZRANGEBYSCORE', look.work.b .. source, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if first[2] then lowest = math.min(lowest or tonumber(first[2]), tonumber(first[2])) end
    end
    if not lowest then break end
    local start = math.floor(lowest / (2 * LANE)) * 2 * LANE
    local level = newLineup(lineup.sources, lineup.hint, text(start), '(' .. text(start + 2 * LANE))
    level.priority = 32767 - start / (2 * LANE)
    levels[#levels + 1] = level
    from = text(start + 2 * LANE)
  end
  lineup.levels = levels
  return levels
end

-- The job that comes first: with aging, the first of each priority competes with what it has gained. Age counts for the first quarter of
-- the turn that each priority gives.
local function firstOf(look, lineup, given)
  local agingMs = held.settings(look.work, look.queue).agingMs
  if not agingMs then return firstIn(look, lineup) end
  local best, bestRank
  for _, level in ipairs(levelsOf(lineup, look)) do
    local job = firstIn(look, level)
    if job then
      local rank = job.priority
      if (given.byPriority[rank] or 0) < given.quarter then rank = rank + (look.work.t - job.at) / agingMs end
      if not best or rank > bestRank then best, bestRank = job, rank end
    end
  end
  return best
end

local function give(given, job) given.byPriority[job.priority] = (given.byPriority[job.priority] or 0) + 1 end

local function newGiven(length) return { quarter = math.ceil(length / 4), byPriority = {} } end

local function waitingIn(look, track, group)
  if track.isPlain then return track.size - look.plainTaken end
  return sizeOf(look.work, placeKey(look.queue, track.name, group))
end

-- Whether another track holds an earlier job of an ordered group.
local function isPreceded(look, job)
  for _, track in ipairs(held.tracks(look.work, look.queue)) do
    if track ~= job.flow.track then
      local first = redis.call('ZRANGE', look.work.b .. placeKey(look.queue, track, job.flow.group), 0, 0, 'WITHSCORES')[2]
      if first and tonumber(first) < ORDERED + job.flow.order then return true end
    end
  end
  return false
end

-- The job a group would give next, whatever the limits of its track say: 'job' and the job, 'unknown', or 'closed' and until when, if a
-- time will open it.
local function nextOf(look, track, group, given, hint)
  local work, queue = look.work, look.queue
  if waitingIn(look, track, group) <= 0 then return 'closed' end
  local bounds = groups.bounds(work, queue, group)
  local entry = bounds.entry
  if entry and entry.isPaused then return 'closed' end
  if entry and entry.untilAt > work.t then return 'closed', entry.untilAt end
  local name = queue .. ' ' .. group
  if bounds.concurrency and sizeOf(work, 'busy:' .. name) >= bounds.concurrency then return 'closed' end
  local lineup, isOrdered, job = lineupOf(look, track, group, hint), held.isOrdered(work, queue, group), nil
  if isOrdered then
    if held.settings(work, queue).groups.onRetry ~= 'pass' and sizeOf(work, 'again:' .. name) > 0 then return 'closed' end
    job = firstIn(look, lineup, true)
    if not job or isPreceded(look, job) then return 'closed' end
    if not isKnown(look, job) then return 'unknown' end
  else
    job = firstOf(look, lineup, given)
    if not job then return 'unknown' end
  end
  local wait = 0
  if bounds.rate then
    local price = rates.priceOf(bounds.rate, job.flow.cost)
    wait = rates.waitFor(bounds.rate, entry.emptyAt, price, work.t)
  end
  if wait > 0 then return 'closed', work.t + wait end
  return 'job', job
end

-- Leases a job and takes what its rates ask for.
local function startJob(look, job)
  local work, group = look.work, held.groupOf(job)
  local bounds = groups.bounds(work, look.queue, group)
  if bounds.rate then
    bounds.entry.emptyAt = rates.draw(bounds.rate, bounds.entry.emptyAt, rates.priceOf(bounds.rate, job.flow.cost), work.t)
    groups.save(work, look.queue, group, bounds.entry)
  end
  for _, name in ipairs(limits.spend(work, job)) do look.probed[#look.probed + 1] = name end
  look.taken[job.id] = true
  if not job.flow then look.plainTaken = look.plainTaken + 1 end
  look.start(job)
end

-- The turns of a track: first those that are kept, read as far as they are needed, then those that this claim has put behind them.
local function turnsOf(look, track)
  local work, key = look.work, not track.isPlain and 'turns:' .. look.queue .. ' ' .. track.name or nil
  local turns = { key = key, read = {}, behind = {}, head = 1, kept = 0 }
  if track.isPlain then
    turns.behind[1] = { group = '' }
    return turns
  end
  turns.credits = 'credit:' .. look.queue .. ' ' .. track.name
  turns.kept = redis.call('ZCARD', work.b .. key)
  -- Groups whose nap is over.
  for group, number in pairs(work.zsets[key] or {}) do
    if number then turns.behind[#turns.behind + 1] = { group = group, number = number } end
  end
  table.sort(turns.behind, function(one, other) return one.number < other.number end)
  return turns
end

local function sizeOfTurns(turns) return turns.kept + #turns.behind - turns.head + 1 end

local function turnAt(look, turns, place)
  if place > turns.kept then return turns.behind[place - turns.kept] end
  while #turns.read < place do
    local names = redis.call('ZRANGE', look.work.b .. turns.key, #turns.read, #turns.read + PORTION - 1)
    local credits = redis.call('HMGET', look.work.b .. turns.credits, unpack(names))
    for i, group in ipairs(names) do turns.read[#turns.read + 1] = { group = group, credit = tonumber(credits[i] or '') } end
  end
  return turns.read[place]
end

-- The first group gives its place up, for one behind all others or for none.
local function endTurn(look, turns, turn, isBehind)
  turns.head = turns.head + 1
  if isBehind then turns.behind[#turns.behind + 1] = { group = turn.group } end
  if not turns.key then return end
  setScore(look.work, turns.key, turn.group, isBehind and nextPosition(look.work, look.queue))
  if turn.credit then setField(look.work, turns.credits, turn.group, false) end
end

-- The first group keeps its place and what is left of its turn.
local function keepTurn(look, turns, turn, credit)
  turn.credit = credit
  if turns.key then setField(look.work, turns.credits, turn.group, text(credit)) end
end

-- A job and those that come after it in a group of one job at a time, which the worker runs together.
local function batchOf(look, track, first)
  local work, group, max = look.work, first.flow.group, look.batches[first.type] or 1
  local batch = { first }
  -- A job that was lost with its worker runs alone.
  local function fits(job) return job.type == first.type and job.crashes == 0 end
  if max <= 1 or not fits(first) then return batch end
  local isOrdered = held.isOrdered(work, look.queue, group)
  local isAged = not isOrdered and held.settings(work, look.queue).agingMs
  local given, lineup = newGiven(max), newLineup({ placeKey(look.queue, track.name, group) }, max)
  give(given, first)
  -- Only for the choice: what is not started is not taken.
  local chosen, all = { [first.id] = true }, { work = work, queue = look.queue, passed = 0, strangers = {} }
  all.taken = setmetatable({}, { __index = function(_, id) return chosen[id] or look.taken[id] end })
  all.types = not isOrdered and { [first.type] = true } or nil
  while #batch < max do
    local job
    if isAged then job = firstOf(all, lineup, given) else job = firstIn(all, lineup, isOrdered) end
    if not job or (isOrdered and (not fits(job) or isPreceded(look, job))) then break end
    chosen[job.id] = true
    if fits(job) then
      batch[#batch + 1] = job
      give(given, job)
    end
  end
  return batch
end

-- Starts the first job of a batch, which may start, and as many of the others as limits and rates let.
local function startBatch(look, batch, amount)
  local work, taken = look.work, 1
  startJob(look, batch[1])
  for i = 2, #batch do
    local job = batch[i]
    local bounds = groups.bounds(work, look.queue, job.flow.group)
    local wait = 0
    if bounds.rate then wait = rates.waitFor(bounds.rate, bounds.entry.emptyAt, rates.priceOf(bounds.rate, job.flow.cost), work.t) end
    if taken == amount or wait > 0 or limits.closedFor(work, job) then break end
    startJob(look, job)
    taken = taken + 1
  end
  if taken > 1 then look.mark(batch, taken) end
  return taken
end

-- One turn of the first group. Decides where the group is afterwards. Returns how many jobs it gave, and whether a limit of the track lets
-- nothing more start.
local function takeTurn(look, track, share, amount)
  local turns = track.turns
  local turn, count = turnAt(look, turns, turns.head), sizeOfTurns(turns)
  local bounds = groups.bounds(look.work, look.queue, turn.group)
  local even = math.ceil(share / math.max(1, count))
  local length = turn.credit or bounds.weight * math.max(1, even, math.min(TURN_MIN, bounds.concurrency or 1))
  local given, taken = newGiven(length), 0
  while true do
    local kind, found = nextOf(look, track, turn.group, given, math.min(length, amount))
    if kind == 'closed' then
      -- Full, paused or empty: the next event brings it back.
      endTurn(look, turns, turn, false)
      look.hasDropped = true
      if found then
        setScore(look.work, 'naps:' .. look.queue .. ' ' .. track.name, turn.group, math.min(found, look.work.t + NAP_MAX_MS))
        look.napUntil = math.min(look.napUntil or found, found, look.work.t + NAP_MAX_MS)
      end
      return taken, false
    end
    if kind == 'unknown' or taken == length then
      endTurn(look, turns, turn, true)
      return taken, false
    end
    local isClosed = limits.closedFor(look.work, found)
    if taken == amount or isClosed then
      keepTurn(look, turns, turn, length - taken)
      return taken, isClosed
    end
    if bounds.concurrency == 1 then
      -- It is full then, until the last of them has been settled.
      endTurn(look, turns, turn, false)
      return startBatch(look, batchOf(look, track, found), amount), false
    end
    startJob(look, found)
    give(given, found)
    taken = taken + 1
  end
end

-- Takes up to that amount of jobs of a track, turn by turn, until there is nothing more to take, or what is wanted was taken: the others are ahead.
local function takeFrom(look, track, amount, wanted)
  -- Plain jobs have no groups that could wait for each other.
  local left, ahead = amount, track.isPlain and 0 or amount - wanted
  while true do
    local before, visits = left, sizeOfTurns(track.turns)
    while left > 0 and visits > 0 do
      visits, look.visits = visits - 1, look.visits + 1
      if look.visits > VISITS_MAX then return amount - left end
      local taken, isClosed = takeTurn(look, track, before - ahead, left)
      left = left - taken
      -- The others have the same limits.
      if isClosed then return amount - left end
    end
    if left <= ahead or left == before then return amount - left end
  end
end

local function wakeNaps(look, track)
  local work, key = look.work, 'naps:' .. look.queue .. ' ' .. track.name
  local over = redis.call('ZRANGEBYSCORE', work.b .. key, '-inf', text(work.t), 'LIMIT', 0, NAPS_MAX)
  -- One that would nap for days was laid down by a clock that was ahead.
  local ahead = redis.call('ZRANGEBYSCORE', work.b .. key, '(' .. text(work.t + NAP_MAX_MS), '+inf', 'LIMIT', 0, NAPS_MAX)
  for _, names in ipairs({ over, ahead }) do
    for _, group in ipairs(names) do
      setScore(work, key, group, false)
      held.offer(work, look.queue, group)
    end
  end
  local following = redis.call('ZRANGEBYSCORE', work.b .. key, '(' .. text(work.t), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local untilAt = tonumber(following[2] or '')
  if untilAt and untilAt <= work.t + NAP_MAX_MS then look.napUntil = math.min(look.napUntil or untilAt, untilAt) end
end

-- A track whose jobs are all gone has no turns to give. Cancelled jobs leave some.
local function forgetTurns(work, track)
  for _, key in ipairs({ 'turns:' .. track, 'naps:' .. track }) do
    if redis.call('ZCARD', work.b .. key) > 0 then later(work, 'DEL', key) end
  end
end

-- The queue's tracks, beginning with another one each time. Its plain jobs are a track like any other.
local function tracksInTurn(look)
  local work, queue, all, first = look.work, look.queue, {}, 0
  for _, name in ipairs(held.tracks(work, queue)) do
    if sizeOf(work, 'held:' .. queue .. ' ' .. name) > 0 then
      all[#all + 1] = { name = name, lineups = {} }
    else
      forgetTurns(work, queue .. ' ' .. name)
    end
  end
  local parked = redis.call('SMEMBERS', work.b .. 'parked:' .. queue)
  local plain = { isPlain = true, lineups = {}, sources = { 'line:' .. queue }, size = redis.call('ZCARD', work.b .. 'line:' .. queue) }
  for _, kind in ipairs(parked) do
    local park = parkOf(queue, kind)
    plain.size = plain.size + redis.call('ZCARD', work.b .. park)
    if not look.types or look.types[kind] then plain.sources[#plain.sources + 1] = park end
  end
  if plain.size > 0 then all[#all + 1] = plain end
  if #all > 1 then first = tonumber(redis.call('HGET', work.b .. 'q:' .. queue, 'claims') or 0) % #all end
  local turned = {}
  for i = 1, #all do turned[i] = all[(i - 1 + first) % #all + 1] end
  return turned
end

-- What the queue's own limit leaves for its tracks to share.
local function roomOf(look)
  local limit = limits.of(look.work, 'queue:' .. look.queue)
  if not limit then return math.huge end
  local room = limit.concurrency and limit.concurrency - limits.count(look.work, limit.name) or math.huge
  if limit.rate and limit.rate.counts ~= 'cost' then
    room = math.min(room, rates.startsAt(limit.rate, limit.emptyAt, look.work.t))
  end
  return math.max(0, room)
end

-- What a worker should do next: claim again, or wait for a time, or to be woken. Returns whether to claim again, and until when to wait.
local function stateAfter(look, tracks)
  if look.visits > VISITS_MAX and look.hasDropped then return true end
  local untilAt = look.napUntil
  for _, track in ipairs(tracks) do
    local turns = track.turns
    for place = turns.head, math.min(turns.kept + #turns.behind, turns.head + VISITS_MAX) do
      local group = turnAt(look, turns, place).group
      local kind, found = nextOf(look, track, group, newGiven(1), 1)
      if kind ~= 'unknown' then
        local isClosed, at = kind == 'closed', found
        if kind == 'job' then isClosed, at = limits.closedFor(look.work, found) end
        if not isClosed then return true end
        if at then untilAt = math.min(untilAt or at, at) end
        -- The others have the same limits.
        if kind == 'job' then break end
      end
    end
  end
  return false, untilAt
end

-- Claims from one queue: request has queue, limit, ahead, types, batches, start(job) and mark(jobs, count). Returns what a worker should do next.
claimFlow = function(work, request)
  local queue = queueOf(work, request.queue)
  local state = { queue = request.queue, hasMore = false, wait = '', probed = {} }
  if queue.isPaused then return state end
  -- It is being brought to new settings: for some milliseconds no group gives a job.
  if queue.renewing then
    state.wait = '20'
    return state
  end
  local look = {
    work = work, queue = request.queue, types = request.types, batches = request.batches, start = request.start, mark = request.mark,
    taken = {}, plainTaken = 0, passed = 0, visits = 0, probed = state.probed, strangers = {}
  }
  local tracks, sharing = tracksInTurn(look), {}
  if work.shard then
    state.names, state.isShort = limits.missingLoans(work, tracks)
    if state.isShort then return state end
  end
  for _, track in ipairs(tracks) do
    if not track.isPlain then wakeNaps(look, track) end
  end
  for _, track in ipairs(tracks) do
    track.turns = turnsOf(look, track)
    if sizeOfTurns(track.turns) > 0 then sharing[#sharing + 1] = track end
  end
  local left = math.min(request.limit, roomOf(look))
  local room, wanted = left, math.min(left, request.limit - request.ahead)
  local function take(track, parts)
    local taken = takeFrom(look, track, math.ceil(left / parts), math.ceil(wanted / parts))
    left, wanted = left - taken, math.max(0, wanted - taken)
  end
  for i, track in ipairs(sharing) do take(track, #sharing - i + 1) end
  -- What some tracks had no use for goes to the others.
  for _, track in ipairs(sharing) do
    if wanted > 0 then take(track, 1) end
  end
  park(work, request.queue, look.strangers)
  if left < room and #tracks > 1 then addTo(work, 'q:' .. request.queue, 'claims', 1) end
  local hasMore, untilAt = stateAfter(look, tracks)
  state.hasMore = hasMore
  if not hasMore and untilAt then state.wait = text(math.max(1, untilAt - work.t)) end
  return state
end
end
`

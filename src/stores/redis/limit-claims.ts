// What claims and settlements ask of limits: `count`, `closedFor`, `spend`, `reserve` and `giveBack`. In a cluster a claim has limits by name
// on loan (lending.ts); that of a queue is always in the shard of its queue.

import { lua } from './lua.js'

export const LIMITS_LUA: string = lua`
local MOVES_MAX = 50
-- How long a claim waits for a limit that another has on loan.
local LOAN_WAIT_MS = 5

local function queueOfLimit(name) return string.match(name, '^queue:(.*)$') end

-- A limit from its settings, and when its bucket would be empty, until when nothing starts, its breaker, its level.
local function readLimit(name, values)
  if not values[1] then return false end
  local limit = readJson(values[1])
  limit.name, limit.emptyAt, limit.untilAt = name, tonumber(values[2] or '') or FULL, tonumber(values[3] or '') or 0
  limit.level = tonumber(values[5] or '')
  limit.position, limit.since, limit.probeAt, limit.opens, limit.successes, limit.forced =
    string.match(values[4] or 'closed 0 - 0 0 -', '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return limit
end

-- A limit as this shard keeps it, or false.
function limits.kept(work, name)
  return readLimit(name, redis.call('HMGET', work.b .. 'limit:' .. name, 'settings', 'empty', 'until', 'breaker', 'level'))
end

-- A limit as a claim needs it, or false.
function limits.of(work, name)
  local known = flowIn(work).limits
  if known[name] == nil then
    if work.shard and not queueOfLimit(name) then known[name] = limits.onLoan(work, name) else known[name] = limits.kept(work, name) end
  end
  return known[name]
end

local function mostOf(limit)
  local most = limit.concurrency
  if limit.adaptive then most = math.floor(math.min(limit.adaptive.max, math.max(limit.adaptive.min, limit.level))) end
  if limit.breaker and limit.forced == '-' and limit.position ~= 'closed' then
    most = math.min(most or limit.breaker.probes, limit.breaker.probes)
  end
  return most
end

-- How many jobs of a limit run. All of a queue count in its own, also those that began before it was there.
function limits.count(work, name)
  local queue = queueOfLimit(name)
  if not queue and work.shard then return limits.countAll(work, name) end
  if not queue then return sizeOf(work, 'slots:' .. name) end
  local counts, cards = work.counts[queue], flowIn(work).cards
  if not cards[name] then cards[name] = tonumber(redis.call('HGET', work.b .. 'q:' .. queue, 'running') or 0) end
  return cards[name] + (counts and counts.running or 0)
end

-- Every limit that a job counts in.
local function limitsOf(work, job)
  local found = { limits.of(work, 'queue:' .. job.queue) or nil }
  for _, name in ipairs(job.flow and job.flow.names or {}) do found[#found + 1] = limits.of(work, name) or nil end
  return found
end

local function costOf(job) return job.flow and job.flow.cost or 1 end

-- Whether a limit keeps a job from starting; then also until when, unless an event must come first.
function limits.closedFor(work, job)
  local untilAt, t = 0, work.t
  for _, limit in ipairs(limitsOf(work, job)) do
    -- Another claim has it on loan.
    if limit.isAway then untilAt = math.max(untilAt, t + LOAN_WAIT_MS) end
    local isShut = limit.forced == 'open' or (limit.forced == '-' and limit.position == 'open' and tonumber(limit.probeAt) > t)
    local most = mostOf(limit)
    if limit.forced == 'open' or (most and limits.count(work, limit.name) >= most) then
      if limit.loan then limit.loan.isFull = '1' end
      return true
    end
    if isShut then untilAt = math.max(untilAt, tonumber(limit.probeAt)) end
    local wait = limit.rate and rates.waitFor(limit.rate, limit.emptyAt, rates.priceOf(limit.rate, costOf(job)), t) or 0
    untilAt = math.max(untilAt, limit.untilAt, t + wait)
  end
  if untilAt > t then return true, untilAt end
  return false
end

local function draw(work, limit, amount)
  limit.emptyAt = rates.draw(limit.rate, limit.emptyAt, amount, work.t)
  if limit.loan then
    limit.loan.drawn = limit.loan.drawn + amount
    return
  end
  setField(work, 'limit:' .. limit.name, 'empty', rates.field(limit.emptyAt))
end

local function moved(work, name, text_)
  later(work, 'LPUSH', 'moves:' .. name, text(work.t) .. ' ' .. text_)
  later(work, 'LTRIM', 'moves:' .. name, 0, MOVES_MAX - 1)
end

-- The breaker lets probes start.
function limits.probe(work, limit)
  limit.position, limit.since, limit.probeAt, limit.successes = 'half_open', text(work.t), '-', '0'
  if limit.loan then
    limit.loan.isProbed = '1'
    return
  end
  local breaker = 'half_open ' .. limit.since .. ' - ' .. limit.opens .. ' 0 -'
  setField(work, 'limit:' .. limit.name, 'breaker', breaker)
  addTo(work, 'limit:' .. limit.name, 'version', 1)
  moved(work, limit.name, 'open half_open 0 0 -')
end

-- Takes the tokens that the start of a job costs. Returns the names of limits whose breaker lets probes start since.
function limits.spend(work, job)
  local probed = {}
  for _, limit in ipairs(limitsOf(work, job)) do
    if limit.rate then draw(work, limit, rates.priceOf(limit.rate, costOf(job))) end
    if limit.forced == '-' and limit.position == 'open' then
      limits.probe(work, limit)
      probed[#probed + 1] = limit.name
    end
  end
  return probed
end

-- Takes the slots of a job. The queue's own are its running jobs.
function limits.reserve(work, job)
  for _, name in ipairs(job.flow.names) do
    setScore(work, 'slots:' .. name, job.id, work.t)
    resize(work, 'slots:' .. name, 1)
    limits.changed(work, name)
  end
end

function limits.giveBack(work, job)
  for _, name in ipairs(job.flow.names) do
    setScore(work, 'slots:' .. name, job.id, false)
    resize(work, 'slots:' .. name, -1)
    limits.changed(work, name)
  end
end

-- Takes from the rates that count cost what an attempt cost beyond what its start took, or gives it back.
function limits.settleCost(work, job, spent)
  local more = spent - costOf(job)
  for _, limit in ipairs(limitsOf(work, job)) do
    if limit.rate and limit.rate.counts == 'cost' then draw(work, limit, more) end
  end
  if work.shard and more ~= 0 then
    for _, name in ipairs(job.flow and job.flow.names or {}) do limits.tell(work, name, '-', string.format('%.17g', more)) end
  end
  local group = held.groupOf(job)
  if group == '' then return end
  local entry, rate = groups.of(work, job.queue, group), groups.bounds(work, job.queue, group).rate
  if not rate or rate.counts ~= 'cost' then return end
  entry.emptyAt = rates.draw(rate, entry.emptyAt, more, work.t)
  groups.save(work, job.queue, group, entry)
end

-- Makes a limit, or changes the settings of one. A breaker and a bucket that are there stay.
function limits.keep(work, name, settings, origin)
  setField(work, 'limit:' .. name, 'settings', settings)
  setField(work, 'limit:' .. name, 'origin', origin)
  addTo(work, 'limit:' .. name, 'version', 1)
  if not queueOfLimit(name) then setScore(work, 'limits', name, 0) end
  flowIn(work).limits[name] = nil
end

function limits.drop(work, name)
  for _, key in ipairs({ 'limit:', 'outcomes:', 'moves:', 'runs:' }) do later(work, 'DEL', key .. name) end
  if work.shard then setScore(work, 'lent', name, false) end
  setScore(work, 'limits', name, false)
  flowIn(work).limits[name] = false
end

local NO_LIMIT = '{"concurrency":null,"rate":null,"adaptive":null,"breaker":null}'

-- Lets nothing of a scope start before a time.
function limits.holdOff(work, job, scope, name, untilAt)
  if scope == 'group' then
    local group = held.groupOf(job)
    local entry = groups.of(work, job.queue, group)
    entry.untilAt = math.max(entry.untilAt, untilAt)
    groups.save(work, job.queue, group, entry)
    return
  end
  if scope == 'queue' then
    name = 'queue:' .. job.queue
    if not limits.of(work, name) then
      -- A queue that had no flow control has it from now on.
      held.mark(work, job.queue, 'l')
      limits.keep(work, name, NO_LIMIT, 'operator')
      flowIn(work).limits[name] = { name = name, emptyAt = FULL, untilAt = 0, forced = '-', position = 'closed', opens = '0' }
    end
  end
  if work.shard and scope == 'limit' then
    limits.tell(work, name, text(untilAt), '-')
    return
  end
  local limit = limits.of(work, name)
  if not limit then return end
  limit.untilAt = math.max(limit.untilAt, untilAt)
  setField(work, 'limit:' .. name, 'until', text(limit.untilAt))
end

-- Wakes the queues with jobs that name a limit.
function limits.wakeUsers(work, name)
  local queue = queueOfLimit(name)
  if queue then wake(work, queue, true) end
  for _, user in ipairs(redis.call('ZRANGE', work.b .. 'users:' .. name, 0, -1)) do
    if sizeOf(work, 'held:' .. user) > 0 then wake(work, string.match(user, '^%S+'), true) end
  end
end
`

// Limits by name in a cluster: jobs of queues in several shards may count in one. Each limit is kept in one shard, its home, by a hash of its
// name. A claim has it on loan: the home gives it to one claim at a time, the shard of the queue takes the claim's jobs by it and writes
// down, in the same call, what it took, and the claim gives the loan back. So two claims never count at the same time, and no limit is passed.
//
// runs:<name> in the home has for each shard "<running> <number> <waits>": how many jobs run there, as of that number. A shard's
// number grows with each change, so reports may come twice, late, or not at all. Those that end are reported after their call; one that is lost leaves
// the count too high, never too low, and a claim that finds the limit full asks the shards again.
//
// A loan has a number too. loans in the shard has "<number> <loan> <drawn> <probed>" of each limit: the highest loan that was used or ended
// there, and what was taken by it. A loan that is not given back is ended there before another is made, so that the late claim finds it ended.

import { lua } from './lua.js'

export const LENDING_LUA: string = lua`
do
-- What this shard knows of a limit that has its home elsewhere, or here: each claim borrows. Number, loan, drawn, probed.
function limits.loanField(work, name)
  local number, loan, drawn, probed = string.match(getField(work, 'loans', name) or '', '^(%S+) (%S+) (%S+) (%S*)$')
  return { number = tonumber(number or 0), loan = tonumber(loan or 0), drawn = drawn or '0', probed = probed or '' }
end

function limits.saveLoanField(work, name, field)
  local values = { text(field.number), text(field.loan), field.drawn, field.probed }
  setField(work, 'loans', name, table.concat(values, ' '))
end

function limits.nextNumber(work, number) return math.max(number + 1, work.t) end

-- A limit as the claim has it on loan; false for one that is not set.
function limits.onLoan(work, name)
  local loan = work.loans and work.loans[name]
  if not loan or loan.kind == 'none' then return false end
  if loan.kind ~= 'lent' then
    return { name = name, isAway = true, emptyAt = FULL, untilAt = 0, forced = '-', position = 'closed', opens = '0' }
  end
  local limit = readLimit(name, loan.values)
  -- The times of its home, by the clock of this shard.
  local ahead = work.t - loan.t
  limit.emptyAt = limit.emptyAt + ahead
  if limit.untilAt > 0 then limit.untilAt = limit.untilAt + ahead end
  if limit.probeAt ~= '-' then limit.probeAt = text(limit.probeAt + ahead) end
  limit.loan = loan
  return limit
end

-- Whether a limit is set. In a cluster the caller has asked its home, and names those that are not.
function limits.isSet(work, name)
  if not work.shard then return limits.of(work, name) ~= false end
  return not (work.unknownLimits and work.unknownLimits[name])
end

-- All jobs that run of a limit: those of other shards as the home has counted them, and those of this one as they are.
function limits.countAll(work, name)
  local loan = work.loans and work.loans[name]
  if loan then return loan.others + sizeOf(work, 'slots:' .. name) end
  local sum, runs = 0, redis.call('HGETALL', work.b .. 'runs:' .. name)
  for i = 2, #runs, 2 do sum = sum + tonumber(string.match(runs[i], '^%d+')) end
  return sum
end

-- Notes that the number of running jobs changes outside of a loan.
function limits.changed(work, name)
  if not work.shard or (work.loans and work.loans[name] and work.loans[name].kind == 'lent') then return end
  work.slotted = work.slotted or {}
  work.slotted[name] = true
end

-- Reports how many run now. The commit calls it.
function limits.report(work)
  for name in pairs(work.slotted) do
    -- A limit that was never on loan here is counted before it is lent.
    if getField(work, 'loans', name) then
      local field = limits.loanField(work, name)
      field.number = limits.nextNumber(work, field.number)
      limits.saveLoanField(work, name, field)
      local counts = text(sizeOf(work, 'slots:' .. name)) .. ' ' .. text(field.number)
      for _, value in ipairs({ '', name, counts, 'slots' }) do work.owed[#work.owed + 1] = value end
    end
  end
end

-- Owes the home of a limit until when nothing starts, or what an attempt cost beyond its start.
function limits.tell(work, name, untilAt, more)
  local what = untilAt .. ' ' .. more
  local number = shards.oweText(work, 'limit', name, what)
  for _, value in ipairs({ text(number), name, what, 'limit' }) do work.owed[#work.owed + 1] = value end
end

-- Reads what a claim has on loan: ten values for each limit (below).
function limits.readLoans(work, args, from, count)
  if count == 0 then return end
  work.loans = {}
  for i = from, from + 10 * count - 1, 10 do
    local loan = { kind = args[i + 1], number = tonumber(args[i + 2]), t = tonumber(args[i + 3]), others = tonumber(args[i + 4]) }
    loan.values = { args[i + 5], args[i + 6], args[i + 7], args[i + 8] ~= '' and args[i + 8], args[i + 9] }
    loan.drawn, loan.isFull, loan.isProbed = 0, '', ''
    -- It came too late: the loan was ended meanwhile.
    if loan.kind == 'lent' and limits.loanField(work, args[i]).loan >= loan.number then loan.kind = 'busy' end
    work.loans[args[i]] = loan
  end
end

-- Writes down what the claim took of its loans. Returns seven values for each, which giveBack takes.
function limits.closeLoans(work)
  local answer = {}
  for name, loan in pairs(work.loans or {}) do
    if loan.kind == 'lent' then
      local field = limits.loanField(work, name)
      field.number, field.loan = limits.nextNumber(work, field.number), loan.number
      field.drawn, field.probed = string.format('%.17g', loan.drawn), loan.isProbed
      limits.saveLoanField(work, name, field)
      local count = text(sizeOf(work, 'slots:' .. name))
      local values = { name, text(loan.number), count, text(field.number), field.drawn, field.probed, loan.isFull }
      for _, value in ipairs(values) do answer[#answer + 1] = value end
    end
  end
  return answer
end

-- The limits of a queue's ready jobs that the claim has not asked for.
function limits.missingLoans(work, tracks)
  local found, seen = {}, {}
  for _, track in ipairs(tracks) do
    for name in string.gmatch(track.isPlain and '' or track.name, '[^,]+') do
      if name ~= '-' and not seen[name] then
        seen[name] = true
        found[#found + 1] = name
      end
    end
  end
  local isShort = false
  for _, name in ipairs(found) do isShort = isShort or not (work.loans and work.loans[name]) end
  return found, isShort
end
end
`

/**
 * At the home of limits:
 * borrow: ARGV number of the shard, names. Answers with ten values for each: name, 'lent' | 'busy' | 'unchecked' | 'none', number of the loan
 *   (of 'busy' for how long), its time, jobs that run in other shards, settings, empty, until, breaker, level; then one list: shards where jobs
 *   run and names, in pairs.
 * giveBack: ARGV number of the shard, then seven values for each: name, number of the loan or 0, running, number, drawn, '1' when it let probes
 *   start, '1' when jobs wait for it. Answers with pairs of a name and a shard whose jobs may go on.
 * checked: ARGV names that were counted in every shard.
 * oldLoans: ARGV age in ms; answers with name, number and shard of each.
 * hearLimit: ARGV shard, number of its message, name, until or -, cost or -.
 * knownLimits: ARGV names; answers with those that are set. limitCount: answers with how many there are.
 * In the shard of queues:
 * endLoan: ARGV name, number of the loan; answers with running, number, drawn, probed.
 * slotsNow: ARGV names; answers with running and number of each.
 * wakeLimits: ARGV names. limitUsed: ARGV name; answers '1' or ''.
 */
export const LENDING: string = lua`
do
-- After this time a message is not delivered twice any more.
local HEARD_MS = 3600000

local function runsOf(work, name)
  local found, all = {}, redis.call('HGETALL', work.b .. 'runs:' .. name)
  for i = 1, #all, 2 do
    local count, number, waits = string.match(all[i + 1], '^(%S+) (%S+) (%S*)$')
    found[all[i]] = { count = tonumber(count), number = tonumber(number), waits = waits }
  end
  for shard, value in pairs(work.hashes['runs:' .. name] or {}) do
    local count, number, waits = string.match(value, '^(%S+) (%S+) (%S*)$')
    found[shard] = { count = tonumber(count), number = tonumber(number), waits = waits }
  end
  return found
end

local function saveRun(work, name, shard, run)
  setField(work, 'runs:' .. name, shard, text(run.count) .. ' ' .. text(run.number) .. ' ' .. run.waits)
end

writes('borrow', { 'allow-oom' }, function(work, args)
  local shard, answer, busy = args[3], {}, {}
  local since = tonumber(redis.call('HGET', work.b .. 'meta', 'since') or 0)
  for i = 4, #args do
    local name = args[i]
    local key = 'limit:' .. name
    local values = redis.call('HMGET', work.b .. key, 'settings', 'empty', 'until', 'breaker', 'level', 'loan', 'checked')
    local kind, number, others = 'none', 0, 0
    local lentAt = values[6] and tonumber(string.match(values[6], '(%S+)$'))
    if not values[1] then
      kind = 'none'
    elseif lentAt then
      kind, number = 'busy', math.max(0, work.t - lentAt)
    elseif not values[7] or tonumber(values[7]) < since then
      kind = 'unchecked'
    else
      kind = 'lent'
      number = limits.nextNumber(work, tonumber(getField(work, 'meta', 'loan') or 0))
      setField(work, 'meta', 'loan', number)
      setField(work, key, 'loan', text(number) .. ' ' .. shard .. ' ' .. text(work.t))
      setScore(work, 'lent', name, work.t)
      for other, run in pairs(runsOf(work, name)) do
        if other ~= shard then others = others + run.count end
        if run.count > 0 then busy[#busy + 1], busy[#busy + 2] = other, name end
      end
    end
    for _, value in ipairs({ name, kind, text(number), text(work.t), text(others) }) do answer[#answer + 1] = value end
    for value = 1, 5 do answer[#answer + 1] = values[value] or '' end
  end
  answer[#answer + 1] = busy
  return answer
end)

-- Takes what a shard reports of its running jobs. Returns the shards whose jobs wait when some have ended.
local function counted(work, name, shard, count, number, isFull)
  local runs, waiting = runsOf(work, name), {}
  local run = runs[shard] or { count = 0, number = 0, waits = '' }
  local isNew = number >= run.number
  local isFewer = isNew and count < run.count
  if isNew then run.count, run.number = count, number end
  if isFull ~= '' then run.waits = isFull end
  saveRun(work, name, shard, run)
  if not isFewer then return waiting end
  for other, each in pairs(runs) do
    if each.waits == '1' then
      each.waits = ''
      saveRun(work, name, other, each)
      waiting[#waiting + 1] = other
    end
  end
  return waiting
end

-- Takes a loan back, once.
local function endLoan(work, name, number, drawn, probed)
  local key = 'limit:' .. name
  local loan, _, at = string.match(getField(work, key, 'loan') or '', '^(%S+) (%S+) (%S+)$')
  if tonumber(loan or -1) ~= number then return end
  setField(work, key, 'loan', false)
  setScore(work, 'lent', name, false)
  local limit = limits.kept(work, name)
  if not limit then return end
  if limit.rate and drawn ~= 0 then
    local emptyAt = rates.draw(limit.rate, limit.emptyAt, drawn, tonumber(at))
    setField(work, key, 'empty', rates.field(emptyAt))
  end
  if probed == '1' and limit.forced == '-' and limit.position == 'open' then limits.probe(work, limit) end
end

writes('giveBack', { 'allow-oom' }, function(work, args)
  local shard, answer = args[3], {}
  for i = 4, #args, 7 do
    local name, loan, count, number, drawn, probed, isFull = unpack(args, i, i + 6)
    if redis.call('HEXISTS', work.b .. 'limit:' .. name, 'settings') == 1 then
      endLoan(work, name, tonumber(loan), tonumber(drawn), probed)
      for _, other in ipairs(counted(work, name, shard, tonumber(count), tonumber(number), isFull)) do
        answer[#answer + 1], answer[#answer + 2] = name, other
      end
    end
  end
  return answer
end)

writes('checked', { 'allow-oom' }, function(work, args)
  for i = 3, #args do
    if redis.call('HEXISTS', work.b .. 'limit:' .. args[i], 'settings') == 1 then setField(work, 'limit:' .. args[i], 'checked', work.t) end
  end
  return {}
end)

reads('oldLoans', function(work, args)
  local answer, upTo = {}, text(work.t - tonumber(args[3]))
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', work.b .. 'lent', '-inf', upTo, 'LIMIT', 0, 100)) do
    local number, shard = string.match(redis.call('HGET', work.b .. 'limit:' .. name, 'loan') or '', '^(%S+) (%S+) ')
    for _, value in ipairs(number and { name, number, shard } or {}) do answer[#answer + 1] = value end
  end
  return answer
end)

writes('hearLimit', { 'allow-oom' }, function(work, args)
  local message, name, untilAt, more = args[3] .. ' ' .. args[4], args[5], tonumber(args[6]), tonumber(args[7])
  if redis.call('ZSCORE', work.b .. 'heard', message) then return {} end
  setScore(work, 'heard', message, work.t)
  local old = redis.call('ZRANGEBYSCORE', work.b .. 'heard', '-inf', text(work.t - HEARD_MS), 'LIMIT', 0, 10)
  for _, each in ipairs(old) do setScore(work, 'heard', each, false) end
  local limit, key = limits.kept(work, name), 'limit:' .. name
  if not limit then return {} end
  if untilAt then setField(work, key, 'until', text(math.max(limit.untilAt, untilAt))) end
  if more and limit.rate and limit.rate.counts == 'cost' then
    setField(work, key, 'empty', rates.field(rates.draw(limit.rate, limit.emptyAt, more, work.t)))
  end
  return {}
end)

reads('knownLimits', function(work, args)
  local found = {}
  for i = 3, #args do
    if redis.call('HEXISTS', work.b .. 'limit:' .. args[i], 'settings') == 1 then found[#found + 1] = args[i] end
  end
  return found
end)

reads('limitCount', function(work) return redis.call('ZCARD', work.b .. 'limits') end)

writes('endLoan', { 'allow-oom' }, function(work, args)
  local name, number = args[3], tonumber(args[4])
  local field = limits.loanField(work, name)
  if field.loan < number then
    field.loan, field.drawn, field.probed = number, '0', ''
    limits.saveLoanField(work, name, field)
  end
  local isSame = field.loan == number
  return { text(sizeOf(work, 'slots:' .. name)), text(field.number), isSame and field.drawn or '0', isSame and field.probed or '' }
end)

writes('slotsNow', { 'allow-oom' }, function(work, args)
  local answer = {}
  for i = 3, #args do
    local field = limits.loanField(work, args[i])
    -- Jobs that run already, or none: from now on it reports each change.
    if field.number == 0 then
      field.number = limits.nextNumber(work, 0)
      limits.saveLoanField(work, args[i], field)
    end
    answer[#answer + 1], answer[#answer + 2] = text(sizeOf(work, 'slots:' .. args[i])), text(field.number)
  end
  return answer
end)

writes('wakeLimits', { 'allow-oom' }, function(work, args)
  for i = 3, #args do limits.wakeUsers(work, args[i]) end
  return {}
end)

reads('limitUsed', function(work, args) return isLimitUsed(work, args[3]) and '1' or '' end)
end
`

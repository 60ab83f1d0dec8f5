// What shards owe each other. A store in a cluster keeps its queues in shards that no call spans. What one shard has to tell another it
// writes into its stream `out`, with the change that causes it: either both are written or neither. The process that made the call delivers it
// immediately; if that process dies, upkeep of any other does. Every message may be delivered twice: what a goal knows already changes
// nothing there.
//
// A job that comes after one in another shard is linked first: kin:<parent> in the parent's shard has the shards of such jobs, the flag k
// in its standing says so, and `far` in the child's shard has "<state><number>" of the parent. The number grows with each message, so
// that an older one changes nothing. When a parent ends or is requeued, its shard owes that to the shards of its children.

import { lua } from './lua.js'

/** How long a message is left to the process that made it, before any other delivers it as well. */
export const OWED_AFTER_MS = 5_000

/**
 * link: ARGV number of the shard of the children, then ids of parents. Answers for each with its state, or '', and a number.
 * hear: ARGV for each parent: id, state (- for one that is missing), number. Lets the jobs that come after it go on.
 * judge: ARGV ids of jobs that may go on.
 * intend: ARGV a text. Writes it into the stream, and answers with its number.
 * paid: ARGV numbers of messages that were delivered.
 * owed: ARGV age in ms, limit. Answers with four values for each message of that age: number, kind, and two texts.
 * fireApart: ARGV name, expected, next or '', state of the last job or ''; then for each tick its time and the four values of a job
 *            (enqueue.ts), the id '' when its key is held. Answers 1 or 0, the number of the message or '', ids of the jobs to make.
 * beginStep: ARGV as stepBulk's (bulks.ts); answers with the number of the message, or ''. endStep: ARGV id of the action, that number, how
 *            many were done and refused.
 * oldLines: ARGV limit; answers with the length of the audit log, then line and time of each of the oldest. dropLines: ARGV lines.
 * dueFirst: ARGV limit; answers with how long until the first is due or '', how many jobs are on the list todo, how many
 *           messages there are, how many limits are on loan, then id and time of those that are due.
 * waitedFor: ARGV place, count. Answers with how many far jobs there are from that place on, at most count, then the ids of those of them
 *            that had not ended when they were heard of last.
 * lettersOf: ARGV ids. Answers for each with its state, or '' when it is not here.
 * census: ARGV a maker or '', names of queues. Answers with: how many queues there are, how many of them the maker made, how many schedules,
 *         how many of them the maker made, how many of the names are new, how many messages to
 *         other shards there are.
 */
export const OWED: string = lua`
writes('link', { 'allow-oom' }, function(work, args)
  local goal, answer = args[3], {}
  local number = text(tonumber(redis.call('HGET', work.b .. 'meta', 'owed') or 0))
  for i = 4, #args do
    local job = jobOf(work, args[i])
    if job then
      setMember(work, 'kin:' .. job.id, goal, true)
      if not hasFlag(job, 'k') then
        addFlag(job, 'k')
        save(work, job)
      end
    end
    answer[#answer + 1], answer[#answer + 2] = job and job.state or '', number
  end
  return answer
end)

writes('hear', { 'allow-oom' }, function(work, args)
  local candidates = {}
  for i = 3, #args, 3 do
    local parent, state, number = args[i], args[i + 1], tonumber(args[i + 2])
    if not stateOf(work, parent) then
      local known = getField(work, 'far', parent)
      if state == '-' then
        setField(work, 'far', parent, false)
        setScore(work, 'farx', parent, false)
      elseif not known or tonumber(string.sub(known, 2)) <= number then
        setField(work, 'far', parent, state .. text(number))
        setScore(work, 'farx', parent, work.t)
      end
    end
    for kid in pairs(kidsOf(work, parent)) do candidates[kid] = true end
  end
  goOn(work, candidates)
  return {}
end)

writes('judge', { 'allow-oom' }, function(work, args)
  local candidates = {}
  for i = 3, #args do candidates[args[i]] = true end
  goOn(work, candidates)
  return {}
end)

writes('intend', {}, function(work, args) return text(shards.oweText(work, 'jobs', args[3], '')) end)

writes('paid', { 'allow-oom' }, function(work, args)
  for i = 3, #args do later(work, 'XDEL', 'out', args[i] .. '-1') end
  return {}
end)

reads('owed', function(work, args)
  local answer = {}
  for _, entry in ipairs(redis.call('XRANGE', work.b .. 'out', '-', '+', 'COUNT', tonumber(args[4]))) do
    local fields = entry[2]
    if tonumber(fields[2]) <= work.t - tonumber(args[3]) then
      local values = { string.match(entry[1], '^%d+'), fields[4], fields[6], fields[8] }
      for _, value in ipairs(values) do answer[#answer + 1] = value end
    end
  end
  return answer
end)

-- Returns 1 when this call moved the schedule on, and the jobs of ticks as one text in the stream: their queue may be in another shard.
writes('fireApart', {}, function(work, args)
  local name, expected, due, lastState = args[3], tonumber(args[4]), tonumber(args[5]), args[6]
  local schedule = scheduleOf(work, name)
  if not schedule or schedule.isPaused or schedule.due ~= expected then return { 0, '' } end
  local answer, recorded, made, state = { 1, '' }, {}, {}, lastState
  for i = 7, #args, 5 do
    local tick = args[i]
    schedule.last = tick
    local isKnown = recorded[tick] or redis.call('ZCOUNT', work.b .. 'ticks:' .. name, tick, tick) > 0
    if not isKnown then
      recorded[tick] = true
      local isSkipped = args[i + 1] == '' or schedule.overlap == 'skip' and state ~= '' and not isFinished(state)
      if not isSkipped then
        for value = i + 1, i + 4 do made[#made + 1] = args[value] end
        answer[#answer + 1] = args[i + 1]
        schedule.job, state = args[i + 1], 'Q'
      end
      setScore(work, 'ticks:' .. name, tick .. ' ' .. (isSkipped and '-' or args[i + 1]), tick)
      setMember(work, 'ticked', name, true)
    end
  end
  schedule.due = due
  saveSchedule(work, schedule)
  if made[1] then answer[2] = text(shards.oweText(work, 'ticks', cjson.encode(made), '')) end
  return answer
end)

-- A batch of a bulk action is recorded before it is done. endStep counts it, once.
writes('beginStep', {}, function(work, args)
  local id, step, action, by, state, cursor = unpack(args, 3, 8)
  local ids, bulk = slice(args, 9), bulkOf(work, id)
  local isOpen = bulk and (bulk.state == 'waiting' or bulk.state == 'running')
  if not isOpen or bulk.step ~= step then return '' end
  local matched, rest = string.match(bulk.counts, '^(%d+)( .*)$')
  bulk.counts = (matched + #ids) .. rest
  bulk.state, bulk.cursor, bulk.updated, bulk.step = state, cursor, text(work.t), tostring(step + 1)
  saveBulk(work, bulk)
  return text(shards.oweText(work, 'bulk', cjson.encode({ id, action, by }), table.concat(ids, ',')))
end)

writes('endStep', { 'allow-oom' }, function(work, args)
  local id, number, done, refused = args[3], args[4] .. '-1', tonumber(args[5]), tonumber(args[6])
  local bulk = bulkOf(work, id)
  if not redis.call('XRANGE', work.b .. 'out', number, number)[1] then return {} end
  later(work, 'XDEL', 'out', number)
  if bulk then
    local matched, moved, others = string.match(bulk.counts, '^(%d+) (%d+) (%d+)$')
    bulk.counts = matched .. ' ' .. (moved + done) .. ' ' .. (others + refused)
    saveBulk(work, bulk)
  end
  return {}
end)

reads('oldLines', function(work, args)
  local answer = { redis.call('XLEN', work.b .. 'audit') }
  for _, entry in ipairs(redis.call('XRANGE', work.b .. 'audit', '-', '+', 'COUNT', tonumber(args[3]))) do
    answer[#answer + 1], answer[#answer + 2] = string.match(entry[1], '^%d+'), entry[2][2]
  end
  return answer
end)

writes('dropLines', { 'allow-oom' }, function(work, args)
  for i = 3, #args do later(work, 'XDEL', 'audit', args[i] .. '-1') end
  return {}
end)

reads('census', function(work, args)
  local maker, fresh, seen = args[3], 0, {}
  for i = 4, #args do
    if not seen[args[i]] and not queueOf(work, args[i]).isKnown then fresh = fresh + 1 end
    seen[args[i]] = true
  end
  return {
    redis.call('ZCARD', work.b .. 'queues'), tonumber(redis.call('HGET', work.b .. 'makers', maker) or 0),
    redis.call('ZCARD', work.b .. 'schedules'), tonumber(redis.call('HGET', work.b .. 'schedulers', maker) or 0), fresh,
    redis.call('XLEN', work.b .. 'out')
  }
end)

reads('dueFirst', function(work, args)
  local first = redis.call('ZRANGE', work.b .. 'due', 0, 0, 'WITHSCORES')
  local answer = { first[2] and text(math.max(0, first[2] - work.t)) or '', text(redis.call('LLEN', work.b .. 'todo')), text(redis.call('XLEN', work.b .. 'out')) }
  answer[4] = text(redis.call('ZCARD', work.b .. 'lent'))
  local due = redis.call('ZRANGEBYSCORE', work.b .. 'due', '-inf', text(work.t), 'WITHSCORES', 'LIMIT', 0, tonumber(args[3]))
  for _, value in ipairs(due) do answer[#answer + 1] = value end
  return answer
end)

reads('waitedFor', function(work, args)
  local from = tonumber(args[3])
  local parents = redis.call('ZRANGE', work.b .. 'farx', from, from + tonumber(args[4]) - 1)
  local answer = { text(#parents) }
  for _, parent in ipairs(parents) do
    local far = redis.call('HGET', work.b .. 'far', parent)
    if far and not isFinished(string.sub(far, 1, 1)) then answer[#answer + 1] = parent end
  end
  return answer
end)

reads('lettersOf', function(work, args)
  local answer = {}
  for i = 3, #args do answer[#answer + 1] = stateOf(work, args[i]) or '' end
  return answer
end)
`

/** What chains.ts needs of it. */
export const OWED_LUA: string = lua`
-- The blocked jobs of this shard that come after one.
local function kidsOf(work, id)
  local kids = {}
  for _, kid in ipairs(redis.call('SMEMBERS', work.b .. 'kids:' .. id)) do kids[kid] = true end
  for kid, isIn in pairs(work.sets['kids:' .. id] or {}) do kids[kid] = isIn or nil end
  return kids
end

-- Writes a message into the stream, and returns its number.
function shards.oweText(work, kind, one, other)
  local number = tonumber(getField(work, 'meta', 'owed') or 0) + 1
  setField(work, 'meta', 'owed', number)
  later(work, 'XADD', 'out', string.format('%.0f-1', number), 'at', text(work.t), 'kind', kind, 'one', one, 'other', other)
  return number
end

-- Whether a job of this shard waits for another.
function shards.hasBlocked(work)
  if not work.blockedBefore then work.blockedBefore = tonumber(redis.call('HGET', work.b .. 'counts', 'blocked') or 0) end
  return work.blockedBefore + (work.total.blocked or 0) > 0
end

-- Owes the new state of a job to the shards of the jobs that come after it. Also to its own, so that all go on in the same order as
-- if they were in one.
function shards.oweKids(work, job)
  local goals = {}
  if hasFlag(job, 'k') then goals = redis.call('SMEMBERS', work.b .. 'kin:' .. job.id) end
  if shards.hasBlocked(work) and next(kidsOf(work, job.id)) then goals[#goals + 1] = text(work.shard) end
  if not goals[1] then return end
  local list = table.concat(goals, ',')
  local number = shards.oweText(work, 'parent', job.id .. ' ' .. job.state, list)
  for _, value in ipairs({ text(number), job.id, job.state, list }) do work.owed[#work.owed + 1] = value end
end

-- The state of a job that others come after: here, or as another shard has reported it.
function shards.parentState(work, id)
  local state = stateOf(work, id)
  if state or not work.shard then return state end
  local far = getField(work, 'far', id)
  return far and string.sub(far, 1, 1) or nil
end
`

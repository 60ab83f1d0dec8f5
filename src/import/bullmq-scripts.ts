// What an import does in BullMQ's keys, each as one step that no worker comes between. KEYS[1] of each is the prefix of a queue's keys, such as
// bull:mail: with its colon. ◄── bullmq.ts

/** The hash in which taken jobs are noted until they are written: id → place, score or '', time of the taking, as JSON. */
export const PARKED = 'holdfast-parked'

/**
 * ARGV: '1' when schedulers own their next jobs, then ids. Answers for each: 'free', 'flow' for a job that waits for others or that another waits
 * for, 'scheduled' for the next job of a scheduler.
 */
export const SORT: string = `
local base, answers = KEYS[1], {}
for i = 1, #ARGV do
  local id = ARGV[i]
  local parent, scheduler = unpack(redis.call('HMGET', base .. id, 'parentKey', 'rjk'))
  local answer = 'free'
  if parent or redis.call('EXISTS', base .. id .. ':dependencies', base .. id .. ':processed') > 0 then
    answer = 'flow'
  elseif scheduler then
    local at = redis.call('ZSCORE', base .. 'repeat', scheduler)
    if at and id == 'repeat:' .. scheduler .. ':' .. at then answer = 'scheduled' end
  end
  answers[i] = answer
end
return answers`

/** ARGV: the place, the time, then ids. Answers for each taken job with three values: its id, what is kept with it, and its fields. */
export const TAKE: string = `
local base, place, time, answers = KEYS[1], ARGV[1], ARGV[2], {}
local isList = place == 'wait' or place == 'paused'
for i = 3, #ARGV do
  local id = ARGV[i]
  local key = base .. id
  -- A worker that runs it has its lock. A job that waits has not ended.
  local isFree = redis.call('EXISTS', key) == 1 and redis.call('EXISTS', key .. ':lock') == 0
  local isTaken, score = false, ''
  if isFree and isList then
    -- From the end that workers take from, and not through the whole of a long list.
    if redis.call('HEXISTS', key, 'finishedOn') == 0 and redis.call('LPOS', base .. place, id, 'RANK', -1, 'MAXLEN', 20000) then
      isTaken = redis.call('LREM', base .. place, -1, id) == 1
    end
  elseif isFree then
    score = redis.call('ZSCORE', base .. place, id) or ''
    isTaken = redis.call('ZREM', base .. place, id) == 1
  end
  if isTaken then
    local kept = cjson.encode({ place, score, time })
    redis.call('HSET', base .. '${PARKED}', id, kept)
    answers[#answers + 1] = id
    answers[#answers + 1] = kept
    answers[#answers + 1] = redis.call('HGETALL', key)
  end
end
return answers`

/** ARGV: ids. Puts parked jobs back where they were, at the front of their list. */
export const PUT_BACK: string = `
local base = KEYS[1]
for i = #ARGV, 1, -1 do
  local id = ARGV[i]
  local kept = redis.call('HGET', base .. '${PARKED}', id)
  if kept then
    local place, score = unpack(cjson.decode(kept))
    if score == '' then redis.call('RPUSH', base .. place, id) else redis.call('ZADD', base .. place, score, id) end
    redis.call('HDEL', base .. '${PARKED}', id)
    -- A worker that waits for a marker looks again.
    if place ~= 'paused' and place ~= 'failed' then redis.call('ZADD', base .. 'marker', 0, '0') end
  end
end
return 'OK'`

/** ARGV: ids. Removes parked jobs with everything that is theirs, as BullMQ's own removal does. */
export const CONFIRM: string = `
local base = KEYS[1]
for i = 1, #ARGV do
  local id = ARGV[i]
  local key = base .. id
  local kept = redis.call('HGET', base .. '${PARKED}', id)
  -- One that is not parked any more is another job that has got the id.
  if kept then
    local dedup = redis.call('HGET', key, 'deid')
    if dedup and redis.call('GET', base .. 'de:' .. dedup) == id then
      redis.call('DEL', base .. 'de:' .. dedup, base .. 'dn:' .. dedup)
    end
    redis.call('DEL', key, key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed', key .. ':unsuccessful')
    redis.call('XADD', base .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'removed', 'jobId', id, 'prev', cjson.decode(kept)[1])
    redis.call('HDEL', base .. '${PARKED}', id)
  end
end
return 'OK'`

/** ARGV: the id of a scheduler. Removes it, and its next job while that waits for its time. */
export const REMOVE_SCHEDULER: string = `
local base, id = KEYS[1], ARGV[1]
local at = redis.call('ZSCORE', base .. 'repeat', id)
if at then
  local job = 'repeat:' .. id .. ':' .. at
  if redis.call('ZREM', base .. 'delayed', job) == 1 then
    redis.call('DEL', base .. job, base .. job .. ':logs')
    redis.call('XADD', base .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'removed', 'jobId', job, 'prev', 'delayed')
  end
  redis.call('ZREM', base .. 'repeat', id)
  redis.call('DEL', base .. 'repeat:' .. id)
end
return 'OK'`

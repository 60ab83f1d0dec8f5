// Jobs that come after others. A blocked job looks at the states of its parents as they are now: no counter can be wrong, and a parent
// that was requeued is waited for again. A parent that is missing was pruned, and only jobs that ended well or were given up are.

import { lua } from './lua.js'

export const CHAINS_LUA: string = lua`
-- The most blocked jobs that one call moves on. What is left waits in the list todo, and promote continues.
local CASCADE_MAX = 5000

-- A job's state may be in another shard: see owed.ts, which comes before this.
local function judge(work, job)
  local isWaiting, hasBadEnd = false, false
  for _, parent in ipairs(kept.blockers(work, job)) do
    local state = shards.parentState(work, parent) or 'F'
    if state == 'D' or state == 'C' then hasBadEnd = true end
    if not isFinished(state) then isWaiting = true end
  end
  -- A job that waits for its children goes on whatever becomes of them.
  if hasFlag(job, 'n') then
    return (not isWaiting or hasBadEnd and kept.wakesEarly(work, job)) and 'goes on' or 'waits'
  end
  if hasBadEnd and string.sub(job.parents, 1, 1) == 'c' then return 'ends' end
  return isWaiting and 'waits' or 'goes on'
end

-- Moves the jobs that are no longer blocked, in the order of their ids. When one of them ends here, its own children follow.
local function goOn(work, candidates)
  local moved = 0
  while next(candidates) do
    local ids = {}
    for id in pairs(candidates) do ids[#ids + 1] = id end
    sorted(ids)
    load(work, 's', ids)
    -- All are judged before any of them moves, so one that ends here does not yet count as a finished parent of another.
    local verdicts = {}
    for _, id in ipairs(ids) do
      local job = leasedJob(work, id)
      if job and job.state == 'B' then verdicts[#verdicts + 1] = { job, judge(work, withFacts(work, job)) } end
    end
    candidates = {}
    for _, pair in ipairs(verdicts) do
      local job, verdict = pair[1], pair[2]
      if verdict ~= 'waits' and moved >= CASCADE_MAX then
        later(work, 'RPUSH', 'todo', job.id)
      elseif verdict ~= 'waits' then
        moved = moved + 1
        local runAt, lane = job.at, NORMAL
        take(work, job)
        if hasFlag(job, 'n') then
          lane = FRONT
          kept.endChildren(work, job)
        end
        if verdict == 'ends' then
          putFinished(work, job, 'C')
          if work.shard then
            shards.oweKids(work, job)
          else
            for kid in pairs(kidsOf(work, job.id)) do candidates[kid] = true end
          end
        elseif runAt and runAt > work.t then
          putTimed(work, job, 'S', runAt)
        else
          putReady(work, job, lane)
        end
      end
    end
  end
  return moved
end

-- Lets the jobs that come after finished ones go on.
local function unblock(work, ids)
  if #ids == 0 then return 0 end
  if work.shard then
    for _, id in ipairs(ids) do
      local job = leasedJob(work, id)
      if job then shards.oweKids(work, job) end
    end
    return 0
  end
  local pending = work.total.blocked or 0
  if tonumber(redis.call('HGET', work.b .. 'counts', 'blocked') or 0) + pending <= 0 then return 0 end
  local candidates = {}
  for _, id in ipairs(ids) do
    for kid in pairs(kidsOf(work, id)) do candidates[kid] = true end
  end
  return goOn(work, candidates)
end
`

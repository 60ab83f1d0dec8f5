// How a job gets from one place to another. Every change of state goes through here, so that a job is always in the one place of its
// state. The ready jobs of a queue are in line:<queue>, a sorted set in the exact order of claiming: priority, lane and position in one
// score of 53 bits. Jobs of types that a claim did not know are apart in park:<queue> <type>, with the same scores.

import { lua } from './lua.js'

export const MOVES_LUA: string = lua`
local FRONT, NORMAL, LIFO = 0, 1, 2
-- Positions of one lane. With 2^17 lanes, two for each priority, every score is exact.
local LANE = 68719476736

local function laneStart(priority, lane) return ((32767 - priority) * 2 + lane) * LANE end

-- Where a ready job without flow control is, and its score there. A claim has just read it.
local function placeOf(work, job)
  if job.place then return job.place, job.score end
  local line = 'line:' .. job.queue
  local pending = work.zsets[line] and work.zsets[line][job.id]
  if pending then return line, pending end
  local score = redis.call('ZSCORE', work.b .. line, job.id)
  if score then return line, tonumber(score) end
  local park = parkOf(job.queue, job.type)
  return park, tonumber(redis.call('ZSCORE', work.b .. park, job.id))
end

-- Takes a job out of the place of its state. It must be put somewhere before the call ends.
local function take(work, job)
  withFacts(work, job)
  if job.state == 'Q' and job.flow then
    held.unhold(work, job)
  elseif job.state == 'Q' then
    local place = placeOf(work, job)
    setScore(work, place, job.id, false)
    job.place = nil
  elseif job.state == 'R' then
    setScore(work, 'leases', job.id, false)
    if hasFlag(job, 'l') then held.stop(work, job) end
  elseif job.state == 'S' or job.state == 'T' then
    setScore(work, 'due', job.id, false)
    if job.flow then held.pauseStarted(work, job, false) end
  elseif job.state == 'B' then
    for _, parent in ipairs(kept.blockers(work, job)) do setMember(work, 'kids:' .. parent, job.id, false) end
  end
  if IS_LISTED[job.state] then setScore(work, 'in:' .. STATE_NAMES[job.state], job.id, false) end
  if IS_COUNTED[job.state] then count(work, job.queue, STATE_NAMES[job.state], -1) end
end

-- Puts a job that is in no place into the one of its state.
local function put(work, job)
  if job.state == 'S' or job.state == 'T' then
    setScore(work, 'due', job.id, job.at)
    if job.flow then held.pauseStarted(work, job, true) end
  end
  if job.state == 'B' then
    for _, parent in ipairs(kept.blockers(work, job)) do setMember(work, 'kids:' .. parent, job.id, true) end
  end
  if IS_LISTED[job.state] then setScore(work, 'in:' .. STATE_NAMES[job.state], job.id, 0) end
  if IS_COUNTED[job.state] then count(work, job.queue, STATE_NAMES[job.state], 1) end
  save(work, job)
end

-- What only a job that runs or has finished has.
local function clearRun(job)
  job.started, job.reason, job.worker = nil, '-', ''
  dropFlag(job, 'c')
  dropFlag(job, 'b')
  dropFlag(job, 'd')
end

-- Jobs that go newest first count down from the beginning of the main lane, so they come behind the front lane.
local function scoreFor(work, job, lane)
  local position = nextPosition(work, job.queue)
  if lane == LIFO then return laneStart(job.priority, NORMAL) - position end
  return laneStart(job.priority, lane) + position
end

-- Makes a taken job ready, behind all others of its lane.
local function putReady(work, job, lane)
  clearRun(job)
  job.state, job.at = 'Q', work.t
  local score = scoreFor(work, job, lane)
  if job.flow then held.hold(work, job, score) else setScore(work, 'line:' .. job.queue, job.id, score) end
  put(work, job)
  wake(work, job.queue, job.flow)
end

-- Lets a taken job wait for a time.
local function putTimed(work, job, state, runAt)
  clearRun(job)
  job.state, job.at = state, runAt
  put(work, job)
end

-- Ends a taken job. Jobs that come after it are left to unblock.
local function putFinished(work, job, state)
  dropFlag(job, 'c')
  dropFlag(job, 'b')
  if hasFlag(job, 'n') then kept.endChildren(work, job) end
  job.state, job.at = state, work.t
  if job.flow and state ~= 'D' then held.use(work, job, -1) end
  freeKey(work, job)
  put(work, job)
end

-- Leases a job to a worker. Under flow control it takes its slots with the lease.
local function lease(work, job, worker, leaseMs, hasFlow)
  take(work, job)
  clearRun(job)
  job.state, job.attempt, job.at = 'R', job.attempt + 1, work.t
  job.fence, job.worker = math.max(job.fence + 1, work.t), worker
  setScore(work, 'leases', job.id, work.t + leaseMs)
  if hasFlow then held.start(work, job) end
  put(work, job)
end
`

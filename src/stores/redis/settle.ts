// Ends leases and puts their jobs where the settlements say. ◄── worker/settler.ts

import { leaseOf, type SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import { keyText } from './facts.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Purpose, Redis } from './redis.js'
import { parkedText } from './signal.js'
import { letterOfState, stateOfLetter } from './states.js'

/**
 * ARGV: '1' to settle expired leases only, and 'f' when jobs under flow control are among them; then for each job: id, fence, queue, head, result or '', error or ''.
 * The head is "<state> <attempt> <crashes> <delay> <ran> <reason> <key>", where - stands for none. Behind a \n follows what flow control
 * needs, "<spent> <scope> <how long> <limit>": what the attempt cost, and what is held off. The state W is that of a job that waits for a signal, B that of
 * one that waits for its children: the result is what it waits for then (signal.ts).
 * Answers for each job with 'settled' and its state, or 'lost' and ''.
 */
export const SETTLE: string = lua`
-- What became of a job whose lease no longer holds: settled under that lease earlier, or lost.
local function repeated(job, fence)
  local tookEffect = job and job.state ~= 'R' and job.fence > 0 and job.fence == fence
  if tookEffect then return 'settled', job.state end
  return 'lost', ''
end

local function addAttempt(work, job, started, failure)
  addFlag(job, 'a')
  later(work, 'RPUSH', 'a:' .. job.id, job.attempt .. ' ' .. text(started) .. ' ' .. text(work.t) .. ' ' .. failure .. '\n' .. job.worker)
end

local function setExtra(work, job, letter, value)
  addFlag(job, 'x')
  setField(work, 'x:' .. chunkOf(work, job.id), job.id .. letter, value)
end

local function settleFlow(work, job, flow)
  local spent, scope, after, name = string.match(flow, '^\n(%S+) (%S+) (%S+) (%S+)$')
  if scope ~= '-' then limits.holdOff(work, job, scope, name, work.t + tonumber(after)) end
  if spent ~= '-' then limits.settleCost(work, job, tonumber(spent)) end
end

local function endLease(work, job, settled)
  local state, attempt, crashes, delay, ran, reason, key, flow =
    string.match(settled.head, '^(%a) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)(.*)$')
  local started = ran == '-' and job.at or work.t - tonumber(ran)
  if settled.failure ~= '' then addAttempt(work, job, started, settled.failure) end
  local waits
  if state == 'W' or state == 'B' then waits, settled.result = settled.result, '' end
  if hasFlag(job, 'c') and not isFinished(state) then state = 'C' end
  local hasFlow = hasFlag(job, 'l') or flow ~= ''
  if state == 'Q' or waits or hasFlow then withFacts(work, job) end
  -- The settlement brings what its end needs, so that the payload need not be read.
  if not job.type then job.type, job.queue, job.key, job.ttl = '', settled.queue, key, '-' end
  take(work, job)
  if hasFlow then held.free(work, job) end
  job.attempt, job.crashes = tonumber(attempt), tonumber(crashes)
  if state == 'Q' then
    putReady(work, job, FRONT)
  elseif state == 'T' or state == 'S' then
    putTimed(work, job, state, work.t + tonumber(delay))
  elseif state == 'W' then
    putTimed(work, job, 'S', work.t + tonumber(delay))
    kept.park(work, job, waits)
  elseif state == 'B' then
    kept.waitForChildren(work, job, waits)
  else
    job.started, job.reason = started, state == 'D' and reason or '-'
    if state ~= 'D' and settled.result ~= '' then setExtra(work, job, 'r', settled.result) end
    putFinished(work, job, state)
    if state == 'D' then groups.stop(work, job) end
  end
  if flow ~= '' then settleFlow(work, job, flow) end
end

-- Under flow control the end of a job needs its facts: those of all are read together.
local function loadFlow(work, ids)
  local those = {}
  for _, id in ipairs(ids) do
    local job = leasedJob(work, id)
    if job and hasFlag(job, 'l') then those[#those + 1] = id end
  end
  if #those > 0 then load(work, 'f', those) end
end

writes('settle', { 'allow-oom' }, function(work, args)
  local onlyExpired, settledJobs, ids = string.sub(args[3], 1, 1) == '1', {}, {}
  for i = 4, #args, 6 do
    ids[#ids + 1] = args[i]
    settledJobs[#settledJobs + 1] = {
      id = args[i], fence = tonumber(args[i + 1]), queue = args[i + 2], head = args[i + 3],
      result = args[i + 4], failure = args[i + 5]
    }
  end
  load(work, 's', ids)
  if string.sub(args[3], -1) == 'f' then loadFlow(work, ids) end
  local answers, finished, waiting = {}, {}, {}
  for _, settled in ipairs(settledJobs) do
    local job, result, state = leasedJob(work, settled.id)
    local isHeld = job and job.state == 'R' and job.fence == settled.fence
    if not isHeld then
      result, state = repeated(job, settled.fence)
    elseif onlyExpired and tonumber(redis.call('ZSCORE', work.b .. 'leases', job.id) or 0) > work.t then
      result, state = 'lost', ''
    else
      endLease(work, job, settled)
      -- The worker that let its lease run out may still be alive: its own settlement must not pass for a repetition.
      if onlyExpired then job.fence = job.fence + 1 end
      save(work, job)
      if isFinished(job.state) then finished[#finished + 1] = job.id end
      if job.state == 'B' then waiting[job.id] = #answers + 2 end
      result, state = 'settled', job.state
    end
    answers[#answers + 1] = result
    answers[#answers + 1] = state
  end
  unblock(work, finished)
  if next(waiting) then
    local candidates = {}
    for id in pairs(waiting) do candidates[id] = true end
    goOn(work, candidates)
    -- One whose children have all ended has gone on.
    for id, place in pairs(waiting) do answers[place] = leasedJob(work, id).state end
  end
  return answers
end)
`

export async function settle(
  redis: Redis,
  purpose: Purpose,
  jobs: readonly SettledJob[],
  onlyExpired: boolean,
): Promise<readonly SettleResult[]> {
  if (jobs.length === 0) return []
  const args: string[] = [`${onlyExpired ? '1' : ''}${jobs.some(({ flow }) => flow !== undefined) ? 'f' : ''}`]
  for (const job of jobs) {
    const failure = job.error === null ? '' : JSON.stringify(job.error)
    const result = parkedText(job.wait, job.children) ?? job.result ?? ''
    args.push(shortId(job.id), String(job.fence), job.queue, headOf(job), result, failure)
  }
  const { value } = await redis.write<string[]>(purpose, 'settle', args)
  return jobs.map((job, index): SettleResult => {
    const isSettled = value[2 * index] === 'settled'
    const state = isSettled ? stateOfLetter(value[2 * index + 1]!) : null
    return { ...leaseOf(job), result: isSettled ? 'settled' : 'lost', state }
  })
}

function headOf({ settlement, ranMs, idempotencyKey, holdOff, spent, wait }: SettledJob): string {
  const { state, attempt, crashes } = settlement
  const delay = 'delayMs' in settlement ? Math.ceil(settlement.delayMs) : '-'
  const reason = 'reason' in settlement ? settlement.reason : '-'
  // A key that lasts for a time outlives its job.
  const key = idempotencyKey === null || idempotencyKey.ttlMs !== null ? '-' : keyText(idempotencyKey.key)
  const letter = wait === undefined ? letterOfState(state) : 'W'
  return `${letter} ${attempt} ${crashes} ${delay} ${ranMs === null ? '-' : Math.ceil(ranMs)} ${reason} ${key}${flowOf({ holdOff, spent })}`
}

function flowOf({ holdOff, spent }: Pick<SettledJob, 'holdOff' | 'spent'>): string {
  if (holdOff === undefined && spent === undefined) return ''
  const limit = holdOff?.scope === 'limit' ? holdOff.limit : '-'
  return `\n${spent ?? '-'} ${holdOff?.scope ?? '-'} ${holdOff?.afterMs ?? '-'} ${limit}`
}

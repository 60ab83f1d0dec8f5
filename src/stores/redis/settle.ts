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
 * ARGV: '1' to settle expired leases only, and 'f' when jobs under flow control are among them; then how many groups there are of jobs that
 * have succeeded and brought no result, each job in one at most; and for each group: queue, fence, "<attempt> <crashes>", ran, how many, and
 * the ids of its jobs. Then for each other job: id, fence, queue, head, result or '', error or ''.
 * The head is "<state> <attempt> <crashes> <delay> <ran> <reason> <key>", where - stands for none. Behind a \n follows what flow control
 * needs, "<spent> <scope> <how long> <limit>": what the attempt cost, and what is held off. The state W is that of a job that waits for a
 * signal, B that of one that waits for its children: the result is what it waits for then (signal.ts).
 * Answers for each job that is in no group with 'settled' and its state, or 'lost' and ''; then a list with three values for each job of
 * a group that was not simply settled: its place among those of all groups, then the same two.
 */
export const SETTLE: string = lua`
-- What became of a job whose lease no longer holds: settled under that lease earlier, or lost.
local function repeated(job, fence)
  local tookEffect = job and job.state ~= 'R' and job.fence > 0 and job.fence == fence
  if tookEffect then return 'settled', job.state end
  return 'lost', ''
end

local function setExtra(work, job, letter, value)
  addFlag(job, 'x')
  setField(work, 'x:' .. chunkOf(work, job.id), job.id .. letter, value)
end

local function addAttempt(work, job, started, failure)
  addFlag(job, 'a')
  later(work, 'RPUSH', 'a:' .. job.id, job.attempt .. ' ' .. text(started) .. ' ' .. text(work.t) .. ' ' .. failure .. '\n' .. job.worker)
end

-- A block: its names are its own (work.ts).
do
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

local function readGroups(args)
  local groups, ids, groupOf, from = {}, {}, {}, 5
  for g = 1, tonumber(args[4]) do
    local group = { queue = args[from], fence = args[from + 1], tries = args[from + 2], ran = args[from + 3], standings = {} }
    local upTo = from + 4 + tonumber(args[from + 4])
    for i = from + 5, upTo do
      local n = #ids + 1
      ids[n], groupOf[n] = args[i], group
    end
    groups[g], from = group, upTo + 1
  end
  return ids, groupOf, from
end

-- The standing of a job that has succeeded, from that of the running one. False for a job that is not held with this fence, or
-- has a flag: then there is more to do.
local function successOf(work, standing, group)
  local fence, tries, at, worker = string.match(standing or '', '^R(%d+) (%S+ %S+) [-b] (%S+) %- %- (.*)$')
  if fence ~= group.fence or tries ~= group.tries then return false end
  local now = work.t - tonumber(fence)
  local started = group.ran == '-' and at or text(now - tonumber(group.ran))
  return 'F' .. fence .. ' ' .. tries .. ' - ' .. text(now) .. ' ' .. started .. ' - ' .. worker
end

-- The fast path: jobs that have succeeded, with nothing to keep or to free. Jobs that were claimed together have one standing, so it is
-- rewritten once for each group. Adds those that are settled to a list, if there is one, and returns the places of the others, which take
-- the general path.
local function succeed(work, ids, groupOf, ended)
  local portions, left = portionsOf(work, ids), {}
  local standings = readPortions(work, 's', portions)
  local leases = #ids > 0 and listFor(work, 'ZREM', 'leases')
  for _, portion in ipairs(portions) do
    local list, n = listFor(work, 'HSET', 's:' .. portion.chunk), 0
    for i, id in ipairs(portion.ids) do
      local place = portion.places[i]
      local standing, group = standings[place], groupOf[place]
      local success = group.standings[standing]
      if success == nil then
        success = successOf(work, standing, group)
        group.standings[standing] = success
      end
      work.s[id] = success or standing
      if not success then
        left[#left + 1] = place
      else
        list[n + 1], list[n + 2], n = id, success, n + 2
        leases[#leases + 1] = id
        count(work, group.queue, 'running', -1)
        if ended then ended[#ended + 1] = id end
      end
    end
  end
  table.sort(left)
  return left
end

-- Settles one job of any kind. Returns the two values of its answer, and whether it was this call that settled it.
local function settleOne(work, settled, onlyExpired)
  local job = leasedJob(work, settled.id)
  if not job or job.state ~= 'R' or job.fence ~= settled.fence then return repeated(job, settled.fence) end
  if onlyExpired and tonumber(redis.call('ZSCORE', work.b .. 'leases', job.id) or 0) > work.t then return 'lost', '' end
  endLease(work, job, settled)
  -- The worker that let its lease run out may still be alive: its own settlement must not pass for a repetition.
  if onlyExpired then job.fence = job.fence + 1 end
  save(work, job)
  return 'settled', job.state, true
end

writes('settle', { 'allow-oom' }, function(work, args)
  local onlyExpired, answers, left, finished, waiting, ids = string.sub(args[3], 1, 1) == '1', {}, {}, {}, {}, {}
  local inGroups, groupOf, from = readGroups(args)
  for i = from, #args, 6 do ids[#ids + 1] = args[i] end
  local places = succeed(work, inGroups, groupOf, shards.hasBlocked(work) and finished)
  load(work, 's', ids)
  if string.sub(args[3], -1) == 'f' then loadFlow(work, ids) end
  local function settleNext(settled, list)
    local result, state, isEnded = settleOne(work, settled, onlyExpired)
    list[#list + 1], list[#list + 2] = result, state
    if isEnded and isFinished(state) then finished[#finished + 1] = settled.id end
    if isEnded and state == 'B' then waiting[settled.id] = #list end
  end
  for _, place in ipairs(places) do
    local group = groupOf[place]
    left[#left + 1] = place
    settleNext({
      id = inGroups[place], fence = tonumber(group.fence), queue = group.queue, result = '', failure = '',
      head = 'F ' .. group.tries .. ' - ' .. group.ran .. ' - -'
    }, left)
  end
  for i = from, #args, 6 do
    settleNext({
      id = args[i], fence = tonumber(args[i + 1]), queue = args[i + 2], head = args[i + 3], result = args[i + 4], failure = args[i + 5]
    }, answers)
  end
  unblock(work, finished)
  if next(waiting) then
    local candidates = {}
    for id in pairs(waiting) do candidates[id] = true end
    goOn(work, candidates)
    -- One whose children have all ended has gone on.
    for id, place in pairs(waiting) do answers[place] = leasedJob(work, id).state end
  end
  answers[#answers + 1] = left
  return answers
end)
end
`

export async function settle(
  redis: Redis,
  purpose: Purpose,
  jobs: readonly SettledJob[],
  onlyExpired: boolean,
): Promise<readonly SettleResult[]> {
  if (jobs.length === 0) return []
  const flags = `${onlyExpired ? '1' : ''}${jobs.some(({ flow }) => flow !== undefined) ? 'f' : ''}`
  const groups = new Map<string, Group>()
  const others: number[] = []
  // Of a lease that is in the call twice the first end counts, so they keep their order.
  const mayGroup = !onlyExpired && new Set(jobs.map(({ id }) => id)).size === jobs.length
  for (const [index, job] of jobs.entries()) {
    if (mayGroup && isSimple(job)) groupFor(groups, job).push(index)
    else others.push(index)
  }
  const args: (string | number)[] = [flags, groups.size]
  const grouped: number[] = []
  for (const [head, places] of groups) {
    args.push(...head.split('\t'), places.length)
    for (const place of places) {
      args.push(shortId(jobs[place]!.id))
      grouped.push(place)
    }
  }
  for (const index of others) args.push(...settlementArgs(jobs[index]!))
  const { value } = await redis.write<Answer>(purpose, 'settle', args)
  const results: SettleResult[] = jobs.map((job) => ({ ...leaseOf(job), result: 'settled', state: 'succeeded' }))
  const report = (place: number, result: string, letter: string) => {
    const isSettled = result === 'settled'
    const state = isSettled ? stateOfLetter(letter) : null
    results[place] = { ...leaseOf(jobs[place]!), result: isSettled ? 'settled' : 'lost', state }
  }
  for (const [at, place] of others.entries()) report(place, value[2 * at] as string, value[2 * at + 1] as string)
  const left = value.at(-1) as readonly (string | number)[]
  for (let at = 0; at < left.length; at += 3) {
    report(grouped[Number(left[at]) - 1]!, String(left[at + 1]), String(left[at + 2]))
  }
  return results
}

type Answer = readonly (string | readonly (string | number)[])[]

/** The places of jobs that were claimed together and ran for the same time. */
type Group = number[]

function groupFor(groups: Map<string, Group>, { queue, fence, ranMs, settlement }: SettledJob): Group {
  const { attempt, crashes } = settlement
  const head = `${queue}\t${fence}\t${attempt} ${crashes}\t${ranMs === null ? '-' : Math.ceil(ranMs)}`
  const known = groups.get(head)
  if (known !== undefined) return known
  const group: Group = []
  groups.set(head, group)
  return group
}

/** Whether a job has succeeded, with nothing to keep or to free. */
function isSimple(job: SettledJob): boolean {
  return (
    job.settlement.state === 'succeeded' &&
    job.result === null &&
    job.error === null &&
    (job.idempotencyKey === null || job.idempotencyKey.ttlMs !== null) &&
    job.flow === undefined &&
    job.holdOff === undefined &&
    job.spent === undefined &&
    job.wait === undefined &&
    job.children === undefined
  )
}

function settlementArgs(job: SettledJob): string[] {
  const failure = job.error === null ? '' : JSON.stringify(job.error)
  const result = parkedText(job.wait, job.children) ?? job.result ?? ''
  return [shortId(job.id), String(job.fence), job.queue, headOf(job), result, failure]
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

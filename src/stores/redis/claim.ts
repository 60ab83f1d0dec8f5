// Leases ready jobs to a worker. ◄── worker/fetcher.ts · next: worker/slots.ts

import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { readFacts } from './facts.js'
import { longId } from './ids.js'
import { lua } from './lua.js'
import { queueLimits } from './queues.js'
import type { Redis } from './redis.js'

/**
 * ARGV: worker, leaseMs, '*' or the number of types; the types; then queue and limit of each queue.
 * Answers with five values for each job: id, fence, attempt, crashes, facts; then how long the longest-waiting one had been ready, or ''.
 * The last is a list of queues and their settings.
 */
export const CLAIM: string = lua`
-- The most jobs of other types that one claim passes over.
local PASSED_MAX = 5000

local function addWithScores(found, place, members)
  for i = 1, #members, 2 do
    found[#found + 1] = { id = members[i], score = tonumber(members[i + 1]), place = place }
  end
end

-- Jobs of other types leave the backlog for a place of their own, so that each is passed over once and not by every claim.
local function park(work, queue, jobs)
  for _, each in ipairs(jobs) do
    local name = parkOf(queue, each.type)
    setScore(work, 'line:' .. queue, each.id, false)
    setScore(work, name, each.id, each.score)
    setMember(work, 'parked:' .. queue, each.type, true)
  end
end

-- The first jobs of a backlog that the worker knows, in their order.
local function firstOfLine(work, queue, limit, types)
  local line, found, passed, from = work.b .. 'line:' .. queue, {}, {}, 0
  while #found < limit and #passed < PASSED_MAX do
    local portion, batch = limit - #found, {}
    addWithScores(batch, 'line:' .. queue, redis.call('ZRANGE', line, from, from + portion - 1, 'WITHSCORES'))
    if types then
      local ids = {}
      for i, each in ipairs(batch) do ids[i] = each.id end
      load(work, 's', ids)
      load(work, 'f', ids)
    end
    for _, each in ipairs(batch) do
      each.type = types and jobOf(work, each.id).type
      if not types or types[each.type] then found[#found + 1] = each else passed[#passed + 1] = each end
    end
    from = from + #batch
    if #batch < portion then break end
  end
  park(work, queue, passed)
  return found
end

local function firstReady(work, queue, limit, types)
  local parked = redis.call('SMEMBERS', work.b .. 'parked:' .. queue)
  local found = firstOfLine(work, queue, limit, types)
  for _, kind in ipairs(parked) do
    if not types or types[kind] then
      local place = parkOf(queue, kind)
      local members = redis.call('ZRANGE', work.b .. place, 0, limit - 1, 'WITHSCORES')
      if #members == 0 then setMember(work, 'parked:' .. queue, kind, false) end
      addWithScores(found, place, members)
    end
  end
  if #parked > 0 then table.sort(found, function(one, other) return one.score < other.score end) end
  return found
end

writes('claim', { 'allow-oom' }, function(work, args)
  local worker, leaseMs = args[3], tonumber(args[4])
  local types, from = nil, 6
  if args[5] ~= '*' then
    types = {}
    for i = 6, 5 + tonumber(args[5]) do types[args[i]] = true end
    from = 6 + tonumber(args[5])
  end
  -- A queue that is listed twice gives its jobs where it is listed first.
  local order, limits = {}, {}
  for i = from, #args, 2 do
    if not limits[args[i]] then order[#order + 1] = args[i] end
    limits[args[i]] = (limits[args[i]] or 0) + tonumber(args[i + 1])
  end
  local taken, settings, longest = {}, {}, ''
  for _, name in ipairs(order) do
    local limit = math.min(limits[name], 5000)
    local queue = limit > 0 and queueOf(work, name)
    if queue and queue.isKnown and not queue.isPaused then
      local found = firstReady(work, name, limit, types)
      local ids = {}
      for i = 1, math.min(limit, #found) do ids[i] = found[i].id end
      load(work, 's', ids)
      load(work, 'f', ids)
      for i, id in ipairs(ids) do
        local job = jobOf(work, id)
        job.place, job.score = found[i].place, found[i].score
        longest = math.max(longest == '' and 0 or longest, work.t - job.at)
        lease(work, job, worker, leaseMs)
        local values = { id, text(job.fence), tostring(job.attempt), tostring(job.crashes), work.f[id] }
        for _, value in ipairs(values) do taken[#taken + 1] = value end
      end
      if #ids > 0 then
        settings[#settings + 1] = name
        settings[#settings + 1] = queue.settings
      end
    end
  end
  taken[#taken + 1] = text(longest)
  taken[#taken + 1] = settings
  return taken
end)
`

export async function claim(redis: Redis, request: ClaimRequest): Promise<Claim> {
  const { types, worker, leaseMs, queues } = request
  const args: (string | number)[] = [worker, leaseMs, types === null ? '*' : types.length, ...(types ?? [])]
  for (const { queue, limit } of queues) args.push(queue, limit)
  const { value, nowMs } = await redis.write<(string | string[])[]>('claim', 'claim', args, { waits: false })
  const settings = value.pop() as string[]
  const waited = value.pop() as string
  const limits = new Map<string, ClaimedJob['queueLimits']>()
  for (let at = 0; at < settings.length; at += 2) limits.set(settings[at]!, queueLimits(settings[at + 1]!))
  const jobs: ClaimedJob[] = []
  for (let at = 0; at < value.length; at += 5) jobs.push(claimedJob(value.slice(at, at + 5) as string[], limits))
  return { jobs, nowMs, waitedMs: waited === '' ? null : Number(waited) }
}

function claimedJob(values: readonly string[], limits: ReadonlyMap<string, ClaimedJob['queueLimits']>): ClaimedJob {
  const [id, fence, attempt, crashes, facts] = values as readonly [string, string, string, string, string]
  const { after: _, onParentDead: __, schedule: ___, ...job } = readFacts(facts)
  return {
    id: longId(id),
    fence: Number(fence),
    ...job,
    attempt: Number(attempt),
    crashes: Number(crashes),
    queueLimits: limits.get(job.queue) ?? {},
  }
}

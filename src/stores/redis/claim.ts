// Leases ready jobs to a worker. ◄── worker/fetcher.ts · next: worker/slots.ts

import type { FlowState } from '../../core/flow/views.js'
import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { originOf } from '../../core/origin.js'
import { readFacts } from './facts.js'
import { longId } from './ids.js'
import { lua } from './lua.js'
import { queueLimits } from './queues.js'
import type { Redis } from './redis.js'

export const CLAIM_LUA: string = lua`
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

`

/**
 * ARGV: worker, leaseMs, '*' or the number of types; the types; the number of types that are run in batches, and each with the most; the
 * number of limits that the claim has on loan, and ten values for each (lending.ts); then queue, limit and how many of these are ahead, of
 * each queue. Answers with five values for each job: id, fence, attempt, crashes, facts; then how long the longest-waiting one had been
 * ready, or ''; a list of queues and their settings; a list with six values for each queue that has flow control: name, '1' to claim again, how
 * long to wait or '', limits that are probed with commas, in a cluster limits of its ready jobs with commas, and '1' when it gave none because the
 * claim lacks some of these; a list of jobs of batches, each with the size of its batch; and seven values for each loan.
 */
export const CLAIM: string = lua`
writes('claim', { 'allow-oom' }, function(work, args)
  local worker, leaseMs = args[3], tonumber(args[4])
  local types, from = nil, 6
  if args[5] ~= '*' then
    types = {}
    for i = 6, 5 + tonumber(args[5]) do types[args[i]] = true end
    from = 6 + tonumber(args[5])
  end
  local batches, batchCount = {}, tonumber(args[from])
  for i = from + 1, from + 2 * batchCount, 2 do batches[args[i]] = tonumber(args[i + 1]) end
  from = from + 2 * batchCount + 1
  local loanCount = tonumber(args[from])
  limits.readLoans(work, args, from + 1, loanCount)
  from = from + 10 * loanCount + 1
  -- A queue that is listed twice gives its jobs where it is listed first.
  local order, amounts, aheads = {}, {}, {}
  for i = from, #args, 3 do
    if not amounts[args[i]] then order[#order + 1] = args[i] end
    amounts[args[i]] = (amounts[args[i]] or 0) + tonumber(args[i + 1])
    aheads[args[i]] = (aheads[args[i]] or 0) + tonumber(args[i + 2])
  end
  local taken, settings, flow, inBatches, longest = {}, {}, {}, {}, ''
  local hasFlow = false
  local function start(job)
    longest = math.max(longest == '' and 0 or longest, work.t - job.at)
    lease(work, job, worker, leaseMs, hasFlow)
    local values = { job.id, text(job.fence), tostring(job.attempt), tostring(job.crashes), wholeFacts(work, job.id) }
    for _, value in ipairs(values) do taken[#taken + 1] = value end
  end
  local function mark(batch, size)
    for i = 1, size do inBatches[#inBatches + 1], inBatches[#inBatches + 2] = batch[i].id, tostring(size) end
  end
  for _, name in ipairs(order) do
    local limit, before = math.min(amounts[name], 5000), #taken
    local queue = queueOf(work, name)
    hasFlow = queue.flow ~= ''
    if hasFlow then
      local request = {
        queue = name, limit = limit, ahead = aheads[name], types = types, batches = batches, start = start, mark = mark
      }
      local state = claimFlow(work, request)
      local values = { name, state.hasMore and '1' or '', state.wait, table.concat(state.probed, ','), '', '' }
      values[5], values[6] = table.concat(state.names or {}, ','), state.isShort and '1' or ''
      for _, value in ipairs(values) do flow[#flow + 1] = value end
    elseif limit > 0 and queue.isKnown and not queue.isPaused then
      local found = firstReady(work, name, limit, types)
      local ids = {}
      for i = 1, math.min(limit, #found) do ids[i] = found[i].id end
      load(work, 's', ids)
      load(work, 'f', ids)
      for i, id in ipairs(ids) do
        local job = jobOf(work, id)
        job.place, job.score = found[i].place, found[i].score
        start(job)
      end
    end
    if #taken > before then
      settings[#settings + 1] = name
      settings[#settings + 1] = queue.settings
    end
  end
  taken[#taken + 1] = text(longest)
  taken[#taken + 1], taken[#taken + 2], taken[#taken + 3], taken[#taken + 4] = settings, flow, inBatches, limits.closeLoans(work)
  return taken
end)
`

export async function claim(redis: Redis, request: ClaimRequest): Promise<Claim> {
  return (await claimWith(redis, request, [])).claim
}

/** What a claim of one shard found. */
export interface FoundClaim {
  readonly claim: Claim
  /** In a cluster: the limits of the ready jobs of each queue that has flow control. */
  readonly names: ReadonlyMap<string, readonly string[]>
  /** Queues that gave no job because the claim lacks loans. */
  readonly short: ReadonlySet<string>
  /** What giveBack (lending.ts) takes. */
  readonly loans: readonly string[]
}

/** Claims with limits on loan, ten values for each of those. */
export async function claimWith(
  redis: Redis,
  { types, worker, leaseMs, queues, batches = [] }: ClaimRequest,
  onLoan: readonly string[],
): Promise<FoundClaim> {
  const args: (string | number)[] = [
    worker,
    leaseMs,
    types === null ? '*' : types.length,
    ...(types ?? []),
    batches.length,
  ]
  for (const { type, max } of batches) args.push(type, max)
  args.push(onLoan.length / LOAN_VALUES, ...onLoan)
  for (const { queue, limit, ahead = 0 } of queues) args.push(queue, limit, ahead)
  const { value, nowMs } = await redis.write<(string | string[])[]>('claim', 'claim', args, { waits: false })
  const loans = value.pop() as string[]
  const inBatches = value.pop() as string[]
  const states = value.pop() as string[]
  const settings = value.pop() as string[]
  const waited = value.pop() as string
  const limits = new Map<string, ClaimedJob['queueLimits']>()
  for (let at = 0; at < settings.length; at += 2) limits.set(settings[at]!, queueLimits(settings[at + 1]!))
  const jobs: ClaimedJob[] = []
  for (let at = 0; at < value.length; at += 5) jobs.push(claimedJob(value.slice(at, at + 5) as string[], limits))
  const { flow, names, short } = readStates(states)
  return {
    claim: {
      jobs: inBatches.length === 0 ? jobs : withBatches(jobs, inBatches),
      nowMs,
      waitedMs: waited === '' ? null : Number(waited),
      ...(flow.length === 0 ? {} : { flow }),
    },
    ...{ names, short, loans },
  }
}

/** Values of a limit that a claim has on loan. */
export const LOAN_VALUES = 10
const STATE_VALUES = 6

function readStates(
  values: readonly string[],
): Pick<FoundClaim, 'names' | 'short'> & { readonly flow: readonly FlowState[] } {
  const flow: FlowState[] = []
  const names = new Map<string, readonly string[]>()
  const short = new Set<string>()
  for (let at = 0; at < values.length; at += STATE_VALUES) {
    const [queue, more, wait, probed, limits, isShort] = values.slice(at, at + STATE_VALUES) as [
      ...[string, string, string, string, string, string],
    ]
    names.set(queue, limits.split(',').filter(Boolean))
    if (isShort === '1') {
      short.add(queue)
      continue
    }
    const state = { queue, more: more === '1', waitMs: wait === '' ? null : Number(wait) }
    flow.push(probed === '' ? state : { ...state, probed: [...new Set(probed.split(','))] })
  }
  return { flow, names, short }
}

function withBatches(jobs: readonly ClaimedJob[], inBatches: readonly string[]): ClaimedJob[] {
  const sizes = new Map<string, number>()
  for (let at = 0; at < inBatches.length; at += 2) sizes.set(longId(inBatches[at]!), Number(inBatches[at + 1]))
  return jobs.map((job) => {
    const batch = sizes.get(job.id)
    return batch === undefined ? job : { ...job, batch }
  })
}

function claimedJob(values: readonly string[], limits: ReadonlyMap<string, ClaimedJob['queueLimits']>): ClaimedJob {
  const [id, fence, attempt, crashes, facts] = values as readonly [string, string, string, string, string]
  const { after, onParentDead: _, schedule, enqueuedBy, ...job } = readFacts(facts)
  return {
    id: longId(id),
    fence: Number(fence),
    ...job,
    attempt: Number(attempt),
    crashes: Number(crashes),
    queueLimits: limits.get(job.queue) ?? {},
    ...originOf({ after, schedule, enqueuedBy }),
  }
}

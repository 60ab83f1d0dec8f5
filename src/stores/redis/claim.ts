// Leases ready jobs to a worker. ◄── worker/fetcher.ts · next: worker/slots.ts

import type { FlowState } from '../../core/flow/views.js'
import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { originOf } from '../../core/origin.js'
import { readHead } from './facts.js'
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

local function firstReady(work, queue, limit, types, parked)
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

-- The fast path: leases the first jobs of a backlog if the worker knows the types of all of them, and none are parked. Jobs that were
-- never claimed have no standing, so all of them get the same one. Calls start for the others, and fresh for these with id, facts and time of
-- creation. Returns whether the jobs were leased.
local function claimFirst(work, queue, limit, types, worker, leaseMs, start, fresh)
  local line = 'line:' .. queue
  local ids = redis.call('ZRANGE', work.b .. line, 0, limit - 1)
  local portions = portionsOf(work, ids)
  local facts = readPortions(work, 'f', portions)
  for i = 1, #ids do
    if not facts[i] or types and not types[string.match(facts[i], '^%d+ (%S+)')] then return false end
  end
  local standings, restarted, fence = readPortions(work, 's', portions), 0, math.max(1, work.t)
  for i = 1, #ids do
    local id, job = ids[i], nil
    if standings[i] then
      work.s[id], work.f[id], restarted = standings[i], facts[i], restarted + 1
      job = jobOf(work, id)
      job.place = line
      start(job)
    else
      if hasPayloadApart(facts[i]) then work.f[id] = facts[i] end
      fresh(id, work.f[id] and wholeFacts(work, id) or facts[i], string.match(facts[i], '^%d+'))
    end
  end
  if restarted == #ids then return true end
  local leased = buildStanding({
    state = 'R', fence = fence, attempt = 1, crashes = 0, flags = '', at = work.t, reason = '-', worker = worker
  })
  local leases, untilMs = listFor(work, 'ZADD', 'leases'), text(work.t + leaseMs)
  for _, portion in ipairs(portions) do
    local list, n, m = listFor(work, 'HSET', 's:' .. portion.chunk), 0, #leases
    for i, id in ipairs(portion.ids) do
      if not standings[portion.places[i]] then
        list[n + 1], list[n + 2], n = id, leased, n + 2
        leases[m + 1], leases[m + 2], m = untilMs, id, m + 2
      end
    end
  end
  -- Those that were claimed before are among them.
  local ranks = listFor(work, 'ZREMRANGEBYRANK', line)
  ranks[1], ranks[2] = '0', text(#ids - 1)
  count(work, queue, 'ready', restarted - #ids)
  count(work, queue, 'running', #ids - restarted)
  return true
end

`

/**
 * ARGV: worker, leaseMs, '*' or the number of types; the types; the number of types that are run in batches, and each with the most; the
 * number of limits that the claim has on loan, and ten values for each (lending.ts); then queue, limit and how many of these are ahead, of
 * each queue. Answers with: a list with two values for each job, id and facts; a list with four for each that had been claimed before, id,
 * fence, attempt, crashes; the fence of the others; how long the longest-waiting one had been ready, or ''; a list of queues and their
 * settings; a list with six values for each queue that has flow control: name, '1' to claim again, how long to wait or '', limits that are
 * probed with commas, in a cluster limits of its ready jobs with commas, and '1' when it gave none because the claim lacks some of these; a
 * list of jobs of batches, each with the size of its batch; and seven values for each loan.
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
  local taken, again, settings, flow, inBatches, longest = {}, {}, {}, {}, {}, ''
  local hasFlow = false
  local function start(job)
    longest = math.max(longest == '' and 0 or longest, work.t - job.at)
    lease(work, job, worker, leaseMs, hasFlow)
    taken[#taken + 1], taken[#taken + 2] = job.id, wholeFacts(work, job.id)
    local values = { job.id, text(job.fence), tostring(job.attempt), tostring(job.crashes) }
    for _, value in ipairs(values) do again[#again + 1] = value end
  end
  local lastCreated
  local function fresh(id, facts, created)
    if created ~= lastCreated then
      longest, lastCreated = math.max(longest == '' and 0 or longest, work.t - tonumber(created)), created
    end
    local n = #taken
    taken[n + 1], taken[n + 2] = id, facts
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
      local parked = redis.call('SMEMBERS', work.b .. 'parked:' .. name)
      local isDone = #parked == 0 and claimFirst(work, name, limit, types, worker, leaseMs, start, fresh)
      local found, ids = isDone and {} or firstReady(work, name, limit, types, parked), {}
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
  return { taken, again, text(math.max(1, work.t)), text(longest), settings, flow, inBatches, limits.closeLoans(work) }
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
  const { value, nowMs } = await redis.write<Answer>('claim', 'claim', args, { waits: false })
  const [taken, again, fence, waited, settings, states, inBatches, loans] = value
  const { flow, names, short } = readStates(states)
  const read = jobReader(settings)
  const tries = triesOf(again)
  const first: Try = { fence: Number(fence), attempt: 1, crashes: 0 }
  const jobs: ClaimedJob[] = []
  for (let at = 0; at < taken.length; at += 2) {
    jobs.push(read(taken[at]!, taken[at + 1]!, tries?.get(taken[at]!) ?? first))
  }
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

type Answer = readonly [
  taken: readonly string[],
  again: readonly string[],
  fence: string,
  waited: string,
  settings: readonly string[],
  states: readonly string[],
  inBatches: readonly string[],
  loans: readonly string[],
]

type Try = Pick<ClaimedJob, 'fence' | 'attempt' | 'crashes'>

/** Those of jobs that had been claimed before, by their short ids; null when there are none. */
function triesOf(again: readonly string[]): ReadonlyMap<string, Try> | null {
  if (again.length === 0) return null
  const tries = new Map<string, Try>()
  for (let at = 0; at < again.length; at += 4) {
    const [fence, attempt, crashes] = again.slice(at + 1, at + 4).map(Number) as [number, number, number]
    tries.set(again[at]!, { fence, attempt, crashes })
  }
  return tries
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

/** What jobs of one type and queue mostly have in common. */
type Head = Omit<ClaimedJob, 'id' | 'fence' | 'attempt' | 'crashes' | 'createdAtMs' | 'payload'>

/** Reads the facts of claimed jobs. Their heads are mostly the same but for the time, so each is read once. */
function jobReader(settings: readonly string[]): (id: string, facts: string, tried: Try) => ClaimedJob {
  const limits = new Map<string, ClaimedJob['queueLimits']>()
  for (let at = 0; at < settings.length; at += 2) limits.set(settings[at]!, queueLimits(settings[at + 1]!))
  const heads = new Map<string, Head>()
  return (id, facts, { fence, attempt, crashes }) => {
    const [time, end] = [facts.indexOf(' '), facts.indexOf('\n')]
    const text = facts.slice(time, end)
    let head = heads.get(text)
    if (head === undefined) {
      head = headOf(facts.slice(0, end), limits)
      heads.set(text, head)
    }
    const createdAtMs = Number(facts.slice(0, time))
    return { id: longId(id), fence, attempt, crashes, createdAtMs, payload: facts.slice(end + 1), ...head }
  }
}

function headOf(text: string, limits: ReadonlyMap<string, ClaimedJob['queueLimits']>): Head {
  const { after, onParentDead: _, createdAtMs: __, schedule, enqueuedBy, ...head } = readHead(text)
  return { ...head, queueLimits: limits.get(head.queue) ?? {}, ...originOf({ after, schedule, enqueuedBy }) }
}

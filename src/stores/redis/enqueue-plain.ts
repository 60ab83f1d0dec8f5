// The fast path of an enqueue: jobs that are ready immediately and depend on no other job or key, as almost all are. An id above the
// highest there ever was is of no job yet, so nothing is read for it, and the facts of a chunk are written with one command. Other ids
// take the general path of enqueue.ts, in the same call.

import type { Enqueued, NewJob } from '../../core/job.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import { answerOf, type Enqueueing, refused } from './enqueue-answers.js'
import { writeFacts } from './facts.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'

/**
 * ARGV: worker, leaseMs, how many of the first jobs to claim, most queues; then for each row of jobs of one queue and priority: queue,
 * priority, how many, and for each job id, facts without their time.
 * Answers with three values for each of the jobs that took the general path, which are the first (enqueue.ts); then how many of the others
 * were claimed, their fence, and the settings of the queue that jobs were claimed from, or ''. The rest are ready.
 */
export const ENQUEUE_PLAIN: string = lua`
-- A block: its names are its own (work.ts).
do
local function readRows(args, from)
  local rows, ids, facts = {}, {}, {}
  while from < #args do
    local row = { queue = args[from], priority = tonumber(args[from + 1]), from = #ids + 1 }
    local upTo = from + 2 + 2 * tonumber(args[from + 2])
    for i = from + 3, upTo, 2 do
      local n = #ids + 1
      ids[n], facts[n] = args[i], args[i + 1]
    end
    row.upTo = #ids
    rows[#rows + 1] = row
    from = upTo + 1
  end
  return rows, ids, facts
end

-- From which place on ids only rise, above all there were. A queue with flow control has the last word on each of its jobs.
local function firstFresh(work, rows, ids)
  for _, row in ipairs(rows) do
    if queueOf(work, row.queue).flow ~= '' then return #ids + 1 end
  end
  local first = #ids + 1
  while first > 1 and less(work.last, ids[first - 1]) and (first > #ids or less(ids[first - 1], ids[first])) do first = first - 1 end
  for i = 1, first - 1 do
    if less(work.last, ids[i]) then return #ids + 1 end
  end
  return first
end

-- The facts without a payload that is to be apart.
local function withoutLongPayload(work, chunk, id, facts)
  local head = string.find(facts, '\n', 1, true)
  if #facts - head <= PAYLOAD_MAX then return facts end
  setField(work, 'b:' .. chunk, id, string.sub(facts, head + 1))
  return string.sub(facts, 1, head)
end

-- Writes jobs from a place on that are certainly new. Returns how many were leased, their fence, the settings of their queue.
local function enqueueFresh(work, rows, ids, facts, first, claim)
  local stamp, fence, taken, settings = text(work.t) .. ' ', math.max(1, work.t), 0, ''
  local leased = buildStanding({
    state = 'R', fence = fence, attempt = 1, crashes = 0, flags = '', at = work.t, reason = '-', worker = claim.worker
  })
  local chunk, size = newestChunk(work)
  local factList, standingList, leaseList, lineList
  for _, row in ipairs(rows) do
    local queue, lineBefore = queueOf(work, row.queue), 0
    local start = laneStart(row.priority, NORMAL)
    if row.upTo >= first then lineList = listFor(work, 'ZADD', 'line:' .. row.queue) end
    for i = math.max(first, row.from), row.upTo do
      local id, value = ids[i], stamp .. facts[i]
      if size >= CHUNK then
        chunk, size, factList, standingList = id, 0, nil, nil
        work.newChunks[#work.newChunks + 1] = id
      end
      size = size + 1
      if #value > PAYLOAD_MAX then value = withoutLongPayload(work, chunk, id, value) end
      factList = factList or listFor(work, 'HSET', 'f:' .. chunk)
      local n = #factList
      factList[n + 1], factList[n + 2] = id, value
      if i <= claim.count and not queue.isPaused then
        standingList = standingList or listFor(work, 'HSET', 's:' .. chunk)
        leaseList = leaseList or listFor(work, 'ZADD', 'leases')
        standingList[#standingList + 1], standingList[#standingList + 2] = id, leased
        leaseList[#leaseList + 1], leaseList[#leaseList + 2] = text(work.t + claim.leaseMs), id
        taken, settings = taken + 1, queue.settings
        count(work, row.queue, 'running', 1)
      else
        queue.position = queue.position + 1
        n = #lineList
        lineList[n + 1], lineList[n + 2] = text(start + queue.position), id
      end
    end
    if row.upTo >= first and #lineList > 0 then
      queue.hasMoved = true
      count(work, row.queue, 'ready', #lineList / 2)
    end
    if row.upTo >= first then wake(work, row.queue) end
  end
  work.last, work.grown = ids[#ids], work.grown or {}
  return taken, text(fence), settings
end

writes('enqueuePlain', {}, function(work, args)
  local claim = claimOf(args)
  local rows, ids, facts = readRows(args, 7)
  openQueues(work, rows, tonumber(args[6]))
  local first = firstFresh(work, rows, ids)
  local answer, taken, settings, fence = {}, 0, '', '0'
  if first > 1 then
    local specs = {}
    for _, row in ipairs(rows) do
      for i = row.from, math.min(row.upTo, first - 1) do
        specs[i] = { id = ids[i], queue = row.queue, when = '', rest = facts[i] }
      end
    end
    answer, taken, settings = enqueueAny(work, specs, claim, false)
  end
  local takenFresh, settingsFresh = 0, ''
  if first <= #ids then takenFresh, fence, settingsFresh = enqueueFresh(work, rows, ids, facts, first, claim) end
  wakeUnlessTaken(work, taken + takenFresh, #ids)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = text(takenFresh), fence, settingsFresh ~= '' and settingsFresh or settings
  return answer
end)
end
`

export async function enqueuePlain(
  enqueueing: Enqueueing,
  jobs: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): Promise<readonly Enqueued[]> {
  const { redis, queuesMax } = enqueueing
  const args: (string | number)[] = [claim?.worker ?? '', claim?.leaseMs ?? 0, claim?.count ?? 0, queuesMax]
  for (let from = 0; from < jobs.length; ) {
    const { queue, priority } = jobs[from]!
    let upTo = from + 1
    while (upTo < jobs.length && jobs[upTo]!.queue === queue && jobs[upTo]!.priority === priority) upTo++
    args.push(queue, priority, upTo - from)
    for (; from < upTo; from++) args.push(shortId(jobs[from]!.id), writeFacts(jobs[from]!, null))
  }
  const reply = await redis
    .write<string[]>('enqueue', 'enqueuePlain', args, { isEnqueue: true })
    .catch(refused(enqueueing, jobs))
  const { value, nowMs } = reply
  const [taken, fence, settings] = value.slice(-3) as [string, string, string]
  const general = (value.length - 3) / 3
  // The first jobs are claimed until all slots are used.
  const upTo = general + Number(taken)
  return jobs.map((job, index): Enqueued => {
    if (index >= upTo) return { id: job.id, created: true, state: 'ready' }
    const [kind, id, detail] =
      index < general
        ? (value.slice(3 * index, 3 * index + 3) as [string, string, string])
        : ['claimed', shortId(job.id), fence]
    return answerOf(job, { kind, id: longId(id), detail }, { claim, settings, nowMs })
  })
}

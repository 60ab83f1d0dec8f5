// Writes new jobs, all or none, and answers for each. ◄── client/group-commit.ts · next: wake.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { EnqueueRequest } from '../../core/job-store.js'
import { isPlain } from '../../core/reserve.js'
import { answerOf, type Enqueueing, refused } from './enqueue-answers.js'
import { enqueuePlain } from './enqueue-plain.js'
import { writeFacts } from './facts.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'

/**
 * ARGV: worker, leaseMs, how many of the first jobs to claim, most queues, '1' to leave blocked jobs to a call of judge (owed.ts) and '2' for
 * jobs of ticks, or '', and in a cluster behind a blank the limits of the jobs that their homes do not know, with commas; then for each job:
 * id, queue, when, facts without their time.
 * `when` is '' for a plain job, otherwise "<time> <replace wait> <replace most>", and " l" for one that goes first: the time is <ms>, +<ms>
 * from now or -; - stands for none.
 * Answers with three values for each job: 'refused' id why | 'created' id state | 'held' id state | 'replaced' id state | 'claimed' id fence | 'orphan' id parent;
 * then the settings of the queue that jobs were claimed from, or ''.
 */
export const ENQUEUE: string = lua`
local writeJob

-- A block: its names are its own (work.ts).
do
local function newJob(work, spec, facts)
  local job = parseFacts({ id = spec.id }, facts)
  job.fence, job.attempt, job.crashes, job.flags, job.reason, job.worker = 0, 0, 0, '', '-', ''
  work.jobs[spec.id] = job
  setFacts(work, spec.id, held.begin(work, job, facts))
  work.newIds[#work.newIds + 1] = spec.id
  return job
end

local function addJob(work, spec, facts, isBlocked, runAt, isLifo)
  local job = newJob(work, spec, facts)
  takeKey(work, job)
  if isBlocked then
    job.state, job.at = 'B', runAt
    put(work, job)
  elseif runAt and runAt > work.t then
    putTimed(work, job, 'S', runAt)
  else
    -- A tick has waited for its time like a timed job.
    putReady(work, job, spec.isTick and FRONT or isLifo and LIFO or NORMAL)
  end
  return job
end

local function timeOf(work, time)
  if time == '-' then return nil end
  if string.sub(time, 1, 1) == '+' then return work.t + tonumber(string.sub(time, 2)) end
  return tonumber(time)
end

-- A job that waits takes the payload, version, tags and trace of a new one.
local function replacePayload(work, job, spec, wait, most)
  local kept = string.match(work.f[job.id], '^([^\t]*\t)')
  setFacts(work, job.id, kept .. string.match(spec.rest, '^[^\t]*\t(.*)$'))
  -- One that became ready meanwhile, or waits for a retry, keeps its time.
  if not job.at or (job.state ~= 'S' and job.state ~= 'B') then return end
  local runAt = work.t + wait
  if most then runAt = math.min(runAt, job.created + most) end
  take(work, job)
  job.at = math.max(work.t, runAt)
  put(work, job)
end

-- What becomes of a job whose key is held and that gives its payload to the holder; nil when no job takes it.
local function replaceHolder(work, holder, spec, facts, wait, most)
  -- The successor runs last, so the newest payload is for it.
  local current
  for _, id in ipairs({ holder.following or '', holder.id }) do
    local job = id ~= '' and jobOf(work, id)
    if job and not isFinished(job.state) then
      current = job
      break
    end
  end
  if not current then return nil end
  if current.state ~= 'R' then
    replacePayload(work, current, spec, wait, most)
    return { 'replaced', current.id }
  end
  -- It comes after the one that runs, whatever its end.
  local created, kind, queue, priority, key, ttl, rest =
    string.match(facts, '^(%d+) (%S+) (%S+) (%S+) %S+ (%S+) (%S+) (.*)$')
  local linked = table.concat({ created, kind, queue, priority, 'r' .. current.id, key, ttl, rest }, ' ')
  local refused = held.refusal(work, parseFacts({ id = spec.id }, linked), false)
  if refused then return { 'refused', spec.id, refused } end
  local job = newJob(work, spec, linked)
  job.state, job.at = 'B', wait > 0 and work.t + math.min(wait, most or wait) or nil
  put(work, job)
  setKey(work, job.queue, job.key, { id = holder.id, expires = holder.expires, following = job.id })
  return { 'created', spec.id }
end

-- Writes one job, and returns the kind of the answer and an id.
function writeJob(work, spec)
  -- The job exists: the call was repeated after a lost answer. Its current state does not matter.
  if stateOf(work, spec.id) then return { 'created', spec.id } end
  local facts = text(work.t) .. ' ' .. spec.rest
  if spec.when == '' then
    -- A tick is never too many: its schedule could not try again.
    local mayBeFull = queueOf(work, spec.queue).flow ~= '' and not spec.isTick
    local refused = mayBeFull and held.refusal(work, parseFacts({ id = spec.id }, facts), true)
    if refused then return { 'refused', spec.id, refused } end
    addJob(work, spec, facts, false, nil)
    return { 'created', spec.id }
  end
  local time, wait, most, lifo = string.match(spec.when, '^(%S+) (%S+) (%S+) ?(l?)$')
  wait, most = tonumber(wait), tonumber(most)
  local sketch = parseFacts({ id = spec.id }, facts)
  local holder = keyHolder(work, sketch.queue, sketch.key)
  if holder then
    return wait and replaceHolder(work, holder, spec, facts, wait, most) or { 'held', holder.id }
  end
  for _, parent in ipairs(parentsOf(sketch)) do
    if not shards.parentState(work, parent) then return { 'orphan', spec.id, parent } end
  end
  local isReadyNow = time == '-' and #parentsOf(sketch) == 0 and (wait or 0) == 0 and not spec.isTick
  local refused = held.refusal(work, sketch, isReadyNow)
  if refused then return { 'refused', spec.id, refused } end
  local runAt = timeOf(work, time)
  if wait and wait > 0 then runAt = work.t + math.min(wait, most or wait) end
  addJob(work, spec, facts, #parentsOf(sketch) > 0, runAt, lifo == 'l')
  return { 'created', spec.id }
end

end

-- Writes jobs and lets those go on whose parents have finished. Answers for each of the specs, in order.
local function writeJobs(work, specs, isLeft)
  local ids, answers, byId, candidates = {}, {}, {}, {}
  for i, spec in ipairs(specs) do ids[i] = spec.id end
  load(work, 's', ids)
  load(work, 'f', ids)
  work.newIds = work.newIds or {}
  for i, spec in ipairs(specs) do
    -- A job that is in the call twice is written once, and both get the same answer.
    byId[spec.id] = byId[spec.id] or writeJob(work, spec)
    answers[i] = byId[spec.id]
    if spec.when ~= '' then candidates[spec.id] = true end
  end
  -- A job may come after others of its batch, so none goes on before all are written.
  if not isLeft then goOn(work, candidates) end
  return answers
end

-- Makes the queues of new jobs known, unless there would be too many.
local function openQueues(work, specs, most)
  local fresh, seen = 0, {}
  for _, spec in ipairs(specs) do
    if not seen[spec.queue] then
      seen[spec.queue] = true
      if not queueOf(work, spec.queue).isKnown then fresh = fresh + 1 end
    end
  end
  if fresh > 0 and redis.call('ZCARD', work.b .. 'queues') + fresh > most then error({ err = 'HFQUEUES ' .. most }) end
  for name in pairs(seen) do openQueue(work, name) end
end

local function readSpecs(args, from)
  local specs = {}
  for i = from, #args, 4 do
    specs[#specs + 1] = { id = args[i], queue = args[i + 1], when = args[i + 2], rest = args[i + 3] }
  end
  return specs
end

-- Writes jobs of any kind, and leases the first ones to a worker. Returns the answers, how many were leased, the settings of their queue.
local function enqueueAny(work, specs, claim, isLeft)
  local ids, fresh = {}, {}
  for i, spec in ipairs(specs) do ids[i] = spec.id end
  load(work, 's', ids)
  load(work, 'f', ids)
  for i = 1, math.min(claim.count, #specs) do fresh[i] = not stateOf(work, specs[i].id) end
  local answers = writeJobs(work, specs, isLeft)
  placeNew(work, work.newIds)
  local flat, taken, settings = {}, 0, ''
  for i, answer in ipairs(answers) do
    local kind, id, detail = answer[1], answer[2], answer[3]
    local job = fresh[i] and kind == 'created' and jobOf(work, id)
    local queue = job and queueOf(work, job.queue)
    -- Limits are kept by claims alone.
    if job and job.state == 'Q' and not queue.isPaused and queue.flow == '' then
      lease(work, job, claim.worker, claim.leaseMs)
      kind, detail, taken, settings = 'claimed', text(job.fence), taken + 1, queue.settings
    elseif kind ~= 'orphan' and kind ~= 'refused' then
      -- A key that lasts for a time can outlive its job; only finished ones are pruned.
      detail = stateOf(work, id) or 'F'
    end
    flat[#flat + 1], flat[#flat + 2], flat[#flat + 3] = kind, id, detail
  end
  return flat, taken, settings
end

local function claimOf(args) return { worker = args[3], leaseMs = tonumber(args[4]), count = tonumber(args[5]) } end

-- No worker needs to be woken when all jobs are taken already.
local function wakeUnlessTaken(work, taken, count)
  if taken > 0 and taken == count then work.woken, work.wokenNames = {}, {} end
end

writes('enqueue', {}, function(work, args)
  local specs = readSpecs(args, 8)
  local mode, unknown = string.match(args[7], '^(%d?) ?(.*)$')
  for _, spec in ipairs(specs) do spec.isTick = mode == '2' end
  work.unknownLimits = {}
  for name in string.gmatch(unknown, '[^,]+') do work.unknownLimits[name] = true end
  openQueues(work, specs, tonumber(args[6]))
  local flat, taken, settings = enqueueAny(work, specs, claimOf(args), mode == '1')
  wakeUnlessTaken(work, taken, #specs)
  flat[#flat + 1] = settings
  return flat
end)
`

/** '1': jobs that come after others are judged later. '2': the jobs are those of ticks. */
export type EnqueueMode = '' | '1' | '2'

interface EnqueueHow extends Pick<EnqueueRequest, 'claim'> {
  readonly mode?: EnqueueMode
  /** In a cluster: limits of these jobs that their homes do not know. */
  readonly unknownLimits?: readonly string[]
}

export async function enqueue(
  { redis, queuesMax }: Enqueueing,
  jobs: readonly NewJob[],
  { claim, mode = '', unknownLimits = [] }: EnqueueHow,
): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return []
  if (mode === '' && jobs.every((job) => isPlain(job) && job.replace === undefined)) {
    return enqueuePlain({ redis, queuesMax }, jobs, claim)
  }
  const how = unknownLimits.length === 0 ? mode : `${mode} ${unknownLimits.join(',')}`
  const args = [claim?.worker ?? '', claim?.leaseMs ?? 0, claim?.count ?? 0, queuesMax, how]
  for (const job of jobs) args.push(...jobArgs(job))
  const reply = await redis
    .write<string[]>('enqueue', 'enqueue', args, { isEnqueue: true })
    .catch(refused({ redis, queuesMax }, jobs))
  const settings = reply.value.at(-1)!
  return jobs.map((job, index): Enqueued => {
    const [kind, id, detail] = reply.value.slice(3 * index, 3 * index + 3) as [string, string, string]
    return answerOf(job, { kind, id: longId(id), detail }, { claim, settings, nowMs: reply.nowMs })
  })
}

/** The four arguments of a job. */
export function jobArgs(
  job: NewJob,
  schedule: { readonly name: string; readonly tickMs: number } | null = null,
): string[] {
  return [shortId(job.id), job.queue, whenOf(job), writeFacts(job, schedule)]
}

function whenOf({ when, replace, ...job }: NewJob): string {
  if (replace === undefined && isPlain({ when, ...job })) return ''
  const time =
    when === null ? '-' : 'runAtMs' in when ? String(Math.round(when.runAtMs)) : `+${Math.ceil(when.delayMs)}`
  return `${time} ${replace?.waitMs ?? '-'} ${replace?.maxWaitMs ?? '-'}${job.lifo === true ? ' l' : ''}`
}

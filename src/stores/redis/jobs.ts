// Facts and standings of a job, as the functions read and write them. facts.ts reads and writes the same in Node.
//
// Facts are written once: "<created> <type> <queue> <priority> <parents> <key> <ttl> <options>\t<replaceable>\n<payload>", where - stands
// for none. Under flow control there is more behind the ttl (held.ts). Parents are c<id>,<id>… or r<id>,…: whether the bad end of one cancels the job or lets it run. The key is JSON text without
// blanks. Options and replaceable are JSON or empty: the second has what a newer payload brings along. A long payload is apart in b:<chunk>,
// and empty here, so that a job that is only looked at does not cost its bytes.
//
// A standing is "<state><fence> <attempt> <crashes> <flags> <at> <started> <reason> <worker>". States: B blocked, S scheduled, Q ready,
// R running, T retrying, F succeeded, D dead, C cancelled. `at` is, after the fence: when it became ready, is due, was claimed or finished.
// Flags: c cancel asked, b begun, l runs under flow control, a failed attempts, o logs, x result or progress, y requeues; of long jobs s entries, d one
// ended under this lease, g signals or waits, n waits for its children, w output. A job without a
// standing is ready and was never claimed. A standing stays below 64 bytes, so that its hash stays a listpack.

import { lua } from './lua.js'

export const JOBS_LUA: string = lua`
local STATE_NAMES = {
  B = 'blocked', S = 'scheduled', Q = 'ready', R = 'running', T = 'retrying', F = 'succeeded', D = 'dead', C = 'cancelled'
}
-- The states whose jobs are listed in in:<state>, and those that are counted.
local IS_LISTED = { B = true, S = true, T = true, D = true, C = true }
local IS_COUNTED = { B = true, S = true, Q = true, R = true, T = true, D = true }

local function isFinished(state) return state == 'F' or state == 'D' or state == 'C' end

local function parseStanding(job, text)
  local state, fence, attempt, crashes, flags, at, started, reason, worker =
    string.match(text, '^(%a)(%d+) (%-?%d+) (%d+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  job.state, job.fence, job.attempt, job.crashes = state, tonumber(fence), tonumber(attempt), tonumber(crashes)
  job.flags = flags == '-' and '' or flags
  job.at = tonumber(at) and tonumber(at) + job.fence
  job.started = tonumber(started) and tonumber(started) + job.fence
  job.reason, job.worker = reason, worker
  return job
end

local function buildStanding(job)
  local isFresh = job.state == 'Q' and job.fence == 0 and job.attempt == 0 and job.crashes == 0
  if isFresh and job.flags == '' and job.at == job.created then return false end
  -- Lua writes whole numbers of more than 14 digits in another form. A time far ahead has more.
  return job.state .. text(job.fence) .. ' ' .. job.attempt .. ' ' .. job.crashes .. ' ' ..
    (job.flags == '' and '-' or job.flags) .. ' ' .. (job.at and text(job.at - job.fence) or '-') .. ' ' ..
    (job.started and text(job.started - job.fence) or '-') .. ' ' .. job.reason .. ' ' .. job.worker
end

local function parseFacts(job, facts)
  local created, kind, queue, priority, parents, key, ttl, mark =
    string.match(facts, '^(%d+) (%S+) (%S+) (%-?%d+) (%S+) (%S+) (%S+) (.)')
  job.created, job.type, job.queue, job.priority = tonumber(created), kind, queue, tonumber(priority)
  job.parents, job.key, job.ttl = parents, key, ttl
  if mark == '@' then job.flow = held.flowOf(facts) end
  return job
end

-- Payloads longer than this are apart from the facts.
local PAYLOAD_MAX = 512

local function hasPayloadApart(facts) return string.byte(facts, -1) == 10 end

local function setFacts(work, id, facts)
  local head = string.find(facts, '\n', 1, true)
  local wasApart = work.f[id] and hasPayloadApart(work.f[id])
  if #facts - head > PAYLOAD_MAX then
    work.payloads[id] = string.sub(facts, head + 1)
    facts = string.sub(facts, 1, head)
  elseif wasApart then
    work.payloads[id] = false
  end
  work.f[id], work.facts[id] = facts, facts
end

-- The facts with the payload, wherever it is. They must have been read.
local function wholeFacts(work, id)
  local facts = work.f[id]
  if not hasPayloadApart(facts) then return facts end
  return facts .. (work.payloads[id] or redis.call('HGET', work.b .. 'b:' .. chunkOf(work, id), id) or 'null')
end

local function parentsOf(job)
  local ids = {}
  for id in string.gmatch(string.sub(job.parents, 2), '[^,]+') do ids[#ids + 1] = id end
  return ids
end

-- The job with its standing alone, or nil when it has none. Enough for a lease.
local function leasedJob(work, id)
  local job = work.jobs[id]
  if job then return job end
  if work.s[id] == nil then load(work, 's', { id }) end
  if not work.s[id] then return nil end
  job = parseStanding({ id = id }, work.s[id])
  work.jobs[id] = job
  return job
end

local function withFacts(work, job)
  if not job.type then
    if work.f[job.id] == nil then load(work, 'f', { job.id }) end
    parseFacts(job, work.f[job.id])
  end
  return job
end

-- The whole job, or nil when there is none.
local function jobOf(work, id)
  local job = leasedJob(work, id)
  if job then return withFacts(work, job) end
  if work.f[id] == nil then load(work, 'f', { id }) end
  if not work.f[id] then return nil end
  job = parseFacts({ id = id }, work.f[id])
  job.state, job.fence, job.attempt, job.crashes, job.flags = 'Q', 0, 0, 0, ''
  job.at, job.reason, job.worker = job.created, '-', ''
  work.jobs[id] = job
  return job
end

-- The state of a job, or nil when there is none. Does not read its payload.
local function stateOf(work, id)
  local job = leasedJob(work, id)
  if job then return job.state end
  if work.f[id] then return 'Q' end
  if work.f[id] == false then return nil end
  return redis.call('HEXISTS', work.b .. 'f:' .. chunkOf(work, id), id) == 1 and 'Q' or nil
end

local function save(work, job)
  local standing = buildStanding(job)
  -- A new job that is ready has none, and none to remove.
  if standing or work.s[job.id] then work.standings[job.id] = standing else work.standings[job.id] = nil end
end

local function hasFlag(job, flag) return job.flags ~= '' and string.find(job.flags, flag, 1, true) ~= nil end

local function addFlag(job, flag)
  if not hasFlag(job, flag) then job.flags = job.flags .. flag end
end

local function dropFlag(job, flag)
  if job.flags ~= '' then job.flags = string.gsub(job.flags, flag, '') end
end
`

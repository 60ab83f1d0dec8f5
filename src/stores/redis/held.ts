// Where jobs under flow control wait. The ready jobs of a queue with one set of limits are a track: held:<queue> <limits> has them by the
// time they became ready, place:<queue> <limits> <group> those of one group in the order of claiming, and turns:<queue> <limits> the groups
// that may have a job to give, in turn. A limit that is not there is written as -, jobs without a group are under the empty name.
//
// The flow of a job stands in its facts behind the key: "@<group> <limits> <cost> <order>". A blank and a % of a group are %20 and %25 there,
// and the group - is %2D. The order is its place in an ordered group.

import type { JobFlow } from '../../core/flow/job-flow.js'
import { lua } from './lua.js'

/** The flow of a job as its facts have it, with the blank behind it; '' for a plain job. */
export function writeFlow(flow: JobFlow | undefined): string {
  if (flow === undefined) return ''
  const { group, limits, cost } = flow
  return `@${group === null ? '-' : encodeGroup(group)} ${limits.join(',') || '-'} ${cost} - `
}

function encodeGroup(group: string): string {
  return group === '-' ? '%2D' : group.replaceAll('%', '%25').replaceAll(' ', '%20')
}

/** Reads what stands behind the @. */
export function readFlow([group, limits, cost]: readonly string[]): JobFlow {
  return {
    group:
      group === '-'
        ? null
        : group!.replace(/%(20|25|2D)/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))),
    limits: limits === '-' ? [] : limits!.split(','),
    cost: Number(cost),
  }
}

export const HELD_LUA: string = lua`
-- What an ordered group gives stands below all else, so that a group that is being switched can be told from one that was.
local ORDERED = -137438953472
-- Jobs and groups that one call brings to new settings of their queue.
local RENEWED_MAX = 2000

local function withoutNulls(value)
  if type(value) ~= 'table' then return value end
  for key, part in pairs(value) do
    if part == cjson.null then value[key] = nil else withoutNulls(part) end
  end
  return value
end

local function readJson(json) return withoutNulls(cjson.decode(json)) end

function held.flowOf(facts)
  local group, track, cost, order = string.match(facts, '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ @(%S+) (%S+) (%S+) (%S+) ')
  local names = {}
  if track ~= '-' then
    for name in string.gmatch(track, '[^,]+') do names[#names + 1] = name end
  end
  if group == '-' then
    group = ''
  elseif string.find(group, '%', 1, true) then
    group = string.gsub(group, '%%(%x%x)', function(code) return string.char(tonumber(code, 16)) end)
  end
  return { group = group, track = track, names = names, cost = tonumber(cost), order = tonumber(order) }
end

-- The group of a job; '' for a plain one.
function held.groupOf(job) return job.flow and job.flow.group or '' end

-- What a call knows of flow control. Most calls know nothing.
local function flowIn(work)
  if not work.held then
    work.held = { sizes = {}, cards = {}, tracks = {}, limits = {}, groups = {}, left = {}, turned = {}, freed = {} }
  end
  return work.held
end

-- The size of a sorted set as it will be after the commit.
local function resize(work, key, n)
  local sizes = flowIn(work).sizes
  sizes[key] = (sizes[key] or 0) + n
end

local function sizeOf(work, key)
  local known = flowIn(work)
  local card = known.cards[key]
  if not card then
    card = redis.call('ZCARD', work.b .. key)
    known.cards[key] = card
  end
  return card + (known.sizes[key] or 0)
end

local function placeKey(queue, track, group) return 'place:' .. queue .. ' ' .. track .. ' ' .. group end

-- Why a queue has flow control, as letters: t its jobs have tracks, s its settings ask for it, l it has a limit of its own.
function held.mark(work, name, letter)
  local queue = queueOf(work, name)
  if string.find(queue.flow, letter, 1, true) then return end
  queue.flow = queue.flow .. letter
  setField(work, 'q:' .. name, 'flow', queue.flow)
  setScore(work, 'flowing', name, 0)
end

local NO_SETTINGS = { groups = { ordered = false, onRetry = 'wait', onDead = 'continue' } }

-- What the settings of a queue say about flow control.
function held.settings(work, name)
  local queue = queueOf(work, name)
  if not queue.flowSettings then
    queue.flowSettings = queue.flow ~= '' and readJson(queue.settings).flow or NO_SETTINGS
  end
  return queue.flowSettings
end

function held.isOrdered(work, queue, group) return group ~= '' and held.settings(work, queue).groups.ordered end

-- The sets of limits that jobs of a queue have, in the order they came.
function held.tracks(work, queue)
  local known = flowIn(work).tracks
  if not known[queue] then known[queue] = redis.call('ZRANGE', work.b .. 'tracks:' .. queue, 0, -1) end
  return known[queue]
end

function held.hasTrack(work, queue, track)
  for _, known in ipairs(held.tracks(work, queue)) do
    if known == track then return true end
  end
  return false
end

local function openTrack(work, queue, flow)
  if held.hasTrack(work, queue, flow.track) then return end
  local tracks = held.tracks(work, queue)
  tracks[#tracks + 1] = flow.track
  setScore(work, 'tracks:' .. queue, flow.track, nextPosition(work, queue))
  for _, name in ipairs(flow.names) do setScore(work, 'users:' .. name, queue .. ' ' .. flow.track, 0) end
  held.mark(work, queue, 't')
end

-- Notes that a job of a track began (1) or will never run again (-1): a track that no job has makes room for others.
function held.use(work, job, n)
  if job.flow then addTo(work, 'uses:' .. job.queue, job.flow.track, n) end
end

-- A new job under flow control: its track is known from now on, and it has its place in an ordered group. Returns its facts.
function held.begin(work, job, facts)
  if not job.flow then return facts end
  openTrack(work, job.queue, job.flow)
  held.use(work, job, 1)
  return held.reorder(work, job, facts)
end

-- Gives a job the last place of its group. Returns its facts.
function held.reorder(work, job, facts)
  job.flow.order = nextPosition(work, job.queue)
  local changed = string.gsub(facts, '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+ @%S+ %S+ %S+) %S+', '%1 ' .. text(job.flow.order), 1)
  return changed
end

local function isInTurn(work, key, group)
  local changes = work.zsets[key]
  if changes and changes[group] ~= nil then return changes[group] ~= false end
  return redis.call('ZSCORE', work.b .. key, group) ~= false
end

-- Gives a group that has ready jobs its turn, behind the others: something may have changed for it.
function held.offer(work, queue, group)
  local turned = flowIn(work).turned
  for _, track in ipairs(held.tracks(work, queue)) do
    local place = placeKey(queue, track, group)
    if not turned[place] and sizeOf(work, place) > 0 then
      local key = 'turns:' .. queue .. ' ' .. track
      if not isInTurn(work, key, group) then setScore(work, key, group, nextPosition(work, queue)) end
      turned[place] = true
    end
  end
end

-- Puts a ready job into its group, which gets a turn.
function held.hold(work, job, score)
  local queue, flow = job.queue, job.flow
  openTrack(work, queue, flow)
  local place, all = placeKey(queue, flow.track, flow.group), 'held:' .. queue .. ' ' .. flow.track
  if held.isOrdered(work, queue, flow.group) then score = ORDERED + flow.order end
  setScore(work, place, job.id, score)
  resize(work, place, 1)
  setScore(work, all, job.id, job.at)
  resize(work, all, 1)
  if flow.group ~= '' then setScore(work, 'groups:' .. queue, flow.group, 0) end
  held.offer(work, queue, flow.group)
end

-- Where a ready job is in its group.
function held.scoreOf(work, job)
  local place = placeKey(job.queue, job.flow.track, job.flow.group)
  local pending = work.zsets[place] and work.zsets[place][job.id]
  return pending or tonumber(redis.call('ZSCORE', work.b .. place, job.id))
end

-- Says that a group may have no more jobs.
local function leave(work, queue, group)
  if group ~= '' then flowIn(work).left[queue .. ' ' .. group] = true end
end

-- Takes a ready job out of its group.
function held.unhold(work, job)
  local queue, flow = job.queue, job.flow
  local place, all = placeKey(queue, flow.track, flow.group), 'held:' .. queue .. ' ' .. flow.track
  setScore(work, place, job.id, false)
  resize(work, place, -1)
  setScore(work, all, job.id, false)
  resize(work, all, -1)
  leave(work, queue, flow.group)
end

-- A job of a group that has started and waits for a time keeps an ordered group waiting.
function held.pauseStarted(work, job, isIn)
  if job.fence == 0 or held.groupOf(job) == '' then return end
  local key = 'again:' .. job.queue .. ' ' .. job.flow.group
  setScore(work, key, job.id, isIn and job.flow.order)
  resize(work, key, isIn and 1 or -1)
end

-- A job that runs under flow control. What is here stands and falls with its lease: no slot can be lost.
function held.start(work, job)
  addFlag(job, 'l')
  if not job.flow then return end
  limits.reserve(work, job)
  if job.flow.group == '' then return end
  local key = 'busy:' .. job.queue .. ' ' .. job.flow.group
  setScore(work, key, job.id, job.flow.order)
  resize(work, key, 1)
  setScore(work, 'groups:' .. job.queue, job.flow.group, 0)
end

function held.stop(work, job)
  dropFlag(job, 'l')
  if not job.flow then return end
  limits.giveBack(work, job)
  if job.flow.group == '' then return end
  local key = 'busy:' .. job.queue .. ' ' .. job.flow.group
  setScore(work, key, job.id, false)
  resize(work, key, -1)
  leave(work, job.queue, job.flow.group)
end

local function readyIn(work, name)
  local counts = work.counts[name]
  return queueOf(work, name).ready + (counts and counts.ready or 0)
end

-- Lets those go on that may have waited for what this job had: a slot of its queue, its group or its limits.
function held.free(work, job)
  local queue, freed = job.queue, flowIn(work).freed
  if queueOf(work, queue).flow == '' then return end
  held.offer(work, queue, held.groupOf(job))
  for _, name in ipairs(job.flow and job.flow.names or {}) do
    if not freed[name] then
      freed[name] = true
      for _, user in ipairs(redis.call('ZRANGE', work.b .. 'users:' .. name, 0, -1)) do
        if sizeOf(work, 'held:' .. user) > 0 then wake(work, string.match(user, '^%S+'), true) end
      end
    end
  end
  if readyIn(work, queue) > 0 then wake(work, queue, true) end
end

-- Forgets the names of groups that have no job any more and nothing of their own. The commit calls it.
function held.dropEmpty(work)
  for name in pairs(work.held.left) do
    local queue, group = string.match(name, '^(%S+) (.*)$')
    local isLeft = sizeOf(work, 'busy:' .. name) > 0
    for _, track in ipairs(held.tracks(work, queue)) do isLeft = isLeft or sizeOf(work, placeKey(queue, track, group)) > 0 end
    if not isLeft and not groups.isShown(groups.of(work, queue, group)) then setScore(work, 'groups:' .. queue, group, false) end
  end
end

-- Why a job cannot be written, or nil.
function held.refusal(work, job, isReadyNow)
  local flow, queue = job.flow, job.queue
  for _, name in ipairs(flow and flow.names or {}) do
    -- That of its type comes with its definition, which no worker may have started with yet.
    if string.sub(name, 1, 5) ~= 'type:' and not limits.isSet(work, name) then return 'limit_unknown ' .. name end
  end
  if flow and not held.hasTrack(work, queue, flow.track) and #held.tracks(work, queue) >= TRACKS_MAX then
    return 'too_many_tracks ' .. TRACKS_MAX
  end
  if not isReadyNow then return nil end
  local settings = held.settings(work, queue)
  if settings.maxDepth and readyIn(work, queue) >= settings.maxDepth then
    return 'queue_full ' .. text(settings.maxDepth) .. ' ' .. settings.onFull
  end
  local depth, group = settings.groups.maxDepth, held.groupOf(job)
  if not depth or group == '' then return nil end
  local ready = 0
  for _, track in ipairs(held.tracks(work, queue)) do ready = ready + sizeOf(work, placeKey(queue, track, group)) end
  return ready >= depth and 'group_full ' .. text(depth) .. ' ' .. settings.onFull or nil
end

-- Brings the jobs of a group to the order that its queue asks for, at most that number of them. Returns how many there were.
local function reline(work, queue, track, group, most)
  local place, wantsOrder = placeKey(queue, track, group), held.isOrdered(work, queue, group)
  local from, upTo = '-inf', '(0'
  if wantsOrder then from, upTo = '0', '+inf' end
  local ids = redis.call('ZRANGEBYSCORE', work.b .. place, from, upTo, 'LIMIT', 0, most)
  load(work, 's', ids)
  load(work, 'f', ids)
  for _, id in ipairs(ids) do
    local job = jobOf(work, id)
    -- Jobs that waited in order keep it when the queue has none any more, within their priorities.
    setScore(work, place, id, wantsOrder and ORDERED + job.flow.order or laneStart(job.priority, NORMAL) + job.flow.order)
  end
  return #ids
end

-- Brings groups behind a name to new settings of their queue. What is left is in the field renewing, and claims wait for it.
function held.renew(work, queue, after)
  local left, at = RENEWED_MAX, after
  held.offer(work, queue, '')
  local from = after == '' and '-' or '(' .. after
  local names = redis.call('ZRANGEBYLEX', work.b .. 'groups:' .. queue, from, '+', 'LIMIT', 0, RENEWED_MAX)
  for _, group in ipairs(names) do
    for _, track in ipairs(held.tracks(work, queue)) do
      if left > 0 then left = left - reline(work, queue, track, group, left) end
    end
    if left <= 0 then break end
    held.offer(work, queue, group)
    at, left = group, left - 1
  end
  local isDone = left > 0 and #names < RENEWED_MAX
  -- A name is no empty text, so a blank before it tells the first from none.
  queueOf(work, queue).renewing = not isDone and ' ' .. at or nil
  setField(work, 'q:' .. queue, 'renewing', not isDone and ' ' .. at or false)
  setScore(work, 'renewing', queue, not isDone and 0)
  wake(work, queue, true)
  return isDone
end
`

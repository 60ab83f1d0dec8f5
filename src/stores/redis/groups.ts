// Groups: settings of their own, paused, shown. group:<queue> <group> has what is known of one beside its jobs; most have nothing. groups:<queue>
// has the names of those that have jobs or something of their own, own:<queue> the latter alone, kept:<queue> those that prune may drop, by
// when, and `stopped` those that the death of a job has paused.

import type { GroupOverride } from '../../core/flow/settings.js'
import { GROUP_READY_MAX, type GroupPage, type GroupsRequest, type GroupView } from '../../core/flow/views.js'
import { longId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

export const GROUPS_LUA: string = lua`
local ID_CHARACTERS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

-- The UUID of a short id.
local function longId(id)
  local hex = {}
  for i = 1, 22, 2 do
    local high = string.find(ID_CHARACTERS, string.sub(id, i, i), 1, true) - 1
    local low = string.find(ID_CHARACTERS, string.sub(id, i + 1, i + 1), 1, true) - 1
    hex[#hex + 1] = string.format('%03x', high * 64 + low)
  end
  local all = table.concat(hex)
  return string.sub(all, 1, 8) .. '-' .. string.sub(all, 9, 12) .. '-' .. string.sub(all, 13, 16) .. '-' ..
    string.sub(all, 17, 20) .. '-' .. string.sub(all, 21, 32)
end

-- What is known of a group beside its jobs.
function groups.of(work, queue, group)
  local known, name = flowIn(work).groups, queue .. ' ' .. group
  if known[name] then return known[name] end
  local values = redis.call('HMGET', work.b .. 'group:' .. name, 'override', 'paused', 'stopped', 'empty', 'until')
  local entry = {
    json = values[1] or 'null', override = values[1] and readJson(values[1]) or nil, isPaused = values[2] == '1',
    stoppedBy = values[3], emptyAt = tonumber(values[4] or '') or FULL, untilAt = tonumber(values[5] or '') or 0
  }
  known[name] = entry
  return entry
end

function groups.isShown(entry) return entry.json ~= 'null' or entry.isPaused end

-- When a group is like any other: its bucket is full, and it need not wait.
local function usualAt(work, queue, entry)
  local rate = held.settings(work, queue).groups.rate
  return math.max(entry.untilAt, entry.emptyAt + (rate and rates.fillMs(rate) or 0), 0)
end

function groups.save(work, queue, group, entry)
  local name, isShown = queue .. ' ' .. group, groups.isShown(entry)
  local key = 'group:' .. name
  setField(work, key, 'override', entry.json ~= 'null' and entry.json)
  setField(work, key, 'paused', entry.isPaused and '1')
  setField(work, key, 'stopped', entry.stoppedBy)
  setField(work, key, 'empty', rates.field(entry.emptyAt))
  setField(work, key, 'until', entry.untilAt > 0 and text(entry.untilAt))
  setScore(work, 'own:' .. queue, group, isShown and 0)
  setScore(work, 'stopped', name, entry.stoppedBy and 0)
  local isKept = not isShown and (entry.untilAt > 0 or entry.emptyAt ~= FULL)
  setScore(work, 'kept:' .. queue, group, isKept and text(math.ceil(usualAt(work, queue, entry))))
  if isShown then setScore(work, 'groups:' .. queue, group, 0) else leave(work, queue, group) end
end

-- What holds for a group: its own settings, then the queue's.
function groups.bounds(work, queue, group)
  if group == '' then return { weight = 1 } end
  local entry, settings = groups.of(work, queue, group), held.settings(work, queue).groups
  local own = entry.override or {}
  return {
    concurrency = settings.ordered and 1 or own.concurrency or settings.concurrency,
    rate = own.rate or settings.rate, weight = own.weight or 1, entry = entry
  }
end

-- Pauses the group of a job that died, where the queue asks for it.
function groups.stop(work, job)
  local group = held.groupOf(job)
  if not held.isOrdered(work, job.queue, group) or held.settings(work, job.queue).groups.onDead ~= 'stop' then return end
  local entry = groups.of(work, job.queue, group)
  entry.isPaused, entry.stoppedBy = true, job.id
  groups.save(work, job.queue, group, entry)
end

-- Whether a dead job goes back to its own place: nothing of its group has overtaken it.
function groups.keepsPlace(work, job)
  return held.isOrdered(work, job.queue, held.groupOf(job)) and held.settings(work, job.queue).groups.onDead == 'stop'
end

-- Drops what is known of groups that are like any other by now, and tracks that no job has any more. Returns how many groups there were.
function groups.prune(work, most)
  local rows = 0
  for _, queue in ipairs(redis.call('ZRANGE', work.b .. 'flowing', 0, -1)) do
    local due = redis.call('ZRANGEBYSCORE', work.b .. 'kept:' .. queue, '-inf', text(work.t), 'LIMIT', 0, most - rows)
    for _, group in ipairs(due) do
      local entry = groups.of(work, queue, group)
      if usualAt(work, queue, entry) <= work.t then
        entry.emptyAt, entry.untilAt = FULL, 0
        rows = rows + 1
      end
      groups.save(work, queue, group, entry)
    end
    for _, track in ipairs(redis.call('ZRANGE', work.b .. 'tracks:' .. queue, 0, -1)) do
      if tonumber(redis.call('HGET', work.b .. 'uses:' .. queue, track) or 0) <= 0 then held.dropTrack(work, queue, track) end
    end
    if rows >= most then break end
  end
  return rows
end

function held.dropTrack(work, queue, track)
  for name in string.gmatch(track, '[^,]+') do setScore(work, 'users:' .. name, queue .. ' ' .. track, false) end
  for _, key in ipairs({ 'turns:', 'naps:', 'credit:' }) do later(work, 'DEL', key .. queue .. ' ' .. track) end
  setScore(work, 'tracks:' .. queue, track, false)
  setField(work, 'uses:' .. queue, track, false)
end

-- Forgets the flow control of a queue that is removed.
function held.remove(work, queue)
  for _, track in ipairs(held.tracks(work, queue)) do held.dropTrack(work, queue, track) end
  for _, index in ipairs({ 'own:', 'kept:' }) do
    for _, group in ipairs(redis.call('ZRANGE', work.b .. index .. queue, 0, -1)) do
      later(work, 'DEL', 'group:' .. queue .. ' ' .. group)
      setScore(work, 'stopped', queue .. ' ' .. group, false)
    end
    later(work, 'DEL', index .. queue)
  end
  later(work, 'DEL', 'groups:' .. queue)
  limits.drop(work, 'queue:' .. queue)
  setScore(work, 'flowing', queue, false)
  setScore(work, 'renewing', queue, false)
end
`

/**
 * setGroup: ARGV queue, group, settings or 'null', who, group as JSON. pauseGroup: ARGV queue, group, '1' or '', who, group as JSON, action.
 * groups: ARGV queue, prefix, name to begin after or '', limit, '1' for those with something of their own alone, most ready jobs.
 *   Answers with seven values for each: name, ready, running, settings or '', '1' when paused, job that stopped it or '', until or ''.
 */
export const GROUPS: string = lua`
local function groupChanged(work, queue, group, act)
  local json = '{"group":' .. act.json .. ',"before":' .. act.before .. ',"after":' .. act.after .. '}'
  audit(work, act.by, act.action, '', queue, json)
  held.offer(work, queue, group)
  wake(work, queue, true)
end

writes('setGroup', {}, function(work, args)
  local queue, group, override, by, json = unpack(args, 3, 7)
  openQueue(work, queue)
  local entry = groups.of(work, queue, group)
  local before = entry.json
  -- Programs set their groups at every start: only what differs is a change.
  if before == override then return {} end
  entry.json, entry.override = override, override ~= 'null' and readJson(override) or nil
  -- A queue is marked once a job has a group. Its settings of groups are here before.
  setScore(work, 'flowing', queue, 0)
  groups.save(work, queue, group, entry)
  groupChanged(work, queue, group, { json = json, before = before, after = override, by = by, action = 'set group' })
  return {}
end)

local function pauseText(entry)
  local stoppedBy = entry.stoppedBy and '"' .. longId(entry.stoppedBy) .. '"' or 'null'
  return '{"paused":' .. tostring(entry.isPaused) .. ',"stoppedBy":' .. stoppedBy .. '}'
end

writes('pauseGroup', { 'allow-oom' }, function(work, args)
  local queue, group, paused, by, json, action = unpack(args, 3, 8)
  openQueue(work, queue)
  local entry = groups.of(work, queue, group)
  if entry.isPaused == (paused == '1') then return {} end
  local before = pauseText(entry)
  entry.isPaused, entry.stoppedBy = paused == '1', false
  setScore(work, 'flowing', queue, 0)
  groups.save(work, queue, group, entry)
  groupChanged(work, queue, group, { json = json, before = before, after = pauseText(entry), by = by, action = action })
  return {}
end)

local function nextGroups(work, args, names)
  local queue, prefix, after, limit = args[3], args[4], args[5], tonumber(args[6])
  local from = '[' .. prefix
  if after ~= '' and not less(after, prefix) then from = '(' .. after end
  if from == '[' then from = '-' end
  local found = redis.call('ZRANGEBYLEX', work.b .. names .. queue, from, '+', 'LIMIT', 0, limit + 1)
  while #found > 0 and string.sub(found[#found], 1, #prefix) ~= prefix do table.remove(found) end
  return found
end

reads('groups', function(work, args)
  local queue, answer = args[3], {}
  for _, group in ipairs(nextGroups(work, args, args[7] == '1' and 'own:' or 'groups:')) do
    local entry, ready = groups.of(work, queue, group), 0
    for _, track in ipairs(held.tracks(work, queue)) do ready = ready + sizeOf(work, placeKey(queue, track, group)) end
    local values = {
      group, text(math.min(ready, tonumber(args[8]))), text(sizeOf(work, 'busy:' .. queue .. ' ' .. group)),
      entry.override and entry.json or '', entry.isPaused and '1' or '', entry.stoppedBy or '',
      entry.untilAt > work.t and text(entry.untilAt) or ''
    }
    for _, value in ipairs(values) do answer[#answer + 1] = value end
  end
  return answer
end)
`

export async function setGroup(
  redis: Redis,
  { queue, group, by }: { readonly queue: string; readonly group: string; readonly by: string },
  override: GroupOverride | null,
): Promise<void> {
  await redis.write('operate', 'setGroup', [queue, group, JSON.stringify(override), by, JSON.stringify(group)])
}

export async function pauseGroup(redis: Redis, queue: string, group: string, by: string): Promise<void> {
  await redis.write('operate', 'pauseGroup', [queue, group, '1', by, JSON.stringify(group), 'pause group'])
}

export async function resumeGroup(redis: Redis, queue: string, group: string, by: string): Promise<void> {
  await redis.write('operate', 'pauseGroup', [queue, group, '', by, JSON.stringify(group), 'resume group'])
}

const VALUES = 7

export async function groups(
  redis: Redis,
  { queue, prefix, after, limit, own = false }: GroupsRequest,
): Promise<GroupPage> {
  const args = [queue, prefix, after ?? '', limit, own ? '1' : '', GROUP_READY_MAX]
  const { value } = await redis.read<string[]>('look', 'groups', args)
  const views: GroupView[] = []
  for (let at = 0; at < value.length; at += VALUES) views.push(groupView(value.slice(at, at + VALUES)))
  const page = views.slice(0, limit)
  return { groups: page, next: views.length > page.length ? page.at(-1)!.group : null }
}

function groupView(values: readonly string[]): GroupView {
  const [group, ready, running, override, paused, stoppedBy, until] = values as readonly [
    ...[string, string, string, string, string, string, string],
  ]
  return {
    group,
    ready: Number(ready),
    running: Number(running),
    paused: paused === '1',
    stoppedBy: stoppedBy === '' ? null : longId(stoppedBy),
    until: until === '' ? null : new Date(Number(until)),
    override: override === '' ? null : JSON.parse(override),
  }
}

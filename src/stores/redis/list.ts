// list and count: jobs that match a filter, newest first. A function gives jobs in portions from the place with the fewest for the filter.
// Node compares them with core/filter-match.ts, which the memory store uses as well: a filter has one meaning, and none in Lua.

import { matches } from '../../core/filter-match.js'
import { idTimeMs } from '../../core/id.js'
import type { JobFilter } from '../../core/job-filter.js'
import type { CountResult } from '../../core/operating.js'
import { type JobPage, LIST_WINDOW, type ListRequest } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import { keyText } from './facts.js'
import { JOB_VALUES, readSeen, type SeenJob, summaryOf } from './get.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import { allQueues } from './queues.js'
import type { Redis } from './redis.js'
import { letterOfState } from './states.js'

/**
 * page: ARGV id to begin below or '', count, letters of the states or '' for all, '1' to give payloads, source; then for 'ids' the ids,
 * largest first. Sources: 'ids', 'states' (the places of these states), 'chunks' (all jobs). Answers with: how many jobs were looked at,
 * the last of them or '', '1' when there are no more, then seven values (get.ts) for each job in one of the states.
 * holders: ARGV keys, '\n', queues; answers with the ids of the jobs that hold one of the keys.
 * ticks: ARGV limit, schedules; answers with the ids of the jobs of their newest ticks.
 * groupIds: ARGV most, '1' for ready jobs, '1' for running ones, groups, '\n', queues or none for all; answers with the ids of these groups'
 * jobs, or with '' alone when there are more.
 * queueCounts: ARGV states, '\n', queues ('' for all together); answers with the sum.
 */
export const LIST: string = lua`
-- A page ends early when it has this many bytes of payloads.
local PAGE_BYTES_MAX = 4194304
local LEASES_SORTED_MAX = 5000

local function descending(ids)
  local up, down = sorted(ids), {}
  for i = #up, 1, -1 do down[#down + 1] = up[i] end
  return down
end

-- Ids below a bound in the places of these states, largest first.
local function idsOfStates(work, letters, before, limit)
  local ids, isEnd = {}, true
  for letter in string.gmatch(letters, '.') do
    local found
    if letter == 'R' then
      found = {}
      for _, id in ipairs(redis.call('ZRANGE', work.b .. 'leases', 0, -1)) do
        if before == '' or less(id, before) then found[#found + 1] = id end
      end
    else
      local from = before == '' and '+' or '(' .. before
      found = redis.call('ZREVRANGEBYLEX', work.b .. 'in:' .. STATE_NAMES[letter], from, '-', 'LIMIT', 0, limit)
      if #found >= limit then isEnd = false end
    end
    for _, id in ipairs(found) do ids[#ids + 1] = id end
  end
  ids = descending(ids)
  if #ids > limit then isEnd = false end
  while #ids > limit do table.remove(ids) end
  return ids, isEnd
end

-- Ids of all jobs below a bound, largest first, chunk by chunk.
local function idsOfChunks(work, before, limit)
  local ids, bound = {}, before == '' and '+' or '(' .. before
  while true do
    local chunk = redis.call('ZREVRANGEBYLEX', work.b .. 'chunks', bound, '-', 'LIMIT', 0, 1)[1] or ''
    for _, id in ipairs(descending(redis.call('HKEYS', work.b .. 'f:' .. chunk))) do
      if before == '' or less(id, before) then
        if #ids == limit then return ids, false end
        ids[#ids + 1] = id
        work.chunk[id] = chunk
      end
    end
    if chunk == '' then return ids, true end
    bound = '(' .. chunk
  end
end

reads('page', function(work, args)
  local before, limit, letters, wantsPayload, source = args[3], tonumber(args[4]), args[5], args[6] == '1', args[7]
  if source == 'states' and redis.call('ZCARD', work.b .. 'leases') > LEASES_SORTED_MAX then source = 'chunks' end
  local ids, isEnd
  if source == 'ids' then
    ids, isEnd = slice(args, 8), true
  elseif source == 'states' then
    ids, isEnd = idsOfStates(work, letters, before, limit)
  else
    ids, isEnd = idsOfChunks(work, before, limit)
  end
  load(work, 's', ids)
  local answer, looked, bytes = { 0, '', isEnd and '1' or '' }, 0, 0
  for _, id in ipairs(ids) do
    looked = looked + 1
    answer[2] = id
    local standing = work.s[id]
    local letter = standing and string.sub(standing, 1, 1) or 'Q'
    if letters == '' or string.find(letters, letter, 1, true) then
      local job = jobOf(work, id)
      if job then
        local values = sevenValues(work, job, wantsPayload)
        for _, value in ipairs(values) do answer[#answer + 1] = value end
        bytes = bytes + #work.f[id] + #values[3]
        work.f[id] = nil
      end
    end
    if bytes > PAGE_BYTES_MAX and looked < #ids then
      answer[3] = ''
      break
    end
  end
  answer[1] = looked
  return answer
end)

reads('holders', function(work, args)
  local keys, ids, from = {}, {}, 3
  while args[from] ~= '\n' do
    keys[#keys + 1] = args[from]
    from = from + 1
  end
  for i = from + 1, #args do
    for _, key in ipairs(keys) do
      local holder = keyHolder(work, args[i], key)
      if holder then ids[#ids + 1] = holder.id end
    end
  end
  return ids
end)

reads('ticks', function(work, args)
  local ids = {}
  for i = 4, #args do
    for _, tick in ipairs(redis.call('ZREVRANGE', work.b .. 'ticks:' .. args[i], 0, tonumber(args[3]) - 1)) do
      local id = string.match(tick, '^%S+ (%S+)$')
      if id ~= '-' then ids[#ids + 1] = id end
    end
  end
  return ids
end)

reads('groupIds', function(work, args)
  local most, from, names, ids = tonumber(args[3]), 6, {}, {}
  while args[from] ~= '\n' do
    names[#names + 1] = args[from]
    from = from + 1
  end
  local queues = slice(args, from + 1)
  if #queues == 0 then queues = redis.call('ZRANGE', work.b .. 'flowing', 0, -1) end
  for _, queue in ipairs(queues) do
    for _, group in ipairs(names) do
      local places = {}
      for _, track in ipairs(args[4] == '1' and held.tracks(work, queue) or {}) do places[#places + 1] = placeKey(queue, track, group) end
      if args[5] == '1' then places[#places + 1] = 'busy:' .. queue .. ' ' .. group end
      for _, place in ipairs(places) do
        for _, id in ipairs(redis.call('ZRANGE', work.b .. place, 0, most)) do ids[#ids + 1] = id end
        if #ids > most then return { '' } end
      end
    end
  end
  return ids
end)

reads('queueCounts', function(work, args)
  local states, sum, from = {}, 0, 3
  while args[from] ~= '\n' do
    states[#states + 1] = args[from]
    from = from + 1
  end
  for i = from + 1, #args do
    local key = args[i] == '' and 'counts' or 'q:' .. args[i]
    for _, value in ipairs(redis.call('HMGET', work.b .. key, unpack(states))) do sum = sum + (value or 0) end
  end
  return sum
end)
`

/** Portions grow: a filter that matches most jobs looks at few, one that matches few soon looks at many. */
const PORTION_GROWTH = 4
const PORTION_MAX = 500
/** A count ends after about this time, and reports whether it was complete. */
const COUNT_MS_MAX = 100
const QUEUES_PORTION = 500

export async function list(redis: Redis, { filter, limit, before, signal }: ListRequest): Promise<JobPage> {
  const { jobs, ...page } = await findPage(redis, { filter, limit, before, signal })
  return { jobs: jobs.map(summaryOf), ...page }
}

export interface FoundPage extends Omit<JobPage, 'jobs'> {
  readonly jobs: readonly SeenJob[]
}

/** A page, with the jobs as they are. The limit may be larger than a caller's. */
export async function findPage(redis: Redis, request: ListRequest): Promise<FoundPage> {
  return pageOf(await portionsOf(redis, request.filter), request)
}

/** A page of what portions give. */
export async function pageOf(
  next: NextPortion,
  { limit, before, signal }: Omit<ListRequest, 'filter'>,
): Promise<FoundPage> {
  const jobs: SeenJob[] = []
  let searched = 0
  let at = before
  for (let portion = limit + 1; searched < LIST_WINDOW; portion *= PORTION_GROWTH) {
    signal?.throwIfAborted()
    const found = await next(at, Math.min(portion, PORTION_MAX, LIST_WINDOW - searched))
    jobs.push(...found.matching)
    searched += found.looked
    at = found.last ?? at
    // One more than the page holds tells that there is a next one.
    if (jobs.length > limit) {
      return { jobs: jobs.slice(0, limit), next: jobs[limit - 1]!.id, searched, searchedTo: null }
    }
    if (found.isEnd) return { jobs, next: null, searched, searchedTo: null }
  }
  return { jobs, next: at, searched, searchedTo: at === null ? null : new Date(idTimeMs(at)) }
}

export async function count(
  redis: Redis,
  filter: JobFilter,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal | undefined },
): Promise<CountResult> {
  const counted = await countByQueue(redis, filter)
  if (counted !== null) return { count: Math.min(counted, max), isExact: counted <= max }
  return countOf(await portionsOf(redis, filter), { max, signal })
}

/** How many jobs portions give. */
export async function countOf(
  next: NextPortion,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal | undefined },
): Promise<CountResult> {
  const startMs = performance.now()
  // A first portion costs one call, however few are to be counted.
  const lookMax = Math.max(max + 1, PORTION_MAX)
  let found = 0
  let searched = 0
  let at: string | null = null
  while (searched < lookMax && found <= max && performance.now() - startMs < COUNT_MS_MAX) {
    signal?.throwIfAborted()
    const portion = await next(at, Math.min(PORTION_MAX, lookMax - searched))
    found += portion.matching.length
    searched += portion.looked
    at = portion.last ?? at
    if (portion.isEnd) return { count: Math.min(found, max), isExact: found <= max }
  }
  return { count: Math.min(found, max), isExact: false }
}

const COUNTED: readonly JobState[] = ['blocked', 'scheduled', 'ready', 'running', 'retrying', 'dead']

/** How many jobs match a filter that names nothing but counted states and whole names of queues; null for any other. */
export async function countByQueue(redis: Redis, { states, queues, ...others }: JobFilter): Promise<number | null> {
  const hasOthers = Object.values(others).some((value) => value !== undefined)
  if (hasOthers || states === undefined || states.some((state) => !COUNTED.includes(state))) return null
  if (queues?.some((name) => name.includes('*')) === true) return null
  const names = [...new Set(queues ?? [''])]
  return (await redis.read<number>('search', 'queueCounts', [...new Set(states), '\n', ...names])).value
}

export interface Portion {
  readonly matching: readonly SeenJob[]
  readonly looked: number
  readonly last: string | null
  readonly isEnd: boolean
}

/** Gives the next jobs that match: of about N below an id. */
export type NextPortion = (before: string | null, count: number) => Promise<Portion>

async function portionsOf(redis: Redis, filter: JobFilter): Promise<NextPortion> {
  return portionsAmong(redis, filter, await knownIds(redis, filter))
}

/** Gives the jobs that match, in portions below an id. `ids` are those that the filter leads to directly, newest first. */
export function portionsAmong(redis: Redis, filter: JobFilter, ids: readonly string[] | null): NextPortion {
  const letters = lettersOf(filter)
  const havePlaces = letters !== '' && [...letters].every((letter) => 'BSTDCR'.includes(letter))
  const source = ids !== null ? 'ids' : havePlaces ? 'states' : 'chunks'
  const wantsPayload = filter.payload === undefined ? '' : '1'
  return async (before, count) => {
    if (letters === NO_STATE) return { matching: [], looked: 0, last: null, isEnd: true }
    const below = ids === null ? [] : ids.filter((id) => before === null || id < before)
    const asked = below.slice(0, count).map(shortId)
    const from = before === null ? '' : shortId(before)
    const { value, nowMs } = await redis.read<(string | number)[]>('search', 'page', [
      ...[from, count, letters, wantsPayload, source],
      ...asked,
    ])
    const [looked, last, isEnd, ...rows] = value as [number, string, string, ...string[]]
    const matching: SeenJob[] = []
    for (let at = 0; at < rows.length; at += JOB_VALUES) {
      const seen = readSeen(rows.slice(at, at + JOB_VALUES))
      const payload: unknown = seen.payload === '' ? null : JSON.parse(seen.payload)
      if (matches(filter, { ...summaryOf(seen), payload }, nowMs)) matching.push(seen)
    }
    const hasMore = asked.length < below.length
    return { matching, looked, last: last === '' ? null : longId(last), isEnd: isEnd === '1' && !hasMore }
  }
}

/** What stands for no state at all. */
const NO_STATE = '-'

/** The letters of the states a filter lets through; '' for all. */
function lettersOf({ states, notStates = [], reasons, fingerprints }: JobFilter): string {
  const onlyDead = reasons !== undefined || fingerprints !== undefined
  if (states === undefined && notStates.length === 0 && !onlyDead) return ''
  const wanted = (states ?? ALL_STATES).filter((state) => !notStates.includes(state) && (!onlyDead || state === 'dead'))
  return [...new Set(wanted)].map(letterOfState).join('') || NO_STATE
}

const ALL_STATES: readonly JobState[] = [...COUNTED, 'succeeded', 'cancelled']

/** The ids that a filter leads to directly, newest first; null when it does not. */
export async function knownIds(redis: Redis, filter: JobFilter): Promise<string[] | null> {
  const { ids, keys, schedules, queues } = filter
  if (keys !== undefined) return newestFirst(await holdersOf(redis, keys, queues))
  if (ids !== undefined) return newestFirst(ids)
  if (schedules === undefined) return idsOfGroups(redis, filter)
  const { value } = await redis.read<string[]>('search', 'ticks', [LIST_WINDOW, ...schedules])
  return newestFirst(value.map(longId))
}

/** The jobs of groups that are ready or run; null when others are sought too, or when there are very many. */
async function idsOfGroups(redis: Redis, { groups, states, queues }: JobFilter): Promise<string[] | null> {
  const areInPlaces = states?.every((state) => state === 'ready' || state === 'running') === true
  if (groups === undefined || !areInPlaces) return null
  const isNamed = queues?.every((name) => !name.includes('*')) === true
  const flags = (['ready', 'running'] as const).map((state) => (states!.includes(state) ? '1' : ''))
  const args = [LIST_WINDOW, ...flags, ...groups, '\n', ...(isNamed ? queues! : [])]
  const { value } = await redis.read<string[]>('search', 'groupIds', args)
  return value[0] === '' ? null : newestFirst(value.map(longId))
}

export function newestFirst(ids: readonly string[]): string[] {
  return [...new Set(ids)].sort().reverse()
}

async function holdersOf(redis: Redis, keys: readonly string[], queues: JobFilter['queues']): Promise<string[]> {
  const isNamed = queues?.every((name) => !name.includes('*')) === true
  const names = isNamed ? queues! : (await allQueues(redis)).map(({ name }) => name)
  const found: string[] = []
  for (let at = 0; at < names.length; at += QUEUES_PORTION) {
    const args = [...keys.map(keyText), '\n', ...names.slice(at, at + QUEUES_PORTION)]
    found.push(...(await redis.read<string[]>('search', 'holders', args)).value.map(longId))
  }
  return found
}

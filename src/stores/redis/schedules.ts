// Schedules: kept, due, and fired. sched:<name> has one, `sched` those that wait for a time by that time, `schedules` all names, and
// ticks:<name> the recorded ticks. Ticks outlive their schedule, so that one made anew under the same name does not repeat a tick.

import { isTypeLimit } from '../../core/flow/job-flow.js'
import { limitUnknown } from '../../core/flow/refusals.js'
import type { ScheduleBound } from '../../core/operator-store.js'
import type { Schedule, ScheduleView } from '../../core/schedule.js'
import { SCHEDULES_MAX, tooManySchedules } from '../../core/schedule-limit.js'
import type { DueSchedules, Fired, FireRequest } from '../../core/upkeep-store.js'
import { jobArgs } from './enqueue.js'
import { longId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * setSchedule: ARGV name, JSON, cron and zone, queue, next, who, most, maker or '', most of theirs, overlap, limits that must be there; answers with the six values of a schedule.
 * removeSchedule: ARGV name, who. pauseSchedule: ARGV name, who. resumeSchedule: ARGV name, next, who. Each answers 1 or 0.
 * due: answers with name, queue and time of each that is due. dueAfter: ARGV place; answers with the time of the one there, or ''.
 * schedules: ARGV names, or none for all; answers with six values each: name, JSON, paused, next or '', last or '', id of the last job or ''.
 * fire: ARGV name, expected, next or '', most queues; then for each tick its time and the four values of a job (enqueue.ts).
 *       Answers with 1 or 0, then the ids of the jobs that were made.
 */
export const SCHEDULES: string = lua`
local function scheduleOf(work, name)
  local values = redis.call('HMGET', work.b .. 'sched:' .. name, 'json', 'paused', 'next', 'last', 'job', 'times', 'maker', 'queue', 'overlap')
  if not values[1] then return nil end
  return {
    name = name, json = values[1], isPaused = values[2] == '1', due = tonumber(values[3] or ''),
    last = values[4] or '', job = values[5] or '', times = values[6], maker = values[7] or '', queue = values[8],
    overlap = values[9]
  }
end

local function saveSchedule(work, schedule)
  local key = 'sched:' .. schedule.name
  setField(work, key, 'json', schedule.json)
  setField(work, key, 'paused', schedule.isPaused and '1' or '')
  setField(work, key, 'next', schedule.due or '')
  setField(work, key, 'last', schedule.last)
  setField(work, key, 'job', schedule.job)
  setField(work, key, 'times', schedule.times)
  setField(work, key, 'maker', schedule.maker)
  setField(work, key, 'queue', schedule.queue)
  setField(work, key, 'overlap', schedule.overlap)
  setScore(work, 'schedules', schedule.name, 0)
  setScore(work, 'sched', schedule.name, not schedule.isPaused and schedule.due or false)
end

local function sixValues(schedule)
  return {
    schedule.name, schedule.json, schedule.isPaused and '1' or '', schedule.due and text(schedule.due) or '',
    schedule.last, schedule.job
  }
end

writes('setSchedule', {}, function(work, args)
  local name, json, times, queue, due, by, max, maker, most, overlap = unpack(args, 3, 12)
  for i = 13, #args do
    if not limits.isSet(work, args[i]) then error({ err = 'HFLIMIT ' .. args[i] }) end
  end
  local schedule = scheduleOf(work, name)
  if not schedule then
    if redis.call('ZCARD', work.b .. 'schedules') >= tonumber(max) then error({ err = 'HFSCHEDULES all' }) end
    if maker ~= '' then
      if tonumber(redis.call('HGET', work.b .. 'schedulers', maker) or 0) >= tonumber(most) then
        error({ err = 'HFSCHEDULES theirs' })
      end
      later(work, 'HINCRBY', 'schedulers', maker, 1)
    end
  end
  -- Programs set their schedules at every start: only what differs is a change.
  if not schedule or schedule.json ~= json then audit(work, by, 'set schedule', '', name, '') end
  schedule = schedule or { name = name, isPaused = false, due = tonumber(due), last = '', job = '', times = times, maker = maker }
  if schedule.times ~= times then schedule.due = tonumber(due) end
  schedule.json, schedule.times, schedule.queue, schedule.overlap = json, times, queue, overlap
  saveSchedule(work, schedule)
  return sixValues(schedule)
end)

writes('removeSchedule', { 'allow-oom' }, function(work, args)
  local name, by = args[3], args[4]
  local schedule = scheduleOf(work, name)
  if not schedule then return 0 end
  if schedule.maker ~= '' then later(work, 'HINCRBY', 'schedulers', schedule.maker, -1) end
  setScore(work, 'schedules', name, false)
  setScore(work, 'sched', name, false)
  later(work, 'DEL', 'sched:' .. name)
  audit(work, by, 'remove schedule', '', name, '')
  return 1
end)

writes('pauseSchedule', { 'allow-oom' }, function(work, args)
  local schedule = scheduleOf(work, args[3])
  if not schedule then return 0 end
  schedule.isPaused = true
  saveSchedule(work, schedule)
  audit(work, args[4], 'pause schedule', '', args[3], '')
  return 1
end)

writes('resumeSchedule', { 'allow-oom' }, function(work, args)
  local schedule = scheduleOf(work, args[3])
  if not schedule then return 0 end
  schedule.isPaused, schedule.due = false, tonumber(args[4])
  saveSchedule(work, schedule)
  audit(work, args[5], 'resume schedule', '', args[3], '')
  return 1
end)

reads('due', function(work)
  local found, answer = redis.call('ZRANGEBYSCORE', work.b .. 'sched', '-inf', text(work.t), 'WITHSCORES', 'LIMIT', 0, 10000), {}
  for i = 1, #found, 2 do
    answer[#answer + 1] = found[i]
    answer[#answer + 1] = redis.call('HGET', work.b .. 'sched:' .. found[i], 'queue')
    answer[#answer + 1] = found[i + 1]
  end
  return answer
end)

reads('dueAfter', function(work, args)
  local place = tonumber(args[3])
  return redis.call('ZRANGE', work.b .. 'sched', place, place, 'WITHSCORES')[2] or ''
end)

reads('schedules', function(work, args)
  local names, answer = slice(args, 3), {}
  if #names == 0 then names = redis.call('ZRANGE', work.b .. 'schedules', 0, 9999) end
  for _, name in ipairs(names) do
    local schedule = scheduleOf(work, name)
    for _, value in ipairs(schedule and sixValues(schedule) or {}) do answer[#answer + 1] = value end
  end
  return answer
end)

writes('fire', {}, function(work, args)
  local name, expected, due, queuesMax = args[3], tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  local schedule = scheduleOf(work, name)
  if not schedule or schedule.isPaused or schedule.due ~= expected then return { 0 } end
  local answer, recorded = { 1 }, {}
  work.newIds = {}
  for i = 7, #args, 5 do
    local tick, spec = args[i], { id = args[i + 1], queue = args[i + 2], when = args[i + 3], rest = args[i + 4], isTick = true }
    schedule.last = tick
    local isKnown = recorded[tick] or redis.call('ZCOUNT', work.b .. 'ticks:' .. name, tick, tick) > 0
    if not isKnown then
      recorded[tick] = true
      local state = schedule.job ~= '' and stateOf(work, schedule.job)
      local isSkipped = schedule.overlap == 'skip' and state and not isFinished(state)
      local made = '-'
      if not isSkipped then
        openQueues(work, { spec }, queuesMax)
        if writeJobs(work, { spec })[1][1] == 'created' then
          made, schedule.job = spec.id, spec.id
          answer[#answer + 1] = spec.id
        end
      end
      setScore(work, 'ticks:' .. name, tick .. ' ' .. made, tick)
      setMember(work, 'ticked', name, true)
    end
  end
  placeNew(work, work.newIds)
  schedule.due = due
  saveSchedule(work, schedule)
  return answer
end)
`

const VALUES = 6

function readSchedules(values: readonly string[]): ScheduleView[] {
  const found: ScheduleView[] = []
  for (let at = 0; at < values.length; at += VALUES) {
    const [, json, paused, next, last, job] = values.slice(at, at + VALUES) as [
      ...[string, string, string, string, string, string],
    ]
    found.push({
      ...(JSON.parse(json) as Schedule),
      paused: paused === '1',
      nextAt: next === '' ? null : new Date(Number(next)),
      lastAt: last === '' ? null : new Date(Number(last)),
      lastJobId: job === '' ? null : longId(job),
    })
  }
  return found
}

export async function schedules(redis: Redis): Promise<readonly ScheduleView[]> {
  return readSchedules((await redis.read<string[]>('look', 'schedules', [])).value)
}

export async function setSchedule(
  redis: Redis,
  schedule: Schedule,
  nextAtMs: number,
  {
    by,
    bound,
    max = SCHEDULES_MAX,
  }: { readonly by: string; readonly bound: ScheduleBound | undefined; readonly max?: number },
): Promise<ScheduleView> {
  const { name, cron, zone, queue } = schedule
  const { maker = '', most = 0 } = bound ?? {}
  const args = [
    name,
    JSON.stringify(schedule),
    `${cron}\n${zone}`,
    queue,
    nextAtMs,
    by,
    max,
    maker,
    most,
    schedule.overlap,
    ...(schedule.flow?.limits.filter((limit) => !isTypeLimit(limit)) ?? []),
  ]
  try {
    return readSchedules((await redis.write<string[]>('operate', 'setSchedule', args)).value)[0]!
  } catch (error) {
    if (redis.refusal(error) === 'HFLIMIT') {
      const limit = /HFLIMIT (\S+)/.exec(String((error as Error).message))?.[1] ?? ''
      throw limitUnknown(`schedule "${name}" was not set: it`, limit)
    }
    if (redis.refusal(error) !== 'HFSCHEDULES') throw error
    const isTheirs = String((error as Error).message).includes('HFSCHEDULES theirs')
    throw tooManySchedules(name, isTheirs ? most : max, isTheirs)
  }
}

export async function removeSchedule(redis: Redis, name: string, by: string): Promise<boolean> {
  return (await redis.write<number>('operate', 'removeSchedule', [name, by])).value === 1
}

export async function pauseSchedule(redis: Redis, name: string, by: string): Promise<boolean> {
  return (await redis.write<number>('operate', 'pauseSchedule', [name, by])).value === 1
}

export async function resumeSchedule(redis: Redis, name: string, nextAtMs: number, by: string): Promise<boolean> {
  return (await redis.write<number>('operate', 'resumeSchedule', [name, nextAtMs, by])).value === 1
}

export interface DueSchedule {
  readonly name: string
  readonly queue: string
  readonly nextAtMs: number
}

/** The schedules whose time has come, by their time. */
export async function waitingSchedules(
  redis: Redis,
): Promise<{ readonly waiting: DueSchedule[]; readonly nowMs: number }> {
  const { value, nowMs } = await redis.read<string[]>('upkeep', 'due', [])
  const waiting: DueSchedule[] = []
  for (let at = 0; at < value.length; at += 3) {
    waiting.push({ name: value[at]!, queue: value[at + 1]!, nextAtMs: Number(value[at + 2]) })
  }
  return { waiting, nowMs }
}

export async function due(redis: Redis, limit: number, afterQueue: string): Promise<DueSchedules> {
  const { waiting, nowMs } = await waitingSchedules(redis)
  const chosen = inTurns(waiting, afterQueue).slice(0, limit)
  const [next, views] = await Promise.all([
    redis.read<string>('upkeep', 'dueAfter', [Math.min(waiting.length, limit)]),
    chosen.length === 0 ? [] : viewsOf(redis, chosen),
  ])
  return { schedules: views, nowMs, nextDueMs: next.value === '' ? null : Math.max(0, Number(next.value) - nowMs) }
}

export async function viewsOf(redis: Redis, chosen: readonly DueSchedule[]): Promise<DueSchedules['schedules']> {
  const names = chosen.map(({ name }) => name)
  const { value } = await redis.read<string[]>('upkeep', 'schedules', names)
  const byName = new Map(readSchedules(value).map((view) => [view.name, view]))
  return chosen.flatMap(({ name, nextAtMs }) => {
    const view = byName.get(name)
    return view === undefined ? [] : [{ ...view, nextAtMs }]
  })
}

/** The first of each queue, then the second of each, and so on. */
export function inTurns(waiting: readonly DueSchedule[], afterQueue: string): DueSchedule[] {
  const turns = new Map<string, number>()
  return waiting
    .map((schedule) => {
      const { queue } = schedule
      const turn = turns.get(queue) ?? 0
      turns.set(queue, turn + 1)
      return { schedule, queue, turn, isBehind: queue > afterQueue ? 0 : 1 }
    })
    .sort((one, other) => one.turn - other.turn || one.isBehind - other.isBehind || (one.queue < other.queue ? -1 : 1))
    .map(({ schedule }) => schedule)
}

export async function fire(redis: Redis, request: FireRequest, queuesMax: number): Promise<Fired> {
  const { name, expectedNextAtMs, ticks, nextAtMs } = request
  const args: (string | number)[] = [name, expectedNextAtMs, nextAtMs ?? '', queuesMax]
  for (const { tickMs, job } of ticks) args.push(tickMs, ...jobArgs(job, { name, tickMs }))
  const { value } = await redis.write<[number, ...string[]]>('upkeep', 'fire', args)
  const [fired, ...ids] = value
  return { fired: fired === 1, jobs: ids.map(longId) }
}

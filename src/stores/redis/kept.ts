// What long jobs keep between attempts: steps, effects, how waits ended, children. steps:<id> has "<number> <attempt> <fence> <begun> <began>
// <ended> <value>" for each "<kind> <name>": ended is - while it has not, and the value is JSON or empty. `doubts` has "<id> <name>" of
// effects that have not ended, or were begun more than once. The flag s in a job's standing says that it has some, d that an entry has
// ended under the lease that it has now.

import type { Lease } from '../../core/job.js'
import type { DoubtfulRequest, KeptOf } from '../../core/kept/contract.js'
import type { DoubtfulEffect, DoubtfulPage, Kept, KeptKind, Recalled, StepView } from '../../core/kept/kept.js'
import { stepViewOf } from '../../core/kept/kept.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { readSignals, readWait } from './signal.js'

/**
 * keep: ARGV for each entry: id, fence, "<kind> <name>", begun, '1' when it has ended or '', how long it took, value or ''. Answers for each
 *   with '1', or '' when the lease no longer holds.
 * recall: ARGV id, fence. Answers with: entries as field and value, signals likewise, the wait or '', where the output ends; or nothing.
 * doubtful: ARGV id or '', member to begin behind or '', how many to look at. Answers with the last member looked at or '' at the end, then seven values for
 *   each effect in doubt: id, type, queue, name, begun, began, ended or -.
 */
export const KEPT: string = lua`
local function heldJob(work, id, fence)
  local job = leasedJob(work, id)
  return job and job.state == 'R' and job.fence == tonumber(fence) and job or nil
end

-- How many entries a job has.
local function keptCount(work, id)
  local counts = work.keptCounts or {}
  work.keptCounts = counts
  if not counts[id] then counts[id] = redis.call('HLEN', work.b .. 'steps:' .. id) end
  return counts[id]
end

local function keepOne(work, job, field, entry)
  local key = 'steps:' .. job.id
  local known, number, began = getField(work, key, field), nil, nil
  if known then
    local ended
    number, began, ended = string.match(known, '^(%d+) %d+ %d+ %d+ (%d+) (%S+) ')
    -- What has ended stays as it is.
    if ended ~= '-' then return end
  else
    number, began = text(keptCount(work, job.id) + 1), text(work.t - tonumber(entry.took))
    work.keptCounts[job.id] = tonumber(number)
  end
  local ended = entry.isEnded and text(work.t) or '-'
  setField(work, key, field, table.concat({ number, job.attempt, text(job.fence), entry.begun, began, ended, entry.value }, ' '))
  addFlag(job, 's')
  if entry.isEnded then addFlag(job, 'd') end
  local name = string.match(field, '^effect (.*)$')
  if name then
    local isInDoubt = not entry.isEnded or tonumber(entry.begun) > 1
    setScore(work, 'doubts', job.id .. ' ' .. name, isInDoubt and 0)
  end
  save(work, job)
end

-- Also at maxmemory: a job that cannot keep what it has done cannot finish, or would do it again.
writes('keep', { 'allow-oom' }, function(work, args)
  local ids, answer = {}, {}
  for i = 3, #args, 7 do ids[#ids + 1] = args[i] end
  load(work, 's', ids)
  for i = 3, #args, 7 do
    local job = heldJob(work, args[i], args[i + 1])
    local entry = { begun = args[i + 3], isEnded = args[i + 4] == '1', took = args[i + 5], value = args[i + 6] }
    if job then keepOne(work, job, args[i + 2], entry) end
    answer[#answer + 1] = job and '1' or ''
  end
  return answer
end)

reads('recall', function(work, args)
  local job = heldJob(work, args[3], args[4])
  if not job then return {} end
  return {
    kept.entriesOf(work, job), kept.signalsOf(work, job), kept.waitText(work, job) or '', text(kept.outputEnd(work, job))
  }
end)

reads('doubtful', function(work, args)
  local id, after, most = args[3], args[4], tonumber(args[5])
  local from, upTo = '-', '+'
  if id ~= '' then from, upTo = '[' .. id .. ' ', '(' .. id .. '!' end
  if after ~= '' then from = '(' .. after end
  local found = redis.call('ZRANGEBYLEX', work.b .. 'doubts', from, upTo, 'LIMIT', 0, most)
  local answer = { #found == most and found[most] or '' }
  for _, member in ipairs(found) do
    local holder, name = string.match(member, '^(%S+) (.*)$')
    local job, value = jobOf(work, holder), redis.call('HGET', work.b .. 'steps:' .. holder, 'effect ' .. name)
    if job and value then
      local fence, begun, began, ended = string.match(value, '^%d+ %d+ (%d+) (%d+) (%d+) (%S+) ')
      local isUnderWay = job.state == 'R' and job.fence == tonumber(fence)
      if tonumber(begun) > 1 or not isUnderWay then
        for _, each in ipairs({ holder, job.type, job.queue, name, begun, began, ended }) do answer[#answer + 1] = each end
      end
    end
  end
  return answer
end)
`

export const KEPT_LUA: string = lua`
function kept.entriesOf(work, job)
  return hasFlag(job, 's') and redis.call('HGETALL', work.b .. 'steps:' .. job.id) or {}
end

function kept.signalsOf(work, job)
  return hasFlag(job, 'g') and redis.call('HGETALL', work.b .. 'signals:' .. job.id) or {}
end

-- Where the output of a job ends, with what this call writes.
function kept.outputEnd(work, job)
  local ends = work.outputEnds or {}
  work.outputEnds = ends
  if not ends[job.id] then
    local last = hasFlag(job, 'w') and redis.call('XREVRANGE', work.b .. 'output:' .. job.id, '+', '-', 'COUNT', 1)[1]
    ends[job.id] = last and tonumber(last[2][2]) or 0
  end
  return ends[job.id]
end

-- The jobs that a blocked one waits for: its children while its handler does, otherwise those that it comes after.
function kept.blockers(work, job)
  if not hasFlag(job, 'n') then return parentsOf(job) end
  return parentsOf({ parents = getField(work, 'wait:' .. job.id, 'children') or '' })
end

-- Whether a job goes on as soon as one of its children has failed.
function kept.wakesEarly(work, job)
  return string.sub(getField(work, 'wait:' .. job.id, 'children') or '', 1, 1) == 'e'
end

-- Lets a taken job wait for its children. The text is their ids behind e, or a when it waits for all of them.
function kept.waitForChildren(work, job, children)
  clearRun(job)
  addFlag(job, 'g')
  addFlag(job, 'n')
  setField(work, 'wait:' .. job.id, 'children', children)
  job.state, job.at = 'B', nil
  put(work, job)
end

-- Ends that wait of a job that was taken.
function kept.endChildren(work, job)
  dropFlag(job, 'n')
  setField(work, 'wait:' .. job.id, 'children', false)
end

-- Forgets what a job has kept.
function kept.drop(work, job, id)
  if hasFlag(job, 's') then
    later(work, 'DEL', 'steps:' .. id)
    for _, member in ipairs(redis.call('ZRANGEBYLEX', work.b .. 'doubts', '[' .. id .. ' ', '(' .. id .. '!')) do
      setScore(work, 'doubts', member, false)
    end
  end
  if hasFlag(job, 'w') then later(work, 'DEL', 'output:' .. id) end
  if hasFlag(job, 'g') then
    later(work, 'DEL', 'signals:' .. id)
    later(work, 'DEL', 'wait:' .. id)
  end
end
`

export async function keep(redis: Redis, entries: readonly KeptOf[]): Promise<boolean[]> {
  if (entries.length === 0) return []
  const args = entries.flatMap(({ id, fence, entry }) => {
    const { kind, name, begun, isEnded, tookMs, value } = entry
    return [shortId(id), fence, `${kind} ${name}`, begun, isEnded ? '1' : '', tookMs, value ?? '']
  })
  const { value } = await redis.write<string[]>('settle', 'keep', args)
  return value.map((word) => word === '1')
}

export async function recall(redis: Redis, { id, fence }: Lease): Promise<Recalled | null> {
  const { value } = await redis.read<unknown[]>('settle', 'recall', [shortId(id), fence])
  if (value.length === 0) return null
  const [entries, signals, wait, outputEnd] = value as [string[], string[], string, string]
  const waited = wait === '' ? null : readWait(wait)
  return {
    entries: readEntries(entries),
    signals: readSignals(signals),
    wait: waited === null ? null : { name: waited.name, turn: waited.turn, untilMs: waited.untilMs },
    outputEnd: Number(outputEnd),
  }
}

const ENTRY = /^(\d+) (\d+) \d+ (\d+) (\d+) (\S+) (.*)$/s

/** Entries as they are in the hash, in the order in which they began. */
function readEntries(values: readonly string[]): Kept[] {
  const found: { readonly number: number; readonly entry: Kept }[] = []
  for (let at = 0; at < values.length; at += 2) {
    const field = values[at]!
    const blank = field.indexOf(' ')
    const [, number, attempt, begun, began, ended, value] = ENTRY.exec(values[at + 1]!) as unknown as string[]
    const entry: Kept = {
      kind: field.slice(0, blank) as KeptKind,
      name: field.slice(blank + 1),
      value: value === '' ? null : value!,
      begun: Number(begun),
      isEnded: ended !== '-',
      attempt: Number(attempt),
      beganAtMs: Number(began),
      endedAtMs: ended === '-' ? null : Number(ended),
    }
    found.push({ number: Number(number), entry })
  }
  return found.sort((one, other) => one.number - other.number).map(({ entry }) => entry)
}

/** Entries as shown. */
export function readSteps(values: readonly string[]): StepView[] {
  return readEntries(values).map(stepViewOf)
}

/** How many effects one call looks at. Few of those that are listed are not in doubt. */
const PORTION = 500
const VALUES = 7

export async function doubtful(
  redis: Redis,
  { id, queues, limit, after }: DoubtfulRequest,
): Promise<readonly DoubtfulEffect[]> {
  const effects: DoubtfulEffect[] = []
  const of = id === null ? '' : shortId(id)
  for (let from = after === null ? '' : `${shortId(after.id)} ${after.key}`; effects.length < limit; ) {
    const { value } = await redis.read<string[]>('look', 'doubtful', [of, from, PORTION])
    for (let at = 1; at < value.length; at += VALUES) {
      const effect = readEffect(value.slice(at, at + VALUES))
      if (queues === null || queues.includes(effect.queue)) effects.push(effect)
    }
    from = value[0]!
    if (from === '') break
  }
  return effects.slice(0, limit)
}

function readEffect(values: readonly string[]): DoubtfulEffect {
  const [id, type, queue, key, begun, began, ended] = values as readonly [
    ...[string, string, string, string, string, string, string],
  ]
  const endedAt = ended === '-' ? null : new Date(Number(ended))
  return { id: longId(id), type, queue, key, begun: Number(begun), beganAt: new Date(Number(began)), endedAt }
}

/** A page of the effects that were found. */
export function doubtfulPage(effects: readonly DoubtfulEffect[], limit: number): DoubtfulPage {
  const last = effects.at(-1)
  return { effects, next: effects.length < limit || last === undefined ? null : { id: last.id, key: last.key } }
}

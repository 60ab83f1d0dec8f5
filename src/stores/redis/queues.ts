// Queues: paused, resumed, set, shown. q:<queue> has everything about one, `queues` their names in order.

import { NO_LIMIT } from '../../core/flow/settings.js'
import type { JobLimits } from '../../core/limits.js'
import { tooManyQueues } from '../../core/queue-limit.js'
import type { QueueSettings, QueueView } from '../../core/views.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * pause, resume: ARGV queue, who. setQueue: ARGV queue, settings, who, settings of its own limit or ''. renew: ARGV queue; both answer '1' when
 *   all groups are under the new settings.
 * openQueues: ARGV who, most of theirs, most of all, names; answers 1, or 0 when there would be too many of theirs.
 * removeQueue: ARGV queue, who, or '' without a line in the audit log; answers with the word.
 * queues: ARGV name to begin after, limit; answers with four values for each: name, paused, settings, created.
 */
export const QUEUES: string = lua`
local QUEUE_COUNTS = { 'blocked', 'scheduled', 'ready', 'running', 'retrying', 'dead' }

writes('pause', { 'allow-oom' }, function(work, args)
  local name, by = args[3], args[4]
  audit(work, by, 'pause', '', name, '')
  openQueue(work, name)
  setField(work, 'q:' .. name, 'paused', '1')
  return {}
end)

writes('resume', { 'allow-oom' }, function(work, args)
  local name, by = args[3], args[4]
  audit(work, by, 'resume', '', name, '')
  if queueOf(work, name).isKnown then
    setField(work, 'q:' .. name, 'paused', false)
    wake(work, name)
  end
  return {}
end)

writes('setQueue', {}, function(work, args)
  local name, settings, by, limit = unpack(args, 3, 6)
  local queue = queueOf(work, name)
  -- Programs set their queues at every start: only what differs is a change.
  if queue.isKnown and queue.settings == settings then return '1' end
  local before = queue.isKnown and queue.settings or 'null'
  audit(work, by, 'set queue', '', name, '{"before":' .. before .. ',"after":' .. settings .. '}')
  openQueue(work, name)
  setField(work, 'q:' .. name, 'settings', settings)
  queue.settings, queue.flowSettings = settings, nil
  wake(work, name)
  if limit ~= '' then
    held.mark(work, name, 's')
    limits.keep(work, 'queue:' .. name, limit, 'operator')
  elseif queue.flow ~= '' then
    limits.drop(work, 'queue:' .. name)
    queue.flow = string.gsub(queue.flow, '[sl]', '')
    setField(work, 'q:' .. name, 'flow', queue.flow)
  end
  return (queue.flow == '' or held.renew(work, name, '')) and '1' or ''
end)

writes('renew', { 'allow-oom' }, function(work, args)
  local queue = queueOf(work, args[3])
  if not queue.renewing then return '1' end
  return held.renew(work, args[3], string.sub(queue.renewing, 2)) and '1' or ''
end)

writes('openQueues', {}, function(work, args)
  local by, most, max, fresh, seen = args[3], tonumber(args[4]), tonumber(args[5]), {}, {}
  for i = 6, #args do
    if not seen[args[i]] and not queueOf(work, args[i]).isKnown then fresh[#fresh + 1] = args[i] end
    seen[args[i]] = true
  end
  if #fresh == 0 then return 1 end
  if redis.call('ZCARD', work.b .. 'queues') + #fresh > max then error({ err = 'HFQUEUES ' .. max }) end
  if tonumber(redis.call('HGET', work.b .. 'makers', by) or 0) + #fresh > most then return 0 end
  for _, name in ipairs(fresh) do openQueue(work, name, by) end
  return 1
end)

writes('removeQueue', { 'allow-oom' }, function(work, args)
  local name, by = args[3], args[4]
  if not queueOf(work, name).isKnown then return 'missing' end
  for _, value in ipairs(redis.call('HMGET', work.b .. 'q:' .. name, unpack(QUEUE_COUNTS))) do
    if tonumber(value or 0) > 0 then return 'busy' end
  end
  local maker = redis.call('HGET', work.b .. 'q:' .. name, 'by')
  if maker then later(work, 'HINCRBY', 'makers', maker, -1) end
  setScore(work, 'queues', name, false)
  held.remove(work, name)
  later(work, 'DEL', 'q:' .. name)
  if by ~= '' then audit(work, by, 'remove queue', '', name, '') end
  return 'removed'
end)

reads('queues', function(work, args)
  local from = args[3] == '' and '-' or '(' .. args[3]
  local answer = {}
  for _, name in ipairs(redis.call('ZRANGEBYLEX', work.b .. 'queues', from, '+', 'LIMIT', 0, tonumber(args[4]))) do
    local queue = queueOf(work, name)
    local created = redis.call('HGET', work.b .. 'q:' .. name, 'created')
    for _, value in ipairs({ name, queue.isPaused and '1' or '', queue.settings, created }) do answer[#answer + 1] = value end
  end
  return answer
end)
`

/** The limits in a queue's settings. */
export function queueLimits(settings: string): JobLimits {
  return (JSON.parse(settings) as QueueSettings).limits
}

export async function pause(redis: Redis, queue: string, by: string): Promise<void> {
  await redis.write('operate', 'pause', [queue, by])
}

export async function resume(redis: Redis, queue: string, by: string): Promise<void> {
  await redis.write('operate', 'resume', [queue, by])
}

export async function setQueue(redis: Redis, queue: string, settings: QueueSettings, by: string): Promise<void> {
  const { concurrency = null, rate = null } = settings.flow ?? {}
  const limit = settings.flow === undefined ? '' : JSON.stringify({ ...NO_LIMIT, concurrency, rate })
  const args = [queue, JSON.stringify(settings), by, limit]
  let { value: isDone } = await redis.write<string>('operate', 'setQueue', args)
  // A queue in which many jobs wait is told in portions. When this process dies, upkeep goes on.
  while (isDone !== '1') isDone = (await redis.write<string>('operate', 'renew', [queue])).value
}

export async function openQueues(
  redis: Redis,
  names: readonly string[],
  { by, most, max }: { readonly by: string; readonly most: number; readonly max: number },
): Promise<boolean> {
  try {
    return (await redis.write<number>('operate', 'openQueues', [by, most, max, ...names])).value === 1
  } catch (error) {
    throw redis.refusal(error) === 'HFQUEUES' ? tooManyQueues(names, max) : error
  }
}

export async function removeQueue(redis: Redis, name: string, by: string): Promise<'removed' | 'busy' | 'missing'> {
  return (await redis.write<'removed' | 'busy' | 'missing'>('operate', 'removeQueue', [name, by])).value
}

/** A queue with when it became known. */
export interface KnownQueue extends QueueView {
  readonly createdAtMs: number
}

const PORTION = 1_000

/** Every queue, by name. */
export async function allQueues(redis: Redis): Promise<KnownQueue[]> {
  const found: KnownQueue[] = []
  for (let after = ''; ; after = found.at(-1)!.name) {
    const { value } = await redis.read<string[]>('look', 'queues', [after, PORTION])
    for (let at = 0; at < value.length; at += 4) {
      const [name, paused, settings, created] = value.slice(at, at + 4) as [string, string, string, string]
      found.push({ name, paused: paused === '1', settings: JSON.parse(settings), createdAtMs: Number(created) })
    }
    if (value.length < 4 * PORTION) return found
  }
}

export async function queues(redis: Redis): Promise<readonly QueueView[]> {
  return (await allQueues(redis)).map(({ name, paused, settings }) => ({ name, paused, settings }))
}

// A queue that is spread over several shards of a cluster: which shards have it. The first shard keeps that for all such queues, and every
// process reads it about once a second. Settings and the pause are copied to each of its shards; the shard of its name, its home, has
// the ones that count.

import type { QueueSettings } from '../../core/views.js'
import { lua } from './lua.js'
import type { Purpose, Redis } from './redis.js'

/**
 * spread, in the first shard: ARGV queue, numbers of the shards for new jobs with commas; '' when the queue is removed. Answers with the
 *   numbers of all shards that it ever had.
 * spreads: answers with two values for each queue: its name, "<shards for new jobs> <all shards>".
 * mirror, in the others: ARGV queue, settings or '' to leave them, '1' or '0' for paused or not, or ''.
 */
export const SPREAD: string = lua`
writes('spread', {}, function(work, args)
  local queue, current = args[3], args[4]
  if current == '' then
    setField(work, 'spread', queue, false)
    return ''
  end
  local _, all = string.match(getField(work, 'spread', queue) or '', '^(%S+) (%S+)$')
  local seen, numbers = {}, {}
  for number in string.gmatch((all and all .. ',' or '') .. current, '%d+') do
    if not seen[number] then numbers[#numbers + 1] = number end
    seen[number] = true
  end
  local joined = table.concat(numbers, ',')
  setField(work, 'spread', queue, current .. ' ' .. joined)
  return joined
end)

reads('spreads', function(work) return redis.call('HGETALL', work.b .. 'spread') end)

writes('mirror', { 'allow-oom' }, function(work, args)
  local name, settings, paused = args[3], args[4], args[5]
  openQueue(work, name)
  if settings ~= '' then
    setField(work, 'q:' .. name, 'settings', settings)
    queueOf(work, name).settings = settings
  end
  if paused ~= '' then setField(work, 'q:' .. name, 'paused', paused == '1' and '1' or false) end
  if paused == '0' then wake(work, name) end
  return {}
end)
`

/** Which shards have a queue. */
export interface Spread {
  /** Those that new jobs go to. */
  readonly current: readonly number[]
  /** Those that it ever had: jobs may wait there. The home of the queue is the first. */
  readonly all: readonly number[]
}

/** The shards of a queue with this home, evenly over the masters: `masters` has that of each shard. */
export function shardsFrom(home: number, count: number, masters: readonly string[]): number[] {
  const chosen = [home]
  const others = masters.map((_, distance) => (home + distance) % masters.length).slice(1)
  while (chosen.length < count) {
    const countOn = (shard: number) => chosen.filter((each) => masters[each] === masters[shard]).length
    const next = others.reduce((best, shard) => (countOn(shard) < countOn(best) ? shard : best))
    chosen.push(...others.splice(others.indexOf(next), 1))
  }
  return chosen
}

export async function readSpreads(redis: Redis, purpose: Purpose): Promise<ReadonlyMap<string, Spread>> {
  const { value } = await redis.read<string[]>(purpose, 'spreads', [])
  const found = new Map<string, Spread>()
  for (let at = 0; at < value.length; at += 2) {
    const [current, all] = value[at + 1]!.split(' ').map((numbers) => numbers.split(',').map(Number))
    found.set(value[at]!, { current: current!, all: all! })
  }
  return found
}

/** Notes which shards have a queue from now on, beside those that it had. None when it is removed. */
export async function noteSpread(redis: Redis, queue: string, current: readonly number[]): Promise<void> {
  await redis.write('operate', 'spread', [queue, current.join(',')])
}

/** Copies what holds for a queue to another of its shards. */
export async function mirror(
  redis: Redis,
  queue: string,
  { settings, paused }: { readonly settings?: QueueSettings; readonly paused?: boolean },
): Promise<void> {
  const isPaused = paused === undefined ? '' : paused ? '1' : '0'
  await redis.write('operate', 'mirror', [queue, settings === undefined ? '' : JSON.stringify(settings), isPaused])
}

// What happened over time: tallies of what was done, and samples of how many jobs were in each state, in steps of ten seconds. ty:<ms> has
// "<queue> <part>" → number, sm:<ms> "<queue>" → seven numbers. The queue '' stands for all together, so that no reader adds them up.

import {
  BUCKET_MS,
  NO_TALLY,
  type QueueTally,
  type Rates,
  type SeriesPoint,
  type SeriesRequest,
} from '../../core/operating.js'
import { seriesSteps } from '../../core/series.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { addDepths, type CountedDepth, readDepth } from './stats.js'

/**
 * tally: ARGV step in ms, then queue, part, number. sample: ARGV step in ms; answers 1 when this call took it.
 * buckets: ARGV queue, parts…; '\n', steps. Answers for each step with the numbers of its parts and its sample, or ''.
 */
export const SERIES: string = lua`
writes('tally', { 'allow-oom' }, function(work, args)
  local bucket = text(work.t - work.t % tonumber(args[3]))
  setScore(work, 'series', bucket, bucket)
  for i = 4, #args, 3 do
    later(work, 'HINCRBYFLOAT', 'ty:' .. bucket, args[i] .. ' ' .. args[i + 1], args[i + 2])
    later(work, 'HINCRBYFLOAT', 'ty:' .. bucket, ' ' .. args[i + 1], args[i + 2])
  end
  return {}
end)

writes('sample', { 'allow-oom' }, function(work, args)
  local bucket = text(work.t - work.t % tonumber(args[3]))
  if redis.call('EXISTS', work.b .. 'sm:' .. bucket) == 1 then return 0 end
  local sum = { 0, 0, 0, 0, 0, 0, 0 }
  for _, name in ipairs(redis.call('ZRANGE', work.b .. 'queues', 0, -1)) do
    local depth = depthOf(work, name)
    for i = 1, 6 do sum[i] = sum[i] + depth[i] end
    sum[7] = math.max(sum[7], depth[7])
    setField(work, 'sm:' .. bucket, name, table.concat(depth, ' '))
  end
  setField(work, 'sm:' .. bucket, '', table.concat(sum, ' '))
  setScore(work, 'series', bucket, bucket)
  return 1
end)

reads('buckets', function(work, args)
  local queue, fields, answer, from = args[3], {}, {}, 4
  while args[from] ~= '\n' do
    fields[#fields + 1] = queue .. ' ' .. args[from]
    from = from + 1
  end
  for i = from + 1, #args do
    local sums = redis.call('HMGET', work.b .. 'ty:' .. args[i], unpack(fields))
    for _, value in ipairs(sums) do answer[#answer + 1] = value or '0' end
    local sample = redis.call('HGET', work.b .. 'sm:' .. args[i], queue)
    if not sample and redis.call('EXISTS', work.b .. 'sm:' .. args[i]) == 1 then sample = '0 0 0 0 0 0 0' end
    answer[#answer + 1] = sample or ''
  end
  return answer
end)

reads('steps', function(work, args)
  return redis.call('ZRANGEBYSCORE', work.b .. 'series', args[3], args[4])
end)
`

type Part = keyof typeof NO_TALLY
const PARTS = Object.keys(NO_TALLY) as readonly Part[]
/** Steps that one call reads. */
const PORTION = 1_000

export async function tally(redis: Redis, tallies: readonly QueueTally[]): Promise<void> {
  const args = tallies.flatMap((each) =>
    PARTS.filter((part) => each[part] !== 0).flatMap((part) => [each.queue, part, String(each[part])]),
  )
  if (args.length > 0) await redis.write('upkeep', 'tally', [BUCKET_MS, ...args])
}

export async function sample(redis: Redis): Promise<boolean> {
  return (await redis.write<number>('upkeep', 'sample', [BUCKET_MS])).value === 1
}

interface Bucket {
  readonly atMs: number
  readonly tally: typeof NO_TALLY
  readonly depth: SeriesPoint['depth']
}

/** `shards` are those to look at: all, or that of the queue. */
export async function series(
  shards: readonly Redis[],
  { queue, sinceMs, stepMs }: SeriesRequest,
): Promise<readonly SeriesPoint[]> {
  const { nowMs } = await shards[0]!.read('look', 'now', [])
  const steps = seriesSteps({ sinceMs, stepMs }, nowMs)
  const first = steps[0] ?? nowMs
  const found = await Promise.all(
    shards.map(async (redis) => {
      const { value: known } = await redis.read<string[]>('look', 'steps', [first, nowMs])
      return readBuckets(redis, queue ?? '', known)
    }),
  )
  const buckets = found.length === 1 ? found[0]! : together(found.flat())
  return steps.map((atMs): SeriesPoint => {
    const within = buckets.filter((bucket) => bucket.atMs >= atMs && bucket.atMs < atMs + stepMs)
    const depth = within.filter((bucket) => bucket.depth !== null).at(-1)?.depth ?? null
    return { at: new Date(atMs), depth, ...addTallies(within) }
  })
}

/** Those of several shards, each ten seconds as one. */
function together(all: readonly Bucket[]): Bucket[] {
  const byTime = new Map<number, Bucket>()
  for (const { atMs, tally, depth } of all) {
    const known = byTime.get(atMs)
    if (known === undefined) byTime.set(atMs, { atMs, tally, depth })
    else {
      const depths = [known.depth, depth].filter((each) => each !== null) as CountedDepth[]
      byTime.set(atMs, {
        atMs,
        tally: addTallies([known, { atMs, tally, depth }]),
        depth: depths.length === 0 ? null : addDepths(depths),
      })
    }
  }
  return [...byTime.values()].sort((one, other) => one.atMs - other.atMs)
}

async function readBuckets(redis: Redis, queue: string, steps: readonly string[]): Promise<Bucket[]> {
  const found: Bucket[] = []
  const width = PARTS.length + 1
  for (let at = 0; at < steps.length; at += PORTION) {
    const asked = steps.slice(at, at + PORTION)
    const { value } = await redis.read<string[]>('look', 'buckets', [queue, ...PARTS, '\n', ...asked])
    for (const [index, step] of asked.entries()) {
      const values = value.slice(index * width, (index + 1) * width)
      const sample = values.at(-1)!
      const tally = { ...NO_TALLY, ...Object.fromEntries(PARTS.map((part, place) => [part, Number(values[place])])) }
      const depth = sample === '' ? null : readDepth(sample.split(' ').map(Number))
      found.push({ atMs: Number(step), tally, depth })
    }
  }
  return found
}

function addTallies(buckets: readonly Bucket[]): typeof NO_TALLY {
  const sum: Record<Part, number> = { ...NO_TALLY }
  for (const { tally } of buckets) for (const part of PARTS) sum[part] += tally[part]
  return sum
}

/** The rates of queues over the six full steps before the current one, which is still being counted. */
export async function ratesOf(
  redis: Redis,
  queues: readonly string[],
): Promise<{ readonly rates: readonly Rates[]; readonly nowMs: number }> {
  const { nowMs } = await redis.read('look', 'now', [])
  const endMs = nowMs - (nowMs % BUCKET_MS)
  const { value: steps } = await redis.read<string[]>('look', 'steps', [endMs - 60_000, endMs - 1])
  const rates = await Promise.all(
    queues.map(async (queue): Promise<Rates> => {
      const { enqueued, succeeded, failed, dead } = addTallies(await readBuckets(redis, queue, steps))
      return { enqueued: enqueued / 60, succeeded: succeeded / 60, failed: failed / 60, dead: dead / 60 }
    }),
  )
  return { rates, nowMs }
}

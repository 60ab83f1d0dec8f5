// Lists and counts over several shards: the portions of all, merged in the order of ids. ◄── store.ts · next: ../list.ts

import type { JobFilter } from '../../../core/job-filter.js'
import type { CountResult } from '../../../core/operating.js'
import type { JobPage, ListRequest } from '../../../core/operator-store.js'
import { type SeenJob, summaryOf } from '../get.js'
import {
  countByQueue,
  countOf,
  type FoundPage,
  knownIds,
  type NextPortion,
  newestFirst,
  type Portion,
  pageOf,
  portionsAmong,
} from '../list.js'
import type { Redis } from '../redis.js'
import type { Shards } from './shards.js'

export async function listShards(shards: Shards, request: ListRequest): Promise<JobPage> {
  const { jobs, ...page } = await findInShards(shards, request)
  return { jobs: jobs.map(summaryOf), ...page }
}

/** A page of the jobs of all shards. */
export async function findInShards(shards: Shards, request: ListRequest): Promise<FoundPage> {
  await shards.fresh()
  return pageOf(await portionsOf(shards, request.filter), request)
}

export async function countShards(
  shards: Shards,
  filter: JobFilter,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal | undefined },
): Promise<CountResult> {
  await shards.fresh()
  const counts = await Promise.all(
    shardsOf(shards, filter).map((redis) => countByQueue(redis, ofShard(shards, redis, filter))),
  )
  if (counts.every((each) => each !== null)) {
    const counted = counts.reduce((sum: number, each) => sum + each!, 0)
    return { count: Math.min(counted, max), isExact: counted <= max }
  }
  return countOf(await portionsOf(shards, filter), { max, signal })
}

/** The shards that can have jobs for a filter. */
function shardsOf(shards: Shards, { queues }: JobFilter): readonly Redis[] {
  if (queues === undefined || queues.some((name) => name.includes('*'))) return shards.all
  return [...new Set(queues.flatMap((name) => shards.partsOf(name)))].map((index) => shards.all[index]!)
}

/** The filter with only those of its queues that the shard has, where it names queues alone. */
function ofShard(shards: Shards, redis: Redis, filter: JobFilter): JobFilter {
  const { queues } = filter
  if (queues === undefined || queues.some((name) => name.includes('*'))) return filter
  return { ...filter, queues: queues.filter((name) => shards.partsOf(name).includes(shards.all.indexOf(redis))) }
}

async function portionsOf(shards: Shards, filter: JobFilter): Promise<NextPortion> {
  const among = shardsOf(shards, filter)
  const isLed = filter.keys !== undefined || filter.ids !== undefined || filter.schedules !== undefined
  // The ids that a filter leads to may be of jobs in any shard: ticks are with their schedule.
  const led = isLed
    ? (await Promise.all(shards.all.map((redis) => knownIds(redis, filter)))).flatMap((ids) => ids ?? [])
    : null
  const ids = led === null ? null : newestFirst(led)
  return merged(
    among.map((redis) => portionsAmong(redis, filter, ids)),
    ids !== null,
  )
}

/** Beside its share each shard gives a few more, so that one that has more of the newest does not need another round. */
const SHARE_MIN = 16

interface Source {
  readonly next: NextPortion
  before: string | null
  isEnd: boolean
}

/** Portions of several sources as if they were one. Each portion must continue where the last one ended. */
function merged(nexts: readonly NextPortion[], isLed: boolean): NextPortion {
  let sources: Source[] | null = null
  let waiting: SeenJob[] = []
  return async (before, count) => {
    sources ??= nexts.map((next) => ({ next, before, isEnd: false }))
    const share = Math.min(count, Math.max(SHARE_MIN, Math.ceil((2 * count) / nexts.length)))
    const open = sources.filter(({ isEnd }) => !isEnd)
    const bound = newest(open)
    // Only those that have not looked as far down as the others.
    const asked = open.filter((source) => source.before === bound || bound === null)
    const portions = await Promise.all(asked.map((source) => source.next(source.before, share)))
    let looked = 0
    for (const [at, portion] of portions.entries()) {
      advance(asked[at]!, portion)
      waiting.push(...portion.matching)
      looked += portion.looked
    }
    waiting.sort((one, other) => (one.id < other.id ? 1 : -1))
    const left = sources.filter(({ isEnd }) => !isEnd)
    const down = newest(left)
    const isEnd = left.length === 0
    const cut = isEnd || down === null ? waiting.length : waiting.findIndex(({ id }) => id < down)
    const matching = waiting.slice(0, cut === -1 ? waiting.length : cut)
    waiting = waiting.slice(matching.length)
    const last = isEnd ? (matching.at(-1)?.id ?? null) : down
    // Every shard looks at the same ids.
    return { matching, looked: isLed ? Math.ceil(looked / nexts.length) : looked, last, isEnd }
  }
}

function advance(source: Source, { last, isEnd }: Portion): void {
  source.before = last ?? source.before
  source.isEnd = isEnd
}

/** The newest id of those to which the sources have looked down; null when one has not looked yet. */
function newest(sources: readonly Source[]): string | null {
  let found: string | null = null
  for (const { before } of sources) {
    if (before === null) return null
    if (found === null || before > found) found = before
  }
  return found
}

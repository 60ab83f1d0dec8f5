// Groups dead jobs by what killed them. Looks at the newest dead jobs alone: what is more is counted as not exact.

import { fingerprint } from '../../core/fingerprint.js'
import type { DeadGroup, DeadGroupsRequest } from '../../core/operating.js'
import type { ListRequest } from '../../core/operator-store.js'
import { type SeenJob, summaryOf } from './get.js'
import { type FoundPage, findPage } from './list.js'
import type { Redis } from './redis.js'

/** The types and queues of a group come from this many of its jobs. */
const NEWEST = 100
const NAMES_MAX = 5
/** Dead jobs that one call looks at. */
const WINDOW = 20_000
const PORTION = 1_000

export function deadGroups(redis: Redis, request: DeadGroupsRequest): Promise<readonly DeadGroup[]> {
  return deadGroupsOf((asked) => findPage(redis, asked), request)
}

export async function deadGroupsOf(
  find: (request: ListRequest) => Promise<FoundPage>,
  { queue, limit, signal }: DeadGroupsRequest,
): Promise<readonly DeadGroup[]> {
  const filter = { states: ['dead'], ...(queue === null ? {} : { queues: [queue] }) } as const
  const groups = new Map<string, SeenJob[]>()
  let before: string | null = null
  let looked = 0
  do {
    const page = await find({ filter, limit: PORTION, before, signal })
    for (const job of page.jobs) {
      const mark = fingerprint(job.lastAttempt?.error ?? null)
      const known = groups.get(mark)
      if (known === undefined) groups.set(mark, [job])
      else known.push(job)
    }
    looked += page.searched
    before = page.next
  } while (before !== null && looked < WINDOW)
  const isExact = before === null
  return [...groups]
    .map(([mark, jobs]) => groupOf(mark, jobs, isExact))
    .sort((one, other) => other.count - one.count || (one.newestId < other.newestId ? 1 : -1))
    .slice(0, limit)
}

function groupOf(mark: string, jobs: readonly SeenJob[], isExact: boolean): DeadGroup {
  const newest = summaryOf(jobs[0]!)
  const oldest = summaryOf(jobs.at(-1)!)
  const few = jobs.slice(0, NEWEST)
  return {
    fingerprint: mark,
    error: newest.error === null ? null : { name: newest.error.name, message: newest.error.message },
    count: jobs.length,
    isExact,
    types: names(few.map(({ facts }) => facts.type)),
    queues: names(few.map(({ facts }) => facts.queue)),
    firstAt: oldest.finishedAt!,
    lastAt: newest.finishedAt!,
    newestId: newest.id,
  }
}

function names(all: readonly string[]): string[] {
  return [...new Set(all)].sort().slice(0, NAMES_MAX)
}

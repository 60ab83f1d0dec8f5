// Groups dead jobs by what killed them.

import { fingerprint } from '../../core/fingerprint.js'
import type { DeadGroup, DeadGroupsRequest } from '../../core/operating.js'
import { lastError } from './get.js'
import { entryOf, type Job, type Memory } from './memory.js'
import { compareText } from './ordered.js'

/** The types and queues of a group come from this many of its jobs. */
const NEWEST = 100
const NAMES_MAX = 5

export function deadGroups(memory: Memory, { queue, limit }: DeadGroupsRequest): DeadGroup[] {
  const groups = new Map<string, Job[]>()
  const dead = [...memory.jobs.values()]
    .filter((job) => job.state === 'dead' && (queue === null || job.facts.queue === queue))
    .sort((one, other) => compareText(other.facts.id, one.facts.id))
  for (const job of dead) entryOf(groups, fingerprint(lastError(job)), () => []).push(job)
  return [...groups]
    .map(([mark, jobs]) => groupOf(mark, jobs))
    .sort((one, other) => other.count - one.count || compareText(other.newestId, one.newestId))
    .slice(0, limit)
}

function groupOf(mark: string, jobs: readonly Job[]): DeadGroup {
  const [newest] = jobs
  const error = lastError(newest!)
  const few = jobs.slice(0, NEWEST)
  return {
    fingerprint: mark,
    error: error === null ? null : { name: error.name, message: error.message },
    count: jobs.length,
    isExact: true,
    types: names(few.map(({ facts }) => facts.type)),
    queues: names(few.map(({ facts }) => facts.queue)),
    firstAt: new Date(jobs.at(-1)!.ending!.finishedAtMs),
    lastAt: new Date(newest!.ending!.finishedAtMs),
    newestId: newest!.facts.id,
  }
}

function names(all: readonly string[]): string[] {
  return [...new Set(all)].sort(compareText).slice(0, NAMES_MAX)
}

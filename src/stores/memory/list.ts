// Lists and counts jobs that match a filter.

import { matches } from '../../core/filter-match.js'
import type { JobFilter } from '../../core/job-filter.js'
import type { CountResult } from '../../core/operating.js'
import type { JobPage, ListRequest } from '../../core/operator-store.js'
import { summaryOf, viewOf } from './get.js'
import { hasExpired } from './keys.js'
import type { Job, Memory } from './memory.js'
import { compareText } from './ordered.js'

export function list(memory: Memory, { filter, limit, before }: ListRequest, nowMs: number): JobPage {
  const candidates = candidatesOf(memory, filter, nowMs).filter((job) => before === null || job.facts.id < before)
  const matching = candidates.filter((job) => matches(filter, viewOf(memory, job), nowMs))
  const page = matching.slice(0, limit)
  const isLast = matching.length === page.length
  return {
    jobs: page.map((job) => summaryOf(memory, job)),
    next: isLast ? null : (page.at(-1)?.facts.id ?? null),
    searched: isLast ? candidates.length : candidates.indexOf(page.at(-1)!) + 1,
    searchedTo: null,
  }
}

export function count(memory: Memory, filter: JobFilter, max: number, nowMs: number): CountResult {
  const matching = matchingJobs(memory, filter, nowMs).length
  return { count: Math.min(matching, max), isExact: matching <= max }
}

/** Every job that matches, newest first. */
export function matchingJobs(memory: Memory, filter: JobFilter, nowMs: number): Job[] {
  return candidatesOf(memory, filter, nowMs).filter((job) => matches(filter, viewOf(memory, job), nowMs))
}

function candidatesOf(memory: Memory, filter: JobFilter, nowMs: number): Job[] {
  const jobs = [...memory.jobs.values()].sort((one, other) => compareText(other.facts.id, one.facts.id))
  if (filter.keys === undefined) return jobs
  // A key leads to the job that holds it, not to those that held it before.
  const holders = new Set(
    [...memory.keys.values()].filter((held) => !hasExpired(held, nowMs)).map((held) => held.jobId),
  )
  return jobs.filter((job) => holders.has(job.facts.id))
}

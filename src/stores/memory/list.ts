// Lists jobs, newest first, page by page.

import type { JobFilter } from '../../core/job.js'
import type { JobPage, ListRequest } from '../../core/store.js'
import { summaryOf } from './get.js'
import type { Job, Memory } from './memory.js'
import { compareText } from './ordered.js'

export function list(memory: Memory, { filter, limit, before }: ListRequest): JobPage {
  const matching = [...memory.jobs.values()]
    .filter((job) => (before === null || job.facts.id < before) && matches(job, filter))
    .sort((one, other) => compareText(other.facts.id, one.facts.id))
  const page = matching.slice(0, limit)
  return {
    jobs: page.map((job) => summaryOf(memory, job)),
    next: matching.length > page.length ? (page.at(-1)?.facts.id ?? null) : null,
  }
}

function matches({ facts, state }: Job, filter: JobFilter): boolean {
  return (
    (filter.state === undefined || filter.state === state) &&
    (filter.queue === undefined || filter.queue === facts.queue) &&
    (filter.type === undefined || filter.type === facts.type) &&
    (filter.tag === undefined || facts.tags.includes(filter.tag))
  )
}

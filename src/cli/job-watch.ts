// Watches jobs by polling: which are new or changed since the last poll. Each poll reads a few bounded lists: the newest jobs,
// those that run or retry, and those that finished lately. A job that moves twice between two polls is seen once, in its last
// state.

import type { JobFilter } from '../core/job-filter.js'
import type { JobState } from '../core/states.js'
import type { JobSummary } from '../core/views.js'
import type { Holdfast } from '../holdfast.js'

/** A job whose state or attempt changed. */
export interface JobChange {
  readonly job: JobSummary
  /** Its state at the last poll; null when it was not seen before. */
  readonly from: JobState | null
}

interface Seen {
  readonly state: JobState
  readonly attempt: number
}

const PAGE = 200
// After a burst of finished jobs only this many pages are read; the rest is not reported.
const FINISHED_PAGES_MAX = 10
const SEEN_MAX = 20_000
// Polls overlap: a job may have finished just before the last poll read its list.
const OVERLAP_MS = 2_000

/** Remembers jobs between polls. */
export class JobWatch {
  readonly #holdfast: Holdfast
  readonly #filter: JobFilter
  readonly #seen = new Map<string, Seen>()
  #polledMs: number | null = null

  constructor(holdfast: Holdfast, filter: JobFilter) {
    this.#holdfast = holdfast
    this.#filter = filter
  }

  /** What has changed since the last poll, oldest first. The first poll only remembers. */
  async poll(): Promise<readonly JobChange[]> {
    const isFirst = this.#polledMs === null
    const sinceMs = isFirst ? OVERLAP_MS : performance.now() - this.#polledMs! + OVERLAP_MS
    const startedMs = performance.now()
    const found = new Map<string, JobSummary>()
    // One after the other, so that a poll uses one connection. The last answer about a job counts.
    for (const job of await this.#list(undefined)) found.set(job.id, job)
    for (const job of await this.#list(['running', 'retrying'])) found.set(job.id, job)
    for (const job of await this.#finished(sinceMs)) found.set(job.id, job)
    this.#polledMs = startedMs
    const changes = [...found.values()].flatMap((job) => this.#compare(job))
    this.#forget()
    return isFirst ? [] : changes.sort((one, other) => momentOf(one.job).getTime() - momentOf(other.job).getTime())
  }

  #compare(job: JobSummary): JobChange[] {
    const before = this.#seen.get(job.id)
    this.#seen.delete(job.id)
    this.#seen.set(job.id, { state: job.state, attempt: job.attempt })
    const isSame = before !== undefined && before.state === job.state && before.attempt === job.attempt
    return isSame ? [] : [{ job, from: before?.state ?? null }]
  }

  /** Forgets the jobs that were not seen for longest. */
  #forget(): void {
    for (const id of this.#seen.keys()) {
      if (this.#seen.size <= SEEN_MAX) return
      this.#seen.delete(id)
    }
  }

  async #list(states: readonly JobState[] | undefined): Promise<readonly JobSummary[]> {
    const filter = this.#narrowed(states)
    return filter === null ? [] : (await this.#holdfast.list({ filter, limit: PAGE })).jobs
  }

  async #finished(sinceMs: number): Promise<readonly JobSummary[]> {
    const own = this.#narrowed(['succeeded', 'dead', 'cancelled'])
    if (own === null) return []
    const filter = { ...own, finished: [...(own.finished ?? []), { op: '<', ageMs: Math.ceil(sinceMs) } as const] }
    const jobs: JobSummary[] = []
    let cursor: string | null = null
    for (let page = 0; page < FINISHED_PAGES_MAX; page++) {
      const list: Awaited<ReturnType<Holdfast['list']>> = await this.#holdfast.list({ filter, limit: PAGE, cursor })
      jobs.push(...list.jobs)
      cursor = list.cursor
      if (cursor === null) break
    }
    return jobs
  }

  /** The filter limited to some states; null when it excludes all of them. */
  #narrowed(states: readonly JobState[] | undefined): JobFilter | null {
    if (states === undefined) return this.#filter
    const both = states.filter((state) => this.#filter.states?.includes(state) ?? true)
    return both.length === 0 ? null : { ...this.#filter, states: both }
  }
}

/** When the job got its state, as far as that is known. */
export function momentOf({
  finishedAt,
  startedAt,
  createdAt,
}: Pick<JobSummary, 'finishedAt' | 'startedAt' | 'createdAt'>): Date {
  return finishedAt ?? startedAt ?? createdAt
}

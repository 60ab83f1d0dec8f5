// Watching jobs by polling: what is new or has changed since the last look. Each look is a few bounded lists: the newest
// jobs, those that run or retry, and those that finished lately. What comes and goes between two looks is seen at its end.

import type { JobFilter, JobSummary } from '../core/job.js'
import type { JobState } from '../core/states.js'
import type { Holdfast } from '../holdfast.js'

/** A job that moved. */
export interface JobChange {
  readonly job: JobSummary
  /** Where it was at the last look; null when it was not seen before. */
  readonly from: JobState | null
}

interface Seen {
  readonly state: JobState
  readonly attempt: number
}

const PAGE = 200
// Of a burst of endings so many pages are read; the rest is not told.
const FINISHED_PAGES_MAX = 10
const SEEN_MAX = 20_000
// Looks overlap: a job may have finished just before the list of the last look was made.
const OVERLAP_MS = 2_000

/** Remembers jobs between looks. */
export class JobWatch {
  readonly #holdfast: Holdfast
  readonly #filter: JobFilter
  readonly #seen = new Map<string, Seen>()
  #lookedMs: number | null = null

  constructor(holdfast: Holdfast, filter: JobFilter) {
    this.#holdfast = holdfast
    this.#filter = filter
  }

  /** What has changed since the last look, oldest first. The first look only remembers. */
  async look(): Promise<readonly JobChange[]> {
    const isFirst = this.#lookedMs === null
    const sinceMs = isFirst ? OVERLAP_MS : performance.now() - this.#lookedMs! + OVERLAP_MS
    const startedMs = performance.now()
    const found = new Map<string, JobSummary>()
    // One after the other: a look must not take more of the store than one connection. The last answer about a job counts.
    for (const job of await this.#list(undefined)) found.set(job.id, job)
    for (const job of await this.#list(['running', 'retrying'])) found.set(job.id, job)
    for (const job of await this.#finished(sinceMs)) found.set(job.id, job)
    this.#lookedMs = startedMs
    const changes = [...found.values()].flatMap((job) => this.#note(job))
    this.#forget()
    return isFirst ? [] : changes.sort((one, other) => momentOf(one.job).getTime() - momentOf(other.job).getTime())
  }

  #note(job: JobSummary): JobChange[] {
    const before = this.#seen.get(job.id)
    this.#seen.delete(job.id)
    this.#seen.set(job.id, { state: job.state, attempt: job.attempt })
    const isSame = before !== undefined && before.state === job.state && before.attempt === job.attempt
    return isSame ? [] : [{ job, from: before?.state ?? null }]
  }

  /** Those that were not met for longest go first. */
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

  /** The filter for some states only; null when it asks for none of them. */
  #narrowed(states: readonly JobState[] | undefined): JobFilter | null {
    if (states === undefined) return this.#filter
    const both = states.filter((state) => this.#filter.states?.includes(state) ?? true)
    return both.length === 0 ? null : { ...this.#filter, states: both }
  }
}

/** When it got where it is, as well as that is known. */
export function momentOf({
  finishedAt,
  startedAt,
  createdAt,
}: Pick<JobSummary, 'finishedAt' | 'startedAt' | 'createdAt'>): Date {
  return finishedAt ?? startedAt ?? createdAt
}

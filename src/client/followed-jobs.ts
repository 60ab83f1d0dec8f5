// Which of the jobs that somebody follows have changed since the last look. Lists say that something has, the job's own history says what.
// ◄── job-events.ts

import { HoldfastError } from '../core/errors.js'
import type { JobFilter } from '../core/job-filter.js'
import type { JobStore } from '../core/job-store.js'
import { type JobPage, type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import { isFinished } from '../core/states.js'
import type { JobSummary, JobView } from '../core/views.js'
import { type JobEvent, newsOf, type Told } from './job-history.js'

/** There were more changes than a look reads: some events of these jobs are not among those given. */
export interface EventsDropped {
  readonly name: 'events.dropped'
  /** From when on they may be missing, and until when, by the store's clock. */
  readonly since: Date
  readonly until: Date
}

export interface FollowedJobs {
  /** What is new. Raises what the store raises; the next look goes on where this one was. */
  look(): AsyncGenerator<JobEvent | EventsDropped, void, undefined>
  /** True when nothing can come any more. */
  readonly isOver: boolean
}

type Reads = () => Pick<JobStore & OperatorStore, 'get' | 'list' | 'now'>

/** How many histories are read concurrently. */
const READS = 8
/** How many pages of a list one look reads. */
const PAGES_MAX = 10
/** How many jobs are remembered, those longest without a change forgotten first. */
const SEEN_MAX = 20_000
/** Looks overlap: a job may have changed just before the last one read its list. */
const OVERLAP_MS = 2_000

interface Followed {
  /** What a list shows of it when it was last told, as text. */
  readonly shown: string
  readonly told: Told | null
}

/** Changes whenever something has happened to a job, its progress aside. */
function shownOf({ state, attempt, crashes, startedAt, finishedAt }: JobSummary): string {
  return JSON.stringify([state, attempt, crashes, startedAt, finishedAt])
}

/**
 * Whether the history in a view is whole. A store reads the parts of a view one after the other, so a job that ends meanwhile may have an end without
 * the attempt before it. It has all when it had already ended at an earlier look.
 */
function isWhole(view: JobView, earlier: JobSummary | null | undefined): boolean {
  if (!isFinished(view.state)) return true
  return earlier?.state === view.state && earlier.finishedAt?.getTime() === view.finishedAt?.getTime()
}

/** Jobs by their ids, from their enqueue to their end. */
export class FollowedById implements FollowedJobs {
  readonly #store: Reads
  readonly #open = new Map<string, Followed & { readonly last: JobView | null }>()

  constructor(store: Reads, ids: readonly string[]) {
    this.#store = store
    for (const id of ids) this.#open.set(id, { shown: '', told: null, last: null })
  }

  get isOver(): boolean {
    return this.#open.size === 0
  }

  async *look(): AsyncGenerator<JobEvent, void, undefined> {
    const store = this.#store()
    const { jobs } = await store.list({ filter: { ids: [...this.#open.keys()] }, limit: PAGE_MAX, before: null })
    const listed = new Map(jobs.map((job) => [job.id, job]))
    // The progress of running jobs is in no list, and a job that only the outbox has is in none either.
    const changed = [...this.#open].flatMap(([id, { shown }]) => {
      const job = listed.get(id)
      return job === undefined || job.state === 'running' || shownOf(job) !== shown ? [id] : []
    })
    for (let from = 0; from < changed.length; from += READS) {
      const ids = changed.slice(from, from + READS)
      const views = await Promise.all(ids.map((id) => store.get(id)))
      for (const [index, id] of ids.entries()) yield* this.#news(id, views[index]!, listed.get(id))
    }
  }

  #news(id: string, view: JobView | null, listed: JobSummary | undefined): readonly JobEvent[] {
    const { told, last } = this.#open.get(id)!
    if (view === null && last === null) {
      const text = `there is no job ${id} to follow: it never existed, or was pruned`
      throw new HoldfastError('job_not_found', text, { details: { id } })
    }
    if (view === null) {
      this.#open.delete(id)
      return [{ name: 'job.deleted', id, type: last!.type, queue: last!.queue, at: null }]
    }
    if (!isWhole(view, listed ?? last)) {
      this.#open.set(id, { shown: '', told, last: view })
      return []
    }
    const news = newsOf(view, told)
    if (isFinished(view.state)) this.#open.delete(id)
    // What the list showed: where the job has gone on since, the next look reads it again.
    else this.#open.set(id, { shown: shownOf(listed ?? view), told: news.told, last: view })
    return news.events
  }
}

/** Every job that a filter matches, from the first look on. */
export class FollowedByFilter implements FollowedJobs {
  readonly #store: Reads
  readonly #filter: JobFilter
  readonly #withProgress: boolean
  readonly #seen = new Map<string, Followed>()
  /** The store's time of the first look and of the last one. */
  #sinceMs: number | null = null
  #lookedMs = 0
  readonly isOver: boolean = false

  /** `withProgress` reads each job that runs in every look. */
  constructor(store: Reads, filter: JobFilter, withProgress: boolean) {
    this.#store = store
    this.#filter = filter
    this.#withProgress = withProgress
  }

  async *look(): AsyncGenerator<JobEvent | EventsDropped, void, undefined> {
    const store = this.#store()
    const nowMs = await store.now()
    const isFirst = this.#sinceMs === null
    if (isFirst) [this.#sinceMs, this.#lookedMs] = [nowMs, nowMs]
    const { jobs, isCut } = await this.#list(nowMs)
    // What stands there already is not news: how far it has come is remembered, and its history read when it goes on.
    if (isFirst) for (const job of jobs.values()) this.#seen.set(job.id, { shown: shownOf(job), told: null })
    const changed = [...jobs.values()].filter((job) => this.#hasChanged(job)).reverse()
    for (let from = 0; from < changed.length; from += READS) {
      const views = await Promise.all(changed.slice(from, from + READS).map(({ id }) => store.get(id)))
      for (const view of views) if (view !== null) yield* this.#news(view, jobs.get(view.id)!)
    }
    const since = new Date(this.#lookedMs)
    this.#lookedMs = nowMs
    this.#forget()
    if (isCut && !isFirst) yield { name: 'events.dropped', since, until: new Date(nowMs) }
  }

  #hasChanged(job: JobSummary): boolean {
    return (this.#withProgress && job.state === 'running') || this.#seen.get(job.id)?.shown !== shownOf(job)
  }

  #news(view: JobView, listed: JobSummary): readonly JobEvent[] {
    if (!isWhole(view, listed)) return []
    const before = this.#seen.get(view.id)
    const news = newsOf(view, before?.told ?? null)
    this.#seen.delete(view.id)
    this.#seen.set(view.id, { shown: shownOf(listed), told: news.told })
    const wasThere = before !== undefined && before.told === null
    return news.events.filter(({ at }) => (at === null ? !wasThere : at.getTime() >= this.#sinceMs!))
  }

  /** Jobs that may have changed: those made since the last look, those that run or wait for a retry, those that finished since. One list after the
   *  other, so that a look uses one connection; the last answer about a job counts. */
  async #list(nowMs: number): Promise<{ readonly jobs: ReadonlyMap<string, JobSummary>; readonly isCut: boolean }> {
    const ageMs = Math.ceil(nowMs - this.#lookedMs) + OVERLAP_MS
    const jobs = new Map<string, JobSummary>()
    let isCut = false
    for (const filter of [
      { ...this.#filter, created: [{ op: '<', ageMs }] as const },
      { ...this.#filter, states: ['running', 'retrying'] as const },
      { ...this.#filter, states: ['succeeded', 'dead', 'cancelled'] as const, finished: [{ op: '<', ageMs }] as const },
    ]) {
      let page: JobPage = { jobs: [], next: null, searched: 0, searchedTo: null }
      for (let pages = 0; pages === 0 || (page.next !== null && pages < PAGES_MAX); pages++) {
        page = await this.#store().list({ filter, limit: PAGE_MAX, before: page.next })
        for (const job of page.jobs) {
          jobs.delete(job.id)
          jobs.set(job.id, job)
        }
      }
      // Of a job that runs, what was missed is told when it has ended.
      isCut ||= page.next !== null && filter.states?.[0] !== 'running'
    }
    return { jobs, isCut }
  }

  #forget(): void {
    for (const id of this.#seen.keys()) {
      if (this.#seen.size <= SEEN_MAX) return
      this.#seen.delete(id)
    }
  }
}

// What has happened to a job since somebody last looked, read from what the store keeps of it: every failed attempt, every requeue, how it ended. Pure.
// ◄── job-events.ts

import type { StoredError } from '../core/json.js'
import { type DeadReason, isFinished, type JobState } from '../core/states.js'
import type { AttemptView, JobView } from '../core/views.js'

interface AboutJob<Name extends string> {
  readonly name: Name
  readonly id: string
  readonly type: string
  readonly queue: string
  /** When, by the store's clock; null where the store does not keep it. */
  readonly at: Date | null
}

/** Something that happened to a job, whichever process ran it. Payloads and results are not part of it. */
export type JobEvent =
  | AboutJob<'job.enqueued'>
  /** Once for each attempt, also when a release gave the attempt back and it began again. */
  | (AboutJob<'job.started'> & { readonly attempt: number; readonly worker: string | null })
  /** What its handler reported last; what it reported and replaced between two looks is left out. */
  | (AboutJob<'job.progress'> & { readonly attempt: number; readonly progress: unknown })
  /** An attempt failed, and another follows. */
  | (AboutJob<'job.retrying'> & { readonly attempt: number; readonly error: StoredError })
  /** It left its worker without a failure: released, snoozed, or waiting for a signal or its children. */
  | (AboutJob<'job.waiting'> & { readonly state: JobState; readonly runAt: Date | null })
  | AboutJob<'job.succeeded'>
  | AboutJob<'job.cancelled'>
  /** The reason is null of a death that a requeue has followed before anybody looked. */
  | (AboutJob<'job.dead'> & { readonly reason: DeadReason | null; readonly error: StoredError | null })
  | (AboutJob<'job.requeued'> & { readonly by: string })
  /** Its history is gone: it was deleted, or its retention is over. */
  | AboutJob<'job.deleted'>

export const JOB_EVENTS: readonly JobEvent['name'][] = [
  'job.enqueued',
  'job.started',
  'job.progress',
  'job.retrying',
  'job.waiting',
  'job.succeeded',
  'job.cancelled',
  'job.dead',
  'job.requeued',
  'job.deleted',
]

/** How far the history of a job has been told. */
export interface Told {
  readonly attempts: number
  readonly requeues: number
  /** The last attempt whose start was told, since its last requeue. */
  readonly started: number
  readonly progress: string | null
  readonly state: JobState
}

/** What is new about a job, oldest first, and how far it is told then. `told` is null of one that nothing was told about. */
export function newsOf(
  view: JobView,
  told: Told | null,
): { readonly events: readonly JobEvent[]; readonly told: Told } {
  const teller = new Teller(view, told)
  if (told === null) teller.tell({ name: 'job.enqueued', at: view.createdAt })
  const failures = view.attempts.slice(told?.attempts ?? 0)
  for (const { at, by } of view.requeues.slice(told?.requeues ?? 0)) {
    const lasts = failures.findIndex(({ finishedAt }) => finishedAt > at)
    teller.pastLife(failures.splice(0, lasts === -1 ? failures.length : lasts))
    teller.tell({ name: 'job.requeued', at, by })
    teller.newLife()
  }
  teller.thisLife(failures)
  return { events: teller.events, told: teller.told }
}

type Untold<Event> = Event extends JobEvent ? Omit<Event, 'id' | 'type' | 'queue'> : never

class Teller {
  readonly events: JobEvent[] = []
  readonly #view: JobView
  readonly #before: Told | null
  #started: number
  #isEnded: boolean

  constructor(view: JobView, before: Told | null) {
    this.#view = view
    this.#before = before
    this.#started = before?.started ?? 0
    this.#isEnded = before !== null && isFinished(before.state)
  }

  tell(event: Untold<JobEvent>): void {
    const { id, type, queue } = this.#view
    this.events.push({ ...event, id, type, queue } as JobEvent)
  }

  /** A life that ended with a death, since a requeue came after it. */
  pastLife(failures: readonly AttemptView[]): void {
    const death = failures.at(-1) ?? null
    for (const failure of failures) this.#failed(failure, failure === death)
    if (this.#isEnded) return
    this.tell({ name: 'job.dead', at: death?.finishedAt ?? null, reason: null, error: death?.error ?? null })
  }

  newLife(): void {
    this.#started = 0
    this.#isEnded = false
  }

  thisLife(failures: readonly AttemptView[]): void {
    const { state, attempt, worker, startedAt, finishedAt, runAt } = this.#view
    const isOver = isFinished(state)
    for (const failure of failures)
      this.#failed(failure, isOver && finishedAt !== null && failure.finishedAt >= finishedAt)
    if (state === 'running' || (isOver && startedAt !== null)) this.#began(attempt, worker, startedAt)
    this.#progress()
    if (isOver && !this.#isEnded) this.#ended()
    const hasLeft = this.#before?.state === 'running' && failures.length === 0 && WAITING.includes(state)
    if (hasLeft) this.tell({ name: 'job.waiting', at: null, state, runAt })
  }

  /** A failed attempt. That of the last one is told by how the job ended. */
  #failed({ attempt, worker, startedAt, finishedAt, error }: AttemptView, isLast: boolean): void {
    this.#began(attempt, worker, startedAt)
    if (!isLast) this.tell({ name: 'job.retrying', at: finishedAt, attempt, error })
  }

  #began(attempt: number, worker: string | null, at: Date | null): void {
    if (attempt <= this.#started) return
    this.#started = attempt
    this.tell({ name: 'job.started', at, attempt, worker })
  }

  #progress(): void {
    const { progress, attempt } = this.#view
    const isNew = progress !== null && JSON.stringify(progress) !== this.#before?.progress
    if (isNew) this.tell({ name: 'job.progress', at: null, attempt, progress })
  }

  #ended(): void {
    const { state, finishedAt: at, reason, error } = this.#view
    if (state === 'dead') this.tell({ name: 'job.dead', at, reason, error })
    else this.tell({ name: state === 'succeeded' ? 'job.succeeded' : 'job.cancelled', at })
  }

  get told(): Told {
    const { attempts, requeues, progress, state } = this.#view
    return {
      attempts: attempts.length,
      requeues: requeues.length,
      started: this.#started,
      progress: progress === null ? null : JSON.stringify(progress),
      state,
    }
  }
}

const WAITING: readonly JobState[] = ['ready', 'scheduled', 'blocked']

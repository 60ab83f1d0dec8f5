// The history of a job, oldest first.

import type { Job, JobError, JobState } from '../../api/types.js'

/** One thing that happened, or that will happen next. */
export interface TimelineEvent {
  readonly key: string
  readonly kind: 'enqueued' | 'requeued' | 'failed' | 'running' | 'waiting' | 'finished'
  /** The state the job was in from then on. */
  readonly state: JobState
  readonly title: string
  readonly atMs: number
  /** How long an attempt ran; null when that is not known or nothing ran. */
  readonly ranMs: number | null
  readonly worker: string | null
  readonly error: JobError | null
}

type JobHistory = Pick<
  Job,
  | 'id'
  | 'state'
  | 'createdAt'
  | 'startedAt'
  | 'finishedAt'
  | 'runAt'
  | 'attempt'
  | 'attempts'
  | 'requeues'
  | 'worker'
  | 'reason'
  | 'error'
  | 'schedule'
  | 'cancelRequested'
>

/** What happened to the job, and at the end what it waits for or how it ended. */
export function timelineOf(job: JobHistory): readonly TimelineEvent[] {
  const past = [
    enqueued(job),
    ...job.attempts.map((attempt, index) => failed(attempt, index)),
    ...job.requeues.map(({ number, at, by }) => requeued(number, at, by)),
  ].sort((a, b) => a.atMs - b.atMs)
  const now = current(job)
  return now === null ? past : [...past, now]
}

const nothing = { ranMs: null, worker: null, error: null } as const

function enqueued(job: JobHistory): TimelineEvent {
  const by = job.schedule === null ? '' : ` by schedule ${job.schedule.name}`
  return {
    key: 'enqueued',
    kind: 'enqueued',
    state: 'ready',
    title: `Enqueued${by}`,
    atMs: timeOf(job.createdAt),
    ...nothing,
  }
}

function failed(
  { attempt, worker, startedAt, finishedAt, error }: Job['attempts'][number],
  index: number,
): TimelineEvent {
  const atMs = timeOf(finishedAt)
  const ranMs = startedAt === null ? null : Math.max(0, atMs - timeOf(startedAt))
  return {
    key: `failed ${index}`,
    kind: 'failed',
    state: 'retrying',
    title: `Attempt ${attempt} failed`,
    atMs,
    ranMs,
    worker,
    error,
  }
}

function requeued(number: number, at: string, by: string): TimelineEvent {
  return {
    key: `requeued ${number}`,
    kind: 'requeued',
    state: 'ready',
    title: `Requeued by ${by}`,
    atMs: timeOf(at),
    ...nothing,
  }
}

function current(job: JobHistory): TimelineEvent | null {
  const { state, worker } = job
  const startedMs = job.startedAt === null ? null : timeOf(job.startedAt)
  const finishedMs = timeOf(job.finishedAt ?? job.createdAt)
  const ranMs = startedMs === null ? null : Math.max(0, finishedMs - startedMs)
  const base = { key: 'now', state, worker: null, error: null, ranMs: null }
  switch (state) {
    case 'running': {
      const title = `Attempt ${job.attempt} is running${job.cancelRequested ? ', cancel requested' : ''}`
      return { ...base, kind: 'running', title, atMs: startedMs ?? finishedMs, worker }
    }
    case 'succeeded':
      return { ...base, kind: 'finished', title: `Attempt ${job.attempt} succeeded`, atMs: finishedMs, ranMs, worker }
    case 'dead':
      return { ...base, kind: 'finished', title: deadTitle(job), atMs: finishedMs, error: unseenError(job) }
    case 'cancelled':
      return { ...base, kind: 'finished', title: 'Cancelled', atMs: finishedMs }
    case 'retrying':
      return {
        ...base,
        kind: 'waiting',
        title: `Attempt ${job.attempt + 1} starts`,
        atMs: timeOf(job.runAt ?? job.createdAt),
      }
    case 'scheduled':
      return { ...base, kind: 'waiting', title: 'Will be ready', atMs: timeOf(job.runAt ?? job.createdAt) }
    // The explanation tells why it waits; there is no time to show.
    case 'ready':
    case 'blocked':
      return null
  }
}

const DEAD_TITLES: Readonly<Record<string, string>> = {
  attempts: 'Dead: no attempts left',
  dropped: 'Dead: its handler dropped it',
  expired: 'Dead: it exceeded its maximum age',
  crashed: 'Dead: it crashed its worker too often',
  invalid: 'Dead: its payload no longer fits its schema',
}

function deadTitle({ reason }: JobHistory): string {
  return (reason === null ? undefined : DEAD_TITLES[reason]) ?? 'Dead'
}

/** Why it died, unless a failed attempt shows it already. */
function unseenError({ error, attempts }: JobHistory): JobError | null {
  if (error === null) return null
  return attempts.some((attempt) => attempt.error.message === error.message) ? null : error
}

function timeOf(iso: string): number {
  return Date.parse(iso)
}

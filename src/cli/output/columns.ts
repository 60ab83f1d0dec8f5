// Columns that several commands share: those of jobs, queues and workers.

import { type Depth, isLiveAfter, type QueueOverview } from '../../core/operating.js'
import type { JobState } from '../../core/states.js'
import type { JobSummary, WorkerView } from '../../core/views.js'
import { shortId } from '../input/ids.js'
import type { Column } from './table.js'
import type { Format } from './terminal.js'
import { spanText, whenText } from './times.js'

/** The colour of each job state. */
export const STATE_FORMAT: Readonly<Record<JobState, Format>> = {
  blocked: 'dim',
  scheduled: 'cyan',
  ready: 'cyan',
  running: 'blue',
  retrying: 'yellow',
  succeeded: 'green',
  dead: 'red',
  cancelled: 'dim',
}

type JobColumn = Column<JobSummary>

const ID: JobColumn = { name: 'id', text: ({ id }, { isShort }) => (isShort ? shortId(id) : id) }
const STATE: JobColumn = { name: 'state', text: ({ state }) => state, format: ({ state }) => STATE_FORMAT[state] }
const REASON: JobColumn = { name: 'reason', text: ({ reason }) => reason ?? '-' }
const NAMES: readonly JobColumn[] = [
  { name: 'queue', text: ({ queue }) => queue, isLong: true },
  { name: 'type', text: ({ type }) => type, isLong: true },
]
const ATTEMPT: JobColumn = {
  name: 'attempt',
  text: ({ attempt, maxAttempts }) => `${attempt}/${maxAttempts}`,
  side: 'right',
}
const CREATED: JobColumn = { name: 'created', text: ({ createdAt }, look) => whenText(createdAt, look) }
const FINISHED: JobColumn = { name: 'finished', text: ({ finishedAt }, look) => whenText(finishedAt, look) }
const RUNS: JobColumn = { name: 'runs', text: ({ runAt }, look) => whenText(runAt, look) }
const ERROR: JobColumn = { name: 'error', text: ({ error }) => errorText(error) ?? '-', isLong: true }
const REST: readonly JobColumn[] = [
  { name: 'priority', text: ({ priority }) => String(priority), side: 'right', isExtra: true },
  { name: 'worker', text: ({ worker }) => worker ?? '-', isExtra: true },
  { name: 'group', text: ({ flow }) => flow?.group ?? '-', isExtra: true },
  { name: 'limits', text: ({ flow }) => flow?.limits.join(',') || '-', isExtra: true },
  { name: 'key', text: ({ idempotencyKey }) => idempotencyKey ?? '-', isExtra: true },
  { name: 'tags', text: ({ tags }) => tags.join(',') || '-', isExtra: true },
  { name: 'schedule', text: ({ schedule }) => schedule?.name ?? '-', isExtra: true },
]

const extra = (column: JobColumn): JobColumn => ({ ...column, isExtra: true })

export const JOB_COLUMNS: readonly JobColumn[] = [
  ...[ID, STATE, ...NAMES, ATTEMPT, CREATED],
  ...[extra(RUNS), extra(FINISHED), extra(REASON), ...REST, ERROR],
]

/** For lists of dead jobs only: without the state, with the reason. */
export const DEAD_COLUMNS: readonly JobColumn[] = [
  ...[ID, REASON, ...NAMES, ATTEMPT, FINISHED],
  ...[extra(CREATED), ...REST, ERROR],
]

/** An error on one line; null when there is none. */
export function errorText(error: { readonly name: string; readonly message: string } | null): string | null {
  return error === null ? null : `${error.name}: ${error.message}`
}

const QUEUE_STATES: readonly (keyof Depth)[] = ['ready', 'running', 'scheduled', 'retrying', 'blocked', 'dead']

/** A rate for people: 0, 0.3/s, 120/s. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0'
  return `${perSecond < 10 ? Math.max(0.1, Math.round(perSecond * 10) / 10) : Math.round(perSecond).toLocaleString('en')}/s`
}

/** True when jobs are ready and no live worker serves the queue. */
export function lacksWorker({ ready, workers, paused }: QueueOverview): boolean {
  return ready > 0 && workers === 0 && !paused
}

export const QUEUE_COLUMNS: readonly Column<QueueOverview>[] = [
  {
    name: 'queue',
    text: ({ name, paused }) => (paused ? `${name} (paused)` : name),
    format: ({ paused }) => (paused ? 'yellow' : null),
    isLong: true,
  },
  ...QUEUE_STATES.map(
    (state): Column<QueueOverview> => ({
      name: state,
      text: (row) => row[state].toLocaleString('en'),
      side: 'right',
      isSpare: state === 'blocked',
      format: (row): Format | null => (state === 'dead' && row.dead > 0 ? 'red' : null),
    }),
  ),
  {
    name: 'oldest',
    text: ({ ready, oldestAgeS }) => (ready === 0 ? '-' : spanText(oldestAgeS * 1_000)),
    side: 'right',
  },
  {
    name: 'workers',
    text: ({ workers }) => String(workers),
    side: 'right',
    format: (row) => (lacksWorker(row) ? 'red' : null),
  },
  { name: 'in', isSpare: true, text: ({ rates }) => rateText(rates.enqueued), side: 'right' },
  { name: 'done', isSpare: true, text: ({ rates }) => rateText(rates.succeeded), side: 'right' },
  { name: 'failed', isSpare: true, text: ({ rates }) => rateText(rates.failed), side: 'right' },
  { name: 'slots', text: ({ slots }) => String(slots), side: 'right', isExtra: true },
]

/** True when the worker was seen lately. One that was not is gone, or cannot reach the store. */
export function isLive(worker: WorkerView): boolean {
  return isLiveAfter(Date.now() - worker.seenAt.getTime(), worker)
}

function workerState(worker: WorkerView): 'silent' | 'draining' | 'works' {
  if (!isLive(worker)) return 'silent'
  return worker.draining ? 'draining' : 'works'
}

/** How many children run its handlers, and how many of them ended before their time. */
function childrenText({ children }: WorkerView): string {
  if (children === null) return '-'
  return children.restarts === 0 ? String(children.running) : `${children.running} (${children.restarts} restarted)`
}

const WORKER_FORMAT = { silent: 'red', draining: 'yellow', works: 'green' } as const

export const WORKER_COLUMNS: readonly Column<WorkerView>[] = [
  { name: 'worker', text: ({ id }) => id, isLong: true },
  { name: 'state', text: workerState, format: (worker) => WORKER_FORMAT[workerState(worker)] },
  { name: 'slots', text: ({ running, concurrency }) => `${running}/${concurrency}`, side: 'right' },
  { name: 'children', text: childrenText, side: 'right' },
  { name: 'queues', text: ({ queues }) => queues.join(','), isLong: true },
  { name: 'seen', text: ({ seenAt }, look) => whenText(seenAt, look) },
  { name: 'started', isSpare: true, text: ({ startedAt }, look) => whenText(startedAt, look) },
  {
    name: 'jobs',
    text: ({ jobs }, { isShort }) =>
      jobs.map(({ id, type }) => `${type} ${isShort ? shortId(id) : id}`).join(',') || '-',
    isLong: true,
  },
  { name: 'host', text: ({ host }) => host, isExtra: true },
  { name: 'pid', text: ({ pid }) => String(pid), side: 'right', isExtra: true },
  { name: 'version', text: ({ version }) => version, isExtra: true },
  { name: 'types', text: ({ types }) => types?.join(',') ?? '(any)', isExtra: true },
]

// Jobs as rows of a table.

import type { JobSummary } from '../core/job.js'
import type { JobState } from '../core/states.js'
import { shortId } from './job-ids.js'
import type { Column } from './table.js'
import type { Format } from './terminal.js'
import { whenText } from './times.js'

/** The colour of each state, wherever one is shown. */
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
const ERROR: JobColumn = {
  name: 'error',
  text: ({ error }) => (error === null ? '-' : `${error.name}: ${error.message}`),
  isLong: true,
}
const REST: readonly JobColumn[] = [
  { name: 'priority', text: ({ priority }) => String(priority), side: 'right', isExtra: true },
  { name: 'worker', text: ({ worker }) => worker ?? '-', isExtra: true },
  { name: 'key', text: ({ idempotencyKey }) => idempotencyKey ?? '-', isExtra: true },
  { name: 'tags', text: ({ tags }) => tags.join(',') || '-', isExtra: true },
  { name: 'schedule', text: ({ schedule }) => schedule?.name ?? '-', isExtra: true },
]

const extra = (column: JobColumn): JobColumn => ({ ...column, isExtra: true })

export const JOB_COLUMNS: readonly JobColumn[] = [
  ...[ID, STATE, ...NAMES, ATTEMPT, CREATED],
  ...[extra(RUNS), extra(FINISHED), extra(REASON), ...REST, ERROR],
]

/** Of dead jobs, whose state goes without saying. */
export const DEAD_COLUMNS: readonly JobColumn[] = [
  ...[ID, REASON, ...NAMES, ATTEMPT, FINISHED],
  ...[extra(CREATED), ...REST, ERROR],
]

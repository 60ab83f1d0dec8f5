// Bulk actions as users ask for them: which jobs, what is done to them, how fast; or first, how many that would be.

import { checkBoolean, checkChoice, checkId, checkKeys, checkWhole } from '../core/check.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { readFilter } from '../core/filter.js'
import { isEveryJob } from '../core/filter-match.js'
import type { JobFilter } from '../core/job-filter.js'
import { BULK_ACTIONS, BULK_LIMIT_MAX, type BulkAction, type BulkView } from '../core/operating.js'
import { COUNT_WINDOW_MAX, type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import { JOB_STATES, type JobState } from '../core/states.js'

const PER_SECOND_MAX = 100_000
const BULKS_DEFAULT = 20

/** The states in which a job can be acted on. */
const CAN_BE: Readonly<Record<BulkAction, readonly JobState[]>> = {
  cancel: ['blocked', 'scheduled', 'ready', 'running', 'retrying'],
  requeue: ['dead'],
  discard: ['dead'],
  delete: ['blocked', 'scheduled', 'ready', 'retrying', 'succeeded', 'dead', 'cancelled'],
}

/** What is to be done to many jobs. Only those that exist when it is asked for are touched. */
export interface BulkRequest {
  readonly action: BulkAction
  /** Of the jobs that match, those whose state allows the action are touched. One that leaves no job out, such as '', needs
   *  `all` or `expected` beside it. */
  readonly filter: string | JobFilter
  /** True when every job is meant. Default false. */
  readonly all?: boolean
  /** How many jobs it is about, as a dry run said in `can`, from 1 to 1,000,000. When more match now, nothing is done and
   *  `wrong_state` is raised; and never are more touched. Default: any number. */
  readonly expected?: number
  /** Jobs a second, from 1 to 100,000; null, the default, for as fast as it goes. */
  readonly perSecond?: number | null
  /** The most jobs, from 1 to 1,000,000, which is the default. */
  readonly limit?: number
  /** True for a preview: the answer is what would be done, and nothing is. Default false. */
  readonly dryRun?: boolean
}

/** What a bulk action would do. */
export interface BulkPreview {
  /** Jobs that match, and those of them whose state allows the action. */
  readonly matches: number
  readonly can: number
  /** False when there may be more of either. */
  readonly isExact: boolean
}

/** Checks what was asked for. */
function resolve(request: BulkRequest) {
  checkKeys('bulk', request, ['action', 'filter', 'all', 'expected', 'perSecond', 'limit', 'dryRun'])
  const action = checkChoice('action', request.action, BULK_ACTIONS)
  const filter = readFilter(request.filter)
  const { perSecond = null, expected } = request
  const checked = {
    action,
    filter,
    narrowed: narrow(action, filter),
    perSecond: perSecond === null ? null : checkWhole('perSecond', perSecond, 1, PER_SECOND_MAX),
    limit: checkWhole('limit', request.limit ?? BULK_LIMIT_MAX, 1, BULK_LIMIT_MAX),
    most: expected === undefined ? null : checkWhole('expected', expected, 1, BULK_LIMIT_MAX),
    dryRun: checkBoolean('dryRun', request.dryRun ?? false),
  }
  checkMeant({ ...request, filter })
  return checked
}

/** Raises `invalid_option` for a bulk action on every job that does not say that every job is meant: most often its filter was
 *  forgotten, or a variable in it was empty. */
export function checkMeant({ filter, all = false, expected, dryRun }: BulkRequest): void {
  if (checkBoolean('all', all) || expected !== undefined || dryRun === true || !isEveryJob(readFilter(filter))) return
  throw invalidOption(
    'the filter of this bulk action leaves no job out: give all: true if every job is meant, or expected: how many (dryRun tells), or a filter',
  )
}

function narrow(action: BulkAction, filter: JobFilter): JobFilter {
  const asked = (filter.states ?? JOB_STATES).filter((state) => !filter.notStates?.includes(state))
  const states = asked.filter((state) => CAN_BE[action].includes(state))
  if (states.length > 0) return { ...filter, states }
  throw invalidOption(
    `the filter names only jobs that cannot be touched by ${action}, which is for those that are ${CAN_BE[action].join(', ')}; it asks for ${asked.join(', ') || 'none'}`,
  )
}

/** Says what a bulk action would do. */
async function preview(store: OperatorStore, filter: JobFilter, narrowed: JobFilter): Promise<BulkPreview> {
  const [all, able] = [
    await store.count(filter, { max: COUNT_WINDOW_MAX }),
    await store.count(narrowed, { max: COUNT_WINDOW_MAX }),
  ]
  return { matches: all.count, can: able.count, isExact: all.isExact && able.isExact }
}

/** Writes a bulk action down, to be done by upkeep; or says what it would do. */
export async function bulk(
  store: OperatorStore,
  request: BulkRequest,
  { id, by }: { readonly id: string; readonly by: string },
): Promise<BulkView | BulkPreview> {
  const { action, filter, narrowed, perSecond, limit, most, dryRun } = resolve(request)
  if (dryRun) return preview(store, filter, narrowed)
  const expected = await store.count(narrowed, { max: COUNT_WINDOW_MAX })
  if (most !== null && expected.count > most) {
    const found = `${expected.isExact ? '' : 'at least '}${expected.count}`
    throw new HoldfastError(
      'wrong_state',
      `this bulk action was expected to ${action} ${most} jobs, and ${found} match: nothing was done; look again with dryRun`,
      { details: { expected: most, matches: expected.count } },
    )
  }
  // The count was taken before: jobs that came since are not among those that were expected.
  return store.startBulk({
    id,
    action,
    filter: narrowed,
    by,
    perSecond,
    limit: Math.min(limit, most ?? limit),
    expected,
  })
}

export interface BulksOptions {
  /** The most to show, from 1 to 200. Default 20. */
  readonly limit?: number
}

export async function bulks(store: OperatorStore, options: BulksOptions = {}): Promise<readonly BulkView[]> {
  checkKeys('bulks', options, ['limit'])
  return store.bulks(checkWhole('limit', options.limit ?? BULKS_DEFAULT, 1, PAGE_MAX))
}

export async function cancelBulk(store: OperatorStore, id: string, by: string): Promise<BulkView> {
  const ended = await store.cancelBulk(checkId('id', id), by)
  if (ended !== null) return ended
  throw new HoldfastError('bulk_not_found', `there is no bulk action ${id}: bulks() lists the newest`, {
    details: { id },
  })
}

// Bulk actions as users ask for them: which jobs, what is done to them, how fast; or first, how many that would be.

import { checkBoolean, checkChoice, checkId, checkKeys, checkWhole } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import { readFilter } from '../core/filter.js'
import type { JobFilter } from '../core/job.js'
import { BULK_ACTIONS, BULK_LIMIT_MAX, type BulkAction, type BulkView } from '../core/operating.js'
import { JOB_STATES, type JobState } from '../core/states.js'
import { COUNT_WINDOW_MAX, PAGE_MAX, type Store } from '../core/store.js'

const PER_SECOND_MAX = 100_000
const BULKS_DEFAULT = 20

/** The states in which a job can be acted on. */
const CAN_BE: Readonly<Record<BulkAction, readonly JobState[]>> = {
  cancel: ['blocked', 'scheduled', 'ready', 'running', 'retrying'],
  requeue: ['dead'],
  discard: ['dead'],
}

/** What is to be done to many jobs. Only those that exist when it is asked for are touched. */
export interface BulkRequest {
  readonly action: BulkAction
  /** Of the jobs that match, those whose state allows the action are touched. */
  readonly filter: string | JobFilter
  /** So many jobs a second, from 1 to 100,000; null, the default, for as fast as it goes. */
  readonly perSecond?: number | null
  /** The most jobs, from 1 to 1,000,000, which is the default. */
  readonly limit?: number
  /** True to be told what would be done, and do nothing. Default false. */
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
function resolve(request: BulkRequest): Required<BulkRequest> & { filter: JobFilter; narrowed: JobFilter } {
  checkKeys('bulk', request, ['action', 'filter', 'perSecond', 'limit', 'dryRun'])
  const action = checkChoice('action', request.action, BULK_ACTIONS)
  const filter = readFilter(request.filter)
  const { perSecond = null } = request
  return {
    action,
    filter,
    narrowed: narrow(action, filter),
    perSecond: perSecond === null ? null : checkWhole('perSecond', perSecond, 1, PER_SECOND_MAX),
    limit: checkWhole('limit', request.limit ?? BULK_LIMIT_MAX, 1, BULK_LIMIT_MAX),
    dryRun: checkBoolean('dryRun', request.dryRun ?? false),
  }
}

function narrow(action: BulkAction, filter: JobFilter): JobFilter {
  const asked = (filter.states ?? JOB_STATES).filter((state) => !filter.notStates?.includes(state))
  const states = asked.filter((state) => CAN_BE[action].includes(state))
  if (states.length > 0) return { ...filter, states }
  throw new HoldfastError(
    'invalid_option',
    `the filter names only jobs that cannot be touched by ${action}, which is for those that are ${CAN_BE[action].join(', ')}; it asks for ${asked.join(', ') || 'none'}`,
  )
}

/** Says what a bulk action would do. */
async function preview(store: Store, filter: JobFilter, narrowed: JobFilter): Promise<BulkPreview> {
  const [all, able] = [
    await store.count(filter, { max: COUNT_WINDOW_MAX }),
    await store.count(narrowed, { max: COUNT_WINDOW_MAX }),
  ]
  return { matches: all.count, can: able.count, isExact: all.isExact && able.isExact }
}

/** Writes a bulk action down, to be done by upkeep; or says what it would do. */
export async function bulk(
  store: Store,
  request: BulkRequest,
  { id, by }: { readonly id: string; readonly by: string },
): Promise<BulkView | BulkPreview> {
  const { action, filter, narrowed, perSecond, limit, dryRun } = resolve(request)
  if (dryRun) return preview(store, filter, narrowed)
  const expected = await store.count(narrowed, { max: COUNT_WINDOW_MAX })
  return store.startBulk({ id, action, filter: narrowed, by, perSecond, limit, expected })
}

export interface BulksOptions {
  /** The most to show, from 1 to 200. Default 20. */
  readonly limit?: number
}

export async function bulks(store: Store, options: BulksOptions = {}): Promise<readonly BulkView[]> {
  checkKeys('bulks', options, ['limit'])
  return store.bulks(checkWhole('limit', options.limit ?? BULKS_DEFAULT, 1, PAGE_MAX))
}

export async function cancelBulk(store: Store, id: string, by: string): Promise<BulkView> {
  const ended = await store.cancelBulk(checkId('id', id), by)
  if (ended !== null) return ended
  throw new HoldfastError('bulk_not_found', `there is no bulk action ${id}: bulks() lists the newest`, {
    details: { id },
  })
}

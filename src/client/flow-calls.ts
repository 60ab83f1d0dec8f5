// What operators ask about limits, groups and breakers: checked arguments in, the store's word out.

import { checkBoolean, checkId, checkKeys, checkName, checkText, checkWhole } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import { GROUP_LENGTH_MAX, type JobFlow } from '../core/flow/job-flow.js'
import {
  checkGroup,
  checkLimitName,
  type GroupOverrideOptions,
  type NamedLimitOptions,
  resolveLimit,
  resolveOverride,
} from '../core/flow/resolve.js'
import type { FlowStanding, GroupView, LimitView, Neighbours, StoppedGroup, TrackView } from '../core/flow/views.js'
import { type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import { refusal } from './job-actions.js'

const GROUPS_DEFAULT = 50

/** Which groups of a queue to show. */
export interface GroupsOptions {
  /** Groups whose names begin with it. Default: all. */
  readonly prefix?: string
  /** Where the page before this one ended. */
  readonly cursor?: string
  /** From 1 to 200. Default 50. */
  readonly limit?: number
  /** True for those alone that are paused or have settings of their own. Default false. */
  readonly own?: boolean
}

export interface GroupList {
  readonly groups: readonly GroupView[]
  /** Give it to the next call; null at the end. */
  readonly cursor: string | null
}

export async function setLimit(
  store: OperatorStore,
  name: string,
  options: NamedLimitOptions,
  by: string,
): Promise<LimitView> {
  const checked = checkLimitName('limit', name)
  return store.setLimit(checked, resolveLimit(checked, options), by)
}

export async function removeLimit(store: OperatorStore, name: string, by: string): Promise<void> {
  const result = await store.removeLimit(checkLimitName('limit', name), by)
  if (result === 'removed') return
  if (result === 'missing') throw limitNotFound(name)
  throw limitInUse(name)
}

/** The error of a limit that jobs or schedules name. */
export function limitInUse(name: string): HoldfastError {
  return new HoldfastError(
    'limit_in_use',
    `limit "${name}" cannot be removed: a job that is unfinished or dead names it, or a schedule; setLimit("${name}", {}) lifts it`,
    { details: { name } },
  )
}

export async function forceBreaker(
  store: OperatorStore,
  name: string,
  forced: 'open' | 'closed' | null,
  by: string,
): Promise<void> {
  if (!(await store.forceBreaker(checkLimitName('limit', name), forced, by))) throw limitNotFound(name)
}

function limitNotFound(name: string): HoldfastError {
  return new HoldfastError('limit_not_found', `there is no limit "${name}"`, { details: { name } })
}

/** A queue and one of its groups. */
interface Place {
  readonly queue: string
  readonly group: string
}

export function setGroup(
  store: OperatorStore,
  place: Place,
  options: GroupOverrideOptions | null,
  by: string,
): Promise<void> {
  const { queue, group } = checkPlace(place)
  return store.setGroup(queue, group, options === null ? null : resolveOverride(options), by)
}

export function pauseGroup(store: OperatorStore, place: Place, by: string): Promise<void> {
  const { queue, group } = checkPlace(place)
  return store.pauseGroup(queue, group, by)
}

export function resumeGroup(store: OperatorStore, place: Place, by: string): Promise<void> {
  const { queue, group } = checkPlace(place)
  return store.resumeGroup(queue, group, by)
}

function checkPlace({ queue, group }: Place): Place {
  return { queue: checkName('queue', queue), group: checkGroup(group) }
}

export async function groups(store: OperatorStore, queue: string, options: GroupsOptions = {}): Promise<GroupList> {
  checkKeys('groups', options, ['prefix', 'cursor', 'limit', 'own'])
  const { prefix, cursor, limit = GROUPS_DEFAULT, own = false } = options
  const page = await store.groups({
    queue: checkName('queue', queue),
    prefix: prefix === undefined || prefix === '' ? '' : checkText('prefix', prefix, GROUP_LENGTH_MAX),
    after: cursor === undefined ? null : checkText('cursor', cursor, GROUP_LENGTH_MAX),
    limit: checkWhole('limit', limit, 1, PAGE_MAX),
    own: checkBoolean('own', own),
  })
  return { groups: page.groups, cursor: page.next }
}

const STOPPED_DEFAULT = 100

export async function stoppedGroups(
  store: OperatorStore,
  options: { readonly limit?: number } = {},
): Promise<readonly StoppedGroup[]> {
  checkKeys('stoppedGroups', options, ['limit'])
  return store.stoppedGroups(checkWhole('limit', options.limit ?? STOPPED_DEFAULT, 1, PAGE_MAX))
}

/** Which queues to show the users of limits of. */
export interface LimitUsersOptions {
  /** Default: all queues. */
  readonly queues?: readonly string[]
  /** Those of this limit. Default: of all limits. */
  readonly limit?: string
}

export async function limitUsers(store: OperatorStore, options: LimitUsersOptions = {}): Promise<readonly TrackView[]> {
  checkKeys('limitUsers', options, ['queues', 'limit'])
  const { queues, limit } = options
  return store.tracks({
    queues: queues === undefined ? null : queues.map((queue) => checkName('queue', queue)),
    limit: limit === undefined ? null : checkName('limit', limit),
  })
}

const NEIGHBOURS_DEFAULT = 5

/** What flow control knows about one job. */
export interface JobFlowStatus {
  /** Null for a plain job. */
  readonly flow: JobFlow | null
  /** Null for a job without a group. */
  readonly group: (NonNullable<FlowStanding['group']> & { readonly neighbours: Neighbours }) | null
  /** The limit of its queue, where it has one, and the job's own. */
  readonly limits: FlowStanding['limits']
}

export async function jobFlow(
  store: OperatorStore,
  id: string,
  options: { readonly neighbours?: number } = {},
): Promise<JobFlowStatus> {
  checkKeys('jobFlow', options, ['neighbours'])
  const limit = checkWhole('neighbours', options.neighbours ?? NEIGHBOURS_DEFAULT, 1, PAGE_MAX)
  const standing = await store.standing(checkId('id', id))
  if (standing === null) throw refusal({ id, result: 'missing' }, { verb: 'shown', only: 'a job that exists can be' })
  const { queue, flow = null } = standing.job
  const { group = null, limits = [] } = standing.flow ?? {}
  if (group === null) return { flow, group: null, limits }
  const neighbours = await store.neighbours({ id, queue, group: group.name, limit })
  return { flow, group: { ...group, neighbours }, limits }
}

// Samples and steps of the facts about flow control.

import type { JobFlow } from '../../core/flow/job-flow.js'
import {
  type GroupOverride,
  type GroupSettings,
  type LimitSettings,
  NO_GROUP_SETTINGS,
  NO_LIMIT,
  NO_QUEUE_FLOW,
  type QueueFlow,
  type Rate,
} from '../../core/flow/settings.js'
import type { FlowState } from '../../core/flow/views.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import { newJob, OPERATOR, QUEUE } from './samples.js'
import { type ClaimSteps, claimRequest, enqueueJob } from './steps.js'

export const GROUP = 'acme'
export const LIMIT = 'stripe'

/** What a job of a group carries. */
export function inGroup(group: string = GROUP, changes: Partial<JobFlow> = {}): Pick<NewJob, 'flow'> {
  return { flow: { group, limits: [], cost: 1, ...changes } }
}

/** What a job that counts in limits carries. */
export function limitedBy(...limits: string[]): Pick<NewJob, 'flow'> {
  return { flow: { group: null, limits, cost: 1 } }
}

/** Several jobs of a group. */
export function groupJobs(count: number, group: string = GROUP, changes: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: count }, () => newJob({ ...inGroup(group), ...changes }))
}

/** Starts in a second, and starts at first. */
export function perSecond(limit: number, burst: number = limit, counts: Rate['counts'] = 'starts'): Rate {
  return { limit, perMs: 1_000, burst, counts }
}

export interface FlowChanges extends Partial<Omit<QueueFlow, 'groups'>> {
  readonly groups?: Partial<GroupSettings>
}

/** Flow control of a queue, without bounds but for the changes. */
export function flowOf({ groups = {}, ...changes }: FlowChanges = {}): QueueFlow {
  return { ...NO_QUEUE_FLOW, ...changes, groups: { ...NO_GROUP_SETTINGS, ...groups } }
}

export function setFlow(store: Store, changes: FlowChanges, queue: string = QUEUE): Promise<void> {
  return store.setQueue(queue, { limits: {}, flow: flowOf(changes) }, OPERATOR)
}

export function setLimit(store: Store, settings: Partial<LimitSettings> = {}, name: string = LIMIT): Promise<unknown> {
  return store.setLimit(name, { ...NO_LIMIT, ...settings }, OPERATOR)
}

export function setGroup(store: Store, group: string, changes: Partial<GroupOverride> | null): Promise<void> {
  const override = changes === null ? null : { concurrency: null, rate: null, weight: 1, ...changes }
  return store.setGroup(QUEUE, group, override, OPERATOR)
}

/** Enqueues jobs of a group one after the other and returns their ids. */
export async function enqueueGroup(store: Store, count: number, group: string = GROUP): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index++) ids.push(await enqueueJob(store, inGroup(group)))
  return ids
}

/** A claim of one queue with what it says about the queue. */
export async function claimFlow(
  store: Store,
  steps: ClaimSteps = {},
): Promise<{ jobs: readonly ClaimedJob[]; ids: string[]; state: FlowState }> {
  const { jobs, flow } = await store.claim(claimRequest(steps))
  const [state] = flow ?? []
  if (state === undefined) throw new Error(`the claim of ${steps.queue ?? QUEUE} says nothing about flow control`)
  return { jobs, ids: jobs.map(({ id }) => id), state }
}

/** How many of the jobs belong to each group. */
export function perGroup(jobs: readonly ClaimedJob[]): Record<string, number> {
  const counts = new Map<string, number>()
  for (const { flow } of jobs) counts.set(flow?.group ?? '', (counts.get(flow?.group ?? '') ?? 0) + 1)
  return Object.fromEntries(counts)
}

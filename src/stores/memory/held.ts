// Where jobs under flow control wait: by track and group, with the turns of the groups.

import { isTypeLimit, type JobFlow, queueLimitName, TRACKS_MAX } from '../../core/flow/job-flow.js'
import { type GroupSettings, NO_GROUP_SETTINGS } from '../../core/flow/settings.js'
import type { FlowRefusal, FullRefusal } from '../../core/flow/views.js'
import type { NewJob } from '../../core/job.js'
import { entryOf, type Job, type Memory, type Track } from './memory.js'
import { type Ordered, ordered } from './ordered.js'

/** Whether claims of a queue look at limits and groups. */
export function hasFlow(memory: Memory, queue: string): boolean {
  if (memory.tracks.has(queue) || memory.queues.get(queue)?.settings.flow !== undefined) return true
  // It was told to wait.
  return memory.limits.has(queueLimitName(queue))
}

/** The name a job's group has among those of its track. */
export function groupOf({ facts }: Pick<Job, 'facts'>): string {
  return facts.flow?.group ?? ''
}

/** Every limit a job counts in. */
export function limitsOf({ facts }: Pick<Job, 'facts'>): readonly string[] {
  return [queueLimitName(facts.queue), ...(facts.flow?.limits ?? [])]
}

export function groupSettings(memory: Memory, queue: string): GroupSettings {
  return memory.queues.get(queue)?.settings.flow?.groups ?? NO_GROUP_SETTINGS
}

/** Whether a job of this group waits for those that were enqueued before it. */
export function isOrdered(memory: Memory, queue: string, group: string): boolean {
  return group !== '' && groupSettings(memory, queue).ordered
}

/** Why a job cannot be written, or null. */
export function refusalOf(memory: Memory, { queue, flow }: NewJob): FlowRefusal | null {
  if (flow === undefined) return null
  // That of its type comes with its definition, which no worker may have started with yet.
  const limit = flow.limits.find((name) => !memory.limits.has(name) && !isTypeLimit(name))
  if (limit !== undefined) return { code: 'limit_unknown', limit }
  const tracks = memory.tracks.get(queue) ?? []
  const isKnown = tracks.some((track) => isOf(track, flow))
  return isKnown || tracks.length < TRACKS_MAX ? null : { code: 'too_many_tracks', max: TRACKS_MAX }
}

/** Why a job that would be ready now is one too many, or null. */
export function fullRefusal(memory: Memory, { queue, flow, when, after, replace }: NewJob): FullRefusal | null {
  const { maxDepth = null, groups, onFull = 'reject' } = memory.queues.get(queue)?.settings.flow ?? {}
  if (when !== null || after.length > 0 || (replace?.waitMs ?? 0) > 0) return null
  const tracks = memory.tracks.get(queue) ?? []
  const inGroups = (isCounted: (group: string) => boolean) =>
    tracks.flatMap(({ held }) => [...held].map(([name, { values }]) => (isCounted(name) ? values.length : 0)))
  if (maxDepth !== null) {
    const ready = sum(inGroups(() => true)) + (memory.ready.get(queue)?.values.length ?? 0)
    if (ready >= maxDepth) return { code: 'queue_full', queue, maxDepth, onFull }
  }
  const group = flow?.group ?? null
  const depth = groups?.maxDepth ?? null
  if (depth === null || group === null || sum(inGroups((name) => name === group)) < depth) return null
  return { code: 'group_full', queue, group, maxDepth: depth, onFull }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}

/** The track of a job, known from now on. */
export function trackFor(memory: Memory, queue: string, flow: JobFlow): Track {
  const tracks = entryOf(memory.tracks, queue, () => [])
  const known = tracks.find((track) => isOf(track, flow))
  if (known !== undefined) return known
  const track: Track = { limits: flow.limits, held: new Map(), turns: new Map(), naps: new Map() }
  tracks.push(track)
  return track
}

function isOf({ limits }: Track, flow: JobFlow): boolean {
  return limits.length === flow.limits.length && limits.every((name, index) => name === flow.limits[index])
}

/** Puts a ready job into its group, which gets a turn. */
export function hold(memory: Memory, job: Job): void {
  const { queue, flow } = job.facts
  const group = groupOf(job)
  const { held } = trackFor(memory, queue, flow!)
  entryOf(held, group, () => ordered((one, other) => compareHeld(memory, one, other))).add(job)
  offer(memory, queue, group)
}

/** Takes a ready job out of its group. */
export function unhold(memory: Memory, job: Job): void {
  const { held } = trackFor(memory, job.facts.queue, job.facts.flow!)
  const list = held.get(groupOf(job))!
  list.remove(job)
  if (list.values.length === 0) held.delete(groupOf(job))
}

/** The order of ready jobs in a group. */
export function compareHeld(memory: Memory, one: Job, other: Job): number {
  if (isOrdered(memory, one.facts.queue, groupOf(one))) return one.order - other.order
  return compareReady(one, other)
}

/** Among jobs of one priority, those in front first, then the one that has been ready longest. */
export function compareReady(one: Job, other: Job): number {
  return other.facts.priority - one.facts.priority || one.lane - other.lane || one.position - other.position
}

/** The ready jobs among which one waits for its turn. */
export function waitingWith(memory: Memory, job: Job): Ordered<Job> {
  const { queue, flow } = job.facts
  return flow === undefined ? memory.ready.get(queue)! : trackFor(memory, queue, flow).held.get(groupOf(job))!
}

/** Gives a group that has ready jobs its turn, behind the others: something may have changed for it. */
export function offer(memory: Memory, queue: string, group: string): void {
  for (const { held, turns } of memory.tracks.get(queue) ?? []) {
    if (held.has(group) && !turns.has(group)) turns.set(group, null)
  }
}

/** Gives all groups of a queue their turn. */
export function offerAll(memory: Memory, queue: string): void {
  for (const { held } of memory.tracks.get(queue) ?? []) for (const group of held.keys()) offer(memory, queue, group)
  memory.woken.add(queue)
}

/** Lets those go on that may have waited for what this job had: a slot of its queue, its group or its limits. */
export function freeSlots(memory: Memory, job: Job): void {
  const { queue, flow } = job.facts
  if (!hasFlow(memory, queue)) return
  offer(memory, queue, groupOf(job))
  const mayWait = ({ limits, held }: Track) => held.size > 0 && limits.some((name) => flow?.limits.includes(name))
  for (const [other, tracks] of memory.tracks) if (tracks.some(mayWait)) memory.woken.add(other)
  if (hasWaiting(memory, queue)) memory.woken.add(queue)
}

function hasWaiting(memory: Memory, queue: string): boolean {
  if ((memory.ready.get(queue)?.values.length ?? 0) > 0) return true
  return (memory.tracks.get(queue) ?? []).some(({ held }) => held.size > 0)
}

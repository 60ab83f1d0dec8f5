// Groups: settings of their own, paused, shown.

import { FULL } from '../../core/flow/rate.js'
import type { GroupOverride } from '../../core/flow/settings.js'
import { GROUP_READY_MAX, type GroupPage, type GroupsRequest, type GroupView } from '../../core/flow/views.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { groupOf, groupSettings, isOrdered, offer } from './held.js'
import { entryOf, type Job, type KeptGroup, type Memory, openQueue } from './memory.js'
import { compareText } from './ordered.js'

/** Whom a call is about, who makes it, and when. */
interface GroupAct {
  readonly queue: string
  readonly group: string
  readonly by: string
  readonly nowMs: number
}

export function setGroup(memory: Memory, act: GroupAct, override: GroupOverride | null): void {
  const entry = opened(memory, act)
  const before = entry.override
  // Programs set their groups at every start: only what differs is a change.
  if (JSON.stringify(before) === JSON.stringify(override)) return
  entry.override = copyOf(override)
  changed(memory, act, { action: 'set group', before, after: override })
}

export function pauseGroup(memory: Memory, act: GroupAct): void {
  setPaused(memory, act, { paused: true, action: 'pause group' })
}

export function resumeGroup(memory: Memory, act: GroupAct): void {
  setPaused(memory, act, { paused: false, action: 'resume group' })
}

function setPaused(
  memory: Memory,
  act: GroupAct,
  { paused, action }: { readonly paused: boolean; readonly action: string },
): void {
  const entry = opened(memory, act)
  if (entry.paused === paused) return
  const before = pauseOf(entry)
  Object.assign(entry, { paused, stoppedBy: null })
  changed(memory, act, { action, before, after: pauseOf(entry) })
}

function pauseOf({ paused, stoppedBy }: KeptGroup): unknown {
  return { paused, stoppedBy }
}

function opened(memory: Memory, { queue, group, nowMs }: GroupAct): KeptGroup {
  openQueue(memory, queue, nowMs)
  return groupEntry(memory, queue, group)
}

interface Change {
  readonly action: string
  readonly before: unknown
  readonly after: unknown
}

function changed(memory: Memory, act: GroupAct, { action, before, after }: Change): void {
  const { queue, group, by, nowMs } = act
  writeLine(memory, { actor: by, action, target: queue, details: { group, before, after } }, nowMs)
  offer(memory, queue, group)
  memory.woken.add(queue)
}

/** What is known of a group beside its jobs, made when there is nothing. */
export function groupEntry(memory: Memory, queue: string, group: string): KeptGroup {
  const groups = entryOf(memory.groups, queue, () => new Map<string, KeptGroup>())
  return entryOf(groups, group, () => ({
    ...{ override: null, paused: false, stoppedBy: null, emptyAtMs: FULL, notBeforeMs: 0 },
  }))
}

/** Pauses the group of a job that died, where the queue asks for it. */
export function stopGroup(memory: Memory, job: Job): void {
  const { queue, id } = job.facts
  const group = groupOf(job)
  if (!isOrdered(memory, queue, group) || groupSettings(memory, queue).onDead !== 'stop') return
  const entry = groupEntry(memory, queue, group)
  entry.paused = true
  entry.stoppedBy = id
}

/** Whether a dead job goes back to its own place: nothing of its group has overtaken it. */
export function keepsPlace(memory: Memory, job: Job): boolean {
  const { queue } = job.facts
  return isOrdered(memory, queue, groupOf(job)) && groupSettings(memory, queue).onDead === 'stop'
}

export function groups(memory: Memory, request: GroupsRequest, nowMs: number): GroupPage {
  const { queue, prefix, after, limit, own = false } = request
  const views = groupViews(memory, queue, nowMs)
    .filter(({ group }) => group.startsWith(prefix) && (after === null || compareText(group, after) > 0))
    .filter((view) => !own || isShown(view))
    .sort((one, other) => compareText(one.group, other.group))
  const page = views.slice(0, limit)
  return { groups: page, next: views.length > page.length ? page.at(-1)!.group : null }
}

function groupViews(memory: Memory, queue: string, nowMs: number): GroupView[] {
  const counts = new Map<string, { ready: number; running: number }>()
  for (const job of memory.jobs.values()) {
    const group = groupOf(job)
    if (group === '' || job.facts.queue !== queue || (job.state !== 'ready' && job.state !== 'running')) continue
    entryOf(counts, group, () => ({ ready: 0, running: 0 }))[job.state]++
  }
  const kept = memory.groups.get(queue) ?? new Map<string, KeptGroup>()
  const names = new Set([...counts.keys(), ...[...kept].filter(([, entry]) => isShown(entry)).map(([name]) => name)])
  return [...names].map((group) => {
    const { ready = 0, running = 0 } = counts.get(group) ?? {}
    const { override = null, paused = false, stoppedBy = null, notBeforeMs = 0 } = kept.get(group) ?? {}
    const until = notBeforeMs > nowMs ? new Date(notBeforeMs) : null
    return { group, ready: Math.min(ready, GROUP_READY_MAX), running, paused, stoppedBy, until, override }
  })
}

function isShown({ override, paused }: Pick<KeptGroup, 'override' | 'paused'>): boolean {
  return override !== null || paused
}

/** Drops what is known of groups that are like any other by now; returns how many. */
export function pruneGroups(memory: Memory, nowMs: number): number {
  let dropped = 0
  for (const [queue, entries] of memory.groups) {
    const rate = groupSettings(memory, queue).rate
    const fillMs = rate === null ? 0 : (rate.burst * rate.perMs) / rate.limit
    for (const [group, entry] of entries) {
      const isUsual = !isShown(entry) && entry.notBeforeMs <= nowMs && entry.emptyAtMs + fillMs <= nowMs
      if (isUsual && entries.delete(group)) dropped++
    }
  }
  return dropped
}

/** Drops the tracks that no job has any more: they make room for others. */
export function pruneTracks(memory: Memory): void {
  const used = new Set<string>()
  const nameOf = (queue: string, limits: readonly string[]) => JSON.stringify([queue, ...limits])
  for (const { facts, state } of memory.jobs.values()) {
    const isOver = state === 'succeeded' || state === 'cancelled'
    if (facts.flow !== undefined && !isOver) used.add(nameOf(facts.queue, facts.flow.limits))
  }
  for (const [queue, tracks] of memory.tracks) {
    const kept = tracks.filter(({ limits }) => used.has(nameOf(queue, limits)))
    tracks.splice(0, tracks.length, ...kept)
  }
}

// Schedules: kept, due, and fired.

import type { Schedule, ScheduleView } from '../../core/job.js'
import { isFinished } from '../../core/states.js'
import type { DueSchedules, Fired, FireRequest } from '../../core/store.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { enqueueTick } from './enqueue.js'
import { entryOf, type KeptSchedule, type Memory } from './memory.js'
import { compareText } from './ordered.js'

export function due(memory: Memory, limit: number, nowMs: number): DueSchedules {
  const waiting = [...memory.schedules.values()]
    .filter((kept) => !kept.paused && kept.nextAtMs !== null)
    .sort((one, other) => one.nextAtMs! - other.nextAtMs! || compareText(one.schedule.name, other.schedule.name))
  const found = waiting.slice(0, limit).filter((kept) => kept.nextAtMs! <= nowMs)
  const next = waiting[found.length]
  return {
    schedules: found.map((kept) => ({ ...scheduleView(kept), nextAtMs: kept.nextAtMs! })),
    nowMs,
    nextDueMs: next === undefined ? null : Math.max(0, next.nextAtMs! - nowMs),
  }
}

export function fire(memory: Memory, request: FireRequest, nowMs: number): Fired {
  const { name, ticks } = request
  const kept = memory.schedules.get(name)
  if (kept === undefined || kept.paused || kept.nextAtMs !== request.expectedNextAtMs) return { fired: false, jobs: [] }
  const recorded = entryOf(memory.ticks, name, () => new Set())
  const jobs: string[] = []
  for (const { tickMs, job } of ticks) {
    kept.lastAtMs = tickMs
    if (recorded.has(tickMs)) continue
    recorded.add(tickMs)
    if (kept.schedule.overlap === 'skip' && isUnfinished(memory, kept.lastJobId)) continue
    const made = enqueueTick(memory, job, { name, tickMs }, nowMs)
    if (!('created' in made && made.created)) continue
    jobs.push(job.id)
    kept.lastJobId = job.id
  }
  kept.nextAtMs = request.nextAtMs
  return { fired: true, jobs }
}

function isUnfinished(memory: Memory, id: string | null): boolean {
  const job = id === null ? undefined : memory.jobs.get(id)
  return job !== undefined && !isFinished(job.state)
}

/** Who does it, and when. */
interface Act {
  readonly by: string
  readonly nowMs: number
}

export function setSchedule(memory: Memory, schedule: Schedule, nextAtMs: number, { by, nowMs }: Act): ScheduleView {
  writeLine(memory, { actor: by, action: 'set schedule', target: schedule.name }, nowMs)
  const known = memory.schedules.get(schedule.name)
  const kept = known ?? { schedule, paused: false, nextAtMs, lastAtMs: null, lastJobId: null }
  const { cron, zone } = kept.schedule
  if (cron !== schedule.cron || zone !== schedule.zone) kept.nextAtMs = nextAtMs
  kept.schedule = copyOf(schedule)
  memory.schedules.set(schedule.name, kept)
  return scheduleView(kept)
}

export function removeSchedule(memory: Memory, name: string, { by, nowMs }: Act): boolean {
  if (!memory.schedules.delete(name)) return false
  writeLine(memory, { actor: by, action: 'remove schedule', target: name }, nowMs)
  return true
}

export function pauseSchedule(memory: Memory, name: string, { by, nowMs }: Act): boolean {
  const kept = memory.schedules.get(name)
  if (kept === undefined) return false
  writeLine(memory, { actor: by, action: 'pause schedule', target: name }, nowMs)
  kept.paused = true
  return true
}

export function resumeSchedule(memory: Memory, name: string, nextAtMs: number, { by, nowMs }: Act): boolean {
  const kept = memory.schedules.get(name)
  if (kept === undefined) return false
  writeLine(memory, { actor: by, action: 'resume schedule', target: name }, nowMs)
  kept.paused = false
  kept.nextAtMs = nextAtMs
  return true
}

export function schedules(memory: Memory): ScheduleView[] {
  return [...memory.schedules.values()].map(scheduleView).sort((one, other) => compareText(one.name, other.name))
}

function scheduleView(kept: KeptSchedule): ScheduleView {
  return {
    ...kept.schedule,
    paused: kept.paused,
    nextAt: kept.nextAtMs === null ? null : new Date(kept.nextAtMs),
    lastAt: kept.lastAtMs === null ? null : new Date(kept.lastAtMs),
    lastJobId: kept.lastJobId,
  }
}

// Schedules: kept, due, and fired.

import { isTypeLimit } from '../../core/flow/job-flow.js'
import { limitUnknown } from '../../core/flow/refusals.js'
import type { ScheduleBound } from '../../core/operator-store.js'
import type { Schedule, ScheduleView } from '../../core/schedule.js'
import { SCHEDULES_MAX, tooManySchedules } from '../../core/schedule-limit.js'
import { isFinished } from '../../core/states.js'
import type { DueSchedules, Fired, FireRequest } from '../../core/upkeep-store.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { enqueueTick } from './enqueue.js'
import { entryOf, type KeptSchedule, type Memory } from './memory.js'
import { compareText } from './ordered.js'

export function due(memory: Memory, limit: number, afterQueue: string, nowMs: number): DueSchedules {
  const waiting = [...memory.schedules.values()]
    .filter((kept) => !kept.paused && kept.nextAtMs !== null)
    .sort((one, other) => one.nextAtMs! - other.nextAtMs! || compareText(one.schedule.name, other.schedule.name))
  const found = inTurns(
    waiting.filter((kept) => kept.nextAtMs! <= nowMs),
    afterQueue,
  )
  const next = waiting[Math.min(found.length, limit)]
  return {
    schedules: found.slice(0, limit).map((kept) => ({ ...scheduleView(kept), nextAtMs: kept.nextAtMs! })),
    nowMs,
    nextDueMs: next === undefined ? null : Math.max(0, next.nextAtMs! - nowMs),
  }
}

/** The first of each queue, then the second of each, and so on. */
function inTurns(waiting: readonly KeptSchedule[], afterQueue: string): KeptSchedule[] {
  const turns = new Map<string, number>()
  return waiting
    .map((kept) => {
      const { queue } = kept.schedule
      const turn = turns.get(queue) ?? 0
      turns.set(queue, turn + 1)
      return { kept, queue, turn, isBehind: compareText(queue, afterQueue) > 0 ? 0 : 1 }
    })
    .sort((one, other) => one.turn - other.turn || one.isBehind - other.isBehind || compareText(one.queue, other.queue))
    .map(({ kept }) => kept)
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

export function setSchedule(
  memory: Memory,
  schedule: Schedule,
  nextAtMs: number,
  { by, nowMs, bound }: Act & { readonly bound: ScheduleBound | undefined },
): ScheduleView {
  const known = memory.schedules.get(schedule.name)
  if (known === undefined) checkRoom(memory, schedule.name, bound)
  const limit = schedule.flow?.limits.find((name) => !memory.limits.has(name) && !isTypeLimit(name))
  if (limit !== undefined) throw limitUnknown(`schedule "${schedule.name}" was not set: it`, limit)
  // Programs set their schedules at every start: only what differs is a change.
  if (JSON.stringify(known?.schedule) !== JSON.stringify(schedule)) {
    writeLine(memory, { actor: by, action: 'set schedule', target: schedule.name }, nowMs)
  }
  const kept = known ?? {
    schedule,
    paused: false,
    nextAtMs,
    lastAtMs: null,
    lastJobId: null,
    maker: bound?.maker ?? null,
  }
  const { cron, zone } = kept.schedule
  if (cron !== schedule.cron || zone !== schedule.zone) kept.nextAtMs = nextAtMs
  kept.schedule = copyOf(schedule)
  memory.schedules.set(schedule.name, kept)
  return scheduleView(kept)
}

function checkRoom(memory: Memory, name: string, bound: ScheduleBound | undefined): void {
  if (memory.schedules.size >= SCHEDULES_MAX) throw tooManySchedules(name, SCHEDULES_MAX, false)
  if (bound === undefined) return
  const made = [...memory.schedules.values()].filter(({ maker }) => maker === bound.maker).length
  if (made >= bound.most) throw tooManySchedules(name, bound.most, true)
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

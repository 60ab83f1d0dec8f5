// Schedules of the old system, made here. ◄── run.ts

import type { ScheduleOptions, ScheduleStatus } from '../client/schedules.js'
import { checkName } from '../core/check.js'
import { isHoldfastError } from '../core/errors.js'
import type { OldSchedule, Source } from './contract.js'
import type { ImportOptions, ImportTarget } from './run.js'
import type { ImportTally } from './summary.js'

/**
 * `copy` makes each schedule here, paused, and leaves the old one as it is. `move` makes it live and has the old system forget it. Either leaves
 * a schedule alone that is here under the name.
 */
export async function importSchedules(
  source: Source,
  { holdfast }: ImportTarget,
  options: ImportOptions,
  tally: ImportTally,
): Promise<void> {
  const known = new Map((await holdfast.schedules()).map((schedule) => [schedule.name, schedule]))
  for (const old of await source.schedules()) {
    if (options.signal.aborted) return
    const name = nameOf(old)
    const problem = old.problem ?? (options.schedules === 'move' && !old.isRemovable ? FIXED : null)
    if (problem !== null) tally.scheduleStays(old.name, problem)
    else if (options.dryRun) countDry(old, known.has(name), tally)
    else await importOne(source, holdfast, { old, name, known: known.get(name) ?? null }, options, tally)
  }
}

const FIXED = 'it is in a file, where only you can take it out: use --schedules copy'

function countDry(old: OldSchedule, isThere: boolean, tally: ImportTally): void {
  tally.schedule(isThere ? 'alreadyThere' : 'imported')
  if (!isThere) tally.lacks(old.lacks, old.name)
}

interface Importing {
  readonly old: OldSchedule
  readonly name: string
  readonly known: ScheduleStatus | null
}

async function importOne(
  source: Source,
  holdfast: ImportTarget['holdfast'],
  { old, name, known }: Importing,
  options: ImportOptions,
  tally: ImportTally,
): Promise<void> {
  const by = { by: options.by }
  try {
    if (known === null) await holdfast.schedule(name, optionsOf(old, options), by)
    // Paused as soon as it is there: its first tick is a second away at least.
    if (known === null && options.schedules === 'copy') await holdfast.pauseSchedule(name, by)
  } catch (error) {
    if (!isHoldfastError(error) || error.retryable) throw error
    tally.scheduleStays(old.name, error.message)
    return
  }
  if (options.schedules === 'move') {
    // A copy of an earlier import becomes the schedule.
    if (known?.paused === true) await holdfast.resumeSchedule(name, by)
    await source.removeSchedule(old)
  }
  tally.schedule(known === null ? 'imported' : 'alreadyThere')
  if (known === null) tally.lacks(old.lacks, old.name)
}

/** Its own name where that can be one. */
function nameOf({ name }: OldSchedule): string {
  try {
    return checkName('schedule', name)
  } catch {
    return `import:${name.replace(/[^A-Za-z0-9._:/@-]/g, '_')}`.slice(0, 100)
  }
}

function optionsOf(old: OldSchedule, { types, queues }: ImportOptions): ScheduleOptions {
  return {
    job: types.get(old.type) ?? old.type,
    queue: queues.get(old.queue) ?? old.queue,
    payload: JSON.parse(old.payload),
    priority: Math.max(-32_768, Math.min(32_767, Math.trunc(old.priority))),
    ...('cron' in old.when ? { cron: old.when.cron, zone: old.zone } : { every: old.when.everyMs }),
    ...(old.untilMs === null ? {} : { until: new Date(old.untilMs) }),
    ...(old.maxAttempts === null ? {} : { maxAttempts: old.maxAttempts }),
    catchUp: old.catchUp,
    catchUpMax: old.catchUpMax,
  }
}

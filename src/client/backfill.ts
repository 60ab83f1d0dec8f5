// The ticks of a schedule that are over: which jobs they made, and jobs for those that made none.

import { checkBoolean, checkDate, checkKeys, checkTags, checkWhole, TAG_LENGTH_MAX } from '../core/check.js'
import { parseCron } from '../core/cron.js'
import { invalidOption } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { OperatorStore } from '../core/operator-store.js'
import { jobOfSchedule } from '../core/schedule.js'
import type { JobState } from '../core/states.js'
import { resolveBy } from './job-actions.js'
import type { EnqueueResult } from './job-handle.js'
import { record } from './look.js'
import { find } from './schedules.js'

const TICKS_MAX = 1_000
const PAGE = 200
/** A second backfill makes no job twice for this long. */
const KEPT_MS = 7 * 86_400_000

export interface TicksOptions {
  /** How many, from 1 to 1,000. Default 100. */
  readonly limit?: number
}

/** A tick that made a job. */
export interface TickView {
  readonly tick: Date
  readonly jobId: string
  readonly state: JobState
}

export interface BackfillOptions {
  /** The first and the last moment of the range; `to` lies not in the future. */
  readonly from: Date | string
  readonly to: Date | string
  /** True makes nothing. Default false. */
  readonly dryRun?: boolean
  /** Who does it, for the audit log. Default 'api'. */
  readonly by?: string
}

export interface Backfilled {
  /** The ticks of the range, oldest first; `jobId` is null for those that have no job. */
  readonly ticks: readonly { readonly tick: Date; readonly jobId: string | null }[]
  /** How many jobs were made now. */
  readonly made: number
}

export async function ticks(
  store: OperatorStore,
  name: string,
  options: TicksOptions = {},
): Promise<readonly TickView[]> {
  checkKeys('ticks', options, ['limit'])
  const limit = checkWhole('limit', options.limit ?? 100, 1, TICKS_MAX)
  await find(store, name)
  return newestTicks(store, name, limit)
}

async function newestTicks(store: OperatorStore, name: string, limit: number): Promise<TickView[]> {
  const found: TickView[] = []
  let before: string | null = null
  while (found.length < limit) {
    const size = Math.min(PAGE, limit - found.length)
    const page: Awaited<ReturnType<OperatorStore['list']>> = await store.list({
      filter: { schedules: [name] },
      limit: size,
      before,
    })
    for (const { id, schedule, state } of page.jobs) {
      if (schedule !== null) found.push({ tick: schedule.tick, jobId: id, state })
    }
    if (page.next === null) break
    before = page.next
  }
  return found
}

interface BackfillDeps {
  readonly store: OperatorStore
  nextId(): string
  enqueue(job: NewJob): Promise<EnqueueResult>
}

export async function backfill(deps: BackfillDeps, name: string, options: BackfillOptions): Promise<Backfilled> {
  const { store, nextId, enqueue } = deps
  checkKeys('backfill', options, ['from', 'to', 'dryRun', 'by'])
  const by = resolveBy('backfill', options.by === undefined ? {} : { by: options.by })
  const [fromMs, toMs] = [checkDate('from', options.from).getTime(), checkDate('to', options.to).getTime()]
  if (fromMs > toMs) throw invalidOption('from must not be after to', new Date(fromMs))
  if (toMs > (await store.now())) throw invalidOption('to must not be in the future', new Date(toMs))
  const isDry = checkBoolean('dryRun', options.dryRun ?? false)
  const { paused: _, nextAt: __, lastAt: ___, lastJobId: ____, ...schedule } = await find(store, name)
  const times = parseCron(schedule.cron, schedule.zone).between(fromMs, toMs, TICKS_MAX + 1)
  if (times.length > TICKS_MAX) {
    throw invalidOption(`the range has more than ${TICKS_MAX} ticks: backfill it in parts`)
  }
  const known = new Map((await newestTicks(store, name, TICKS_MAX)).map(({ tick, jobId }) => [tick.getTime(), jobId]))
  const found: { tick: Date; jobId: string | null }[] = []
  let made = 0
  for (const tickMs of times) {
    const tick = new Date(tickMs)
    let jobId = known.get(tickMs) ?? null
    if (jobId === null && !isDry) {
      const at = tick.toISOString()
      const tags = checkTags([...schedule.tags.slice(0, 14), `schedule:${name}`.slice(0, TAG_LENGTH_MAX), `tick:${at}`])
      const job = {
        ...jobOfSchedule(schedule, nextId()),
        tags,
        idempotencyKey: { key: `backfill:${name}:${at}`, ttlMs: KEPT_MS },
      }
      const { id, created } = await enqueue(job)
      jobId = id
      if (created) made++
    }
    found.push({ tick, jobId })
  }
  if (!isDry)
    await record(
      store,
      {
        action: 'backfill',
        target: name,
        details: { made, from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() },
      },
      by,
    )
  return { ticks: found, made }
}

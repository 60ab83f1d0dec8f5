// Schedules as users see them: created or changed by name, looked at, paused, run by hand.

import { checkChoice, checkKeys, checkName, checkTags, checkWhole, TAG_LENGTH_MAX, TAGS_MAX } from '../core/check.js'
import { cronText, parseCron } from '../core/cron.js'
import type { JobDefinition } from '../core/definition.js'
import type { Duration } from '../core/duration.js'
import { HoldfastError, invalidOption, show } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { OperatorStore, ScheduleBound } from '../core/operator-store.js'
import type { Schedule, ScheduleView } from '../core/schedule.js'
import { type CatchUp, jobOfSchedule, type Overlap } from '../core/schedule.js'
import { checkPriority, LIMIT_OPTIONS, type LimitOptions, resolveLimitOptions } from './define-job.js'
import { FLOW_OPTIONS, type FlowOptions, resolveFlow } from './flow-options.js'
import { encodeChecked, startingTerms } from './prepare.js'

const ZONE_DEFAULT = 'UTC'
const CATCH_UP_MAX_DEFAULT = 100
const CATCH_UP_MAX = 1_000
const RUNS_DEFAULT = 5
const RUNS_MAX = 1_000

/** When a schedule fires and the job it makes each time. */
export interface ScheduleOptions<Input = unknown> extends LimitOptions, FlowOptions {
  /** Five fields (minute, hour, day, month, weekday), six with seconds in front, or a nickname: @hourly, @daily, @weekly, @monthly, @yearly. */
  readonly cron?: string
  /** In place of cron: at the multiples of this span since 1970 (UTC), from '1s' to '366d'. */
  readonly every?: Duration
  /** Each job comes up to this much after its tick, at most '24h': the same delay in any process that fires the tick. Default none. */
  readonly jitter?: Duration
  /** There are no ticks after this time. Default: there is no end. */
  readonly until?: Date | string
  /** IANA time zone the fields are read in. Default 'UTC'. One fixed time of day that the change to summer time leaves out
   *  runs after the gap, and one that comes twice in autumn runs once; of several times a day those in the gap are left
   *  out, and those that come twice run twice. */
  readonly zone?: string
  readonly job: JobDefinition<Input, unknown> | string
  /** The payload of each of its jobs, checked now and again when each runs. Default null. */
  readonly payload?: NoInfer<Input>
  /** Default: the definition's queue, or 'default'. */
  readonly queue?: string
  /** Default: the definition's, or 0. */
  readonly priority?: number
  /** Put on each of its jobs; at most 15 together with the definition's, one is kept for runs by hand. */
  readonly tags?: readonly string[]
  /** What happens to ticks nobody was there to fire: left out, the latest one made up for (the default), or all of them. */
  readonly catchUp?: CatchUp
  /** The most ticks `all` makes up for, from 1 to 1,000. Default 100. Older ones are left out. */
  readonly catchUpMax?: number
  /** What happens to a tick while the job of an earlier one is unfinished: another job (the default), or none. */
  readonly overlap?: Overlap
}

/** A schedule as shown: its payload is the value, not the text the store keeps. */
export interface ScheduleStatus extends Omit<ScheduleView, 'payload'> {
  readonly payload: unknown
}

/** An expression to look ahead with. */
export interface CronOptions extends Pick<ScheduleOptions, 'cron' | 'every' | 'until'> {
  /** Default 'UTC'. */
  readonly zone?: string
}

const KNOWN = [
  'cron',
  'every',
  'jitter',
  'until',
  'zone',
  'job',
  'payload',
  'queue',
  'priority',
  ...LIMIT_OPTIONS,
  ...FLOW_OPTIONS,
  'tags',
  'catchUp',
  'catchUpMax',
  'overlap',
]

interface SetTerms {
  readonly by: string
  readonly payloadBytesMax: number
  readonly bound: ScheduleBound | undefined
}

/** Creates or changes a schedule. Raises `invalid_schedule` for an expression that is none or has no time to come. */
export async function setSchedule<Input>(
  store: OperatorStore,
  name: string,
  options: ScheduleOptions<Input>,
  { by, payloadBytesMax, bound }: SetTerms,
): Promise<ScheduleStatus> {
  const schedule = await resolveSchedule(name, options, payloadBytesMax)
  const [nextAt] = nextTimes(schedule, await store.now(), 1)
  return showSchedule(await store.setSchedule(schedule, nextAt!.getTime(), by, bound))
}

async function resolveSchedule<Input>(
  name: string,
  options: ScheduleOptions<Input>,
  payloadBytesMax: number,
): Promise<Schedule> {
  checkName('schedule', name)
  checkKeys(`schedule "${name}"`, options, KNOWN)
  const { zone = ZONE_DEFAULT, job } = options
  const cron = cronText(options)
  parseCron(cron, zone)
  const terms = startingTerms(job)
  const flow = resolveFlow(typeof job === 'string' ? null : job, options, options.payload ?? null)
  return {
    name,
    cron,
    zone,
    type: terms.type,
    version: terms.version,
    queue: options.queue === undefined ? terms.queue : checkName('queue', options.queue),
    priority: options.priority === undefined ? terms.priority : checkPriority(options.priority),
    limits: { ...terms.limits, ...resolveLimitOptions(options) },
    tags: checkScheduleTags([...terms.tags, ...checkTags(options.tags ?? [])]),
    catchUp: checkChoice('catchUp', options.catchUp ?? 'latest', ['skip', 'latest', 'all']),
    catchUpMax: checkWhole('catchUpMax', options.catchUpMax ?? CATCH_UP_MAX_DEFAULT, 1, CATCH_UP_MAX),
    overlap: checkChoice('overlap', options.overlap ?? 'allow', ['allow', 'skip']),
    payload: await encodeChecked(job, options.payload, payloadBytesMax),
    ...(flow === undefined ? {} : { flow }),
  }
}

function checkScheduleTags(tags: readonly string[]): readonly string[] {
  const checked = checkTags(tags)
  if (checked.length < TAGS_MAX) return checked
  throw invalidOption(
    `tags of a schedule must be at most ${TAGS_MAX - 1}, its definition's included, got ${checked.length}`,
  )
}

/** All schedules, by name. */
export async function schedules(store: OperatorStore): Promise<readonly ScheduleStatus[]> {
  return (await store.schedules()).map(showSchedule)
}

function showSchedule(view: ScheduleView): ScheduleStatus {
  return { ...view, payload: JSON.parse(view.payload) }
}

export async function removeSchedule(store: OperatorStore, name: string, by: string): Promise<void> {
  if (!(await store.removeSchedule(checkName('schedule', name), by))) throw notFound(name)
}

export async function pauseSchedule(store: OperatorStore, name: string, by: string): Promise<void> {
  if (!(await store.pauseSchedule(checkName('schedule', name), by))) throw notFound(name)
}

/** Lets it fire again, from its next time on: what fell into the pause is not made up for. */
export async function resumeSchedule(store: OperatorStore, name: string, by: string): Promise<void> {
  const schedule = await find(store, name)
  // Resuming one that fires already would move its next time past a tick that is due at this moment.
  if (!schedule.paused) return
  const [nextAt] = nextTimes(schedule, await store.now(), 1)
  if (!(await store.resumeSchedule(name, nextAt!.getTime(), by))) throw notFound(name)
}

/** The job of a run by hand: the schedule's settings, and a tag that says where it came from. */
export async function scheduledJob(store: OperatorStore, name: string, id: string): Promise<NewJob> {
  const job = jobOfSchedule(await find(store, name), id)
  return { ...job, tags: checkTags([...job.tags, `schedule:${name}`.slice(0, TAG_LENGTH_MAX)]) }
}

/** The next times of a schedule or an expression, from the store's time on; fewer when the expression has no more. */
export async function nextRuns(
  store: OperatorStore,
  source: string | CronOptions,
  count: number = RUNS_DEFAULT,
): Promise<readonly Date[]> {
  checkWhole('count', count, 1, RUNS_MAX)
  const times = typeof source === 'string' ? await find(store, source) : checkCron(source)
  return nextTimes(times, await store.now(), count)
}

interface Expression {
  readonly cron: string
  readonly zone: string
}

function checkCron(source: CronOptions): Expression {
  checkKeys('nextRuns', source, ['cron', 'every', 'until', 'zone'])
  return { cron: cronText(source), zone: source.zone ?? ZONE_DEFAULT }
}

function nextTimes({ cron, zone }: Expression, nowMs: number, count: number): readonly Date[] {
  const times = parseCron(cron, zone).following(nowMs, count)
  if (times.length > 0) return times
  throw new HoldfastError(
    'invalid_schedule',
    `cron ${show(cron)} has no time to come: no such date exists, or its end is over`,
  )
}

export async function find(store: OperatorStore, name: string): Promise<ScheduleView> {
  checkName('schedule', name)
  const schedule = (await store.schedules()).find((candidate) => candidate.name === name)
  if (schedule === undefined) throw notFound(name)
  return schedule
}

function notFound(name: string): HoldfastError {
  return new HoldfastError('schedule_not_found', `there is no schedule "${name}": schedules() lists those there are`, {
    details: { schedule: name },
  })
}

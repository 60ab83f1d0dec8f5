// What operators do and look at, over several shards. ◄── store.ts

import { limitUnknown } from '../../../core/flow/refusals.js'
import type { Overview, OverviewRequest, Rates, SeriesPoint, SeriesRequest, Standing } from '../../../core/operating.js'
import type { ScheduleBound } from '../../../core/operator-store.js'
import type { Schedule, ScheduleView } from '../../../core/schedule.js'
import { SCHEDULES_MAX, tooManySchedules } from '../../../core/schedule-limit.js'
import { ATTEMPTS_WINDOW, type Ending, type JobView, type QueueStats } from '../../../core/views.js'
import { endings } from '../endings.js'
import { among, get } from '../get.js'
import { overviewOf } from '../overview.js'
import { allQueues, type KnownQueue, openQueues } from '../queues.js'
import { schedules, setSchedule } from '../schedules.js'
import { ratesOf, series } from '../series.js'
import { standing } from '../standing.js'
import { addDepths, attemptsOf, type CountedDepth, depthsOf, statsOf } from '../stats.js'
import type { ShardEnqueue } from './enqueue.js'
import type { ShardLimits } from './limits.js'
import type { Shards } from './shards.js'

export async function getFrom(shards: Shards, id: string): Promise<JobView | null> {
  const [found] = await shards.byId(
    [id],
    async (redis) => [await get(redis, id)],
    (job) => job === null,
  )
  return found!
}

export async function endingsFrom(shards: Shards, ids: readonly string[]): Promise<readonly Ending[]> {
  const places = await shards.locate(ids)
  const known = ids.filter((_, at) => places[at] !== null)
  const found = await shards.byShard(
    known,
    (id) => shards.guess(id),
    async (redis, those) => {
      const byId = new Map((await endings(redis, those)).map((ending) => [ending.id, ending]))
      return those.map((id) => byId.get(id) ?? null)
    },
  )
  return found.filter((ending) => ending !== null)
}

export async function amongShards(
  shards: Shards,
  ids: readonly string[],
  queues: readonly string[],
): Promise<readonly string[]> {
  const own = [...new Set(queues.map((queue) => shards.of(queue)))]
  const found = new Set((await Promise.all(own.map((redis) => among(redis, ids, queues)))).flat())
  return ids.filter((id) => found.has(id))
}

export async function standingFrom(shards: Shards, limits: ShardLimits, id: string): Promise<Standing | null> {
  const [found] = await shards.byId(
    [id],
    async (redis) => [await standing(redis, id, { home: shards.home, limitsNamed: (names) => limits.named(names) })],
    (seen) => seen === null,
  )
  if (found === null || found === undefined) return null
  const parents = await Promise.all(
    found.parents.map(async (parent) => {
      const job = parent.state === null ? await getFrom(shards, parent.id) : null
      return job === null ? parent : { id: job.id, state: job.state, type: job.type, queue: job.queue }
    }),
  )
  return { ...found, parents }
}

export async function queuesOf(shards: Shards): Promise<KnownQueue[]> {
  const found = await shards.each(allQueues)
  return found.flat().sort((one, other) => (one.name < other.name ? -1 : 1))
}

function depthsFrom(shards: Shards, names: readonly string[]): Promise<CountedDepth[]> {
  return shards.byShard(names, (name) => shards.indexOf(name), depthsOf)
}

export async function statsFrom(shards: Shards, queue: string | null): Promise<QueueStats> {
  const names = queue === null ? (await queuesOf(shards)).map(({ name }) => name) : [queue]
  const of = queue === null ? shards.all : [shards.of(queue)]
  const [depths, attempts] = await Promise.all([
    depthsFrom(shards, names),
    Promise.all(of.map((redis) => attemptsOf(redis, queue, ATTEMPTS_WINDOW))),
  ])
  return statsOf(addDepths(depths), attempts.flat())
}

export function overviewFrom(shards: Shards, request: OverviewRequest): Promise<Overview> {
  return overviewOf(
    {
      home: shards.home,
      allQueues: () => queuesOf(shards),
      depthsOf: (names) => depthsFrom(shards, names),
      async ratesOf(names) {
        let nowMs = 0
        const rates = await shards.byShard<string, Rates>(
          names,
          (name) => shards.indexOf(name),
          async (redis, those) => {
            const found = await ratesOf(redis, those)
            nowMs = Math.max(nowMs, found.nowMs)
            return found.rates
          },
        )
        return { rates, nowMs: nowMs || (await shards.home.read('look', 'now', [])).nowMs }
      },
    },
    request,
  )
}

export function seriesFrom(shards: Shards, request: SeriesRequest): Promise<readonly SeriesPoint[]> {
  return series(request.queue === null ? shards.all : [shards.of(request.queue)], request)
}

export async function openQueuesIn(
  { shards, enqueueing, queuesMax }: { shards: Shards; enqueueing: ShardEnqueue; queuesMax: number },
  names: readonly string[],
  { by, most }: { readonly by: string; readonly most: number },
): Promise<boolean> {
  await enqueueing.makeRoom(names)
  const { made, fresh } = await enqueueing.census(by, names)
  if (fresh === 0) return true
  if (made + fresh > most) return false
  await shards.byShard(
    names,
    (name) => shards.indexOf(name),
    async (redis, those) => {
      await openQueues(redis, those, { by, most, max: queuesMax })
      return those
    },
  )
  return true
}

export async function schedulesOf(shards: Shards): Promise<readonly ScheduleView[]> {
  return (await shards.each(schedules)).flat().sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** A schedule is in the shard of its own name, so that it can change its queue. */
export async function setScheduleIn(
  { shards, enqueueing, limits }: { shards: Shards; enqueueing: ShardEnqueue; limits: ShardLimits },
  {
    schedule,
    nextAtMs,
    by,
    bound,
  }: {
    readonly schedule: Schedule
    readonly nextAtMs: number
    readonly by: string
    readonly bound: ScheduleBound | undefined
  },
): Promise<ScheduleView> {
  const redis = shards.of(schedule.name)
  const [unknown] = await limits.unknown(schedule.flow?.limits ?? [])
  if (unknown !== undefined) throw limitUnknown(`schedule "${schedule.name}" was not set: it`, unknown)
  const { value: known } = await redis.read<string[]>('operate', 'schedules', [schedule.name])
  if (known.length === 0) {
    const { schedules: all, madeSchedules } = await enqueueing.census(bound?.maker ?? '', [])
    if (all >= SCHEDULES_MAX) throw tooManySchedules(schedule.name, SCHEDULES_MAX, false)
    if (bound !== undefined && madeSchedules >= bound.most) throw tooManySchedules(schedule.name, bound.most, true)
  }
  return setSchedule(redis, schedule, nextAtMs, { by, bound })
}

// What operators do and look at, over several shards. ◄── store.ts

import { limitUnknown, spreadWithFlow } from '../../../core/flow/refusals.js'
import type { Overview, OverviewRequest, Rates, SeriesPoint, SeriesRequest, Standing } from '../../../core/operating.js'
import type { ScheduleBound } from '../../../core/operator-store.js'
import type { Schedule, ScheduleView } from '../../../core/schedule.js'
import { SCHEDULES_MAX, tooManySchedules } from '../../../core/schedule-limit.js'
import { ATTEMPTS_WINDOW, type Ending, type JobView, type QueueSettings, type QueueStats } from '../../../core/views.js'
import { endings } from '../endings.js'
import { among, get } from '../get.js'
import { overviewOf } from '../overview.js'
import { allQueues, type KnownQueue, openQueues, pause, removeQueue, resume, setQueue } from '../queues.js'
import type { Redis } from '../redis.js'
import { schedules, setSchedule } from '../schedules.js'
import { ratesOf, series } from '../series.js'
import { mirror, noteSpread } from '../spread.js'
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
  await shards.fresh()
  const own = [...new Set(queues.flatMap((queue) => partsOf(shards, queue)))]
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

/** How often somebody may pause and resume a queue while it is spread. */
const PAUSE_TRIES_MAX = 5

/** Each queue once. Of one that is spread, what its home says. */
export async function queuesOf(shards: Shards): Promise<KnownQueue[]> {
  await shards.fresh()
  const byName = new Map<string, KnownQueue>()
  await shards.each(async (redis, index) => {
    for (const queue of await allQueues(redis)) {
      if (!byName.has(queue.name) || shards.indexOf(queue.name) === index) byName.set(queue.name, queue)
    }
  })
  return [...byName.values()].sort((one, other) => (one.name < other.name ? -1 : 1))
}

async function depthsFrom(shards: Shards, names: readonly string[]): Promise<CountedDepth[]> {
  const parts = names.flatMap((name, place) => shards.partsOf(name).map((index) => ({ name, place, index })))
  const found = await shards.byShard(
    parts,
    ({ index }) => index,
    (redis, those) =>
      depthsOf(
        redis,
        those.map(({ name }) => name),
      ),
  )
  const byQueue: CountedDepth[][] = names.map(() => [])
  for (const [at, { place }] of parts.entries()) byQueue[place]!.push(found[at]!)
  return byQueue.map((depths) => (depths.length === 1 ? depths[0]! : addDepths(depths)))
}

/** The connections to the shards of a queue. */
const partsOf = (shards: Shards, queue: string) => shards.partsOf(queue).map((index) => shards.all[index]!)

/** Where jobs of a queue may be, its home not included, as it is now. */
async function othersOf(shards: Shards, queue: string): Promise<Redis[]> {
  await shards.fresh(0)
  return partsOf(shards, queue).filter((redis) => redis !== shards.of(queue))
}

/**
 * Sets a queue. One that is spread is noted in the first shard before its first job is anywhere but at home, and no shard that it had is
 * forgotten: what waits there is claimed like the rest.
 */
export async function setQueueIn(shards: Shards, queue: string, asked: QueueSettings, by: string): Promise<void> {
  await shards.fresh(0)
  const known = shards.spreadOf(queue)
  const { spread = known?.current.length ?? 1, ...others } = asked
  if ((spread > 1 || known !== undefined) && others.flow !== undefined) {
    throw spreadWithFlow(`and "${queue}" has ${known?.all.length ?? spread} of them`)
  }
  const settings = spread === 1 ? others : { ...others, spread }
  if (spread > 1 || known !== undefined) {
    await noteSpread(shards.home, queue, await shards.shardsFor(queue, spread))
    await shards.refresh()
  }
  await setQueue(shards.of(queue), queue, settings, by)
  const rest = partsOf(shards, queue).filter((redis) => redis !== shards.of(queue))
  await Promise.all(rest.map((redis) => mirror(redis, queue, { settings })))
  if (rest.length > 0) await mirrorPause(shards, queue, rest)
}

/** Copies the pause to shards that a queue has got, until nobody has changed it meanwhile. */
async function mirrorPause(shards: Shards, queue: string, others: readonly Redis[]): Promise<void> {
  let isCopied = false
  for (let tries = 0; tries < PAUSE_TRIES_MAX; tries++) {
    const home = (await allQueues(shards.of(queue))).find(({ name }) => name === queue)
    if ((home?.paused ?? false) === isCopied) return
    isCopied = !isCopied
    await Promise.all(others.map((redis) => mirror(redis, queue, { paused: isCopied })))
  }
}

/** At home first: who spreads the queue at the same moment copies what is there. */
export async function pauseIn(shards: Shards, queue: string, by: string): Promise<void> {
  await pause(shards.of(queue), queue, by)
  const others = await othersOf(shards, queue)
  await Promise.all(others.map((redis) => mirror(redis, queue, { paused: true })))
}

export async function resumeIn(shards: Shards, queue: string, by: string): Promise<void> {
  await resume(shards.of(queue), queue, by)
  const others = await othersOf(shards, queue)
  await Promise.all(others.map((redis) => mirror(redis, queue, { paused: false })))
}

/** Which shards a queue had is never forgotten: another process may still write to one of them. */
export async function removeQueueIn(
  shards: Shards,
  queue: string,
  by: string,
): Promise<'removed' | 'busy' | 'missing'> {
  const others = await othersOf(shards, queue)
  if (others.length === 0) return removeQueue(shards.of(queue), queue, by)
  const { oldestAgeS: _, ...counts } = (await depthsFrom(shards, [queue]))[0]!
  if (Object.values(counts).some((count) => count > 0)) return 'busy'
  await noteSpread(shards.home, queue, [shards.indexOf(queue)])
  await shards.refresh()
  const answers = await Promise.all(others.map((redis) => removeQueue(redis, queue, '')))
  return answers.includes('busy') ? 'busy' : removeQueue(shards.of(queue), queue, by)
}

export async function statsFrom(shards: Shards, queue: string | null): Promise<QueueStats> {
  await shards.fresh()
  const names = queue === null ? (await queuesOf(shards)).map(({ name }) => name) : [queue]
  const of = queue === null ? shards.all : partsOf(shards, queue)
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

export async function seriesFrom(shards: Shards, request: SeriesRequest): Promise<readonly SeriesPoint[]> {
  await shards.fresh()
  return series(request.queue === null ? shards.all : partsOf(shards, request.queue), request)
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

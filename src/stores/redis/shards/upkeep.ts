// What keeps jobs moving, over several shards. A shard that is away holds up no other. ◄── store.ts

import type { NewJob } from '../../../core/job.js'
import type { BulkProgress } from '../../../core/operating.js'
import { tooManyQueues } from '../../../core/queue-limit.js'
import type {
  DueSchedules,
  Expired,
  Fired,
  FireRequest,
  Promotion,
  PruneAuditOptions,
  Pruned,
} from '../../../core/upkeep-store.js'
import { nextStep } from '../bulks.js'
import { cancel } from '../cancel.js'
import { type Deleting, deleteJobs } from '../delete.js'
import { jobArgs } from '../enqueue.js'
import type { Epochs } from '../epochs.js'
import { expiredLeases } from '../expired.js'
import { keyText } from '../facts.js'
import { longId, shortId } from '../ids.js'
import { promote } from '../promote.js'
import { pruneShard, retentionsOf } from '../prune.js'
import type { Redis } from '../redis.js'
import { discard, requeue } from '../requeue.js'
import { type DueSchedule, inTurns, viewsOf, waitingSchedules } from '../schedules.js'
import { sample } from '../series.js'
import type { Deliveries, KeptMessage } from './deliveries.js'
import type { ShardEnqueue } from './enqueue.js'
import type { ShardLimits } from './limits.js'
import { findInShards } from './looks.js'
import { queuesOf } from './operate.js'
import { grouped, patient, reached, type Shards, stateLetters } from './shards.js'

const AUDIT_GONE_MAX = 5_000
/** How often a process looks at links between shards, and at how many of each shard. */
const RELINK_MS = 30_000
const RELINK_MAX = 500

export interface UpkeepDeps {
  readonly shards: Shards
  readonly deliveries: Deliveries
  readonly enqueueing: ShardEnqueue
  readonly limits: ShardLimits
  readonly queuesMax: number
  readonly epochs: Epochs
  readonly deleting: Deleting
}

export class ShardUpkeep {
  readonly #deps: UpkeepDeps

  /** When it looks at links again, and how far it has come in each shard. */
  #relinkAtMs = 0
  readonly #relinked: number[] = []

  constructor(deps: UpkeepDeps) {
    this.#deps = deps
  }

  /** Promotes those that are due first, whichever shard they are in, and delivers what other processes have left. */
  async promote(limit: number): Promise<Promotion> {
    const { shards, deliveries, limits } = this.#deps
    const due = await shards.reachable(async (redis, index) => {
      const { value } = await redis.read<string[]>('upkeep', 'dueFirst', [limit])
      const [wait, todo, messages, loans, ...ids] = value as [string, string, string, string, ...string[]]
      if (messages !== '0') await this.#deliverOld(index)
      // Of a process that died, or of a home that was away. The limits wait for it, nothing else does.
      if (loans !== '0') void limits.endOld(index).catch(() => {})
      return { redis, wait, hasTodo: todo !== '0', ids }
    })
    const first = due
      .flatMap(({ redis, ids }) => pairs(ids).map(([id, runAt]) => ({ redis, id, runAt: Number(runAt) })))
      .sort((one, other) => one.runAt - other.runAt || (one.id < other.id ? -1 : 1))
      .slice(0, limit)
    const counts = new Map<Redis, number>()
    for (const { redis } of first) counts.set(redis, (counts.get(redis) ?? 0) + 1)
    const idle = due.filter(({ redis, hasTodo }) => !hasTodo && !counts.has(redis))
    const busy = due.filter((each) => !idle.includes(each))
    const calls = busy.map(({ redis }) => patient(promote(redis, counts.get(redis) ?? 0, limit)))
    const found = busy.length === 0 ? [] : reached(await Promise.allSettled(calls))
    await this.#relink()
    await deliveries.settle()
    const waits = [
      ...found.flatMap(({ nextDueMs }) => nextDueMs ?? []),
      ...idle.flatMap(({ wait }) => (wait === '' ? [] : [Number(wait)])),
    ]
    const lates = found.flatMap(({ lateMs }) => lateMs ?? [])
    return {
      promoted: found.reduce((sum, each) => sum + each.promoted, 0),
      queues: found.flatMap(({ queues }) => queues).sort(),
      nextDueMs: waits.length === 0 ? null : Math.min(...waits),
      lateMs: lates.length === 0 ? null : Math.max(...lates),
    }
  }

  /**
   * Asks again about jobs of other shards that blocked jobs wait for, some of each shard at a time. A failover that loses the last writes
   * can lose a link, or an end that was reported: without this such a job would wait for ever.
   */
  async #relink(): Promise<void> {
    const { shards, enqueueing } = this.#deps
    if (performance.now() < this.#relinkAtMs) return
    this.#relinkAtMs = performance.now() + RELINK_MS * (0.5 + Math.random())
    await Promise.allSettled(
      shards.all.map(async (redis, index) => {
        const place = this.#relinked[index] ?? 0
        const { value } = await redis.read<string[]>('upkeep', 'waitedFor', [place, RELINK_MAX])
        const [count, ...parents] = value as [string, ...string[]]
        this.#relinked[index] = Number(count) < RELINK_MAX ? 0 : place + RELINK_MAX
        if (parents.length > 0) await enqueueing.link(index, parents.map(longId))
      }),
    )
  }

  /** Delivers the messages of a shard whose process did not. */
  async #deliverOld(source: number): Promise<void> {
    const others = await this.#deps.deliveries.old(source)
    await this.#deps.deliveries.settle()
    for (const message of others) {
      // One that cannot be delivered must not keep the others back. It stays, and health() counts it.
      await this.#deliver(message).catch(() => {})
    }
  }

  async #deliver({ source, number, kind, one, other }: KeptMessage): Promise<void> {
    const { shards, deliveries, enqueueing } = this.#deps
    if (kind === 'jobs') await enqueueing.finish(JSON.parse(one) as NewJob[])
    else if (kind === 'ticks') await this.#writeTicks(JSON.parse(one) as string[])
    else if (kind === 'bulk') {
      const [id, action, by] = JSON.parse(one) as [string, BulkProgress['action'], string]
      await this.#finishStep({ id, action, by, number }, other.split(',').filter(Boolean).map(longId))
      return
    }
    await shards.all[source]!.write('upkeep', 'paid', [number])
    await deliveries.settle()
  }

  async expired(limit: number): Promise<Expired> {
    const { shards, epochs } = this.#deps
    shards.touch()
    const found = await shards.reachable(async (redis, index) => {
      const leases = await expiredLeases(redis, limit)
      shards.met(leases.jobs, index)
      return { ...leases, upMs: await epochs.upMs(redis, leases.nowMs) }
    })
    const jobs = found
      .flatMap((each) => each.jobs)
      .sort((one, other) => other.expiredMs - one.expiredMs || (one.id < other.id ? -1 : 1))
    return {
      jobs: jobs.slice(0, limit),
      nowMs: found[0]!.nowMs,
      upMs: Math.min(...found.map(({ upMs }) => upMs)),
    }
  }

  async due(limit: number, afterQueue: string): Promise<DueSchedules> {
    const { shards } = this.#deps
    const found = await shards.reachable(async (redis) => ({ redis, ...(await waitingSchedules(redis)) }))
    const nowMs = found[0]!.nowMs
    const waiting = found
      .flatMap((each) => each.waiting)
      .sort((one, other) => one.nextAtMs - other.nextAtMs || (one.name < other.name ? -1 : 1))
    const chosen = inTurns(waiting, afterQueue).slice(0, limit)
    const views = await shards.byShard(chosen, ({ name }) => shards.indexOf(name), viewsInOrder)
    return {
      schedules: views.filter((view) => view !== null),
      nowMs,
      nextDueMs: waiting.length > limit ? Math.max(0, waiting[limit]!.nextAtMs - nowMs) : await nextTick(found),
    }
  }

  /** The tick and the jobs of it are written down by one call, in the shard of the schedule; then the jobs go to that of their queue. */
  async fire(request: FireRequest): Promise<Fired> {
    const { shards, enqueueing, queuesMax, deliveries } = this.#deps
    const { name, expectedNextAtMs, ticks, nextAtMs } = request
    const queues = [...new Set(ticks.map(({ job }) => job.queue))]
    const redis = shards.of(name)
    const state = await this.#lastState(redis, name)
    if (queues.length > 0) {
      const census = await enqueueing.census('', queues)
      if (census.fresh > 0 && census.queues + census.fresh > queuesMax) throw tooManyQueues(queues, queuesMax)
    }
    const args: (string | number)[] = [name, expectedNextAtMs, nextAtMs ?? '', state]
    const held = await this.#heldTicks(ticks)
    for (const [place, { tickMs, job }] of ticks.entries()) {
      const [id, ...rest] = jobArgs(job, { name, tickMs })
      args.push(tickMs, held.has(place) ? '' : id!, ...rest)
    }
    const { value } = await redis.write<[number, string, ...string[]]>('upkeep', 'fireApart', args)
    const [fired, number, ...ids] = value
    if (number !== '') {
      const made = new Set(ids)
      const specs = ticks.map(({ tickMs, job }) => jobArgs(job, { name, tickMs })).filter(([id]) => made.has(id!))
      await this.#writeTicks(specs.flat())
      await redis.write('upkeep', 'paid', [number])
      await deliveries.settle()
    }
    return { fired: fired === 1, jobs: ids.map(longId) }
  }

  /** The places of ticks whose job another keeps away by its key. */
  async #heldTicks(ticks: FireRequest['ticks']): Promise<ReadonlySet<number>> {
    const held = new Set<number>()
    const taken = new Set<string>()
    for (const [place, { job }] of ticks.entries()) {
      if (job.idempotencyKey === null) continue
      const key = keyText(job.idempotencyKey.key)
      const args = [key, '\n', job.queue]
      const { value } = await this.#deps.shards.of(job.queue).read<string[]>('upkeep', 'holders', args)
      if (value.length > 0 || taken.has(key)) held.add(place)
      taken.add(key)
    }
    return held
  }

  async #lastState(redis: Redis, name: string): Promise<string> {
    const { value } = await redis.read<string[]>('upkeep', 'schedules', [name])
    const last = value[5]
    if (!last) return ''
    const id = longId(last)
    const [index] = await this.#deps.shards.locate([id])
    if (index === null || index === undefined) return ''
    return (await stateLetters(this.#deps.shards.all[index]!, [id]))[0]!
  }

  async #writeTicks(values: readonly string[]): Promise<void> {
    const { shards, queuesMax } = this.#deps
    const specs: string[][] = []
    for (let at = 0; at < values.length; at += 4) specs.push(values.slice(at, at + 4))
    await shards.byShard(
      specs,
      ([, queue]) => shards.indexOf(queue!),
      async (redis, those) => {
        await redis.write('upkeep', 'enqueue', ['', 0, 0, queuesMax, '2', ...those.flat()])
        return those
      },
    )
  }

  async stepBulk(): Promise<BulkProgress | null> {
    const { shards } = this.#deps
    const found = await nextStep(shards.home, (request) => findInShards(shards, request))
    if (found === null) return null
    const { view, ids, args, state } = found
    const { id, action, by } = view
    const { value: number } = await shards.home.write<string>('upkeep', 'beginStep', args)
    // Another process was first, or somebody has ended it.
    if (number === '') return { id, action, moved: 0, refused: 0, state: view.state }
    return { ...(await this.#finishStep({ id: shortId(id), action, by, number }, ids)), id, action, state }
  }

  /** Does a batch that was written down. */
  async #finishStep(
    { id, action, by, number }: { id: string; action: BulkProgress['action']; by: string; number: string },
    ids: readonly string[],
  ): Promise<{ readonly moved: number; readonly refused: number }> {
    const { shards, deliveries, deleting } = this.#deps
    const act = { cancel, requeue, discard, delete: deleteJobs }[action]
    const run = () => shards.inOrder<{ readonly result: string }>(ids, (redis, those) => act(redis, those, by))
    const answers = action === 'delete' ? await deleting.around(ids, by, run) : await run()
    const moved = answers.filter(({ result }) => result !== 'refused' && result !== 'missing').length
    await deliveries.settle()
    await shards.home.write('upkeep', 'endStep', [id, number, moved, ids.length - moved])
    return { moved, refused: ids.length - moved }
  }

  async prune(retentionMs: number): Promise<Pruned> {
    const { shards } = this.#deps
    const retentions = retentionsOf(await queuesOf(shards), retentionMs)
    const found = await shards.reachable((redis) => pruneShard(redis, retentions))
    return {
      days: [...new Set(found.flatMap(({ days }) => days))].sort(),
      rows: found.reduce((sum, { rows }) => sum + rows, 0),
      early: found.reduce((sum, { early = 0 }) => sum + early, 0),
      postponed: [],
      isDone: found.every(({ isDone }) => isDone),
    }
  }

  /** The oldest lines of all shards go first. */
  async pruneAudit({ keptMs, linesMax }: PruneAuditOptions): Promise<number> {
    const { shards } = this.#deps
    const found = await shards.each(async (redis, index) => {
      const { value, nowMs } = await redis.read<(string | number)[]>('upkeep', 'oldLines', [AUDIT_GONE_MAX])
      const [length, ...lines] = value as [number, ...string[]]
      return { length, nowMs, lines: pairs(lines).map(([line, at]) => ({ index, line, atMs: Number(at) })) }
    })
    const nowMs = found[0]!.nowMs
    const spare = found.reduce((sum, { length }) => sum + length, 0) - linesMax
    const old = found.flatMap(({ lines }) => lines).sort((one, other) => Number(one.line) - Number(other.line))
    const gone = old.filter(({ atMs }, place) => place < spare || atMs < nowMs - keptMs).slice(0, AUDIT_GONE_MAX)
    await Promise.all(
      [...grouped(gone, ({ index }) => index)].map(([index, places]) => {
        const lines = places.map((place) => gone[place]!.line)
        return shards.all[index]!.write('upkeep', 'dropLines', lines)
      }),
    )
    return gone.length
  }

  async sample(): Promise<boolean> {
    const { shards } = this.#deps
    if (!(await sample(shards.home))) return false
    await shards.reachable((redis) => sample(redis))
    return true
  }
}

function pairs(values: readonly string[]): [string, string][] {
  const found: [string, string][] = []
  for (let at = 0; at < values.length; at += 2) found.push([values[at]!, values[at + 1]!])
  return found
}

async function viewsInOrder(
  redis: Redis,
  chosen: readonly DueSchedule[],
): Promise<(DueSchedules['schedules'][number] | null)[]> {
  const byName = new Map((await viewsOf(redis, chosen)).map((view) => [view.name, view]))
  return chosen.map(({ name }) => byName.get(name) ?? null)
}

/** How long until the next schedule is due in any of these shards, when all that are due are known. */
async function nextTick(
  found: readonly { readonly redis: Redis; readonly waiting: readonly unknown[] }[],
): Promise<number | null> {
  const next = await Promise.all(
    found.map(async ({ redis, waiting }) => {
      const { value, nowMs } = await redis.read<string>('upkeep', 'dueAfter', [waiting.length])
      return value === '' ? [] : [Math.max(0, Number(value) - nowMs)]
    }),
  )
  const waits = next.flat()
  return waits.length === 0 ? null : Math.min(...waits)
}

// The shards of one store: which has what, and calls of several. ◄── store.ts · next: owed.ts

import { HoldfastError, isHoldfastError } from '../../../core/errors.js'
import type { NewJob } from '../../../core/job.js'
import { shortId } from '../ids.js'
import type { Purpose, Redis } from '../redis.js'
import { readSpreads, type Spread, shardsFrom } from '../spread.js'
import { guessShard, markId, shardOfName } from '../tags.js'

/** How old what is known of spread queues may be. Then it is read again, and no call waits for that. */
const SPREAD_MS = 1_000
/** The same for an enqueue of an id that says a shard which its queue is not known to have. */
const SPREAD_NOW_MS = 50
/** For how long a first shard that did not answer is not asked by calls that would wait for it. */
const AWAY_MS = 5_000
/** A process writes new jobs of a spread queue to one shard for this long, then to the next: jobs that are enqueued together are mostly
 *  written by one call. */
const TURN_MS = 50

/** Jobs whose shard is remembered because their id does not say it, and names of queues whose shard is. */
const KNOWN_MAX = 50_000

export class Shards {
  readonly all: readonly Redis[]
  /** Where jobs are whose ids say something else. A job never moves. */
  readonly #strays = new Map<string, number>()
  readonly #names = new Map<string, number>()
  readonly #purpose: Purpose
  #spreads: ReadonlyMap<string, Spread> = new Map()
  #spreadsMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | null = null
  #awayUntilMs = Number.NEGATIVE_INFINITY
  readonly #turn = Math.floor(Math.random() * 16)

  /** `purpose`: whose connection reads which queues are spread. */
  constructor(all: readonly Redis[], purpose: Purpose = 'look') {
    this.all = all
    this.#purpose = purpose
  }

  /** The shard of what belongs to no queue: workers, API keys, bulk actions. */
  get home(): Redis {
    return this.all[0]!
  }

  /** The number of the shard of a queue or a schedule. */
  indexOf(name: string): number {
    let index = this.#names.get(name)
    if (index === undefined) {
      index = shardOfName(name, this.all.length)
      remember(this.#names, name, index)
    }
    return index
  }

  of(name: string): Redis {
    return this.all[this.indexOf(name)]!
  }

  // ------------------------------------------------------------------ queues over several shards

  /** Reads which queues are spread when that was not done lately. No caller waits: what is known is at most some seconds old. */
  touch(): void {
    if (this.#reading === null && performance.now() - this.#spreadsMs > SPREAD_MS) void this.refresh().catch(() => {})
  }

  /** As touch, and waits for the answer. While the first shard is away nobody can change what is known, so that it holds. */
  async fresh(maxAgeMs: number = SPREAD_MS): Promise<void> {
    const nowMs = performance.now()
    if (this.all.length === 1 || nowMs - this.#spreadsMs <= maxAgeMs || nowMs < this.#awayUntilMs) return
    await patient(this.refresh()).catch(() => {
      this.#awayUntilMs = performance.now() + AWAY_MS
    })
  }

  /** Reads which queues are spread, now. Callers at the same moment share one look that began after all of them have called. */
  async refresh(): Promise<void> {
    if (this.#reading !== null) await this.#reading.catch(() => {})
    this.#reading ??= this.#readSpreads().finally(() => {
      this.#reading = null
    })
    await this.#reading
  }

  async #readSpreads(): Promise<void> {
    // Before the answer: a first shard that is away is not asked by each call.
    this.#spreadsMs = performance.now()
    this.#spreads = await readSpreads(this.home, this.#purpose)
  }

  /** All shards that may have jobs of a queue, its home first. */
  partsOf(queue: string): readonly number[] {
    return this.#spreads.get(queue)?.all ?? [this.indexOf(queue)]
  }

  /** The shards of a queue that is spread, or was. */
  spreadOf(queue: string): Spread | undefined {
    return this.#spreads.get(queue)
  }

  /** The shards that new jobs of a queue go to when it has so many. They stay when the masters change later. */
  async shardsFor(queue: string, count: number): Promise<readonly number[]> {
    const current = this.#spreads.get(queue)?.current
    if (current?.length === count) return current
    const masters = await Promise.all(this.all.map((redis) => redis.address().catch(() => '')))
    return shardsFrom(this.indexOf(queue), count, masters)
  }

  /** The id of a new job, with its shard. A job with a key or a group is at the home of its queue: there they are exact. */
  mark(id: string, queue: string, isFree: boolean): string {
    const current = isFree ? this.#spreads.get(queue)?.current : undefined
    if (current === undefined) return markId(id, this.indexOf(queue))
    const turn = this.#turn + Math.floor(performance.now() / TURN_MS)
    return markId(id, current[turn % current.length]!)
  }

  /** The shard of a job that is to be written. What the id says counts: it is the same when the call is repeated. */
  placeOf(job: Pick<NewJob, 'id' | 'queue' | 'idempotencyKey' | 'flow'>): number {
    return isFree(job) ? this.shardOf(job) : this.indexOf(job.queue)
  }

  /** The shard of a job that somebody has. */
  shardOf({ id, queue }: { readonly id: string; readonly queue: string }): number {
    if (!this.#spreads.has(queue)) return this.indexOf(queue)
    return this.#strays.get(id) ?? this.#said(queue, id)
  }

  #said(queue: string, id: string): number {
    const home = this.indexOf(queue)
    const parts = this.#spreads.get(queue)?.all
    if (parts === undefined) return home
    const digit = guessShard(id, this.all.length)
    return parts.includes(digit) ? digit : home
  }

  /** Looks again before jobs are written whose ids say shards that their queues are not known to have: another process may know more. */
  async knowAll(jobs: readonly NewJob[]): Promise<void> {
    const isOdd = (job: NewJob) => isFree(job) && guessShard(job.id, this.all.length) !== this.#said(job.queue, job.id)
    if (jobs.some(isOdd)) await this.fresh(SPREAD_NOW_MS)
  }

  /** Notes where jobs were found. It is kept only where their ids say something else. */
  met(jobs: readonly { readonly id: string }[], index: number): void {
    for (const { id } of jobs) if (this.guess(id) !== index) remember(this.#strays, id, index)
  }

  /** Asks every shard. */
  each<T>(call: (redis: Redis, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(this.all.map(call))
  }

  /** Asks every shard, and gives the answers of those that can be reached, in order. Raises when none can. */
  async reachable<T>(call: (redis: Redis, index: number) => Promise<T>): Promise<T[]> {
    return reached(await Promise.allSettled(this.all.map((redis, index) => patient(call(redis, index)))))
  }

  /** Calls the shards of these things, each with its own, and gives the answers in the order of the things. */
  async byShard<T, R>(
    things: readonly T[],
    indexOf: (thing: T) => number,
    call: (redis: Redis, things: readonly T[], index: number) => Promise<readonly R[]>,
  ): Promise<R[]> {
    const answers = new Array<R>(things.length)
    await Promise.all(
      [...grouped(things, indexOf)].map(async ([index, places]) => {
        const those = places.map((place) => things[place]!)
        const found = await call(this.all[index]!, those, index)
        for (const [at, place] of places.entries()) answers[place] = found[at]!
      }),
    )
    return answers
  }

  /** The shard where a job is, as far as is known. */
  guess(id: string): number {
    return this.#strays.get(id) ?? guessShard(id, this.all.length)
  }

  /** Which shard has each of these jobs; null for a job that there is not. */
  async locate(ids: readonly string[]): Promise<(number | null)[]> {
    const unique = [...new Set(ids)]
    const letters = await this.byShard(unique, (id) => this.guess(id), stateLetters)
    const found = new Map<string, number | null>()
    for (const [at, id] of unique.entries()) found.set(id, letters[at] === '' ? null : this.guess(id))
    const missing = unique.filter((id) => found.get(id) === null)
    for (const [id, index] of await this.#search(missing)) found.set(id, index)
    return ids.map((id) => found.get(id)!)
  }

  /** Calls the shard of each job, first where its id says. Those that are not there are looked for everywhere. */
  async byId<R>(
    ids: readonly string[],
    call: (redis: Redis, ids: readonly string[]) => Promise<readonly R[]>,
    isMissing: (answer: R) => boolean,
  ): Promise<R[]> {
    const answers = await this.byShard(ids, (id) => this.guess(id), call)
    const missing = [...ids.keys()].filter((place) => isMissing(answers[place]!))
    const strays = await this.#search([...new Set(missing.map((place) => ids[place]!))])
    const places = missing.filter((place) => strays.has(ids[place]!))
    const late = await this.byShard(
      places,
      (place) => strays.get(ids[place]!)!,
      (redis, those) => {
        return call(
          redis,
          those.map((place) => ids[place]!),
        )
      },
    )
    for (const [at, place] of places.entries()) answers[place] = late[at]!
    return answers
  }

  /** As byId, with one call for each shard: for calls whose order counts. A job that there is not goes where its id says. */
  async inOrder<R>(
    ids: readonly string[],
    call: (redis: Redis, ids: readonly string[]) => Promise<readonly R[]>,
  ): Promise<R[]> {
    await this.locate(ids)
    return this.byShard(ids, (id) => this.guess(id), call)
  }

  /** Looks for jobs in every shard. */
  async #search(ids: readonly string[]): Promise<Map<string, number>> {
    const found = new Map<string, number>()
    if (ids.length === 0) return found
    await this.each(async (redis, index) => {
      for (const [at, letter] of (await stateLetters(redis, ids)).entries())
        if (letter !== '') found.set(ids[at]!, index)
    })
    for (const [id, index] of found) remember(this.#strays, id, index)
    return found
  }
}

/** Whether a job may be in any shard of its queue: nothing about it must be compared with other jobs. */
function isFree({ idempotencyKey, flow }: Pick<NewJob, 'idempotencyKey' | 'flow'>): boolean {
  return idempotencyKey === null && (flow?.group ?? null) === null
}

/** The letters of the states of jobs; '' for those that are not in this shard. */
export async function stateLetters(redis: Redis, ids: readonly string[]): Promise<readonly string[]> {
  if (ids.length === 0) return []
  return (await redis.read<string[]>('look', 'lettersOf', ids.map(shortId))).value
}

function remember<T>(known: Map<string, T>, name: string, value: T): void {
  if (known.size >= KNOWN_MAX) known.delete(known.keys().next().value!)
  known.set(name, value)
}

/** The places of things, by shard. */
export function grouped<T>(things: readonly T[], indexOf: (thing: T) => number): Map<number, number[]> {
  const groups = new Map<number, number[]>()
  for (const [place, thing] of things.entries()) {
    const index = indexOf(thing)
    const group = groups.get(index)
    if (group === undefined) groups.set(index, [place])
    else group.push(place)
  }
  return groups
}

/** The answers of those that could be reached. Raises when none could, and what is more than that a shard is away. */
export function reached<T>(settled: readonly PromiseSettledResult<T>[]): T[] {
  const failed = settled.filter((each): each is PromiseRejectedResult => each.status === 'rejected')
  const worst = failed.find(({ reason }) => !isAway(reason)) ?? failed[0]
  if (worst !== undefined && (failed.length === settled.length || !isAway(worst.reason))) throw worst.reason
  return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
}

/** How long the other shards wait for one that does not answer. */
export const PATIENCE_MS = 1_000

/** The call, or a failure as of a shard that is away when it takes too long. The call goes on, and may take effect. */
export function patient<T>(call: Promise<T>, patienceMs: number = PATIENCE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(notAnswering()), patienceMs)
  })
  return Promise.race([call, late]).finally(() => clearTimeout(timer))
}

export function notAnswering(): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `a shard of the Redis Cluster has not answered for ${PATIENCE_MS} ms: the call may or may not have taken effect, and is safe to repeat`,
    { retryable: true },
  )
}

/** Whether a shard could not be reached, and may be later. */
export function isAway(error: unknown): boolean {
  return isHoldfastError(error) && (error as HoldfastError).retryable
}

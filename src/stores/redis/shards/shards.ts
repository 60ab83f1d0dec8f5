// The shards of one store: which has what, and calls of several. ◄── store.ts · next: owed.ts

import { HoldfastError, isHoldfastError } from '../../../core/errors.js'
import { shortId } from '../ids.js'
import type { Redis } from '../redis.js'
import { guessShard, shardOfName } from '../tags.js'

/** Jobs whose shard is remembered because their id does not say it, and names of queues whose shard is. */
const KNOWN_MAX = 50_000

export class Shards {
  readonly all: readonly Redis[]
  /** Where jobs are whose ids say something else. A job never moves. */
  readonly #strays = new Map<string, number>()
  readonly #names = new Map<string, number>()

  constructor(all: readonly Redis[]) {
    this.all = all
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

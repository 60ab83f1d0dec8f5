// What long jobs keep, over several shards: all of it is with its job, in the shard of its queue. Children may be elsewhere. ◄── store.ts

import type { SettledJob } from '../../../core/job.js'
import { leaseOf } from '../../../core/job.js'
import type { SettleResult } from '../../../core/job-store.js'
import type { DoubtfulRequest, KeptOf, NewSignal, OutputWrite, SignalResult } from '../../../core/kept/contract.js'
import type { DoubtfulPage, OutputPage } from '../../../core/kept/kept.js'
import { doubtful, doubtfulPage, keep } from '../kept.js'
import { read, write } from '../output.js'
import type { Purpose } from '../redis.js'
import { signal } from '../signal.js'
import { stateOfLetter } from '../states.js'
import type { Deliveries } from './deliveries.js'
import type { ShardEnqueue } from './enqueue.js'
import type { ShardLeases } from './leases.js'
import { isAway, patient, type Shards, stateLetters } from './shards.js'

export function keepIn(shards: Shards, entries: readonly KeptOf[]): Promise<boolean[]> {
  return shards.byShard(entries, (lease) => shards.shardOf(lease), keep)
}

export function writeIn(shards: Shards, writes: readonly OutputWrite[]): Promise<boolean[]> {
  return shards.byShard(writes, (lease) => shards.shardOf(lease), write)
}

export async function readFrom(
  shards: Shards,
  { id, from }: { readonly id: string; readonly from: number },
): Promise<OutputPage | null> {
  const [page] = await shards.byId(
    [id],
    async (redis) => [await read(redis, { id, from })],
    (found) => found === null,
  )
  return page!
}

/** The shards of all jobs are known first: of two signals of one job none may overtake the other. */
export async function signalIn(shards: Shards, signals: readonly NewSignal[]): Promise<SignalResult[]> {
  await shards.locate(signals.map(({ id }) => id))
  return shards.byShard(signals, ({ id }) => shards.guess(id), signal)
}

/** Every shard gives a page, and the first of all these make the page. */
export async function doubtfulIn(shards: Shards, request: DoubtfulRequest): Promise<DoubtfulPage> {
  const found = (await shards.each((redis) => doubtful(redis, request))).flat()
  // The effects of one job come from one shard, in their order.
  found.sort((one, other) => (one.id < other.id ? -1 : one.id > other.id ? 1 : 0))
  return doubtfulPage(found.slice(0, request.limit), request.limit)
}

interface SettleDeps {
  readonly shards: Shards
  readonly leases: ShardLeases
  readonly enqueueing: ShardEnqueue
  readonly deliveries: Deliveries
}

/**
 * Settles jobs, and delivers what that causes. Children in other shards are linked before their parent waits for them: one that ends after
 * that is reported, and one that ended before is known. While the shard of a child is away, its parent is answered with `locked`.
 */
export async function settleIn(
  { shards, leases, enqueueing, deliveries }: SettleDeps,
  purpose: Purpose,
  jobs: readonly SettledJob[],
  onlyExpired: boolean,
): Promise<readonly SettleResult[]> {
  const unlinked = new Set<SettledJob>()
  await Promise.all(
    jobs.map(async (job) => {
      if (job.children === undefined) return
      try {
        await patient(enqueueing.link(shards.shardOf(job), job.children.ids))
      } catch (error) {
        if (!isAway(error)) throw error
        unlinked.add(job)
      }
    }),
  )
  const linked = unlinked.size === 0 ? jobs : jobs.filter((job) => !unlinked.has(job))
  const results = linked.length === 0 ? [] : await leases.settle(purpose, linked, onlyExpired)
  await deliveries.settle()
  const answers = await withNewStates(shards, results)
  if (unlinked.size === 0) return answers
  const byJob = new Map(linked.map((job, place) => [job, answers[place]!]))
  return jobs.map((job) => byJob.get(job) ?? { ...leaseOf(job), result: 'locked', state: null })
}

/** A job that waits for children may have gone on because of others of its call. */
async function withNewStates(shards: Shards, results: readonly SettleResult[]): Promise<readonly SettleResult[]> {
  const blocked = results.filter(({ state }) => state === 'blocked')
  if (blocked.length === 0) return results
  const letters = await shards.byShard(
    blocked,
    (lease) => shards.shardOf(lease),
    (redis, those) =>
      stateLetters(
        redis,
        those.map(({ id }) => id),
      ),
  )
  return results.map((result) => {
    const letter = letters[blocked.indexOf(result)]
    return letter ? { ...result, state: stateOfLetter(letter) } : result
  })
}

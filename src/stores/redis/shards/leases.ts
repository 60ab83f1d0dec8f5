// Calls about leases over several shards. A shard that is away does not hold up the others. ◄── store.ts, ../extender.ts

import { type JobNote, type Lease, leaseName, leaseOf, type SettledJob } from '../../../core/job.js'
import type { Claim, ClaimRequest, Extension, SettleResult, Watch } from '../../../core/job-store.js'
import { claim } from '../claim.js'
import { begin, extend, watch } from '../extend.js'
import { note } from '../note.js'
import type { Purpose, Redis } from '../redis.js'
import { settle } from '../settle.js'
import { grouped, isAway, notAnswering, patient, reached, Shards } from './shards.js'

export class ShardLeases {
  readonly #shards: Shards
  /** When each shard last extended leases, by this process's clock. */
  readonly #extendedMs: number[]

  /** Shards that owe the answer of a claim, and answers that came late. */
  readonly #silent = new Set<number>()
  readonly #late: Claim[] = []

  constructor(shards: Shards | readonly Redis[]) {
    this.#shards = shards instanceof Shards ? shards : new Shards(shards)
    this.#extendedMs = this.#shards.all.map(() => performance.now())
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const groups = grouped(request.queues, ({ queue }) => this.#shards.indexOf(queue))
    const claims = await Promise.allSettled(
      [...groups].map(([index, places]) => {
        const queues = places.map((place) => request.queues[place]!)
        return this.#claimOf(index, { ...request, queues })
      }),
    )
    const found = [...this.#late.splice(0), ...reached(claims)]
    if (found.length === 0) return { jobs: [], nowMs: await this.#nowMs(), waitedMs: null }
    const order = new Map<string, number>()
    for (const { queue } of request.queues) if (!order.has(queue)) order.set(queue, order.size)
    const jobs = found.flatMap((each) => each.jobs)
    const waits = found.flatMap(({ waitedMs }) => waitedMs ?? [])
    // A queue that was told to wait.
    const flow = found.flatMap((each) => each.flow ?? [])
    return {
      jobs: found.length === 1 ? jobs : jobs.sort((one, other) => order.get(one.queue)! - order.get(other.queue)!),
      nowMs: found[0]!.nowMs,
      waitedMs: waits.length === 0 ? null : Math.max(...waits),
      ...(flow.length === 0 ? {} : { flow }),
    }
  }

  /** A claim that is answered too late for its call has leased jobs all the same: the next claim gives them. */
  #claimOf(index: number, request: ClaimRequest): Promise<Claim> {
    if (this.#silent.has(index)) return Promise.reject(notAnswering())
    const call = claim(this.#shards.all[index]!, request)
    return patient(call).catch((error: unknown) => {
      this.#silent.add(index)
      void call
        .then((found) => this.#late.push(found))
        .catch(() => {})
        .finally(() => this.#silent.delete(index))
      throw error
    })
  }

  async #nowMs(): Promise<number> {
    return (await this.#shards.home.read('claim', 'now', [])).nowMs
  }

  async begin(leases: readonly Lease[]): Promise<void> {
    await this.#parts(leases, begin)
  }

  /**
   * A lease of a shard that is away is reported as held until nothing was heard of the shard for as long as a lease lasts: nobody else
   * can claim the job meanwhile, unless only this process cannot reach the shard.
   */
  async extend(leases: readonly Lease[], leaseMs: number): Promise<Extension> {
    const lost: Lease[] = []
    const cancelled: Lease[] = []
    await this.#parts(
      leases,
      async (redis, those, index) => {
        const extension = await extend(redis, those, leaseMs)
        this.#extendedMs[index] = performance.now()
        lost.push(...extension.lost)
        cancelled.push(...extension.cancelled)
      },
      (those, index) => {
        if (performance.now() - this.#extendedMs[index]! > leaseMs) lost.push(...those.map(leaseOf))
      },
    )
    return { lost: inOrder(leases, lost), cancelled: inOrder(leases, cancelled) }
  }

  async watch(leases: readonly Lease[]): Promise<Watch> {
    const found: Watch[] = []
    await this.#parts(leases, async (redis, those) => {
      found.push(await watch(redis, those))
    })
    const those = (name: keyof Watch) =>
      inOrder(
        leases,
        found.flatMap((each) => each[name]),
      )
    return { lost: those('lost'), cancelled: those('cancelled'), settled: those('settled') }
  }

  /** Notes for a shard that is away are dropped when others take theirs: no settlement may wait for them. */
  async note(notes: readonly JobNote[]): Promise<void> {
    await this.#parts(notes, note)
  }

  /** Settlements for a shard that is away are answered with `locked`, so that they are sent again. */
  async settle(purpose: Purpose, jobs: readonly SettledJob[], onlyExpired: boolean): Promise<readonly SettleResult[]> {
    const answers = new Map<Lease, SettleResult>()
    await this.#parts(
      jobs,
      async (redis, those) => {
        const results = await settle(redis, purpose, those, onlyExpired)
        for (const [at, job] of those.entries()) answers.set(job, results[at]!)
      },
      (those) => {
        for (const job of those) answers.set(job, { ...leaseOf(job), result: 'locked', state: null })
      },
    )
    return jobs.map((job) => answers.get(job)!)
  }

  async #parts<T extends Lease>(
    leases: readonly T[],
    call: (redis: Redis, leases: readonly T[], index: number) => Promise<unknown>,
    onAway: (leases: readonly T[], index: number) => void = () => {},
  ): Promise<void> {
    const groups = [...grouped(leases, ({ queue }) => this.#shards.indexOf(queue))]
    const those = groups.map(([, places]) => places.map((place) => leases[place]!))
    const calls = groups.map(([index], at) => patient(call(this.#shards.all[index]!, those[at]!, index)))
    const settled = await Promise.allSettled(calls)
    reached(settled)
    for (const [at, each] of settled.entries()) {
      if (each.status === 'rejected' && isAway(each.reason)) onAway(those[at]!, groups[at]![0])
    }
  }
}

function inOrder(leases: readonly Lease[], some: readonly Lease[]): Lease[] {
  if (some.length === 0) return []
  const names = new Set(some.map(leaseName))
  return leases.filter((lease) => names.has(leaseName(lease))).map(leaseOf)
}

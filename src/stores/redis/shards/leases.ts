// Calls about leases over several shards. A shard that is away does not hold up the others. ◄── store.ts, ../extender.ts

import type { FlowState } from '../../../core/flow/views.js'
import { type JobNote, type Lease, leaseName, leaseOf, type SettledJob } from '../../../core/job.js'
import type { Claim, ClaimRequest, Extension, SettleResult, Watch } from '../../../core/job-store.js'
import { claimWith, type FoundClaim } from '../claim.js'
import { begin, extend, watch } from '../extend.js'
import { note } from '../note.js'
import type { Purpose, Redis } from '../redis.js'
import { settle } from '../settle.js'
import type { ShardLimits } from './limits.js'
import { grouped, isAway, notAnswering, PATIENCE_MS, patient, reached, type Shards } from './shards.js'

/** How often a claim is made again because jobs with other limits have come. */
const SHORT_MAX = 5
/** A claim with limits waits for their homes too. */
const LIMITED_PATIENCE_MS = 3 * PATIENCE_MS
/** One shard of a queue after the other is asked: those of a master that hangs must not take a second each. */
const PART_PATIENCE_MS = 300
/** Queues whose limits are remembered. */
const NAMES_MAX = 20_000

export class ShardLeases {
  readonly #shards: Shards
  /** When each shard last extended leases, by this process's clock. */
  readonly #extendedMs: number[]

  /** Shards, and queues with limits, that owe the answer of a claim, and answers that came late. */
  readonly #silent = new Set<number | string>()
  readonly #late: Claim[] = []
  /** The limits that the ready jobs of a queue in a shard had when they were looked at last, by both. */
  readonly #names = new Map<string, readonly string[]>()
  readonly #limits: ShardLimits | null

  /** Without limits nothing can be claimed. */
  constructor(shards: Shards, limits: ShardLimits | null = null) {
    this.#shards = shards
    this.#limits = limits
    this.#extendedMs = this.#shards.all.map(() => performance.now())
  }

  /** Queues whose jobs have no limits by name give theirs first, each shard in one call; then the others, one after the other as they are asked
   *  for. Queues over several shards are asked for beside them. */
  async claim(request: ClaimRequest): Promise<Claim> {
    this.#shards.touch()
    const spread = request.queues.filter(({ queue }) => (this.#shards.spreadOf(queue)?.all.length ?? 1) > 1)
    if (spread.length === 0) return this.#joined(request, await this.#claimWhole(request))
    const queues = request.queues.filter((each) => !spread.includes(each))
    const calls = spread.map((each) => this.#claimSpread({ ...request, queues: [each] }))
    if (queues.length > 0) calls.push(this.#claimWhole({ ...request, queues }))
    const claims = await Promise.allSettled(calls)
    return this.#joined(request, reached(claims).flat())
  }

  /** Begins at any of the queue's shards, and goes on to the next while the claim wants more. So the order is by shard. */
  async #claimSpread(request: ClaimRequest): Promise<Claim[]> {
    const [asked] = request.queues as [ClaimRequest['queues'][number]]
    const parts = this.#shards.partsOf(asked.queue)
    const first = Math.floor(Math.random() * parts.length)
    const claims: PromiseSettledResult<Claim>[] = []
    let left = asked.limit
    for (let turn = 0; turn < parts.length && left > 0; turn++) {
      const index = parts[(first + turn) % parts.length]!
      const claimed = this.#claimPart(index, { ...request, queues: [{ ...asked, limit: left }] })
      const [settled] = await Promise.allSettled([claimed])
      if (settled.status === 'fulfilled') left -= settled.value.jobs.length
      claims.push(settled)
    }
    return reached(claims)
  }

  #claimPart(index: number, request: ClaimRequest): Promise<Claim> {
    const { queue } = request.queues[0]!
    const limited = new Set<string>()
    const claimLimited = () =>
      this.#claimOf(nameOf(index, queue), () => this.#claimLimited(index, queue, request), LIMITED_PATIENCE_MS)
    if (this.#names.has(nameOf(index, queue))) return claimLimited()
    const claimed = this.#claimOf(index, () => this.#claimPlain(index, request, limited), PART_PATIENCE_MS)
    return claimed.then((found) => (limited.size === 0 ? found : claimLimited()))
  }

  async #claimWhole(request: ClaimRequest): Promise<Claim[]> {
    const indexOf = ({ queue }: { readonly queue: string }) => this.#shards.indexOf(queue)
    const isLimited = (each: { readonly queue: string }) => this.#names.has(nameOf(indexOf(each), each.queue))
    const limited = new Set(request.queues.filter(isLimited).map(({ queue }) => queue))
    const plain = request.queues.filter(({ queue }) => !limited.has(queue))
    const groups = grouped(plain, indexOf)
    const claims = await Promise.allSettled(
      [...groups].map(([index, places]) => {
        const queues = places.map((place) => plain[place]!)
        return this.#claimOf(index, () => this.#claimPlain(index, { ...request, queues }, limited))
      }),
    )
    for (const name of new Set(request.queues.map(({ queue }) => queue))) {
      if (!limited.has(name)) continue
      const queues = request.queues.filter(({ queue }) => queue === name)
      const index = this.#shards.indexOf(name)
      const make = () => this.#claimLimited(index, name, { ...request, queues })
      const claimed = this.#claimOf(nameOf(index, name), make, LIMITED_PATIENCE_MS)
      claims.push(...(await Promise.allSettled([claimed])))
    }
    return reached(claims)
  }

  async #joined(request: ClaimRequest, claims: readonly Claim[]): Promise<Claim> {
    const found = [...this.#late.splice(0), ...claims]
    if (found.length === 0) return { jobs: [], nowMs: await this.#nowMs(), waitedMs: null }
    const order = new Map<string, number>()
    for (const { queue } of request.queues) if (!order.has(queue)) order.set(queue, order.size)
    const jobs = found.flatMap((each) => each.jobs)
    const waits = found.flatMap(({ waitedMs }) => waitedMs ?? [])
    const flow = oneEach(found.flatMap((each) => each.flow ?? []))
    const placeOf = ({ queue }: { readonly queue: string }) => order.get(queue) ?? order.size
    return {
      jobs: found.length === 1 ? jobs : jobs.sort((one, other) => placeOf(one) - placeOf(other)),
      nowMs: found[0]!.nowMs,
      waitedMs: waits.length === 0 ? null : Math.max(...waits),
      ...(flow.length === 0 ? {} : { flow: flow.sort((one, other) => placeOf(one) - placeOf(other)) }),
    }
  }

  /** Adds the queues that turn out to have jobs with limits. */
  async #claimPlain(index: number, request: ClaimRequest, limited: Set<string>): Promise<Claim> {
    const found = await claimWith(this.#shards.all[index]!, request, [])
    this.#remember(index, found)
    for (const queue of found.short) limited.add(queue)
    return found.claim
  }

  async #claimLimited(index: number, queue: string, request: ClaimRequest): Promise<Claim> {
    for (let turn = 1; ; turn++) {
      const names = this.#names.get(nameOf(index, queue)) ?? []
      const found = await this.#limits!.claim(index, request, names)
      this.#remember(index, found)
      // Jobs with other limits have come meanwhile.
      if (!found.short.has(queue)) return found.claim
      if (turn === SHORT_MAX) return { ...found.claim, flow: [{ queue, more: true, waitMs: null }] }
    }
  }

  #remember(index: number, { names, claim }: FoundClaim): void {
    this.#shards.met(claim.jobs, index)
    for (const [queue, those] of names) {
      const name = nameOf(index, queue)
      if (those.length === 0) this.#names.delete(name)
      else if (this.#names.has(name) || this.#names.size < NAMES_MAX) this.#names.set(name, those)
    }
  }

  /** A claim that is answered too late for its call has leased jobs all the same: the next claim gives them. */
  #claimOf(key: number | string, make: () => Promise<Claim>, patienceMs?: number): Promise<Claim> {
    if (this.#silent.has(key)) return Promise.reject(notAnswering())
    const call = make()
    return patient(call, patienceMs).catch((error: unknown) => {
      this.#silent.add(key)
      void call
        .then((found) => this.#late.push(found))
        .catch(() => {})
        .finally(() => this.#silent.delete(key))
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
    await this.#shards.fresh()
    const extension = await this.#extend(leases, leaseMs)
    const strays = await this.#strays(extension.lost)
    if (strays.length === 0) return extension
    const again = await this.#extend(strays, leaseMs)
    const names = new Set(strays.map(leaseName))
    const lost = [...extension.lost.filter((lease) => !names.has(leaseName(lease))), ...again.lost]
    return {
      lost: inOrder(leases, lost),
      cancelled: inOrder(leases, [...extension.cancelled, ...again.cancelled]),
    }
  }

  /** Of leases that were not found: those whose jobs are in another shard than their ids say. Only a queue that is spread can have some. */
  async #strays<T extends Lease>(lost: readonly T[]): Promise<T[]> {
    const asked = lost.filter(({ queue }) => this.#shards.spreadOf(queue) !== undefined)
    if (asked.length === 0) return []
    const tried = asked.map((lease) => this.#shards.shardOf(lease))
    // While a shard is away, those that were not found stay so.
    const places = await patient(this.#shards.locate(asked.map(({ id }) => id))).catch(() => [])
    return asked.filter((lease, at) => {
      const place = places[at] ?? tried[at]!
      this.#shards.met([lease], place)
      return place !== tried[at]
    })
  }

  async #extend(leases: readonly Lease[], leaseMs: number): Promise<Extension> {
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
    const answers = await this.#settle(purpose, jobs, onlyExpired)
    const strays = await this.#strays(jobs.filter((_, at) => answers[at]!.result === 'lost'))
    if (strays.length === 0) return answers
    const again = await this.#settle(purpose, strays, onlyExpired)
    return answers.map((answer, at) => again[strays.indexOf(jobs[at]!)] ?? answer)
  }

  async #settle(purpose: Purpose, jobs: readonly SettledJob[], onlyExpired: boolean): Promise<readonly SettleResult[]> {
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
    const groups = [...grouped(leases, (lease) => this.#shards.shardOf(lease))]
    const those = groups.map(([, places]) => places.map((place) => leases[place]!))
    const calls = groups.map(([index], at) => patient(call(this.#shards.all[index]!, those[at]!, index)))
    const settled = await Promise.allSettled(calls)
    reached(settled)
    for (const [at, each] of settled.entries()) {
      if (each.status === 'rejected' && isAway(each.reason)) onAway(those[at]!, groups[at]![0])
    }
  }
}

/** A queue in one of its shards. */
function nameOf(index: number, queue: string): string {
  return `${index} ${queue}`
}

/** What was found in the shards of a queue, as one. */
function oneEach(states: readonly FlowState[]): FlowState[] {
  const found = new Map<string, FlowState>()
  for (const state of states) {
    const same = found.get(state.queue)
    if (same === undefined) {
      found.set(state.queue, state)
      continue
    }
    const waits = [same.waitMs, state.waitMs].filter((wait) => wait !== null)
    const probed = [...new Set([...(same.probed ?? []), ...(state.probed ?? [])])]
    found.set(state.queue, {
      ...{ queue: state.queue, more: same.more || state.more, waitMs: waits.length === 0 ? null : Math.min(...waits) },
      ...(probed.length === 0 ? {} : { probed }),
    })
  }
  return [...found.values()]
}

function inOrder(leases: readonly Lease[], some: readonly Lease[]): Lease[] {
  if (some.length === 0) return []
  const names = new Set(some.map(leaseName))
  return leases.filter((lease) => names.has(leaseName(lease))).map(leaseOf)
}

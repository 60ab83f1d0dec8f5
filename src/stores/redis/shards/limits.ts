// Limits by name over several shards: each has its home, and claims have it on loan (../lending.ts). ◄── store.ts, leases.ts

import { isQueueLimit, isTypeLimit } from '../../../core/flow/job-flow.js'
import { LIMITS_MAX, type LimitSettings } from '../../../core/flow/settings.js'
import type { BreakerMove, LimitOrigin, LimitView, OutcomeReport } from '../../../core/flow/views.js'
import type { ClaimRequest } from '../../../core/job-store.js'
import { claimWith, type FoundClaim, LOAN_VALUES } from '../claim.js'
import type { KeptLimit } from '../limit-row.js'
import { forceBreaker, limits, limitsNamed, observe, removeLimit, setLimit } from '../limits.js'
import type { Redis } from '../redis.js'
import type { Deliveries } from './deliveries.js'
import { grouped, isAway, patient, type Shards } from './shards.js'

/** After this time a loan that was not given back is ended. */
const LOAN_MS = 2_000
const AWAY_MS = 1_000
/** How often a process counts the jobs of a limit again that it finds full. */
const RECOUNT_MS = 5_000
/** Names of limits that are remembered. */
const NAMES_MAX = 20_000
/** How often a limit is counted in all shards before a claim goes on without it. */
const CHECKS_MAX = 2

/** What a claim has of its limits: ten values for each, and the shards where jobs of them run. */
interface Loans {
  readonly values: string[]
  readonly running: Map<string, number[]>
}

export class ShardLimits {
  readonly #shards: Shards
  readonly #deliveries: Deliveries
  /** The last claim of this process that has asked for each limit, until it has given it back. */
  readonly #asked = new Map<string, Promise<unknown>>()
  /** Homes that did not answer are not asked for a while: the other jobs of a queue need not wait for them each time. */
  readonly #awayUntilMs = new Map<number, number>()
  readonly #recountedMs = new Map<string, number>()
  readonly #set = new Set<string>()

  constructor(shards: Shards, deliveries: Deliveries) {
    this.#shards = shards
    this.#deliveries = deliveries
  }

  // ------------------------------------------------------------------ claims

  /** Claims from a shard with these limits on loan. Claims of one process wait for each other; those of others it does not wait for. */
  async claim(index: number, request: ClaimRequest, names: readonly string[]): Promise<FoundClaim> {
    const before = names.map((name) => this.#asked.get(name))
    // When the one before hangs, its limits are away, and this one goes on with the other jobs of its queue.
    const isTurn = patient(Promise.allSettled(before)).catch(() => {})
    const own = isTurn.then(() => this.#claimNext(index, request, names))
    const done = own.catch(() => {})
    for (const name of names) this.#asked.set(name, done)
    return own.finally(() => {
      for (const name of names) if (this.#asked.get(name) === done) this.#asked.delete(name)
    })
  }

  async #claimNext(index: number, request: ClaimRequest, names: readonly string[]): Promise<FoundClaim> {
    const { values, running } = await this.#borrow(index, names)
    // When the answer is lost the loans stay out, and are ended after a time.
    const found = await claimWith(this.#shards.all[index]!, request, values)
    await this.#giveBack(index, found.loans)
    for (let at = 0; at < found.loans.length; at += GIVEN_VALUES) {
      const name = found.loans[at]!
      if (found.loans[at + 6] === '1') this.#recountSoon(name, running.get(name) ?? [])
    }
    return found
  }

  async #borrow(index: number, names: readonly string[]): Promise<Loans> {
    const loans: Loans = { values: [], running: new Map() }
    let left = names
    for (let turn = 0; turn <= CHECKS_MAX && left.length > 0; turn++) {
      const unchecked: string[] = []
      await this.#atHomes(left, async (redis, those, home) => {
        try {
          if ((this.#awayUntilMs.get(home) ?? 0) > performance.now()) return addBusy(loans, those)
          unchecked.push(...(await this.#borrowAt(redis, { home, index, names: those }, loans)))
        } catch (error) {
          if (!isAway(error)) throw error
          this.#awayUntilMs.set(home, performance.now() + AWAY_MS)
          addBusy(loans, those)
        }
      })
      left = unchecked
      if (turn < CHECKS_MAX) await this.#count(left)
    }
    addBusy(loans, left)
    return loans
  }

  /** Answers with the names of those that must be counted first. */
  async #borrowAt(
    redis: Redis,
    { home, index, names }: { readonly home: number; readonly index: number; readonly names: readonly string[] },
    loans: Loans,
  ): Promise<string[]> {
    const call = redis.write<(string | string[])[]>('claim', 'borrow', [index, ...names])
    const { value } = await patient(call).catch((error: unknown) => {
      // Lent too late: no claim has them.
      void call.then((late) => this.#deliveries.giveBack(index, home, unusedOf(late.value))).catch(() => {})
      throw error
    })
    const running = value.pop() as string[]
    for (let at = 0; at < running.length; at += 2) {
      const name = running[at + 1]!
      loans.running.set(name, [...(loans.running.get(name) ?? []), Number(running[at])])
    }
    const unchecked: string[] = []
    for (let at = 0; at < value.length; at += LOAN_VALUES) {
      const values = value.slice(at, at + LOAN_VALUES) as string[]
      const [name, kind, number] = values as [string, string, string, ...string[]]
      if (kind === 'unchecked') unchecked.push(name)
      else loans.values.push(...values)
      if (kind === 'busy' && Number(number) > LOAN_MS) void this.endOld(home).catch(() => {})
    }
    return unchecked
  }

  /** A loan whose home is away is ended later, as that of a process that died. */
  async #giveBack(index: number, values: readonly string[]): Promise<void> {
    const places = Array.from({ length: values.length / GIVEN_VALUES }, (_, place) => place * GIVEN_VALUES)
    const homes = grouped(places, (at) => this.#shards.indexOf(values[at]!))
    const calls = [...homes].map(([home, those]) => {
      const given = those.flatMap((place) => values.slice(places[place]!, places[place]! + GIVEN_VALUES))
      return patient(this.#deliveries.giveBack(index, home, given))
    })
    await Promise.allSettled(calls)
  }

  /** Ends loans of a home that were not given back. While the shard of a claim is away nobody knows what it took, and the limit waits. */
  async endOld(home: number): Promise<void> {
    const { value } = await this.#shards.all[home]!.read<string[]>('upkeep', 'oldLoans', [LOAN_MS])
    for (let at = 0; at < value.length; at += 3) {
      const [name, number, shard] = value.slice(at, at + 3) as [string, string, string]
      const call = this.#shards.all[Number(shard)]!.write<string[]>('upkeep', 'endLoan', [name, number])
      const ended = await patient(call).catch(() => null)
      if (ended === null) continue
      const [count, counted, drawn, probed] = ended.value as [string, string, string, string]
      await this.#deliveries.giveBack(Number(shard), home, [name, number, count, counted, drawn, probed, ''])
    }
  }

  // ---------------------------------------------------------------- counting

  /** Counts the running jobs of limits in every shard, for their homes. A limit is not lent before, nor when its home may have lost a count. */
  async #count(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const counts = this.#shards.all.map((_, index) => patient(this.#countIn(index, names)))
    const isWhole = (await Promise.allSettled(counts)).every(({ status }) => status === 'fulfilled')
    if (isWhole) await this.#atHomes(names, (redis, those) => redis.write('claim', 'checked', those))
  }

  async #countIn(index: number, names: readonly string[]): Promise<void> {
    const { value } = await this.#shards.all[index]!.write<string[]>('claim', 'slotsNow', names)
    const values = names.flatMap((name, at) => [name, '0', value[2 * at]!, value[2 * at + 1]!, '0', '', ''])
    const homes = grouped(names, (name) => this.#shards.indexOf(name))
    const reports = [...homes].map(([home, places]) => {
      const those = places.flatMap((place) => values.slice(place * GIVEN_VALUES, (place + 1) * GIVEN_VALUES))
      return this.#deliveries.giveBack(index, home, those)
    })
    await Promise.all(reports)
  }

  /** A limit that is full may be so because a report was lost. */
  #recountSoon(name: string, shards: readonly number[]): void {
    const nowMs = performance.now()
    if (nowMs - (this.#recountedMs.get(name) ?? Number.NEGATIVE_INFINITY) < RECOUNT_MS) return
    if (this.#recountedMs.size >= NAMES_MAX) this.#recountedMs.clear()
    this.#recountedMs.set(name, nowMs)
    for (const index of shards) void this.#countIn(index, [name]).catch(() => {})
  }

  // --------------------------------------------------------------- operating

  async set(
    name: string,
    settings: LimitSettings,
    { by, origin }: { readonly by: string; readonly origin: LimitOrigin },
  ): Promise<LimitView> {
    const home = this.#shards.of(name)
    let most = LIMITS_MAX
    if (!isQueueLimit(name) && (await this.unknown([name])).length > 0) {
      const counts = await this.#shards.each((redis) => redis.read<number>('operate', 'limitCount', []))
      const own = counts[this.#shards.indexOf(name)]!.value
      most = LIMITS_MAX - counts.reduce((sum, { value }) => sum + value, 0) + own
    }
    const view = await setLimit(home, name, settings, { by, origin, most })
    await this.#count([name])
    await this.#wake([name])
    const [kept] = await this.named([name])
    return kept === undefined ? view : { ...view, running: kept.running }
  }

  async remove(name: string, by: string): Promise<'removed' | 'busy' | 'missing'> {
    if (isQueueLimit(name) || (await this.unknown([name])).length > 0) return 'missing'
    const used = await this.#shards.each((redis) => redis.read<string>('operate', 'limitUsed', [name]))
    if (used.some(({ value }) => value === '1')) return 'busy'
    this.#set.delete(name)
    return removeLimit(this.#shards.of(name), name, by)
  }

  async force(name: string, forced: 'open' | 'closed' | null, by: string): Promise<boolean> {
    const isKnown = await forceBreaker(this.#shards.all[this.#homeOf(name)]!, name, forced, by)
    if (isKnown) await this.#wake([name])
    return isKnown
  }

  async observe(reports: readonly OutcomeReport[]): Promise<readonly BreakerMove[]> {
    const woken = new Set<string>()
    const moves = await this.#shards.byShard(
      reports,
      ({ limit }) => this.#homeOf(limit),
      async (redis, those) => {
        const found: (BreakerMove | null)[] = []
        for (const report of those) found.push((await observe(redis, [report], (name) => woken.add(name)))[0] ?? null)
        return found
      },
    )
    await this.#wake([...woken])
    return moves.filter((move) => move !== null)
  }

  async all(): Promise<readonly LimitView[]> {
    const found = (await this.#shards.each(limits)).flat()
    return found.sort((one, other) => (one.name < other.name ? -1 : 1))
  }

  /** Limits by name, those that are there. */
  async named(names: readonly string[]): Promise<readonly KeptLimit[]> {
    const found: KeptLimit[] = []
    await this.#atHomes(names, async (redis, those) => {
      found.push(...(await limitsNamed(redis, those)).limits)
    })
    return found.sort((one, other) => names.indexOf(one.name) - names.indexOf(other.name))
  }

  /** The limits that jobs name and nobody has set. While a home is away, its limits are those that were seen. */
  async unknown(names: readonly string[]): Promise<readonly string[]> {
    const asked = [...new Set(names)].filter((name) => !isTypeLimit(name))
    const known = new Set<string>()
    await this.#atHomes(asked, async (redis, those) => {
      try {
        for (const name of (await patient(redis.read<string[]>('enqueue', 'knownLimits', those))).value) known.add(name)
      } catch (error) {
        if (!isAway(error) || !those.every((name) => this.#set.has(name))) throw error
        for (const name of those) known.add(name)
      }
    })
    if (this.#set.size > NAMES_MAX) this.#set.clear()
    for (const name of known) this.#set.add(name)
    return asked.filter((name) => !known.has(name))
  }

  /** Wakes the queues with jobs that name these. */
  async #wake(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const calls = this.#shards.all.map((redis) => patient(redis.write('operate', 'wakeLimits', names)))
    await Promise.allSettled(calls)
  }

  /** The limit of a queue is in the shard of the queue. */
  #homeOf(limit: string): number {
    return this.#shards.indexOf(isQueueLimit(limit) ? limit.slice('queue:'.length) : limit)
  }

  async #atHomes(
    names: readonly string[],
    call: (redis: Redis, names: readonly string[], home: number) => Promise<unknown>,
  ): Promise<void> {
    const homes = grouped(names, (name) => this.#homeOf(name))
    const calls = [...homes].map(([home, places]) => {
      return call(
        this.#shards.all[home]!,
        places.map((place) => names[place]!),
        home,
      )
    })
    await Promise.all(calls)
  }
}

/** Values of a loan that is given back. */
const GIVEN_VALUES = 7

/** Limits that the claim cannot have now: it goes on with jobs that do not name them. */
function addBusy(loans: Loans, names: readonly string[]): void {
  for (const name of names) loans.values.push(name, 'busy', '0', '0', '0', '', '', '', '', '')
}

/** Loans of an answer, as they are given back by whom has not used them. */
function unusedOf(value: readonly (string | string[])[]): string[] {
  const values: string[] = []
  for (let at = 0; at + LOAN_VALUES <= value.length; at += LOAN_VALUES) {
    const [name, kind, number] = value.slice(at, at + 3) as [string, string, string]
    if (kind === 'lent') values.push(name, number, '0', '0', '0', '', '')
  }
  return values
}

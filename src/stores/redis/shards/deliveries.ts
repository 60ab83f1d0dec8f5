// Delivers what shards owe each other (../owed.ts has the messages). A call that made some waits for their delivery, so that its caller
// reads what it wrote. All messages of a round are delivered before those that they cause, so jobs go on in the same order as if all were
// in one shard. What cannot be delivered now stays in the stream; upkeep of any process delivers it later.

import { OWED_AFTER_MS } from '../owed.js'
import type { Redis } from '../redis.js'
import { shardOfName } from '../tags.js'
import { grouped, patient } from './shards.js'

/** The new state of a job that others come after. */
interface ParentMessage {
  readonly source: number
  readonly number: string
  readonly parent: string
  readonly state: string
  readonly goals: readonly number[]
}

/** How many jobs of a limit run in a shard, or what its home shall do. A count is reported once: the next one has all that it says. */
interface LimitMessage {
  readonly source: number
  /** '' for a count. */
  readonly number: string
  readonly limit: string
  readonly values: readonly string[]
}

/** A message of another kind, as it is in the stream. */
export interface KeptMessage {
  readonly source: number
  readonly number: string
  readonly kind: string
  readonly one: string
  readonly other: string
}

const VALUES = 4
const PARENTS_MAX = 1_000
/** Old messages that one look takes of each shard. */
const OLD_MAX = 100
const AWAY_MS = 2_000
/** Rounds of one delivery. A chain that is longer goes on with upkeep. */
const ROUNDS_MAX = 10_000

export class Deliveries {
  readonly #shards: readonly Redis[]
  #pending: ParentMessage[] = []
  #limits: LimitMessage[] = []
  /** Homes of limits that did not answer: no settlement waits for them each time. */
  readonly #awayUntilMs = new Map<number, number>()
  #running: Promise<void> | null = null

  constructor(shards: readonly Redis[]) {
    this.#shards = shards
  }

  /** Takes what a call of a shard owes. */
  owe(source: number, owed: readonly string[]): void {
    for (let at = 0; at < owed.length; at += VALUES) {
      const [number, parent, state, goals] = owed.slice(at, at + VALUES) as [string, string, string, string]
      if (goals === 'slots' || goals === 'limit') {
        this.#limits.push({ source, number, limit: parent, values: state.split(' ') })
        continue
      }
      this.#pending.push({ source, number, parent, state, goals: goals.split(',').map(Number) })
    }
  }

  /** Resolves when everything that is owed now was delivered, or could not be. */
  async settle(): Promise<void> {
    const isOpen = () => this.#pending.length > 0 || this.#limits.length > 0
    for (let round = 0; this.#running !== null || (isOpen() && round < ROUNDS_MAX); round++) {
      this.#running ??= this.#round().finally(() => {
        this.#running = null
      })
      await this.#running
    }
  }

  async #round(): Promise<void> {
    const messages = this.#pending
    this.#pending = []
    const undelivered = new Set<ParentMessage>()
    const goals = new Set(messages.flatMap((message) => message.goals))
    await Promise.all(
      [...goals].map(async (goal) => {
        const those = messages.filter((message) => message.goals.includes(goal))
        for (let from = 0; from < those.length; from += PARENTS_MAX) {
          const portion = those.slice(from, from + PARENTS_MAX)
          const args = portion.flatMap(({ parent, state, number }) => [parent, state, number])
          try {
            await this.#shards[goal]!.write('settle', 'hear', args)
          } catch {
            for (const message of portion) undelivered.add(message)
          }
        }
      }),
    )
    await Promise.all([this.paid(messages.filter((message) => !undelivered.has(message))), this.#tellLimits()])
  }

  /** Tells the homes of limits, and wakes who waits for what was freed. What does not arrive in time stays, or is counted again. */
  async #tellLimits(): Promise<void> {
    const messages = this.#limits
    this.#limits = []
    const counts = new Map<string, LimitMessage>()
    for (const message of messages) {
      if (message.number === '') counts.set(`${message.source} ${message.limit}`, message)
    }
    const told = messages.filter(({ number }) => number !== '')
    const calls = [...counts.values(), ...told].map(async (message) => {
      const home = this.#homeOf(message.limit)
      if ((this.#awayUntilMs.get(home) ?? 0) > performance.now()) return
      await patient(this.#tellLimit(home, message)).catch(() => {
        this.#awayUntilMs.set(home, performance.now() + AWAY_MS)
      })
    })
    await Promise.all(calls)
  }

  async #tellLimit(home: number, { source, number, limit, values }: LimitMessage): Promise<void> {
    if (number === '') {
      const [count, counted] = values as [string, string]
      await this.giveBack(source, home, [limit, '0', count, counted, '0', '', ''])
      return
    }
    await this.#shards[home]!.write('settle', 'hearLimit', [source, number, limit, ...values])
    await this.paid([{ source, number }])
  }

  #homeOf(limit: string): number {
    return shardOfName(limit, this.#shards.length)
  }

  /** Gives loans back to a home, or reports counts of running jobs, and wakes the shards whose jobs may go on. */
  async giveBack(source: number, home: number, values: readonly string[]): Promise<void> {
    const { value } = await this.#shards[home]!.write<string[]>('settle', 'giveBack', [source, ...values])
    const waiting = new Map<number, string[]>()
    for (let at = 0; at < value.length; at += 2) {
      const shard = Number(value[at + 1])
      waiting.set(shard, [...(waiting.get(shard) ?? []), value[at]!])
    }
    const wakes = [...waiting].map(([shard, limits]) =>
      patient(this.#shards[shard]!.write('settle', 'wakeLimits', limits)),
    )
    // One that is lost costs the worker's next look.
    await Promise.allSettled(wakes)
  }

  /** Takes delivered messages out of the streams. */
  async paid(messages: readonly Pick<ParentMessage, 'source' | 'number'>[]): Promise<void> {
    const sources = grouped(messages, ({ source }) => source)
    await Promise.all(
      [...sources].map(([source, places]) => {
        const numbers = places.map((place) => messages[place]!.number)
        // One that stays is delivered again, which changes nothing.
        return this.#shards[source]!.write('settle', 'paid', numbers).catch(() => {})
      }),
    )
  }

  /** Messages whose process did not deliver them, of those shards that can be reached. Those about parents are delivered here. */
  async old(source: number): Promise<KeptMessage[]> {
    const { value } = await this.#shards[source]!.read<string[]>('upkeep', 'owed', [OWED_AFTER_MS, OLD_MAX])
    const others: KeptMessage[] = []
    for (let at = 0; at < value.length; at += VALUES) {
      const [number, kind, one, other] = value.slice(at, at + VALUES) as [string, string, string, string]
      if (kind === 'parent') this.owe(source, [number, ...one.split(' '), other])
      else if (kind === 'limit') this.owe(source, [number, one, other, kind])
      else others.push({ source, number, kind, one, other })
    }
    return others
  }
}

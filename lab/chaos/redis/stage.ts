// A run on Redis: a primary with replicas and sentinels, or a cluster; a witness in the functions; effects on a server of their own.

import { join } from 'node:path'
import type { Store } from '../../../src/core/store.js'
import { redisStore } from '../../../src/stores/redis/index.js'
import { shardOfName } from '../../../src/stores/redis/tags.js'
import type { RunBegun, StoreEvent } from '../../history/events.js'
import { RedisServer } from '../../servers/redis.js'
import { plantedLua } from '../plants.js'
import { pollUntil } from '../poll.js'
import { type ChaosSettings, has } from '../settings.js'
import type { Stage, Traveller, Way } from '../stage.js'
import { QUEUES, queueOf } from '../work.js'
import { ask } from './ask.js'
import { ClusterMachine } from './cluster-machine.js'
import { readChanges } from './collect.js'
import { redisMakers, type Span, takesWrites } from './faults.js'
import { readEffects, readFinal } from './final.js'
import { isComplete, type RedisMachine } from './machine.js'
import { writeStandStill } from './stand-still.js'
import { WatchedMachine } from './watched-machine.js'
import { watchedLibrary } from './witness.js'

export class RedisStage implements Stage {
  readonly schema = ''
  readonly operator = null
  readonly makers: Stage['makers']
  readonly #machine: RedisMachine
  readonly #effects: RedisServer
  readonly #settings: ChaosSettings
  /** The shards in which the run has queues. */
  readonly #shards: readonly number[]
  readonly #spans: Span[] = []
  #store: Store | null = null
  #folder = ''

  private constructor(machine: RedisMachine, effects: RedisServer, settings: ChaosSettings) {
    this.#machine = machine
    this.#effects = effects
    this.#settings = settings
    const queues = [...QUEUES, ...Array.from({ length: settings.spread }, (_, index) => queueOf(index))]
    this.#shards = [...new Set(queues.map((queue) => shardOfName(queue, machine.shards)))]
    this.makers = redisMakers({ machine, shards: this.#shards, spans: this.#spans })
  }

  static async open(settings: ChaosSettings): Promise<RedisStage> {
    const hasDisks = has(settings, 'disk full')
    const machine =
      settings.store === 'redis' ? await WatchedMachine.open(hasDisks) : await ClusterMachine.open(hasDisks)
    const effects = await RedisServer.open({ appendonly: 'no' })
    return new RedisStage(machine, effects!, settings)
  }

  get hasDisk(): boolean {
    return this.#machine.disks.size > 0
  }

  get effectsUrl(): string {
    return this.#effects.url
  }

  async way({ kind, number }: Traveller): Promise<Way> {
    const isAlone = kind === 'worker' && number <= this.#settings.unlinked
    const link = isAlone ? null : await this.#machine.link()
    return { url: link?.url ?? this.#machine.url, link }
  }

  async prepare(setUp: (store: Store) => Promise<void>): Promise<void> {
    const library = watchedLibrary(plantedLua(this.#settings.plant))
    // Under the name that every process looks for, so that none loads the one without a witness.
    for (const master of await this.#machine.masters()) await ask(master, ['FUNCTION', 'LOAD', library])
    const open = () => redisStore(this.#machine.url, { durability: this.#settings.durability })
    await setUp(await open())
    this.#store = await open()
  }

  async enter({ folder }: { readonly folder: string }): Promise<void> {
    this.#folder = folder
  }

  async settled(): Promise<void> {
    try {
      await isComplete(this.#machine)
    } catch (error) {
      const file = join(this.#folder, 'stand-still.json')
      await writeStandStill(this.#machine, file)
      throw new Error(`${(error as Error).message}; ${file} has what each server says`)
    }
  }

  heal(): void {}

  now(): Promise<number> {
    return pollUntil(() => this.#opened.now())
  }

  async probe(): Promise<void> {
    await pollUntil(async () => {
      const taken = await Promise.all(this.#shards.map((shard) => takesWrites(this.#machine, shard)))
      return taken.every(Boolean) ? true : null
    })
  }

  async hasFired(untilMs: number): Promise<boolean> {
    const schedules = await pollUntil(() => this.#opened.schedules())
    return schedules.every(({ lastAt }) => lastAt !== null && lastAt.getTime() >= untilMs)
  }

  async removeSchedules(): Promise<void> {
    for (const { name } of await pollUntil(() => this.#opened.schedules())) {
      await pollUntil(() => this.#opened.removeSchedule(name, 'lab'))
    }
  }

  async left(): Promise<number> {
    const { blocked, scheduled, ready, running, retrying } = await pollUntil(() => this.#opened.stats(null))
    return blocked + scheduled + ready + running + retrying
  }

  async isPruned(): Promise<boolean> {
    return true
  }

  async leave(): Promise<void> {}

  async *events(_: RunBegun): AsyncGenerator<StoreEvent> {
    yield* await readChanges(this.#machine, { durability: this.#settings.durability, spans: this.#spans })
    yield* await readEffects(this.#effects)
    yield* readFinal(this.#opened)
  }

  get #opened(): Store {
    if (this.#store === null) throw new Error('the store was not prepared')
    return this.#store
  }

  async close(): Promise<void> {
    await this.#store?.close().catch(() => {})
    await Promise.all([this.#machine.close(), this.#effects.close()])
  }
}

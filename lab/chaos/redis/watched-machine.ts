// A primary with two replicas and three sentinels. Sentinels decide who is the primary; links follow them, as a moved address does.

import type { FillableDisk } from '../../servers/fillable-disk.js'
import type { RedisServer } from '../../servers/redis.js'
import { NAME, WatchedRedis } from '../../servers/redis-sentinel.js'
import { FaultProxy } from '../proxy.js'
import { sleep } from '../sleep.js'
import { ask } from './ask.js'
import { openDisks } from './disks.js'
import { type RedisMachine, takenOver } from './machine.js'
import { REDIS_WIRE } from './wire.js'

const REPLICAS = 2
/** A primary that is restarted immediately, or stands still for a moment, stays the primary. With two seconds, sentinels on a busy machine promoted a
 *  replica while the primary lived: it took writes, the other replica confirmed them, and they were lost (docs/redis.md#sentinel). */
const DOWN_AFTER_MS = 5_000
const FOLLOW_MS = 100
const ASK_MS = 1_000
/** A switch that was asked for and has not come about in this time comes about no more. */
const SWITCH_MS = 7_000
/** A port on which nothing listens. */
const NOWHERE = 1

export class WatchedMachine implements RedisMachine {
  readonly shards = 1
  readonly moveShard = null
  readonly disks: ReadonlyMap<RedisServer, FillableDisk>
  readonly #watched: WatchedRedis
  readonly #links: FaultProxy[] = []
  #primary: RedisServer
  #isClosed = false
  #following: Promise<void>

  private constructor(watched: WatchedRedis, disks: ReadonlyMap<RedisServer, FillableDisk>) {
    this.#watched = watched
    this.disks = disks
    this.#primary = watched.primary
    this.#following = this.#follow()
  }

  static async open(hasDisks: boolean): Promise<WatchedMachine> {
    const disks = hasDisks ? await openDisks(1 + REPLICAS) : []
    const flags = (index: number) => ({
      ...{ appendonly: 'yes', appendfsync: 'everysec', maxmemory: '2gb', 'repl-backlog-size': '64mb' },
      ...(disks[index] === undefined ? {} : { dir: disks[index].folder }),
    })
    const watched = await WatchedRedis.open(REPLICAS, { flags, downAfterMs: DOWN_AFTER_MS })
    if (watched === null) throw new Error('redis-server is not installed: apt-get install redis-server')
    const servers = [watched.primary, ...watched.replicas]
    return new WatchedMachine(watched, new Map(disks.map((disk, index) => [servers[index]!, disk])))
  }

  get url(): string {
    return this.#watched.url
  }

  get servers(): readonly RedisServer[] {
    return [this.#watched.primary, ...this.#watched.replicas]
  }

  async masters(): Promise<readonly RedisServer[]> {
    return [this.#primary]
  }

  async masterOf(): Promise<RedisServer> {
    return this.#primary
  }

  async link(): Promise<FaultProxy> {
    const link = await FaultProxy.open(this.#primary.port, REDIS_WIRE)
    this.#links.push(link)
    return link
  }

  /** Sentinels promote a replica while the primary still takes writes, and the other replica confirms them (docs/redis.md#sentinel). So
   *  writes are paused first, and go on when the replica is the primary. */
  async switchOver(master: RedisServer): Promise<void> {
    await ask(master, ['CLIENT', 'PAUSE', SWITCH_MS, 'WRITE'])
    try {
      await ask({ port: this.#watched.sentinelPorts[0]! }, ['SENTINEL', 'FAILOVER', NAME])
      await takenOver(this, master, SWITCH_MS)
    } finally {
      await ask(master, ['CLIENT', 'UNPAUSE'])
    }
  }

  async cutReplication(master: RedisServer): Promise<void> {
    const replicas = this.servers.filter((server) => server !== master)
    await Promise.all(replicas.map((replica) => ask(replica, ['REPLICAOF', '127.0.0.1', NOWHERE])))
  }

  async restart(server: RedisServer): Promise<void> {
    const isPrimary = server === this.#primary
    // The last flag of a name counts; this one undoes what it was started with.
    await server.start({ replicaof: isPrimary ? 'no one' : `127.0.0.1 ${this.#primary.port}` })
  }

  /** Points the links at whom the sentinels name. */
  async #follow(): Promise<void> {
    while (!this.#isClosed) {
      const named = await this.#named()
      if (named !== null && named !== this.#primary) {
        this.#primary = named
        for (const link of this.#links) link.retarget(named.port)
      }
      await sleep(FOLLOW_MS)
    }
  }

  async #named(): Promise<RedisServer | null> {
    for (const port of this.#watched.sentinelPorts) {
      const answer = await ask({ port }, ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME], ASK_MS).catch(() => null)
      if (Array.isArray(answer)) return this.servers.find((server) => server.port === Number(answer[1])) ?? null
    }
    return null
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#following
    await this.#watched.close()
    for (const disk of this.disks.values()) await disk.close()
  }
}

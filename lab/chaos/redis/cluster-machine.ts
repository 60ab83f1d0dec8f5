// A cluster of three masters with two replicas each. The nodes decide who is a master.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SHARDS, slotOf } from '../../../src/stores/redis/tags.js'
import type { FillableDisk } from '../../servers/fillable-disk.js'
import type { RedisServer } from '../../servers/redis.js'
import { RedisCluster } from '../../servers/redis-cluster.js'
import { ask, askText } from './ask.js'
import { openDisks } from './disks.js'
import type { RedisMachine } from './machine.js'

/** With one second, a busy machine makes other servers take over without any fault. Each takeover copies everything to two replicas, which makes
 *  the machine busier: that went on for a minute, and the run ended. */
const NODE_TIMEOUT_MS = 3_000
const MASTERS = 3
const REPLICAS = 2
/** A slot moves in portions of so many keys. */
const PORTION = 20
const MIGRATE_MS = 20_000
const PORTIONS_MAX = 10_000

interface Node {
  readonly server: RedisServer
  readonly id: string
  readonly flags: readonly string[]
  readonly masterId: string
  readonly ranges: readonly (readonly [from: number, to: number])[]
}

export class ClusterMachine implements RedisMachine {
  readonly shards: number = SHARDS
  readonly disks: ReadonlyMap<RedisServer, FillableDisk>
  readonly #cluster: RedisCluster
  readonly #folder: string

  private constructor(cluster: RedisCluster, parts: { disks: ReadonlyMap<RedisServer, FillableDisk>; folder: string }) {
    this.#cluster = cluster
    this.disks = parts.disks
    this.#folder = parts.folder
  }

  static async open(hasDisks: boolean): Promise<ClusterMachine> {
    const disks = hasDisks ? await openDisks(MASTERS * (1 + REPLICAS)) : []
    // A node ends when it can't write what it knows of the others, so that is on no disk that is filled.
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-nodes-'))
    const flags = {
      ...{ appendonly: 'yes', appendfsync: 'everysec', maxmemory: '1gb' },
      'cluster-node-timeout': String(NODE_TIMEOUT_MS),
      // A replica that moves to another master has none of its data yet, and may be elected in its place (docs/redis.md#cluster).
      'cluster-allow-replica-migration': 'no',
    }
    const each = (index: number) => ({
      'cluster-config-file': join(folder, `nodes-${index}.conf`),
      ...(disks[index] === undefined ? {} : { dir: disks[index].folder }),
    })
    const cluster = await RedisCluster.open({ masters: MASTERS, replicas: REPLICAS, flags, each })
    if (cluster === null) throw new Error('redis-server is not installed: apt-get install redis-server')
    const { servers } = cluster
    return new ClusterMachine(cluster, {
      disks: new Map(disks.map((disk, index) => [servers[index]!, disk])),
      folder,
    })
  }

  get url(): string {
    return `redis+cluster://${this.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
  }

  get servers(): readonly RedisServer[] {
    return this.#cluster.servers
  }

  async masters(): Promise<readonly RedisServer[]> {
    return (await this.#nodes()).filter(isServing).map(({ server }) => server)
  }

  async masterOf(shard: number): Promise<RedisServer> {
    const slot = slotOf(shard)
    const nodes = await this.#nodes()
    const found = nodes.find((node) => isServing(node) && node.ranges.some(([from, to]) => slot >= from && slot <= to))
    if (found === undefined) throw new Error(`no node has slot ${slot}`)
    return found.server
  }

  async link(): Promise<null> {
    return null
  }

  async switchOver(master: RedisServer): Promise<void> {
    const nodes = await this.#nodes()
    const { id } = nodes.find(({ server }) => server === master)!
    const replica = nodes.find(({ masterId, flags }) => masterId === id && !flags.includes('fail'))
    if (replica === undefined) throw new Error(`the master on port ${master.port} has no replica`)
    await ask(replica.server, ['CLUSTER', 'FAILOVER'])
  }

  async cutReplication(): Promise<void> {
    throw new Error('the replicas of a cluster can not be cut off by a command')
  }

  /** Moves the slot of a shard to the next master, as redis-cli --cluster reshard does. */
  readonly moveShard = async (shard: number): Promise<void> => {
    const slot = slotOf(shard)
    const masters = (await this.#nodes()).filter(isServing)
    const from = masters.find(({ ranges }) => ranges.some(([first, last]) => slot >= first && slot <= last))!
    const to = masters[(masters.indexOf(from) + 1) % masters.length]!
    await ask(to.server, ['CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id])
    await ask(from.server, ['CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id])
    for (let portions = 0; portions < PORTIONS_MAX; portions++) {
      const keys = (await ask(from.server, ['CLUSTER', 'GETKEYSINSLOT', slot, PORTION])) as string[]
      if (keys.length === 0) break
      const migrate = ['MIGRATE', '127.0.0.1', to.server.port, '', 0, MIGRATE_MS, 'KEYS', ...keys]
      await ask(from.server, migrate, MIGRATE_MS)
    }
    for (const { server } of [to, from, ...masters]) await ask(server, ['CLUSTER', 'SETSLOT', slot, 'NODE', to.id])
  }

  async restart(server: RedisServer): Promise<void> {
    await server.start()
  }

  /** The nodes as the first one that answers knows them. */
  async #nodes(): Promise<readonly Node[]> {
    for (const asked of this.servers.filter(({ isRunning }) => isRunning)) {
      const text = await askText(asked, ['CLUSTER', 'NODES'])
      const nodes = text.split('\n').flatMap((line) => this.#nodeOf(line))
      if (nodes.length === this.servers.length) return nodes
    }
    return []
  }

  #nodeOf(line: string): Node[] {
    const [id = '', address = '', flags = '', masterId = '', , , , , ...ranges] = line.trim().split(' ')
    const server = this.servers.find(({ port }) => port === Number(/:(\d+)@/.exec(address)?.[1]))
    if (server === undefined) return []
    const slots = ranges
      .filter((range) => !range.startsWith('['))
      .map((range): [number, number] => {
        const [from, to = from] = range.split('-').map(Number) as [number, number?]
        return [from, to]
      })
    return [{ server, id, flags: flags.split(','), masterId, ranges: slots }]
  }

  async close(): Promise<void> {
    await this.#cluster.close()
    for (const disk of this.disks.values()) await disk.close()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

function isServing({ flags, ranges }: Node): boolean {
  return flags.includes('master') && !flags.includes('fail') && ranges.length > 0
}

// A Redis Cluster: which node has which slot, and the connections to the nodes, which all shards share. The driver has a client for clusters
// of its own. It is not used: it follows ASK, and a function that follows ASK runs where only some of its shard's keys have arrived.
// Here a shard whose slot is moved waits. ◄── redis.ts · next: ../../../docs/decisions/0041-redis-cluster.md

import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { errorWord } from './errors.js'
import type { RedisConnection, Reply } from './port.js'
import { Connections, openServer, type Purpose, type Route, storeClosed } from './route.js'

export interface ClusterSettings {
  /** One URL for each node that is known from the beginning: redis:// or rediss://, with user and password. */
  readonly seeds: readonly string[]
  readonly connectMs: number
}

/** The node that has a slot. */
interface Owner {
  readonly from: number
  readonly to: number
  readonly address: string
}

/** The cluster is asked again at most this often. */
const LOOK_GAP_MS = 100
/** The pause before a call is sent again to a shard that is just moved or has no master. */
const AGAIN_MS = 100
const LOOK_MS_MAX = 2_000

/** The nodes of one cluster. */
export class Cluster {
  readonly #settings: ClusterSettings
  readonly #nodes = new Map<string, Connections>()
  readonly #onChange = new Set<() => void>()
  #owners: readonly Owner[] = []
  /** Addresses of all nodes that were seen: any of them can be asked. */
  #known: readonly string[] = []
  #looking: Promise<void> | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #looks = 0
  #isClosed = false

  constructor(settings: ClusterSettings) {
    this.#settings = settings
  }

  /** The address of the master of a slot. */
  async masterOf(slot: number): Promise<string> {
    if (this.#owners.length === 0) await this.look()
    const owner = this.#owners.find(({ from, to }) => slot >= from && slot <= to)
    if (owner !== undefined) return owner.address
    void this.look().catch(() => {})
    throw new HoldfastError(
      'store_unavailable',
      `the Redis Cluster at ${this.#where()} has no master for slot ${slot}: give the slot to a node; the call is safe to repeat`,
      { retryable: true },
    )
  }

  async connection(slot: number, purpose: Purpose): Promise<RedisConnection> {
    const address = await this.masterOf(slot)
    let node = this.#nodes.get(address)
    if (node === undefined) {
      node = new Connections(() => this.openNode(address))
      this.#nodes.set(address, node)
    }
    return node.get(purpose)
  }

  /** Opens a connection to a node. */
  async openNode(address: string): Promise<RedisConnection> {
    if (this.#isClosed) throw storeClosed()
    return openServer({ url: this.#urlOf(address), connectMs: this.#settings.connectMs })
  }

  /** Adds a listener for changes of masters. */
  onChange(listener: () => void): void {
    this.#onChange.add(listener)
  }

  /** Asks the cluster which node has which slot. Calls at the same time ask once. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #look(): Promise<void> {
    const waitMs = this.#lookedAtMs + LOOK_GAP_MS - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    this.#lookedAtMs = performance.now()
    let last: unknown = null
    // Another node first each time: one that is cut off from the others does not know it.
    const turn = this.#known.length === 0 ? 0 : this.#looks++ % this.#known.length
    const known = [...this.#known.slice(turn), ...this.#known.slice(0, turn)]
    for (const url of [...known.map((address) => this.#urlOf(address)), ...this.#settings.seeds]) {
      if (this.#isClosed) throw storeClosed()
      try {
        this.#learn(await this.#ask(url), url)
        return
      } catch (error) {
        if (error instanceof HoldfastError && !error.retryable) throw error
        last = error
      }
    }
    throw last
  }

  async #ask(url: string): Promise<Reply> {
    const connection = await openServer({ url, connectMs: Math.min(this.#settings.connectMs, LOOK_MS_MAX) })
    const timer = setTimeout(() => connection.destroy(), LOOK_MS_MAX)
    try {
      return await connection.send(['CLUSTER', 'SLOTS'])
    } catch (error) {
      if (errorWord(error) === 'ERR') throw notACluster(url, error)
      throw error
    } finally {
      clearTimeout(timer)
      connection.destroy()
    }
  }

  #learn(reply: Reply, url: string): void {
    const asked = new URL(url)
    const owners: Owner[] = []
    const known = new Set<string>()
    for (const range of reply as readonly (readonly Reply[])[]) {
      const [from, to, ...nodes] = range as [number, number, ...(readonly Reply[])[]]
      // A node that does not know its own name answers with none.
      const addresses = nodes.map(([host, port]) => `${bracketed(String(host || asked.hostname))}:${port}`)
      owners.push({ from, to, address: addresses[0]! })
      for (const address of addresses) known.add(address)
    }
    const before = this.#owners
    this.#owners = owners
    if (known.size > 0) this.#known = [...known]
    const masters = new Set(owners.map(({ address }) => address))
    for (const [address, node] of this.#nodes) {
      // One that lost its slots may be cut off from the others, and never say so: its calls end here.
      if (masters.has(address)) continue
      this.#nodes.delete(address)
      void node.close()
    }
    const isSame = JSON.stringify(before) === JSON.stringify(owners)
    if (before.length > 0 && !isSame) for (const listener of this.#onChange) listener()
  }

  #urlOf(address: string): string {
    const url = new URL(this.#settings.seeds[0]!)
    url.host = address
    return url.href
  }

  #where(): string {
    return this.#settings.seeds.map(redactUrl).join(', ')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#onChange.clear()
    const nodes = [...this.#nodes.values()]
    this.#nodes.clear()
    await Promise.all(nodes.map((node) => node.close()))
  }
}

function bracketed(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
}

function notACluster(url: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `${redactUrl(url)} is not a node of a Redis Cluster: write redis:// for a server on its own, or redis+sentinel:// where sentinels watch it`,
    { cause },
  )
}

/** The way to one shard of a cluster. */
export class ClusterRoute implements Route {
  readonly #cluster: Cluster
  readonly #slot: number

  constructor(cluster: Cluster, slot: number) {
    this.#cluster = cluster
    this.#slot = slot
  }

  connection(purpose: Purpose): Promise<RedisConnection> {
    return this.#cluster.connection(this.#slot, purpose)
  }

  async open(): Promise<RedisConnection> {
    return this.#cluster.openNode(await this.#cluster.masterOf(this.#slot))
  }

  async failed(error: unknown): Promise<boolean> {
    const word = errorWord(error)
    switch (word) {
      case 'MOVED':
        await this.#cluster.look().catch(() => {})
        return true
      case 'ASK':
      case 'TRYAGAIN':
        // The shard's keys are on their way to another node. Nothing may run before all have arrived.
        await sleep(AGAIN_MS)
        return true
      case 'CLUSTERDOWN':
      case null:
        void this.#cluster.look().catch(() => {})
        return false
      default:
        return false
    }
  }

  address(): Promise<string> {
    return this.#cluster.masterOf(this.#slot)
  }

  slow(): void {
    void this.#cluster.look().catch(() => {})
  }
}

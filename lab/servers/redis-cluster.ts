// A real Redis Cluster of masters and replicas on this machine: bounded memory, ports from the system, each server ended by its pid.

import { spawnSync } from 'node:child_process'
import { keptPort } from './kept-port.js'
import { type RedisFlags, RedisServer } from './redis.js'

const SLOTS = 16_384
const WAIT_MS = 20_000
const MEMORY = '256mb'

export interface RedisClusterOptions {
  readonly masters?: number
  /** Of each master. */
  readonly replicas?: number
  readonly flags?: RedisFlags
  /** Of each server, by its number; the masters are the first. */
  readonly each?: (index: number) => RedisFlags
}

export class RedisCluster {
  readonly servers: readonly RedisServer[]
  readonly masters: readonly RedisServer[]
  readonly replicas: readonly RedisServer[]

  private constructor(masters: readonly RedisServer[], replicas: readonly RedisServer[]) {
    this.masters = masters
    this.replicas = replicas
    this.servers = [...masters, ...replicas]
  }

  /** Null where Redis is not installed. */
  static async open({
    masters = 3,
    replicas = 1,
    flags = {},
    each = () => ({}),
  }: RedisClusterOptions = {}): Promise<RedisCluster | null> {
    const settings = {
      appendonly: 'no',
      maxmemory: MEMORY,
      'cluster-enabled': 'yes',
      'cluster-node-timeout': '1000',
      'cluster-require-full-coverage': 'no',
      'cluster-replica-validity-factor': '0',
      'repl-diskless-sync-delay': '0',
      'repl-backlog-size': '16mb',
      ...flags,
    }
    const opened: RedisServer[] = []
    for (let index = 0; index < masters * (1 + replicas); index++) {
      const server = await RedisServer.open({ ...settings, ...each(index), 'cluster-port': String(await keptPort()) })
      if (server === null) return null
      opened.push(server)
    }
    const cluster = new RedisCluster(opened.slice(0, masters), opened.slice(masters))
    try {
      await cluster.#join()
    } catch (error) {
      await cluster.close()
      throw error
    }
    return cluster
  }

  get url(): string {
    return `redis+cluster://${this.masters.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
  }

  async #join(): Promise<void> {
    const [first, ...others] = this.servers
    const count = this.masters.length
    for (const [index, master] of this.masters.entries()) {
      const from = Math.floor((index * SLOTS) / count)
      const to = Math.floor(((index + 1) * SLOTS) / count) - 1
      command(master, 'cluster', 'addslotsrange', String(from), String(to))
      command(master, 'cluster', 'set-config-epoch', String(index + 1))
    }
    for (const server of others) {
      command(first!, 'cluster', 'meet', '127.0.0.1', String(server.port), String(busPortOf(server)))
    }
    await until('every node knows all others', () =>
      this.servers.every((each) => this.#nodesOf(each) === this.servers.length),
    )
    for (const [index, replica] of this.replicas.entries()) {
      const master = this.masters[index % count]!
      const id = command(master, 'cluster', 'myid')
      await until('a replica knows its master', () => command(replica, 'cluster', 'replicate', id) === 'OK')
    }
    await this.ready()
  }

  #nodesOf(server: RedisServer): number {
    const lines = command(server, 'cluster', 'nodes').split('\n')
    return lines.filter((line) => line.includes(' connected') && !line.includes('handshake')).length
  }

  /** Resolves when every slot is served and every replica follows its master. */
  async ready(): Promise<void> {
    await until('the cluster is ready', () => {
      return this.servers.every((each) => {
        if (!each.isRunning) return true
        const follows = command(each, 'info', 'replication')
        const isPart = follows.includes('role:master') || follows.includes('master_link_status:up')
        return isPart && command(each, 'cluster', 'info').includes('cluster_state:ok')
      })
    })
  }

  /** The server that is the master of a slot now. */
  masterOf(slot: number): RedisServer {
    for (const asked of this.servers.filter(({ isRunning }) => isRunning)) {
      for (const line of command(asked, 'cluster', 'nodes').split('\n')) {
        const [, address = '', flags = '', ...rest] = line.split(' ')
        const ranges = rest.slice(5).filter((each) => !each.startsWith('['))
        const has = ranges.some((range) => {
          const [from, to = from] = range.split('-').map(Number)
          return slot >= from! && slot <= to!
        })
        if (!has || flags.includes('fail') || !flags.includes('master')) continue
        const port = Number(/:(\d+)@/.exec(address)?.[1])
        const found = this.servers.find((each) => each.port === port)
        if (found?.isRunning === true) return found
      }
    }
    throw new Error(`no running master has slot ${slot}`)
  }

  /** Moves a slot with all its keys to another master, as redis-cli --cluster reshard does; `pause` is called between two portions. */
  async move(slot: number, to: RedisServer, pause: () => Promise<void> = async () => {}): Promise<void> {
    const from = this.masterOf(slot)
    const ids = [command(from, 'cluster', 'myid'), command(to, 'cluster', 'myid')] as const
    command(to, 'cluster', 'setslot', String(slot), 'importing', ids[0])
    command(from, 'cluster', 'setslot', String(slot), 'migrating', ids[1])
    for (;;) {
      const keys = command(from, 'cluster', 'getkeysinslot', String(slot), '20').split('\n').filter(Boolean)
      if (keys.length === 0) break
      command(from, 'migrate', '127.0.0.1', String(to.port), '', '0', '5000', 'KEYS', ...keys)
      await pause()
    }
    for (const server of [to, from]) command(server, 'cluster', 'setslot', String(slot), 'node', ids[1])
  }

  /** Removes all data. */
  empty(): void {
    for (const server of this.masters) command(server, 'flushall')
  }

  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()))
  }
}

/** Runs a command with redis-cli. */
export function command(server: Pick<RedisServer, 'port'>, ...words: readonly string[]): string {
  const { stdout } = spawnSync('redis-cli', ['-p', String(server.port), ...words], {
    encoding: 'utf8',
    timeout: WAIT_MS,
  })
  return stdout.trim()
}

const busPorts = new Map<RedisServer, number>()

function busPortOf(server: RedisServer): number {
  let port = busPorts.get(server)
  if (port === undefined) {
    port = Number(/cluster-port\n(\d+)/.exec(command(server, 'config', 'get', 'cluster-port'))?.[1])
    busPorts.set(server, port)
  }
  return port
}

/** Resolves when it is so; raises when that takes too long. */
export async function until(what: string, isSo: () => boolean): Promise<void> {
  const endMs = performance.now() + WAIT_MS
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error(`not within ${WAIT_MS} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

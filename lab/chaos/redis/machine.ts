// The servers of a run on Redis: what its faults need of them, whoever decides which of them is a primary.

import type { FillableDisk } from '../../servers/fillable-disk.js'
import type { RedisServer } from '../../servers/redis.js'
import type { FaultProxy } from '../proxy.js'
import { sleep } from '../sleep.js'
import { askText, until } from './ask.js'

export interface RedisMachine {
  /** Where a process that finds the servers itself connects. */
  readonly url: string
  readonly servers: readonly RedisServer[]
  /** The disk of each server's append-only file; empty where disks can't be filled. */
  readonly disks: ReadonlyMap<RedisServer, FillableDisk>
  /** How many shards a store has here. */
  readonly shards: number
  /** The servers that take writes now. */
  masters(): Promise<readonly RedisServer[]>
  /** The server that has a shard now. */
  masterOf(shard: number): Promise<RedisServer>
  /** A link that follows the primary, for processes that do not look for it themselves; null where each shard has another. */
  link(): Promise<FaultProxy | null>
  /** Lets a replica take over in order. */
  switchOver(master: RedisServer): Promise<void>
  /** Cuts its replicas off. What it writes from then on no other server has. */
  cutReplication(master: RedisServer): Promise<void>
  /** Moves some shards to another master; null where that can't be. */
  readonly moveShard: ((shard: number) => Promise<void>) | null
  /** The settings with which a server starts again: it must not follow a server that is a replica now. */
  restart(server: RedisServer): Promise<void>
  close(): Promise<void>
}

const SETTLED_MS = 60_000
const PING_MS = 500

/** Waits until a server answers and has read its data. */
export async function isUp(server: RedisServer): Promise<void> {
  await until(`the server on port ${server.port} answers`, async () => (await askText(server, ['PING'])) === 'PONG')
}

/** Waits until each server is up and each replica follows its primary. */
export async function isComplete(machine: RedisMachine): Promise<void> {
  let missing: string | null = null
  const isWhole = async () => {
    missing = await incomplete(machine)
    return missing === null
  }
  await until('every server is up, and every replica follows', isWhole, SETTLED_MS).catch((error: Error) => {
    throw new Error(`${error.message}: ${missing}`)
  })
}

/** What is missing, or null. */
async function incomplete(machine: RedisMachine): Promise<string | null> {
  const masters = await machine.masters()
  for (const server of machine.servers) {
    if (!server.isRunning) return `the server on port ${server.port} is down`
    const facts = await askText(server, ['INFO', 'replication'])
    const isPrimary = facts.includes('role:master')
    if (isPrimary !== masters.includes(server)) return `the server on port ${server.port} is in the wrong role`
    if (!isPrimary && !facts.includes('master_link_status:up')) return `${server.port} does not follow`
  }
  return null
}

/** Waits until others than these take writes. */
export async function takenOver(machine: RedisMachine, former: RedisServer, ms = 30_000): Promise<void> {
  const isTaken = async () => {
    const masters = await machine.masters()
    return masters.length > 0 && !masters.includes(former)
  }
  await until(`another server has taken over from ${former.port}`, isTaken, ms)
  await sleep(PING_MS)
}

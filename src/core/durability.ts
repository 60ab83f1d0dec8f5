// What is less durable than promised, in words for people: the same in the log, on the dashboard and in the terminal.

import { invalidOption } from './errors.js'
import type { PostgresHealth, RedisHealth } from './operating.js'

/** What a commit waits for: this server's disk; also the synchronous standbys' disks, if there are any; also until it can be read there. */
const DURABILITIES = ['local', 'replicated', 'applied'] as const
export type Durability = (typeof DURABILITIES)[number]

/** Raises `invalid_option`. */
export function checkDurability(value: unknown): Durability {
  const known = DURABILITIES.find((name) => name === value)
  if (known !== undefined) return known
  throw invalidOption("durability must be 'local', 'replicated' or 'applied'", value)
}

/** Whether commits with this synchronous_commit wait for less than with `on`. */
export function isLessThanOn(synchronousCommit: string): boolean {
  return synchronousCommit !== 'on' && synchronousCommit !== 'remote_apply'
}

/** What a server's settings take from the promise that an accepted job survives; null when they take nothing. */
export function describeReduced({ settings, durability = 'replicated' }: PostgresHealth): string | null {
  const { fsync, fullPageWrites, synchronousCommit, synchronousCommitOfRole } = settings
  if (!fsync) return 'fsync is off: a crash of the machine may lose accepted jobs and damage the database'
  if (!fullPageWrites) return 'full_page_writes is off: a power cut may leave pages half written'
  if (isLessThanOn(synchronousCommit) && !(durability === 'local' && synchronousCommit === 'local')) {
    return `synchronous_commit is ${synchronousCommit} and could not be turned on: a crash or a failover may lose accepted jobs`
  }
  if (isLessThanOn(synchronousCommitOfRole) && durability !== 'local') {
    return `synchronous_commit is ${synchronousCommitOfRole} for this role: jobs enqueued in your own transactions may be lost by a crash or a failover; all others are committed with ${synchronousCommit}`
  }
  return null
}

/** The same of a Redis server. That a failover may lose the newest jobs is so by default, and not reported here. */
export function describeReducedRedis({ appendOnly, lastAppendOk, fsync }: RedisHealth): string | null {
  if (!appendOnly) return 'appendonly is off: accepted jobs are lost when the Redis server ends'
  if (!lastAppendOk)
    return 'the last write to the append-only file failed: a crash of the Redis server loses accepted jobs'
  if (fsync === 'no') return 'appendfsync is no: a crash of the machine may lose the jobs of the last half minute'
  return null
}

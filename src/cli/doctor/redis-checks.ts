// What `doctor` finds about a Redis server.

import type { RedisClusterHealth, RedisHealth } from '../../core/operating.js'
import type { OutboxHealth } from '../../core/outbox.js'
import { type Found, failed, ok, warning } from './found.js'

/** Memory in use from which on it is time to act: at the limit every enqueue is refused. */
const MEMORY_WARN = 0.8
const SLOW_MS = 5
/** Messages between shards from which on they are not just on their way. */
const MESSAGES_WARN = 1_000

/** One sentence: what a crash does to an accepted job. */
export function redisDurability({ appendOnly, fsync, durability }: RedisHealth): string {
  if (durability !== 'default') {
    const disk = durability === 'fsynced' ? ' and on their disks' : ''
    return `An accepted job is on the server and on a replica${disk}: it survives the loss of either.`
  }
  if (!appendOnly) return 'An accepted job is lost when the server ends, unless a snapshot was taken meanwhile.'
  if (fsync === 'always') return "An accepted job is on the server's disk. A failover may lose the newest jobs."
  return 'An accepted job survives the end of the server program. A power cut may lose those of the last second or two, and a failover the newest.'
}

/** Each check by its name. */
export function redisChecks(redis: RedisHealth): readonly (readonly [name: string, found: Found])[] {
  return [
    ['role', checkRole(redis)],
    ['eviction', checkEviction(redis)],
    ['append-only file', checkAppendOnly(redis)],
    ['replicas', checkReplicas(redis)],
    ['memory', checkMemoryUse(redis)],
    ['round trip', checkRoundTrip(redis)],
    ...(redis.cluster === undefined ? [] : [['cluster', checkCluster(redis, redis.cluster)] as const]),
  ]
}

/** A row that waits longer than this is not just on its way. */
const OUTBOX_WARN_MS = 30_000
const OUTBOX_FAILED_MS = 300_000

export function checkOutbox({ isReachable, schema, waiting, isExact, oldestMs, refused }: OutboxHealth): Found {
  if (!isReachable) return failed('PostgreSQL cannot be reached: jobs of transactions are not sent')
  const many = `${isExact ? '' : 'more than '}${waiting}`
  const text = `${many} waiting, the oldest for ${Math.round(oldestMs / 1_000)} s, in schema "${schema}"`
  if (oldestMs > OUTBOX_WARN_MS) {
    const found = oldestMs > OUTBOX_FAILED_MS ? failed : warning
    return found(
      `${text}: a process with upkeep and this outbox must run, and reach Redis`,
      'holdfast worker ./jobs.js',
    )
  }
  if (refused > 0)
    return warning(`${text}; ${refused} refused in the last 7 days`, 'holdfast audit --action outbox_refused')
  return ok(text)
}

function checkRole({ role }: RedisHealth): Found {
  return role === 'primary'
    ? ok('primary: it takes writes')
    : failed('replica: it takes no writes; connect to the primary')
}

function checkEviction({ evictionPolicy }: RedisHealth): Found {
  if (evictionPolicy === 'noeviction') return ok('noeviction: no key is removed')
  return failed(`${evictionPolicy}: jobs are removed when memory is full`, 'CONFIG SET maxmemory-policy noeviction')
}

function checkAppendOnly({ appendOnly, lastAppendOk, fsync }: RedisHealth): Found {
  if (!appendOnly) return failed('off: accepted jobs are lost when the server ends', 'CONFIG SET appendonly yes')
  if (!lastAppendOk) return failed('the last write to it failed: look at the disk and at the log of the server')
  if (fsync === 'no') return warning('on, but never flushed by the server itself', 'CONFIG SET appendfsync everysec')
  return ok(`on, appendfsync ${fsync ?? 'not known: this user may not read it'}`)
}

function checkReplicas({ replicas, durability }: RedisHealth): Found {
  if (replicas > 0) return ok(`${replicas} connected`)
  if (durability === 'default') return warning('none: the loss of this machine loses every job')
  return failed(`none, and durability "${durability}" waits for one: every write is refused`)
}

function checkMemoryUse({ memoryBytes, memoryBytesMax }: RedisHealth): Found {
  const mib = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MiB`
  if (memoryBytesMax === null) {
    return warning(`${mib(memoryBytes)}, no limit: the system may kill the server`, 'CONFIG SET maxmemory <bytes>')
  }
  const text = `${mib(memoryBytes)} of ${mib(memoryBytesMax)}`
  return memoryBytes > MEMORY_WARN * memoryBytesMax ? warning(`${text}: at the limit enqueues are refused`) : ok(text)
}

function checkRoundTrip({ roundTripMs }: RedisHealth): Found {
  const text = `${roundTripMs.toFixed(1)} ms`
  return roundTripMs > SLOW_MS ? warning(`${text}: bring workers nearer to the server`) : ok(text)
}

function checkCluster({ replicas, durability }: RedisHealth, cluster: RedisClusterHealth): Found {
  const { shards, masters, requiresFullCoverage, messages } = cluster
  const text = `${shards} shards on ${masters.length} masters (${masters.join(', ')})`
  if (requiresFullCoverage === true) {
    const why = 'while one master is away, all refuse every call (cluster-require-full-coverage yes)'
    return warning(`${text}: ${why}`, 'CONFIG SET cluster-require-full-coverage no, on every node')
  }
  if (durability !== 'default' && replicas === 1) {
    const why = `after a failover its shards refuse every write until a replica is back (durability "${durability}")`
    return warning(`${text}; a master has one replica: ${why}`, 'give each master two replicas')
  }
  if (messages > MESSAGES_WARN) {
    return warning(`${text}; ${messages} messages between shards wait`, 'run a process with upkeep, and see its log')
  }
  return ok(text)
}

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
export function redisDurability({ appendOnly, fsync, durability, replicasWanted }: RedisHealth): string {
  if (durability !== 'default') {
    const disk = durability === 'fsynced' ? ' and on their disks' : ''
    if (replicasWanted > 1) {
      return `An accepted job is on the server and on ${replicasWanted} replicas${disk}: it survives while one of them does.`
    }
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
    ['disk', checkDisk(redis)],
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
  if (!lastAppendOk) {
    const text =
      'the last write to it failed, usually because its disk is full: every write is refused (MISCONF). Free some space, then rewrite the file, and restart the server only when aof_rewrite_in_progress is 0'
    return failed(text, 'redis-cli BGREWRITEAOF', 'redis-cli INFO persistence')
  }
  if (fsync === 'no') return warning('on, but never flushed by the server itself', 'CONFIG SET appendfsync everysec')
  return ok(`on, appendfsync ${fsync ?? 'not known: this user may not read it'}`)
}

/** Redis remembers that it refused writes, and not whether the file was rewritten since. */
function checkDisk({ appendOnly, lastAppendOk, refusedForDisk }: RedisHealth): Found {
  if (refusedForDisk === 0) return ok('no write was refused because of the disk')
  const text = `${refusedForDisk} ${refusedForDisk === 1 ? 'call was' : 'calls were'} refused because the server could not write to its disk (MISCONF)`
  // The check of the file has the rest.
  if (appendOnly && !lastAppendOk) return failed(text)
  if (!appendOnly) return warning(`${text}: see rdb_last_bgsave_status and its log`, 'redis-cli INFO persistence')
  const why =
    'Redis 7.0 may have left zeros in the append-only file then, and does not start from it. Rewrite it before the next restart, and reset the statistics, which ends this warning'
  return warning(`${text}. ${why}`, 'redis-cli BGREWRITEAOF', 'redis-cli CONFIG RESETSTAT')
}

function checkReplicas({ replicas, replicasWanted, durability }: RedisHealth): Found {
  if (durability === 'default') {
    return replicas > 0 ? ok(`${replicas} connected`) : warning('none: the loss of this machine loses every job')
  }
  const wait = `durability "${durability}" waits for ${replicasWanted}`
  if (replicas < replicasWanted) {
    const fix = 'start the missing replicas, or connect with a smaller `replicas`'
    return failed(`${replicas === 0 ? 'none' : replicas} connected, and ${wait}: every write is refused`, fix)
  }
  if (replicas === replicasWanted) {
    return warning(
      `${replicas} connected, and ${wait}: the loss of one stops all writes`,
      'add a replica that is not waited for',
    )
  }
  const spare = replicas - replicasWanted
  return ok(`${replicas} connected, and ${wait}: writes go on while ${spare} ${spare === 1 ? 'is' : 'are'} away`)
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

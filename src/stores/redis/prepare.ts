// What is looked at before a store is opened: whether the server can keep jobs at all. Each refusal says what to do.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { versionOf } from './health.js'
import { LIBRARY, LIBRARY_NAME } from './library.js'
import type { Network } from './network.js'
import type { Redis } from './redis.js'
import { checkRights } from './rights.js'
import { LAYOUT } from './work.js'

export interface Preparation {
  readonly mayMake: boolean
  readonly kind: Network['kind']
  readonly shard: number
  /** How many shards a new store gets. */
  readonly shards: number
  /** Its server was looked at for another shard. */
  readonly isKnownServer?: boolean
}

/** Checks the server, loads the functions, and makes the shard where there is none, if it may. Returns how many shards the store has. */
export async function prepare(
  redis: Redis,
  { mayMake, kind, shard, shards, isKnownServer = false }: Preparation,
): Promise<number> {
  const where = redactUrl(redis.settings.url)
  if (!isKnownServer) {
    checkServer(where, await redis.info('operate'), redis, kind)
    if (kind === 'server') await checkOneServer(where, redis)
    await loadLibrary(redis)
  }
  await checkRights(redis, isKnownServer)
  const opened = await redis.open(mayMake, { shard, shards })
  if (opened.layout === '') {
    const what =
      shard === 0 ? 'there is no Holdfast store' : `shard ${shard} (${redis.settings.base}*) of the store is missing`
    throw new HoldfastError(
      'schema_missing',
      `${what} at ${where}: connect once without migrate: false, or check the database number in the URL`,
    )
  }
  if (opened.layout !== String(LAYOUT)) {
    throw new HoldfastError(
      'schema_too_new',
      `the store at ${where} has layout ${opened.layout}, this version reads ${LAYOUT}: upgrade the package before starting workers`,
    )
  }
  return opened.shards
}

function checkServer(
  where: string,
  info: ReadonlyMap<string, string>,
  { settings }: Redis,
  kind: Network['kind'],
): void {
  const [major = 0, minor = 0] = (info.get('redis_version') ?? '').split('.').map(Number)
  if (major < 7) {
    throw refused(`${where} runs ${versionOf(info)}, which has no functions: use Redis 7.0 or Valkey 7.2 or later`)
  }
  const hasWaitAof = info.has('valkey_version') || major > 7 || minor >= 2
  if (settings.durability === 'fsynced' && !hasWaitAof) {
    throw refused(`${where} runs ${versionOf(info)}: durability "fsynced" needs WAITAOF, which came with Redis 7.2`)
  }
  if (info.get('cluster_enabled') === '1' && kind !== 'cluster') {
    throw new HoldfastError(
      'unsupported',
      `${where} is a Redis Cluster, or a proxy in front of one: write redis+cluster:// with the addresses of its nodes`,
    )
  }
  if (info.get('role') === 'slave') {
    if (kind !== 'server') throw new HoldfastError('store_unavailable', `${where}: a primary has just become a replica`)
    throw new HoldfastError('store_read_only', `${where} is a replica and takes no writes: connect to the primary`)
  }
  const policy = info.get('maxmemory_policy')
  if (policy !== undefined && policy !== 'noeviction') {
    throw refused(
      `${where} removes keys when its memory is full (maxmemory-policy ${policy}), and with them jobs: set maxmemory-policy noeviction, or use a server of its own`,
    )
  }
}

/** A proxy in front of several servers leads each connection to another, or each command. Functions need all their keys in one. */
async function checkOneServer(where: string, redis: Redis): Promise<void> {
  const [one, other] = await Promise.all([redis.info('operate', 'server'), redis.info('look', 'server')])
  if (one.get('run_id') === other.get('run_id')) return
  // An address that was moved between the two connections looks the same. New ones lead to one server then.
  const [third, fourth] = await Promise.all([runBehind(redis), runBehind(redis)])
  if (third === fourth) {
    throw new HoldfastError(
      'store_unavailable',
      `${where} was moved to another server while the store was opened (run_id ${one.get('run_id')} and ${other.get('run_id')}), as in a failover: open it again`,
      { retryable: true },
    )
  }
  throw new HoldfastError(
    'unsupported',
    `${where} is not one server: two connections led to two (run_id ${one.get('run_id')} and ${other.get('run_id')}), so it is a proxy in front of several; write redis+cluster:// with the addresses of the nodes of a cluster, or the address of one server`,
  )
}

/** The run_id of the server that a new connection leads to. */
async function runBehind(redis: Redis): Promise<string> {
  const connection = await redis.connect()
  try {
    return /^run_id:(\w+)/m.exec(String(await connection.send(['INFO', 'server'])))?.[1] ?? ''
  } finally {
    connection.destroy()
  }
}

function refused(message: string): HoldfastError {
  return new HoldfastError('store_refused', message)
}

/** Whether the server takes functions. Some hosted ones do not, and an ACL rule may forbid them. Any other failure is left to prepare. */
export async function canHaveFunctions(redis: Redis): Promise<boolean> {
  try {
    await redis.command('operate', 'FUNCTION', 'LIST', 'LIBRARYNAME', LIBRARY_NAME)
    return true
  } catch (error) {
    const isForbidden = redis.refusal(error) === 'NOPERM' || /unknown command/i.test((error as Error).message)
    return !isForbidden
  }
}

async function loadLibrary(redis: Redis): Promise<void> {
  // A script is loaded by the first call of it.
  if (!redis.settings.hasFunctions) return
  const known = await redis.command('operate', 'FUNCTION', 'LIST', 'LIBRARYNAME', LIBRARY_NAME)
  if (Array.isArray(known) && known.length > 0) return
  // REPLACE: another process may load the same text in this very moment.
  await redis.command('operate', 'FUNCTION', 'LOAD', 'REPLACE', LIBRARY)
}

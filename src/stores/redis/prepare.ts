// What is looked at before a store is opened: whether the server can keep jobs at all. Each refusal says what to do.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { versionOf } from './health.js'
import { LIBRARY, LIBRARY_NAME } from './library.js'
import type { Redis } from './redis.js'
import { LAYOUT } from './work.js'

/** Checks the server, loads the functions, and makes the store where there is none, if it may. */
export async function prepare(redis: Redis, mayMake: boolean): Promise<void> {
  const where = redactUrl(redis.settings.url)
  checkServer(where, await redis.info('operate'), redis)
  await loadLibrary(redis)
  const layout = await redis.open(mayMake)
  if (layout === '') {
    throw new HoldfastError(
      'schema_missing',
      `there is no Holdfast store at ${where}: connect once without migrate: false, or check the database number in the URL`,
    )
  }
  if (layout !== String(LAYOUT)) {
    throw new HoldfastError(
      'schema_too_new',
      `the store at ${where} has layout ${layout}, this version reads ${LAYOUT}: upgrade the package before starting workers`,
    )
  }
}

function checkServer(where: string, info: ReadonlyMap<string, string>, { settings }: Redis): void {
  const [major = 0, minor = 0] = (info.get('redis_version') ?? '').split('.').map(Number)
  if (major < 7) {
    throw refused(`${where} runs ${versionOf(info)}, which has no functions: use Redis 7.0 or Valkey 7.2 or later`)
  }
  const hasWaitAof = info.has('valkey_version') || major > 7 || minor >= 2
  if (settings.durability === 'fsynced' && !hasWaitAof) {
    throw refused(`${where} runs ${versionOf(info)}: durability "fsynced" needs WAITAOF, which came with Redis 7.2`)
  }
  if (info.get('cluster_enabled') === '1') {
    throw new HoldfastError(
      'unsupported',
      `${where} is a node of a Redis Cluster, which this version does not support: connect to a server on its own`,
    )
  }
  if (info.get('role') === 'slave') {
    throw new HoldfastError('store_read_only', `${where} is a replica and takes no writes: connect to the primary`)
  }
  const policy = info.get('maxmemory_policy')
  if (policy !== undefined && policy !== 'noeviction') {
    throw refused(
      `${where} removes keys when its memory is full (maxmemory-policy ${policy}), and with them jobs: set maxmemory-policy noeviction, or use a server of its own`,
    )
  }
}

function refused(message: string): HoldfastError {
  return new HoldfastError('store_refused', message)
}

async function loadLibrary(redis: Redis): Promise<void> {
  const known = await redis.command('operate', 'FUNCTION', 'LIST', 'LIBRARYNAME', LIBRARY_NAME)
  if (Array.isArray(known) && known.length > 0) return
  // REPLACE: another process may load the same text in this very moment.
  await redis.command('operate', 'FUNCTION', 'LOAD', 'REPLACE', LIBRARY)
}

// What the store says about itself.

import type { RedisHealth, StoreHealth } from '../../core/operating.js'
import type { Redis } from './redis.js'

export async function health(redis: Redis): Promise<StoreHealth> {
  const startMs = performance.now()
  const info = await redis.info('look')
  const roundTripMs = performance.now() - startMs
  const { nowMs } = await redis.read('look', 'now', [])
  const fsync = await fsyncOf(redis)
  const { durability, replicas } = redis.settings
  const replicasWanted = durability === 'default' ? 0 : replicas
  const facts = factsOf(info, { fsync, durability, replicasWanted, roundTripMs })
  return {
    kind: 'redis',
    version: versionOf(info),
    isDurable: facts.appendOnly && facts.lastAppendOk,
    nowMs,
    postgres: null,
    redis: facts,
  }
}

/** The name and version of the server: Valkey shows a Redis version beside its own. */
export function versionOf(info: ReadonlyMap<string, string>): string {
  const valkey = info.get('valkey_version')
  return valkey === undefined ? `Redis ${info.get('redis_version') ?? '?'}` : `Valkey ${valkey}`
}

/** appendfsync; null where CONFIG is not allowed. */
async function fsyncOf(redis: Redis): Promise<string | null> {
  try {
    const reply = await redis.command('look', 'CONFIG', 'GET', 'appendfsync')
    return Array.isArray(reply) && typeof reply[1] === 'string' ? reply[1] : null
  } catch {
    return null
  }
}

function factsOf(
  info: ReadonlyMap<string, string>,
  asked: Pick<RedisHealth, 'fsync' | 'durability' | 'replicasWanted' | 'roundTripMs'>,
): RedisHealth {
  const number = (name: string) => Number(info.get(name) ?? 0)
  return {
    role: info.get('role') === 'slave' ? 'replica' : 'primary',
    ...asked,
    appendOnly: info.get('aof_enabled') === '1',
    lastAppendOk: (info.get('aof_last_write_status') ?? 'ok') === 'ok',
    replicas: number('connected_slaves'),
    replicationId: info.get('master_replid') ?? '',
    memoryBytes: number('used_memory'),
    memoryBytesMax: number('maxmemory') === 0 ? null : number('maxmemory'),
    evictionPolicy: info.get('maxmemory_policy') ?? 'unknown',
    connections: number('connected_clients'),
    upMs: number('uptime_in_seconds') * 1_000,
    refusedForDisk: Number(/^count=(\d+)/.exec(info.get('errorstat_MISCONF') ?? '')?.[1] ?? 0),
  }
}

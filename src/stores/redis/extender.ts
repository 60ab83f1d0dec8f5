// What the heartbeat thread loads: connections that extend leases, whatever the main thread is doing.

import type { Lease } from '../../core/job.js'
import type { Extension } from '../../core/job-store.js'
import { openNetwork } from './network.js'
import { Redis, type RedisSettings } from './redis.js'
import { ShardLeases } from './shards/leases.js'
import { Shards } from './shards/shards.js'
import { baseOf } from './tags.js'

/** What the thread receives. */
export interface ExtenderSettings extends Omit<RedisSettings, 'clock' | 'base'> {
  readonly prefix: string
  readonly shards: number
}

/** Opens connections when they are first needed. */
export async function openExtender({ prefix, shards, ...settings }: ExtenderSettings): Promise<{
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>
  close(): Promise<void>
}> {
  const network = openNetwork(settings.url, settings.connectMs)
  const all = Array.from({ length: shards }, (_, shard) => {
    const sharing = shards === 1 ? {} : { sharing: { line: 0, onOwed: () => {} } }
    return new Redis(
      { ...settings, base: baseOf(prefix, shard), clock: null },
      { route: network.route(shard), ...sharing },
    )
  })
  const leases = new ShardLeases(new Shards(all, 'extend'))
  return { extend: (held, leaseMs) => leases.extend(held, leaseMs), close: () => network.close() }
}

// What the heartbeat thread loads: one connection that extends leases, whatever the main thread is doing.

import type { Lease } from '../../core/job.js'
import type { Extension } from '../../core/job-store.js'
import { extend } from './extend.js'
import { Redis, type RedisSettings } from './redis.js'

/** What the thread receives. */
export type ExtenderSettings = Omit<RedisSettings, 'clock'>

/** Opens the connection when it is first needed. */
export async function openExtender(settings: ExtenderSettings): Promise<{
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>
  close(): Promise<void>
}> {
  const redis = new Redis({ ...settings, clock: null })
  return {
    extend: (leases, leaseMs) => extend(redis, leases, leaseMs),
    close: () => redis.close(),
  }
}

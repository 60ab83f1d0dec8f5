// What a store of several shards says about itself: what holds for the server that is worst off.

import type { RedisHealth, StoreHealth } from '../../../core/operating.js'
import { health } from '../health.js'
import type { Redis } from '../redis.js'

export async function healthOf(shards: readonly Redis[]): Promise<StoreHealth> {
  const addresses = await Promise.all(shards.map((redis) => redis.address()))
  const masters = [...new Set(addresses)]
  const firsts = masters.map((address) => shards[addresses.indexOf(address)]!)
  const all = await Promise.all(firsts.map(health))
  const worst = worstOf(all.map(({ redis }) => redis!))
  const requiresFullCoverage = await coverageOf(shards[0]!)
  const counts = await Promise.all(shards.map((redis) => redis.read<number[]>('look', 'census', [''])))
  const messages = counts.reduce((sum, { value }) => sum + value[5]!, 0)
  return {
    ...all[0]!,
    isDurable: all.every(({ isDurable }) => isDurable),
    redis: { ...worst, cluster: { shards: shards.length, masters, requiresFullCoverage, messages } },
  }
}

const FSYNC = ['no', 'everysec', 'always']

function worstOf(all: readonly RedisHealth[]): RedisHealth {
  const fullest = all.reduce((one, other) => (share(other) > share(one) ? other : one))
  const leastFsync = all.reduce((one, other) =>
    FSYNC.indexOf(other.fsync ?? '') < FSYNC.indexOf(one.fsync ?? '') ? other : one,
  )
  const evicting = all.find(({ evictionPolicy }) => evictionPolicy !== 'noeviction')
  return {
    ...fullest,
    role: all.every(({ role }) => role === 'primary') ? 'primary' : 'replica',
    appendOnly: all.every(({ appendOnly }) => appendOnly),
    lastAppendOk: all.every(({ lastAppendOk }) => lastAppendOk),
    fsync: leastFsync.fsync,
    replicas: Math.min(...all.map(({ replicas }) => replicas)),
    refusedForDisk: all.reduce((sum, { refusedForDisk }) => sum + refusedForDisk, 0),
    evictionPolicy: (evicting ?? fullest).evictionPolicy,
    upMs: Math.min(...all.map(({ upMs }) => upMs)),
    roundTripMs: Math.max(...all.map(({ roundTripMs }) => roundTripMs)),
  }
}

/** How full the memory of a server is, those without a limit by what they use. */
function share({ memoryBytes, memoryBytesMax }: RedisHealth): number {
  return memoryBytesMax === null ? memoryBytes / 2 ** 50 : memoryBytes / memoryBytesMax
}

async function coverageOf(redis: Redis): Promise<boolean | null> {
  try {
    const reply = await redis.command('look', 'CONFIG', 'GET', 'cluster-require-full-coverage')
    return Array.isArray(reply) && typeof reply[1] === 'string' ? reply[1] === 'yes' : null
  } catch {
    return null
  }
}

// The Redis store: redis://…, redis+cluster://…, redis+sentinel://…, each also as rediss with TLS. One file holds one operation, named as in
// the other stores; library.ts joins their Lua. shards/ has what a store of several shards does beside that.

import { randomUUID } from 'node:crypto'
import { checkChoice, checkWhole } from '../../core/check.js'
import { HoldfastError, show } from '../../core/errors.js'
import type { ExtenderSpec } from '../../core/job-store.js'
import { QUEUES_MAX } from '../../core/operating.js'
import type { Clock } from '../../core/ports.js'
import type { ExtenderSettings } from './extender.js'
import { type Network, openNetwork } from './network.js'
import { canHaveFunctions, type Preparation, prepare } from './prepare.js'
import { type Durability, Redis, type RedisDeps, type RedisSettings, type Report } from './redis.js'
import { isAway } from './shards/shards.js'
import { composeShardedStore, openShards } from './shards/store.js'
import { composeStore, type RedisStore } from './store.js'
import { baseOf, SHARDS } from './tags.js'
import { type WakeSource, WakeUps } from './wake.js'

export type { Durability } from './redis.js'
export type { RedisStore } from './store.js'

export interface RedisOptions {
  /** What every key begins with, before the hash tag {hf:0}. Default ''. Several stores can live in one database, apart from each other. */
  readonly prefix?: string
  /** Whether to make the store where there is none. Default true. With false that raises `schema_missing`. */
  readonly migrate?: boolean
  /** What an accepted job survives. Default 'default': what the server's own settings give. 'replicated' waits until `replicas` replicas have
   *  each write (WAIT), 'fsynced' until it is on disk as well (WAITAOF, from Redis 7.2 on). */
  readonly durability?: Durability
  /** How many replicas must have a write. Default 1. */
  readonly replicas?: number
  /** How long a write waits for them before it raises `store_unavailable`. Default 500. */
  readonly waitMs?: number
  /** How long a connection may take to open. Default 10 000. */
  readonly connectMs?: number
  /** How long a call may take before its connection is cut. Default 10 000. */
  readonly deadlineMs?: number
  /** The most queues, from 1 to 1,000,000. Default 10 000. Enqueueing to one more raises `too_many_queues`. */
  readonly queuesMax?: number
  /** A clock that replaces the server's in every call. For tests: in production time is the server's. */
  readonly clock?: Pick<Clock, 'now'>
}

const REDIS_DEFAULTS = {
  prefix: '',
  migrate: true,
  durability: 'default',
  replicas: 1,
  waitMs: 500,
  connectMs: 10_000,
  deadlineMs: 10_000,
  queuesMax: QUEUES_MAX,
} as const satisfies Required<Omit<RedisOptions, 'clock'>>

/** Connects, looks whether the servers can keep jobs, and returns the store. */
export async function redisStore(url: string, options: RedisOptions = {}): Promise<RedisStore> {
  const { queuesMax, migrate, prefix, ...settings } = settingsOf(url, options)
  const network = openNetwork(url, settings.connectMs)
  try {
    const self = randomUUID().slice(0, 8)
    const first = { ...settings, base: baseOf(prefix, 0), hasFunctions: true }
    const hasFunctions = await canHaveFunctions(new Redis(first, { route: network.route(0), self }))
    const open = (shard: number, deps: Partial<RedisDeps> = {}) => {
      const own = { ...settings, base: baseOf(prefix, shard), hasFunctions }
      return new Redis(own, { route: network.route(shard), self, ...deps })
    }
    const wanted = network.kind === 'cluster' ? SHARDS : 1
    const preparation = { mayMake: migrate, kind: network.kind, shards: wanted }
    const shards = await prepare(open(0), { ...preparation, shard: 0 })
    const { clock: _, ...data } = settings
    const extender: () => ExtenderSpec = () => {
      const all = { ...data, prefix, shards, hasFunctions } satisfies ExtenderSettings
      return { kind: 'redis', module: extenderModule(), data: all }
    }
    const wakeUps = new WakeUps({ self, open: () => wakeSources(network, { prefix, shards }) })
    network.onChange(() => wakeUps.renew())
    const onReport = (report: Report) => wakeUps.report(report)
    const common = { wakeUps, extender, queuesMax, close: () => network.close() }
    if (shards === 1) return composeStore({ redis: open(0, { onReport }), ...common })
    const parts = openShards(shards, (shard, sharing) => open(shard, { onReport, sharing }))
    await prepareShards(parts.all, preparation)
    return await composeShardedStore({ ...parts, ...common })
  } catch (error) {
    await network.close()
    throw error
  }
}

/** Prepares all shards but the first, and each server once. */
async function prepareShards(
  all: readonly Redis[],
  preparation: Omit<Preparation, 'shard' | 'isKnownServer'>,
): Promise<void> {
  const addresses = await Promise.all(all.map((redis) => redis.address()))
  const isFirst = (shard: number) => addresses.indexOf(addresses[shard]!) === shard
  const prepareShard = (shard: number) => {
    return prepare(all[shard]!, { ...preparation, shards: all.length, shard, isKnownServer: !isFirst(shard) })
  }
  const others = [...all.keys()].slice(1)
  for (const those of [others.filter(isFirst), others.filter((shard) => !isFirst(shard))]) {
    for (const prepared of await Promise.allSettled(those.map(prepareShard))) {
      // One that is away must not keep this process from the others.
      if (prepared.status === 'rejected' && !isAway(prepared.reason)) throw prepared.reason
    }
  }
}

/** One connection for each server, with the channels of its shards. */
async function wakeSources(
  network: Network,
  { prefix, shards }: { readonly prefix: string; readonly shards: number },
): Promise<WakeSource[]> {
  const byAddress = new Map<string, number[]>()
  for (let shard = 0; shard < shards; shard++) {
    const address = await network.route(shard).address()
    byAddress.set(address, [...(byAddress.get(address) ?? []), shard])
  }
  return Promise.all(
    [...byAddress.values()].map(async (those) => ({
      connection: await network
        .route(those[0]!)
        .open()
        .catch(() => null),
      channels: those.map((shard) => `${baseOf(prefix, shard)}wake`),
    })),
  )
}

function settingsOf(url: string, options: RedisOptions): Settings {
  const { prefix, clock, ...rest } = { ...REDIS_DEFAULTS, ...options }
  if (typeof prefix !== 'string' || !/^[A-Za-z0-9._:-]{0,50}$/.test(prefix)) {
    throw new HoldfastError(
      'invalid_option',
      `prefix must be at most 50 letters, digits or . _ : -, got ${show(prefix)}`,
    )
  }
  checkWhole('queuesMax', rest.queuesMax, 1, 1_000_000)
  checkWhole('replicas', rest.replicas, 1, 100)
  checkWhole('waitMs', rest.waitMs, 1, rest.deadlineMs)
  checkChoice('durability', rest.durability, ['default', 'replicated', 'fsynced'])
  return { ...rest, url, prefix, clock: clock ?? null }
}

interface Settings extends Omit<RedisSettings, 'base' | 'hasFunctions'> {
  readonly queuesMax: number
  readonly migrate: boolean
  readonly prefix: string
}

/** Modules in a CommonJS bundle have no URL. */
function extenderModule(): string | null {
  const here = import.meta.url as string | undefined
  return here === undefined ? null : new URL('./extender.js', here).href
}

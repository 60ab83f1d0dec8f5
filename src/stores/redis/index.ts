// The Redis store: redis://… and rediss://… (TLS). One file holds one operation, named as in the other stores; library.ts joins their Lua.

import { checkChoice, checkWhole } from '../../core/check.js'
import { HoldfastError, show } from '../../core/errors.js'
import { QUEUES_MAX } from '../../core/operating.js'
import type { Clock } from '../../core/ports.js'
import type { Store } from '../../core/store.js'
import { redactUrl } from '../../core/url.js'
import type { ExtenderSettings } from './extender.js'
import { prepare } from './prepare.js'
import { type Durability, Redis, type RedisSettings } from './redis.js'
import { composeStore } from './store.js'
import { WakeUps } from './wake.js'

export type { Durability } from './redis.js'

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

/** Connects, looks whether the server can keep jobs, and returns the store. */
export async function redisStore(url: string, options: RedisOptions = {}): Promise<Store> {
  const { queuesMax, migrate, ...settings } = settingsOf(url, options)
  const redis: Redis = new Redis(settings, (report) => wakeUps.report(report))
  const wakeUps = new WakeUps({ channel: `${settings.base}wake`, self: redis.self, open: () => redis.connect() })
  try {
    await prepare(redis, migrate)
  } catch (error) {
    await redis.close()
    throw error
  }
  const { clock: _, ...data } = settings
  return composeStore({
    redis,
    wakeUps,
    extender: () => ({ kind: 'redis', module: extenderModule(), data: data satisfies ExtenderSettings }),
    queuesMax,
  })
}

function settingsOf(url: string, options: RedisOptions): RedisSettings & { queuesMax: number; migrate: boolean } {
  const { prefix, clock, ...rest } = { ...REDIS_DEFAULTS, ...options }
  checkUrl(url)
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
  return { ...rest, url, base: `${prefix}{hf:0}:`, clock: clock ?? null }
}

/** Modules in a CommonJS bundle have no URL. */
function extenderModule(): string | null {
  const here = import.meta.url as string | undefined
  return here === undefined ? null : new URL('./extender.js', here).href
}

function checkUrl(url: string): void {
  if (/^rediss?:\/\//.test(url) && URL.canParse(url)) return
  throw new HoldfastError(
    'invalid_url',
    `${redactUrl(url)} is not a Redis URL: write redis://user:password@host:6379/0, or rediss:// with TLS`,
  )
}

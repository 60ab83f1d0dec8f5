// Connecting: which store a URL means, and opening it. A store's code is loaded when it is asked for, so that those who
// use one never load the driver of another.

import { checkBoolean, checkKeys, checkText } from './core/check.js'
import { checkDurability, type Durability } from './core/durability.js'
import { HoldfastError, invalidOption, show } from './core/errors.js'
import { given } from './core/given.js'
import type { Logger } from './core/logger.js'
import type { Clock } from './core/ports.js'
import { serversOf } from './core/server-list.js'
import type { Store } from './core/store.js'
import { redactUrl } from './core/url.js'
import {
  HOLDFAST_OPTIONS,
  type Holdfast,
  type HoldfastOptions,
  openHoldfast,
  resolveHoldfastOptions,
} from './holdfast.js'
import type { EmbeddedOptions } from './stores/postgres/embedded/server.js'
import type { FailoverMemoryOptions } from './stores/postgres/failover-options.js'
import type { Durability as RedisDurability } from './stores/redis/index.js'

const URL_DEFAULT = 'embedded:.holdfast'

/** What holds for a connection and the store it opens. */
export interface ConnectOptions extends HoldfastOptions {
  /** The PostgreSQL schema its tables are in, made when it is missing. Default 'holdfast'. Other stores have none. */
  readonly schema?: string
  /** Whether the schema is made where it is missing, and brought up to date. Default true. With false both raise
   *  `schema_missing`: for programs that look at a queue, where a mistyped schema must not become a new one. */
  readonly migrate?: boolean
  /** The PostgreSQL servers of which one is the primary, as 'host:port', 1 to 16 of them. They replace the host of the URL, as does
   *  'postgres://host1:5432,host2:5432/database'. Connections go to the one that takes writes and has the newest timeline. */
  readonly hosts?: readonly string[]
  /** What a commit to PostgreSQL waits for: 'local', the disk of the server; 'replicated', also those of the synchronous standbys, if there
   *  are any; 'applied', until it can be read there. Default 'replicated'. It is synchronous_commit local, on or remote_apply.
   *  On Redis: 'default' is what the server's own settings give, 'replicated' waits for a replica, 'fsynced' for its disk too. */
  readonly durability?: Durability | RedisDurability
  /** How much of what a PostgreSQL store has accepted is remembered, so that it can be said again to a standby that was promoted without it.
   *  Default false, nothing. True is { time: '60s', bytesMax: 64 MiB, jobsMax: 500 000 }: the oldest is forgotten first. It is being built:
   *  docs/failover.md says what it does not hold for yet. */
  readonly failoverMemory?: FailoverMemoryOptions | boolean
  /** How the server of 'embedded:<folder>' is started: as whom, and how long its start may take. Others have none. */
  readonly embedded?: EmbeddedOptions
}

/**
 * Connects to a store: 'postgres://…', 'embedded:<folder>' for a PostgreSQL server of its own, 'redis://…' or 'memory:'. Without a
 * URL it takes HOLDFAST_URL, then DATABASE_URL from the environment, then 'embedded:.holdfast'. Raises `invalid_url`,
 * `unsupported`, or what the store says: `store_unavailable`, `access_denied`, `schema_too_new` and the like.
 */
export async function connect(url?: string, options: ConnectOptions = {}): Promise<Holdfast> {
  checkKeys('connect', options, [
    ...HOLDFAST_OPTIONS,
    'schema',
    'migrate',
    'hosts',
    'durability',
    'failoverMemory',
    'embedded',
  ])
  const { schema, migrate = true, hosts, durability, failoverMemory, embedded, ...others } = options
  // Before the store is opened: a mistake in an option should not cost the start of a server.
  const { ports, logger } = resolveHoldfastOptions(others)
  if (schema !== undefined) checkText('schema', schema, 63)
  checkBoolean('migrate', migrate)
  if (hosts !== undefined && !Array.isArray(hosts))
    throw invalidOption("hosts must be a list such as ['db1:5432', 'db2:5432']", hosts)
  const store = await openStore(chooseUrl(url), {
    ...{ schema, migrate, hosts, durability, failoverMemory, embedded },
    ...{ clock: ports.clock, logger },
  })
  try {
    return await openHoldfast(store, others)
  } catch (error) {
    await store.close()
    throw error
  }
}

interface ChosenUrl {
  readonly url: string
  /** Where it came from, for messages. */
  readonly source: string
}

function chooseUrl(url: string | undefined): ChosenUrl {
  if (url !== undefined) return { url, source: 'the URL given to connect()' }
  for (const source of ['HOLDFAST_URL', 'DATABASE_URL']) {
    const value = process.env[source]
    if (value) return { url: value, source: `the URL in ${source}` }
  }
  return { url: URL_DEFAULT, source: 'the default' }
}

interface OpenOptions {
  readonly schema: string | undefined
  readonly migrate: boolean
  readonly hosts: readonly string[] | undefined
  readonly durability: Durability | RedisDurability | undefined
  readonly failoverMemory: FailoverMemoryOptions | boolean | undefined
  readonly embedded: EmbeddedOptions | undefined
  readonly clock: Clock
  readonly logger: Logger | null
}

async function openStore({ url, source }: ChosenUrl, options: OpenOptions): Promise<Store> {
  const { schema, migrate, hosts, durability, failoverMemory, embedded, clock, logger } = options
  if (typeof url !== 'string') throw new HoldfastError('invalid_url', `${source} must be text, got ${show(url)}`)
  const kind = /^([a-z]+):/.exec(url)?.[1]
  if (/^redis\+(cluster|sentinel):/.test(url)) throw unsupportedRedis(source, url)
  switch (kind) {
    case 'memory': {
      if (url !== 'memory:') throw invalidUrl(source, url, "the memory store's URL is just 'memory:'")
      const { memoryStore } = await import('./stores/memory/index.js')
      return memoryStore({ clock })
    }
    case 'embedded':
    case 'postgres':
    case 'postgresql': {
      checkPostgresUrl(source, url, kind, hosts)
      const waitsFor = durability === undefined ? {} : { durability: checkDurability(durability) }
      const { postgresStore } = await import('./stores/postgres/index.js')
      return postgresStore(url, {
        migrate,
        ...waitsFor,
        ...given({ schema, hosts, failoverMemory, embedded }),
        onMigrationWait: (text) => logger?.warn({ event: 'migration.waiting' }, text),
      })
    }
    case 'redis':
    case 'rediss': {
      checkRedisUrl(source, url, kind)
      const { redisStore } = await import('./stores/redis/index.js')
      return redisStore(url, { migrate, ...given({ durability: durability as RedisDurability | undefined }) })
    }
    default:
      throw invalidUrl(source, url, 'it must begin with postgres://, redis://, rediss://, embedded: or memory:')
  }
}

function checkPostgresUrl(source: string, url: string, kind: string, hosts: readonly string[] | undefined): void {
  if (kind === 'embedded') {
    if (url.length > 'embedded:'.length && !url.includes('\0')) return
    throw invalidUrl(source, url, "it must name a folder, as in 'embedded:.holdfast'")
  }
  const servers = serversOf(url, hosts)
  if ('why' in servers) throw invalidUrl(source, url, servers.why)
}

function checkRedisUrl(source: string, url: string, kind: string): void {
  if (url.startsWith(`${kind}://`) && URL.canParse(url)) return
  throw invalidUrl(source, url, 'it must look like redis://user:password@host:6379/0, or rediss:// with TLS')
}

function unsupportedRedis(source: string, url: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `${source} (${redactUrl(url)}) asks for a Redis Cluster or Sentinel, which this version does not support: use redis:// or rediss:// with the address of one server`,
  )
}

function invalidUrl(source: string, url: string, why: string): HoldfastError {
  return new HoldfastError('invalid_url', `${source} (${show(redactUrl(url))}) cannot be used: ${why}`)
}

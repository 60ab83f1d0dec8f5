// Connecting: which store a URL means, and opening it. A store's code is loaded when it is asked for, so that those who
// use one never load the driver of another.

import { checkBoolean, checkKeys, checkText } from './core/check.js'
import { checkDurability, type Durability } from './core/durability.js'
import type { Duration } from './core/duration.js'
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
import type { PasswordOption, TlsOptions, UserPool } from './stores/postgres/access-options.js'
import type { EmbeddedOptions } from './stores/postgres/embedded/server.js'
import type { FailoverMemoryOptions } from './stores/postgres/failover-options.js'
import { readAddresses } from './stores/redis/addresses.js'
import type { Durability as RedisDurability, RedisStore } from './stores/redis/index.js'

const URL_DEFAULT = 'embedded:.holdfast'
const GIVEN = 'the URL given to connect()'

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
  /** On Redis, at durability 'replicated' and 'fsynced': how many replicas must have a write, from 1 to 100. Default 1. With more a write
   *  survives the loss of more servers, and fewer may be away before all writes are refused. */
  readonly replicas?: number
  /** How much of what a PostgreSQL store has accepted is remembered, so that it can be said again to a standby that was promoted without it.
   *  Default false, nothing. True is { time: '60s', bytesMax: 64 MiB, jobsMax: 500 000 }: the oldest is forgotten first. It is being built:
   *  docs/failover.md says what it does not hold for yet. */
  readonly failoverMemory?: FailoverMemoryOptions | boolean
  /** TLS to PostgreSQL: true, or certificates, as { ca: readFileSync('ca.pem', 'utf8') }. Default: what the URL says. Redis: rediss://. */
  readonly ssl?: TlsOptions | boolean
  /** The password for PostgreSQL, in place of one in the URL; or a function that gives one and is asked at each new connection, for tokens that
   *  run out. */
  readonly password?: PasswordOption
  /** The most connections to PostgreSQL, heartbeat thread included, from 3 to 100. Default null: one for each purpose, up to 17. With a cap
   *  statements share connections, so that a slow one can delay others, and only one worker has a heartbeat thread. */
  readonly connections?: number | null
  /** A pg.Pool to use in place of a URL. It stays yours: nothing here closes it. Over a pool no wake-ups are received, so that workers poll, and
   *  leases are extended from the main thread: see docs/postgres.md#over-your-pool. */
  readonly pool?: UserPool
  /** The PostgreSQL database whose transactions jobs on Redis may be part of: 'postgres://…'. `enqueue(…, { tx })` and `ctx.complete(tx)` write
   *  rows there, which are sent to Redis after the commit. `schema`, `migrate`, `hosts`, `ssl` and `password` are about this database then.
   *  Default: none, and both raise `unsupported`. See docs/outbox.md. */
  readonly outbox?: string
  /** How long rows of the outbox stay after they were sent, to be sent again when Redis has lost its last writes. Default '15m'. Must be
   *  shorter than `retention`. */
  readonly outboxKeep?: Duration
  /** How the server of 'embedded:<folder>' is started: as whom, and how long its start may take. Others have none. */
  readonly embedded?: EmbeddedOptions
}

/**
 * Connects to a store: 'postgres://…', 'embedded:<folder>' for a PostgreSQL server of its own, 'redis://…', 'redis+cluster://h1,h2',
 * 'redis+sentinel://h1,h2/<primary>' or 'memory:'. Without a
 * URL it takes HOLDFAST_URL, then DATABASE_URL from the environment, then 'embedded:.holdfast'. Raises `invalid_url`,
 * `unsupported`, or what the store says: `store_unavailable`, `access_denied`, `schema_too_new` and the like. `connect({ pool })` uses a pool
 * that you have, and takes the other options beside it.
 */
export async function connect(
  target?: string | (ConnectOptions & { readonly pool: UserPool }),
  more?: ConnectOptions,
): Promise<Holdfast> {
  const isTarget = typeof target === 'object' && target !== null
  if (isTarget && more !== undefined)
    throw invalidOption('connect({ pool, … }) takes everything in one object, got a second one')
  const url = isTarget ? undefined : target
  const options: ConnectOptions = isTarget ? target : more === undefined ? {} : more
  checkKeys('connect', options, [
    ...HOLDFAST_OPTIONS,
    'schema',
    'migrate',
    'hosts',
    'durability',
    'replicas',
    'failoverMemory',
    'ssl',
    'password',
    'connections',
    'pool',
    'outbox',
    'outboxKeep',
    'embedded',
  ])
  const { schema, migrate = true, hosts, durability, replicas, failoverMemory, embedded, ...rest } = options
  const { ssl, password, connections, pool, outbox, outboxKeep, ...others } = rest
  // Before the store is opened: a mistake in an option should not cost the start of a server.
  const { ports, logger, retentionMs } = resolveHoldfastOptions(others)
  if (schema !== undefined) checkText('schema', schema, 63)
  checkBoolean('migrate', migrate)
  if (hosts !== undefined && !Array.isArray(hosts))
    throw invalidOption("hosts must be a list such as ['db1:5432', 'db2:5432']", hosts)
  if (isTarget && pool === undefined)
    throw invalidOption('connect() takes a URL, or an object with a pool, and got one without')
  if (pool !== undefined && url !== undefined) throw invalidOption('connect() takes a URL or a pool, got both')
  if (pool !== undefined && others.idle === 'sleep') {
    throw invalidOption(
      "idle: 'sleep' needs wake-ups, which do not arrive over a pool: leave it out, or give connect() a URL",
    )
  }
  const chosen = pool === undefined ? chooseUrl(url) : { pool }
  const store = await openStore(chosen, {
    ...{ schema, migrate, hosts, durability, replicas, failoverMemory, embedded, ssl, password, connections },
    ...{ outbox: chosenOutbox(outbox, chosen), outboxKeep, retentionMs },
    ...{ clock: ports.clock, logger },
  })
  try {
    return await openHoldfast(store, others)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** The outbox that was given, or that of the environment for a Redis of the environment. */
function chosenOutbox(
  outbox: unknown,
  { url, source }: Partial<ChosenUrl> & { readonly pool?: UserPool },
): string | undefined {
  const isOfEnvironment = source !== GIVEN && typeof url === 'string' && /^rediss?[+:]/.test(url)
  const value = outbox ?? (isOfEnvironment ? process.env.HOLDFAST_OUTBOX || undefined : undefined)
  if (value === undefined) return undefined
  if (typeof value === 'string' && /^postgres(ql)?:/.test(value)) return value
  throw invalidOption('outbox must be a URL such as postgres://user:password@host/database', value)
}

/** A store that is open, and its client, which closes it: for our own programs that write jobs as the store takes them. */
export interface OpenedStore {
  readonly store: Store
  readonly holdfast: Holdfast
}

/** Connects as `connect(url)` does, without upkeep and without a migration, and gives the store as well. */
export async function connectToStore(
  url: string,
  options: { readonly schema: string | undefined; readonly migrate: boolean },
): Promise<OpenedStore> {
  const { schema, migrate } = options
  const chosen = { url, source: 'the URL of the store' }
  const { ports, retentionMs } = resolveHoldfastOptions({ upkeep: false })
  const store = await openStore(chosen, {
    ...{ schema, migrate, clock: ports.clock, logger: null },
    ...{ outbox: undefined, outboxKeep: undefined, retentionMs },
    ...{ hosts: undefined, durability: undefined, replicas: undefined, failoverMemory: undefined, embedded: undefined },
    ...{ ssl: undefined, password: undefined, connections: undefined },
  })
  try {
    return { store, holdfast: await openHoldfast(store, { upkeep: false }) }
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
  if (url !== undefined) return { url, source: GIVEN }
  for (const source of ['HOLDFAST_URL', 'DATABASE_URL']) {
    const value = process.env[source]
    if (value) return { url: value, source: `the URL in ${source}` }
  }
  return { url: URL_DEFAULT, source: 'the default' }
}

interface OpenOptions {
  readonly outbox: string | undefined
  readonly outboxKeep: Duration | undefined
  readonly retentionMs: number
  readonly ssl: ConnectOptions['ssl'] | undefined
  readonly password: PasswordOption | undefined
  readonly connections: number | null | undefined
  readonly schema: string | undefined
  readonly migrate: boolean
  readonly hosts: readonly string[] | undefined
  readonly durability: Durability | RedisDurability | undefined
  readonly replicas: number | undefined
  readonly failoverMemory: FailoverMemoryOptions | boolean | undefined
  readonly embedded: EmbeddedOptions | undefined
  readonly clock: Clock
  readonly logger: Logger | null
}

async function openStore(target: ChosenUrl | { readonly pool: UserPool }, options: OpenOptions): Promise<Store> {
  if ('pool' in target) {
    refuseRedisOptions(options)
    return openPostgres(target.pool, options)
  }
  const { migrate, hosts, durability, replicas, clock } = options
  const { url, source } = target
  if (typeof url !== 'string') throw new HoldfastError('invalid_url', `${source} must be text, got ${show(url)}`)
  const kind = /^([a-z]+)(?:\+[a-z]+)?:/.exec(url)?.[1]
  const isRedis = kind === 'redis' || kind === 'rediss'
  if (!isRedis) refuseRedisOptions(options)
  if (!/^(embedded|postgres|postgresql):/.test(url)) refuseAccess(url, options)
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
      return openPostgres(url, options)
    }
    case 'redis':
    case 'rediss': {
      const read = readAddresses(url)
      if ('why' in read) throw invalidUrl(source, url, read.why)
      const { redisStore } = await import('./stores/redis/index.js')
      const store = await redisStore(url, {
        migrate,
        ...given({ durability: durability as RedisDurability | undefined, replicas }),
      })
      return options.outbox === undefined ? store : openOutbox(store, options.outbox, options)
    }
    default:
      throw invalidUrl(
        source,
        url,
        'it must begin with postgres://, redis://, rediss://, redis+cluster://, redis+sentinel://, embedded: or memory:',
      )
  }
}

async function openOutbox(store: RedisStore, url: string, options: OpenOptions): Promise<Store> {
  const { schema, migrate, hosts, ssl, password, outboxKeep: keep, retentionMs, logger } = options
  try {
    const { outboxStore } = await import('./stores/outbox/index.js')
    return await outboxStore(store, url, {
      ...{ migrate, retentionMs },
      ...given({ schema, hosts, ssl, password, keep }),
      onMigrationWait: (text) => logger?.warn({ event: 'migration.waiting' }, text),
    })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** What would do nothing for any other store. */
function refuseRedisOptions({ outbox, outboxKeep, replicas }: OpenOptions): void {
  if (replicas !== undefined) {
    throw invalidOption('replicas is for a URL of redis://: PostgreSQL has synchronous_standby_names; leave it out')
  }
  const [name] = Object.keys(given({ outbox, outboxKeep }))
  if (name === undefined) return
  throw invalidOption(
    `${name} is for a URL of redis://: other stores have jobs in your transaction or no transactions at all; leave it out`,
  )
}

async function openPostgres(target: string | UserPool, options: OpenOptions): Promise<Store> {
  const { schema, migrate, hosts, durability, failoverMemory, embedded, ssl, password, connections, logger } = options
  const waitsFor = durability === undefined ? {} : { durability: checkDurability(durability) }
  const { postgresStore } = await import('./stores/postgres/index.js')
  return postgresStore(target, {
    migrate,
    ...waitsFor,
    ...given({ schema, hosts, failoverMemory, embedded, ssl, password, connections }),
    onMigrationWait: (text) => logger?.warn({ event: 'migration.waiting' }, text),
  })
}

/** What is for PostgreSQL alone, and would be passed over in silence by any other store. */
function refuseAccess(url: string, { ssl, password, connections, outbox }: OpenOptions): void {
  const forOutbox = outbox === undefined ? { ssl, password } : {}
  const [name] = Object.keys(given({ ...forOutbox, connections }))
  if (name === undefined || (name === 'connections' && connections === null)) return
  const instead = /^rediss?:/.test(url) ? 'write rediss://user:password@host for TLS and a password' : 'leave it out'
  throw invalidOption(`${name} is for a URL of postgres://; for this store ${instead}`)
}

function checkPostgresUrl(source: string, url: string, kind: string, hosts: readonly string[] | undefined): void {
  if (kind === 'embedded') {
    if (url.length > 'embedded:'.length && !url.includes('\0')) return
    throw invalidUrl(source, url, "it must name a folder, as in 'embedded:.holdfast'")
  }
  const servers = serversOf(url, hosts)
  if ('why' in servers) throw invalidUrl(source, url, servers.why)
}

function invalidUrl(source: string, url: string, why: string): HoldfastError {
  return new HoldfastError('invalid_url', `${source} (${show(redactUrl(url))}) cannot be used: ${why}`)
}

// The options of a server. They are checked once and completed with their defaults.

import { BlockList, isIP } from 'node:net'
import { checkBoolean, checkKeys, checkText, checkWhole } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { invalidOption } from '../core/errors.js'
import type { KeyScope } from '../core/operating.js'
import type { ServerEvent } from './log.js'
import type { MaskPlace } from './redact.js'
import { isSameSecret } from './sessions.js'
import type { Identity } from './who.js'

/** Where /metrics comes from. */
export interface Metrics {
  readonly contentType: string
  render(): Promise<string>
}

/** A proxy that authenticates users and names them in a header. */
export interface TrustedProxy {
  /** The addresses it connects from, such as '10.0.0.7' or '10.0.0.0/8'. The header is ignored from any other. */
  readonly peers: readonly string[]
  /** What it sends in the header `x-holdfast-proxy-secret`: 32 characters or more. Without it,
   *  any other program on the proxy's machine could pose as the proxy. */
  readonly secret: string
  /** The header with the user's name, such as 'x-forwarded-user'. The proxy must remove it from incoming requests. */
  readonly header: string
  /** What its users may do. Default ['read']. */
  readonly scopes?: readonly KeyScope[]
}

/** The header with the trusted proxy's secret. */
export const PROXY_SECRET_HEADER = 'x-holdfast-proxy-secret'

/** Limits. */
export interface ServerLimits {
  /** The largest body, in bytes. Default 1 MiB. */
  readonly bodyBytesMax?: number
  /** The largest body of a batch. Default 8 MiB. */
  readonly batchBytesMax?: number
  /** How deeply JSON may be nested. Default 64. */
  readonly jsonDepthMax?: number
  /** How many event streams there may be. Default 200. */
  readonly streamsMax?: number
  /** How many of them one API key, one name of a proxy or hook, or the server's token may have. Default 25. */
  readonly streamsPerKeyMax?: number
  /** How many of them one address may have. Default 50. */
  readonly streamsPerAddressMax?: number
  /** How many connections `listen()` holds. Default 1,024. */
  readonly connectionsMax?: number
  /** How many of them one address may have (of IPv6: one network of 64 bits). Default 128; raise it behind a proxy, which is
   *  one address for all its users. */
  readonly connectionsPerAddressMax?: number
  /** Wrong tokens from one address in a minute before further wrong ones get 429, a second later. Default 50. */
  readonly failedLoginsMax?: number
  /** How long a request may take to arrive. Default '30s'; its headers get a third of it. */
  readonly requestTimeout?: Duration
}

export interface ServerOptions {
  /** The path it is mounted under, such as '/queue'. Default: the root, or where express says it is mounted. */
  readonly basePath?: string
  /** The Host headers it answers to, as browsers send them, such as 'queue.example.com', beside those of this machine itself
   *  (localhost, 127.0.0.1, [::1]) with the port that was connected to. Default: just these. Everything else is refused with
   *  421. */
  readonly hosts?: readonly string[]
  /** A token of 32 characters or more that is good for everything: as a bearer, and for signing in. Default: none; then
   *  `createToken()` makes tokens that sign in once. */
  readonly token?: string
  /** Whether the API keys of the store are accepted. Default true. Say it explicitly to listen beyond this machine. */
  readonly apiKeys?: boolean
  /** Identifies the caller by your own rules; null for an unknown one. Called when nothing else identifies the request. */
  readonly authenticate?: (request: Request) => Identity | null | Promise<Identity | null>
  readonly proxy?: TrustedProxy
  /** True lets anyone do everything. Default false. */
  readonly insecureNoAuth?: boolean
  /** True refuses every change. Default false. */
  readonly readOnly?: boolean
  /** Shown on the dashboard, to tell production from staging. Default none. */
  readonly environment?: { readonly name: string; readonly colour?: string | null }
  /** Masks further values of payloads and results. Names such as 'password' are always masked. */
  readonly redact?: MaskPlace
  /** Serves GET /metrics. Default: none, 404. */
  readonly metrics?: Metrics
  /** The folder of the built dashboard; false for the API alone. Default: the one in this package. */
  readonly dashboard?: string | false
  /** How long a sign-in lasts. Default '12h'. */
  readonly session?: Duration
  readonly limits?: ServerLimits
  /** Receives each request and each failure. Never gets payloads, tokens or queries. Default: nothing is logged. */
  readonly log?: (event: ServerEvent) => void
  /** The clock for sessions and rate limits, in milliseconds. Default Date.now; for tests. */
  readonly now?: () => number
}

const KNOWN: readonly (keyof ServerOptions)[] = [
  'basePath',
  'hosts',
  'token',
  'apiKeys',
  'authenticate',
  'proxy',
  'insecureNoAuth',
  'readOnly',
  'environment',
  'redact',
  'metrics',
  'dashboard',
  'session',
  'limits',
  'log',
  'now',
]

/** A server's options with all defaults filled in. */
export interface Settings {
  /** Null: the framework's mount path, or the root. */
  readonly basePath: string | null
  readonly hosts: readonly string[] | null
  readonly token: string | null
  readonly apiKeys: boolean
  readonly authenticate: NonNullable<ServerOptions['authenticate']> | null
  readonly proxy: {
    readonly header: string
    readonly scopes: readonly KeyScope[]
    /** True for a request from one of its addresses and with its secret. */
    sent(peer: string | null, secret: unknown): boolean
  } | null
  readonly insecureNoAuth: boolean
  /** True when an option chooses how callers are authenticated. */
  readonly hasChosenAuth: boolean
  readonly readOnly: boolean
  readonly environment: { readonly name: string; readonly colour: string | null } | null
  readonly redact: MaskPlace | null
  readonly metrics: Metrics | null
  readonly dashboard: string | false | null
  readonly sessionMs: number
  readonly limits: Readonly<Record<keyof typeof LIMITS | 'requestTimeoutMs', number>>
  readonly log: (event: ServerEvent) => void
  readonly now: () => number
}

const TOKEN_LENGTH_MIN = 32
const MIB = 1024 * 1024

/** The limits that are whole numbers: default, least and most. */
const LIMITS: Readonly<Record<keyof Omit<ServerLimits, 'requestTimeout'>, readonly [number, number, number]>> = {
  bodyBytesMax: [MIB, 1_024, 256 * MIB],
  batchBytesMax: [8 * MIB, 1_024, 256 * MIB],
  jsonDepthMax: [64, 4, 500],
  streamsMax: [200, 0, 10_000],
  streamsPerKeyMax: [25, 0, 10_000],
  streamsPerAddressMax: [50, 0, 10_000],
  connectionsMax: [1_024, 1, 100_000],
  connectionsPerAddressMax: [128, 1, 100_000],
  failedLoginsMax: [50, 1, 100_000],
}

export function resolveOptions(options: ServerOptions): Settings {
  checkKeys('createServer', options, KNOWN)
  const { token, apiKeys, authenticate, proxy, environment, session, now = Date.now } = options
  const insecureNoAuth = checkBoolean('insecureNoAuth', options.insecureNoAuth ?? false)
  return {
    basePath: options.basePath === undefined ? null : checkBasePath(options.basePath),
    hosts: options.hosts ?? null,
    token: token === undefined ? null : checkSecret('token', token),
    apiKeys: checkBoolean('apiKeys', apiKeys ?? true),
    authenticate: authenticate === undefined ? null : checkFunction('authenticate', authenticate),
    proxy: proxy === undefined ? null : resolveProxy(proxy),
    insecureNoAuth,
    hasChosenAuth:
      token !== undefined || apiKeys === true || authenticate !== undefined || proxy !== undefined || insecureNoAuth,
    readOnly: checkBoolean('readOnly', options.readOnly ?? false),
    environment:
      environment === undefined
        ? null
        : { name: checkText('environment.name', environment.name, 50), colour: environment.colour ?? null },
    redact: options.redact === undefined ? null : checkFunction('redact', options.redact),
    metrics: options.metrics ?? null,
    dashboard: options.dashboard ?? null,
    sessionMs: durationMs(session ?? '12h', { name: 'session', minMs: 1_000 }),
    limits: resolveLimits(options.limits ?? {}),
    log: options.log === undefined ? () => {} : checkFunction('log', options.log),
    now: checkFunction('now', now),
  }
}

const BASE_PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/

/** True for a path that can be written into a page and a cookie as it is. */
export function isBasePath(path: string): boolean {
  return BASE_PATH.test(path) && !/\/\.{1,2}(?:\/|$)/.test(path)
}

function checkBasePath(value: unknown): string {
  const path = value === '/' ? '' : value
  if (typeof path === 'string' && path.length <= 200 && isBasePath(path)) return path
  throw invalidOption(`basePath must be '' or a path such as '/queue' without a slash at its end`, value)
}

/** A secret that is too long to be guessed. */
function checkSecret(what: string, value: unknown): string {
  if (
    typeof value === 'string' &&
    value.length >= TOKEN_LENGTH_MIN &&
    value.length <= 512 &&
    /^[\x21-\x7e]+$/.test(value)
  )
    return value
  // The message does not quote it: it is a secret, or was meant to be one.
  throw invalidOption(
    `${what} must be ${TOKEN_LENGTH_MIN} to 512 printable characters without spaces: make one with \`openssl rand -base64 32\``,
  )
}

function checkFunction<T>(what: string, value: T): T {
  if (typeof value === 'function') return value
  throw invalidOption(`${what} must be a function`, value)
}

function resolveProxy(proxy: TrustedProxy): NonNullable<Settings['proxy']> {
  checkKeys('proxy', proxy, ['peers', 'secret', 'header', 'scopes'])
  const secret = checkSecret('proxy.secret', proxy.secret)
  const header = checkText('proxy.header', proxy.header, 100).toLowerCase()
  const { peers } = proxy
  if (!Array.isArray(peers) || peers.length === 0) {
    throw invalidOption(`proxy.peers must list the proxy's addresses`, peers)
  }
  const list = new BlockList()
  for (const peer of peers) addPeer(list, peer)
  return {
    header,
    scopes: proxy.scopes ?? ['read'],
    sent: (peer, given) =>
      peer !== null &&
      list.check(peer, isIP(peer) === 6 ? 'ipv6' : 'ipv4') &&
      isSameSecret(String(given ?? ''), secret),
  }
}

function addPeer(list: BlockList, peer: unknown): void {
  const [address = '', bits, ...rest] = String(peer).split('/')
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  const isWhole = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 'ipv6' ? 128 : 32))
  if (typeof peer !== 'string' || isIP(address) === 0 || !isWhole || rest.length > 0) {
    throw invalidOption('proxy.peers must be addresses or networks', peer)
  }
  if (bits === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(bits), family)
}

function resolveLimits(limits: ServerLimits): Settings['limits'] {
  checkKeys('limits', limits, [...Object.keys(LIMITS), 'requestTimeout'])
  const wholes = Object.entries(LIMITS).map(([name, [fallback, least, most]]) => [
    name,
    checkWhole(name, limits[name as keyof typeof LIMITS] ?? fallback, least, most),
  ])
  const requestTimeoutMs = durationMs(limits.requestTimeout ?? '30s', {
    name: 'requestTimeout',
    minMs: 100,
    maxMs: 600_000,
  })
  return { ...(Object.fromEntries(wholes) as Record<keyof typeof LIMITS, number>), requestTimeoutMs }
}

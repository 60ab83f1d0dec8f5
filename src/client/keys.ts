// API keys: made once with a secret nobody can read again, shown without it, and known again by it.

import { createHash, timingSafeEqual } from 'node:crypto'
import { checkChoice, checkDate, checkKeys, checkName, checkText } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError, invalidOption, show } from '../core/errors.js'
import { type ApiKey, KEY_SCOPES, type KeyScope } from '../core/operating.js'
import type { OperatorStore } from '../core/operator-store.js'
import type { Clock, Random } from '../core/ports.js'

const NAME_LENGTH_MAX = 100
/** As many queues as a filter can name. */
const QUEUES_MAX = 20
const SECRET_BYTES = 32
const ID_BYTES = 6
const TOUCHED_WITHIN_MS = 60_000
const FORM = /^hf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/

/** What a key is for. */
export interface KeyOptions {
  /** What people know it by. */
  readonly name: string
  /** What its holder may do, at least one. */
  readonly scopes: readonly KeyScope[]
  /** The queues it is for, at most 20; null, the default, for all. */
  readonly queues?: readonly string[] | null
  /** How long it lasts; null, the default, until it is revoked. Not together with `expiresAt`. */
  readonly expiresIn?: Duration | null
  readonly expiresAt?: Date | string | null
}

/** A key that was just made. */
export interface CreatedKey {
  readonly key: ApiKey
  /** The whole of it, as its holder sends it. Shown this once: the store keeps only its hash. */
  readonly secret: string
}

export async function createKey(
  store: OperatorStore,
  options: KeyOptions,
  by: string,
  random: Random,
): Promise<CreatedKey> {
  checkKeys('createKey', options, ['name', 'scopes', 'queues', 'expiresIn', 'expiresAt'])
  const name = checkText('name', options.name, NAME_LENGTH_MAX)
  const scopes = checkScopes(options.scopes)
  const queues = checkQueues(options.queues ?? null)
  const expiresAtMs = await resolveExpiry(store, options)
  const id = Buffer.from(bytesOf(random, ID_BYTES)).toString('hex')
  const secret = `hf_${id}_${Buffer.from(bytesOf(random, SECRET_BYTES)).toString('base64url')}`
  const key = await store.createKey({ id, hash: hashOf(secret), name, scopes, queues, expiresAtMs }, by)
  return { key, secret }
}

function checkScopes(scopes: unknown): readonly KeyScope[] {
  if (!Array.isArray(scopes) || scopes.length === 0) {
    throw invalidOption('scopes must be an array of at least one scope', scopes)
  }
  return [...new Set(scopes.map((scope) => checkChoice('a scope', scope, KEY_SCOPES)))]
}

function checkQueues(queues: unknown): readonly string[] | null {
  if (queues === null) return null
  if (!Array.isArray(queues) || queues.length === 0 || queues.length > QUEUES_MAX) {
    throw invalidOption(`queues must be null for all, or an array of 1 to ${QUEUES_MAX} names`, queues)
  }
  return [...new Set(queues.map((queue) => checkName('queue', queue)))]
}

async function resolveExpiry(
  store: OperatorStore,
  { expiresIn = null, expiresAt = null }: KeyOptions,
): Promise<number | null> {
  if (expiresIn !== null && expiresAt !== null) {
    throw invalidOption('expiresIn and expiresAt both say when the key ends: give one of them')
  }
  if (expiresAt !== null) return checkDate('expiresAt', expiresAt).getTime()
  if (expiresIn === null) return null
  return (await store.now()) + durationMs(expiresIn, { name: 'expiresIn', minMs: 1 })
}

function bytesOf(random: Random, count: number): Uint8Array {
  const bytes = new Uint8Array(count)
  random.fill(bytes)
  return bytes
}

// A secret is 256 random bits, so that a plain hash of it cannot be guessed back and needs no salt.
function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

export async function revokeKey(store: OperatorStore, id: string, by: string): Promise<ApiKey> {
  const revoked = await store.revokeKey(checkText('id', id, NAME_LENGTH_MAX), by)
  if (revoked !== null) return revoked
  throw new HoldfastError('key_not_found', `there is no API key ${show(id)}: keys() lists those there are`, {
    details: { id },
  })
}

/** The key a secret belongs to, or null: also when it is revoked, or its time is over by `nowMs`, the store's time. */
export async function authenticate(
  store: OperatorStore,
  secret: unknown,
  { cache, nowMs }: { readonly cache: KeyCache; readonly nowMs: number },
): Promise<ApiKey | null> {
  const id = typeof secret === 'string' ? FORM.exec(secret)?.[1] : undefined
  const found = id === undefined ? null : await cache.find(store, id)
  if (found === null) return null
  const { hash, ...key } = found
  // In constant time: how long it takes must not show how much of a guess was right.
  if (!timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(hashOf(secret as string), 'hex'))) return null
  if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt.getTime() <= nowMs)) return null
  if (key.lastUsedAt === null || nowMs - key.lastUsedAt.getTime() >= TOUCHED_WITHIN_MS) {
    // For people to see; nobody who has a key is turned away because it could not be noted.
    cache.touched(found, new Date(nowMs))
    store.touchKey(key.id).catch(() => {})
  }
  return key
}

/** How long a key is taken as it was found. One that another process revokes holds this long at most. */
const KEY_KEPT_MS = 5_000
/** How long an id is known to belong to no key: short, because one may be made at any moment. */
const ABSENT_KEPT_MS = 1_000
const KEPT_MAX = 1_000

type FoundKey = ApiKey & { readonly hash: string }

interface Kept {
  readonly key: Promise<FoundKey | null>
  untilMs: number
}

export class KeyCache {
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The key of an id. Those who ask for the same one at the same time share a question to the store. */
  find(store: OperatorStore, id: string): Promise<FoundKey | null> {
    const nowMs = this.#clock.monotonic()
    const known = this.#kept.get(id)
    if (known !== undefined && known.untilMs > nowMs) return known.key
    const kept: Kept = { key: store.findKey(id), untilMs: nowMs + KEY_KEPT_MS }
    this.#keep(id, kept)
    kept.key.then(
      (key) => {
        if (key === null) kept.untilMs = Math.min(kept.untilMs, this.#clock.monotonic() + ABSENT_KEPT_MS)
      },
      () => this.#drop(id, kept),
    )
    return kept.key
  }

  /** Says that a key was used just now, so that the next look at it need not note it again. */
  touched(key: FoundKey, at: Date): void {
    const kept = this.#kept.get(key.id)
    if (kept !== undefined) {
      this.#kept.set(key.id, { key: Promise.resolve({ ...key, lastUsedAt: at }), untilMs: kept.untilMs })
    }
  }

  /** Forgets a key that was made or revoked here. */
  forget(id: string): void {
    this.#kept.delete(id)
  }

  #keep(id: string, kept: Kept): void {
    this.#kept.delete(id)
    this.#kept.set(id, kept)
    if (this.#kept.size <= KEPT_MAX) return
    const [oldest] = this.#kept.keys()
    this.#kept.delete(oldest!)
  }

  #drop(id: string, kept: Kept): void {
    if (this.#kept.get(id) === kept) this.#kept.delete(id)
  }
}

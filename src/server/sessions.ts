// Sessions of browsers: a token is given once for a cookie, and the cookie is known by its hash alone. They live in this
// process and end with it.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Who } from './who.js'

const TOKENS_MAX = 100
/** Of one key, and of the server's token: its oldest session goes for one more, and nobody else's. */
const SESSIONS_OF_ONE_MAX = 20
/** In all: the oldest of whoever has most of them goes. */
const SESSIONS_MAX = 2_000
const SECRET_BYTES = 32

/** What a session stands for: the server's own token, or an API key that may be revoked meanwhile. */
export type SessionOf =
  | { readonly kind: 'token'; readonly who: Who }
  | { readonly kind: 'key'; readonly secret: string }

interface Session {
  readonly of: SessionOf
  readonly principal: string
  readonly endsMs: number
}

export class Sessions {
  readonly #lengthMs: number
  readonly #now: () => number
  /** Hashes of tokens nobody has used yet, and when each ends. */
  readonly #tokens = new Map<string, number>()
  readonly #sessions = new Map<string, Session>()

  constructor(lengthMs: number, now: () => number) {
    this.#lengthMs = lengthMs
    this.#now = now
  }

  /** A new token that can be exchanged once. */
  createToken(): string {
    const token = newSecret()
    if (this.#tokens.size >= TOKENS_MAX) this.#tokens.delete(this.#tokens.keys().next().value!)
    this.#tokens.set(hashOf(token), this.#now() + this.#lengthMs)
    return token
  }

  /** Uses a token up. False when it is none of ours, was used before, or its time is over. */
  redeem(token: string): boolean {
    const hash = hashOf(token)
    const endsMs = this.#tokens.get(hash)
    this.#tokens.delete(hash)
    return endsMs !== undefined && this.#now() < endsMs
  }

  /** Opens a session; gives what goes into the cookie. */
  open(of: SessionOf, { principal }: Pick<Who, 'principal'>): { readonly secret: string; readonly lengthS: number } {
    const secret = newSecret()
    this.#makeRoom(principal)
    this.#sessions.set(hashOf(secret), { of, principal, endsMs: this.#now() + this.#lengthMs })
    return { secret, lengthS: Math.floor(this.#lengthMs / 1_000) }
  }

  #makeRoom(principal: string): void {
    const counts = new Map<string, number>()
    for (const [hash, session] of this.#sessions) {
      if (session.endsMs <= this.#now()) this.#sessions.delete(hash)
      else counts.set(session.principal, (counts.get(session.principal) ?? 0) + 1)
    }
    if ((counts.get(principal) ?? 0) >= SESSIONS_OF_ONE_MAX) this.#endOldest(principal)
    else if (this.#sessions.size >= SESSIONS_MAX) {
      this.#endOldest([...counts].reduce((most, next) => (next[1] > most[1] ? next : most))[0])
    }
  }

  #endOldest(principal: string): void {
    for (const [hash, session] of this.#sessions) {
      if (session.principal === principal) return void this.#sessions.delete(hash)
    }
  }

  find(secret: string): SessionOf | null {
    const hash = hashOf(secret)
    const session = this.#sessions.get(hash)
    if (session === undefined) return null
    if (this.#now() < session.endsMs) return session.of
    this.#sessions.delete(hash)
    return null
  }

  end(secret: string): void {
    this.#sessions.delete(hashOf(secret))
  }
}

function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** True for the same secret. In constant time: how long it takes must not tell how much of a guess was right. */
export function isSameSecret(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}

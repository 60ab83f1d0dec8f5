// Sessions of browsers. A token is exchanged once for a cookie. Only the cookie's hash is kept, in this process's memory, so a
// restart ends all sessions.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Who } from './who.js'

const TOKENS_MAX = 100
/** For each API key, and for the server's token: one session more ends its own oldest, never another key's. */
const SESSIONS_OF_ONE_MAX = 20
/** In total: one more ends the oldest session of the key that has most. */
const SESSIONS_MAX = 2_000
const SECRET_BYTES = 32

/** What a session was opened with: the server's own token, or an API key, which may be revoked later. */
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
  /** Hashes of unused tokens, and when each expires. */
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

  /** Uses a token up. False when it is unknown, used before, or expired. */
  redeem(token: string): boolean {
    const hash = hashOf(token)
    const endsMs = this.#tokens.get(hash)
    this.#tokens.delete(hash)
    return endsMs !== undefined && this.#now() < endsMs
  }

  /** Opens a session and returns the content of its cookie. */
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

/** True for the same secret. It takes the same time for any input, so timing reveals nothing about a guess. */
export function isSameSecret(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}

// Finds out who asks: a bearer token, a proxy that is trusted, a session's cookie, or the owner's own rules, in this order.
// What a request says explicitly counts alone: a wrong token is never made up for by a cookie.

import type { Client } from '../client/client.js'
import { type CookiePlace, readSession } from './cookie.js'
import type { FailedLogins } from './failed-logins.js'
import type { Settings } from './options.js'
import { Refusal } from './problem.js'
import { isSameSecret, type SessionOf, type Sessions } from './sessions.js'
import { adminVia, holderOf, type Identity, type Who, whoOf } from './who.js'

/** Where a request came from. */
export interface Origin extends CookiePlace {
  /** The address that connected; null where it is not known. */
  readonly peer: string | null
  /** Whom wrong tokens and event streams are counted for: the peer, or whom a trusted proxy says it speaks for. */
  readonly client: string | null
  /** True when the trusted proxy sent it: from one of its addresses, and with its secret. */
  readonly isFromProxy: boolean
}

interface GateParts {
  readonly holdfast: Client
  readonly settings: Settings
  readonly sessions: Sessions
  readonly failedLogins: FailedLogins
}

export class Gate {
  readonly #parts: GateParts

  constructor(parts: GateParts) {
    this.#parts = parts
  }

  /** Who asks, or null for nobody. Raises 401 for a wrong token, and 429 after too many wrong ones. */
  async identify(request: Request, origin: Origin): Promise<Who | null> {
    const found = await this.#find(request, origin)
    if (found !== 'wrong') return found
    await this.#parts.failedLogins.count(sourceOf(origin))
    throw new Refusal(401, 'unauthenticated', 'this token is not known, was revoked, or its time is over', {
      headers: { 'www-authenticate': 'Bearer' },
    })
  }

  /** Who asks, looked at again while a request is under way; null for nobody, also for a token that is wrong by now. Counts
   *  nothing: whether a right has ended does not depend on how many wrong tokens its address has sent. */
  async recheck(request: Request, origin: Origin): Promise<Who | null> {
    const found = await this.#find(request, origin)
    return found === 'wrong' ? null : found
  }

  /** What a session for this token or API key would be of; null when it is wrong. Raises 429 after too many wrong ones.
   *  With `onlyOnce` just the tokens that are good for one exchange are taken. */
  async exchange(
    token: string,
    origin: Origin,
    { onlyOnce }: { readonly onlyOnce: boolean },
  ): Promise<{ readonly of: SessionOf; readonly who: Who } | null> {
    const { settings, sessions, failedLogins } = this.#parts
    const isServerToken = !onlyOnce && settings.token !== null && isSameSecret(token, settings.token)
    if (isServerToken || sessions.redeem(token)) {
      const who = adminVia('cookie')
      return { of: { kind: 'token', who }, who }
    }
    const of: SessionOf = { kind: 'key', secret: token }
    const who = onlyOnce ? null : await this.#bySession(of)
    if (who !== null) return { of, who }
    await failedLogins.count(sourceOf(origin))
    return null
  }

  async #find(request: Request, origin: Origin): Promise<Who | 'wrong' | null> {
    const { settings, sessions } = this.#parts
    if (settings.insecureNoAuth) return adminVia('open')
    const authorization = request.headers.get('authorization')
    if (authorization !== null) return (await this.#byAuthorization(request, authorization)) ?? 'wrong'
    const byProxy = this.#byProxy(request, origin)
    if (byProxy !== null) return byProxy
    const cookie = readSession(request, origin)
    const session = cookie === null ? null : sessions.find(cookie)
    const bySession = session === null ? null : await this.#bySession(session)
    return bySession ?? this.#byHook(request)
  }

  async #byAuthorization(request: Request, authorization: string): Promise<Who | null> {
    const { settings } = this.#parts
    const token = /^bearer\s+(\S+)\s*$/i.exec(authorization)?.[1] ?? null
    if (token !== null) {
      if (settings.token !== null && isSameSecret(token, settings.token)) return adminVia('token')
      const key = settings.apiKeys ? await this.#parts.holdfast.authenticate(token) : null
      if (key !== null) return holderOf(key, 'key')
    }
    return this.#byHook(request)
  }

  #byProxy(request: Request, { isFromProxy }: Origin): Who | null {
    const { proxy } = this.#parts.settings
    if (proxy === null || !isFromProxy) return null
    const name = request.headers.get(proxy.header)
    // A comma means that the header came twice: once from the proxy, and once from who knows whom.
    if (name === null || name === '' || name.includes(',')) return null
    return this.#known({ name, scopes: proxy.scopes }, 'proxy')
  }

  async #bySession(session: SessionOf): Promise<Who | null> {
    if (session.kind === 'token') return session.who
    if (!this.#parts.settings.apiKeys) return null
    const key = await this.#parts.holdfast.authenticate(session.secret)
    return key === null ? null : holderOf(key, 'cookie')
  }

  async #byHook(request: Request): Promise<Who | null> {
    const { authenticate } = this.#parts.settings
    if (authenticate === null) return null
    let identity: Identity | null
    try {
      identity = await authenticate(request)
    } catch {
      throw new Refusal(503, 'unauthenticated', 'who asks cannot be found out at the moment')
    }
    return identity === null ? null : this.#known(identity, 'hook')
  }

  #known(identity: Identity, via: Who['via']): Who | null {
    try {
      return whoOf(identity, via)
    } catch {
      // A name that cannot stand in the audit log is nobody's.
      return null
    }
  }
}

/** Whom a wrong token is counted for. */
function sourceOf({ client }: Origin): string {
  return client ?? 'unknown'
}

// Identifies the caller by a bearer token, a trusted proxy, a session's cookie, or the `authenticate` option, in this order. An
// explicit token counts alone: a request with a wrong token and a valid cookie is refused.

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
  /** The address that wrong tokens and event streams are counted for: the peer, or the client that a trusted proxy names. */
  readonly client: string | null
  /** True when it came from the trusted proxy, with its secret. */
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

  /** The caller, or null when unknown. Raises 401 for a wrong token, and 429 after too many wrong ones. */
  async identify(request: Request, origin: Origin): Promise<Who | null> {
    const found = await this.#find(request, origin)
    if (found !== 'wrong') return found
    await this.#parts.failedLogins.count(sourceOf(origin))
    throw new Refusal(401, 'unauthenticated', 'this token is unknown, revoked or expired', {
      headers: { 'www-authenticate': 'Bearer' },
    })
  }

  /** Identifies the caller of a long request again. Null when unknown, or when the token is no longer valid. A failure is not
   *  counted as a wrong token. */
  async recheck(request: Request, origin: Origin): Promise<Who | null> {
    const found = await this.#find(request, origin)
    return found === 'wrong' ? null : found
  }

  /** What a session for this token or API key is opened with; null when it is wrong. Raises 429 after too many wrong ones. With
   *  `onlyOnce`, only tokens that sign in once are accepted. */
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
    // A comma means that the header came twice: once from the proxy, and once from an unknown sender.
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
      throw new Refusal(503, 'unauthenticated', 'the caller cannot be identified at the moment: try again')
    }
    return identity === null ? null : this.#known(identity, 'hook')
  }

  #known(identity: Identity, via: Who['via']): Who | null {
    try {
      return whoOf(identity, via)
    } catch {
      // A name that cannot be written to the audit log identifies no caller.
      return null
    }
  }
}

/** The address that a wrong token is counted for. */
function sourceOf({ client }: Origin): string {
  return client ?? 'unknown'
}

// A server on a port of its own, over a queue in memory or on PostgreSQL, and ways to ask it.

import { join } from 'node:path'
import type { KeyScope } from '../../src/core/operating.js'
import type { Store } from '../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import {
  createServer,
  type Listening,
  type Server,
  type ServerEvent,
  type ServerOptions,
} from '../../src/server/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'

export const TOKEN = 'a-token-for-tests-that-is-long-enough-0123456789'
export const DASHBOARD: string = join(import.meta.dirname, '../fixtures/dashboard')

export interface Asked {
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON, or as it is when it is text. */
  readonly body?: unknown
  readonly signal?: AbortSignal
}

export interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: whatever the answer holds is looked at by the test
  readonly json: any
}

/** A server that listens, and the queue under it. */
export class TestServer {
  readonly holdfast: Holdfast
  readonly store: Store
  readonly server: Server
  readonly listening: Listening
  readonly events: ServerEvent[]

  private constructor(parts: Pick<TestServer, 'holdfast' | 'store' | 'server' | 'listening' | 'events'>) {
    this.holdfast = parts.holdfast
    this.store = parts.store
    this.server = parts.server
    this.listening = parts.listening
    this.events = parts.events
  }

  static async open(
    options: ServerOptions = {},
    store: Store = memoryStore({ clock: systemPorts.clock }),
    { upkeep = false }: { readonly upkeep?: boolean } = {},
  ): Promise<TestServer> {
    const events: ServerEvent[] = []
    const holdfast = await openHoldfast(store, { upkeep })
    const server = createServer(holdfast, {
      token: TOKEN,
      dashboard: DASHBOARD,
      log: (event) => events.push(event),
      ...options,
    })
    const listening = await server.listen({ port: 0, host: '127.0.0.1' })
    return new TestServer({ holdfast, store, server, listening, events })
  }

  get host(): string {
    return `127.0.0.1:${this.listening.port}`
  }

  get origin(): string {
    return `http://${this.host}`
  }

  /** Sends a request without credentials. */
  async ask(method: string, path: string, { headers = {}, body: given, ...others }: Asked = {}): Promise<Answered> {
    const body = method === 'GET' || method === 'HEAD' ? undefined : given
    const isText = typeof body === 'string'
    const response = await fetch(`${this.listening.url}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
      redirect: 'manual',
      ...others,
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, json: readJson(text) }
  }

  /** Sends a request with the server's own token. */
  admin(method: string, path: string, asked: Asked = {}): Promise<Answered> {
    return this.ask(method, path, { ...asked, headers: { authorization: `Bearer ${TOKEN}`, ...asked.headers } })
  }

  /** Sends a request with a token. */
  as(token: string, method: string, path: string, asked: Asked = {}): Promise<Answered> {
    return this.ask(method, path, { ...asked, headers: { authorization: `Bearer ${token}`, ...asked.headers } })
  }

  /** The secret of a new API key. */
  async key(scopes: readonly KeyScope[], queues: readonly string[] | null = null): Promise<string> {
    return (await this.holdfast.createKey({ name: scopes.join(' '), scopes, queues })).secret
  }

  /** The cookie of a new session. */
  async signIn(): Promise<string> {
    const { headers } = await this.ask('POST', '/v1/session', { headers: this.sameOrigin(), body: { token: TOKEN } })
    return headers.get('set-cookie')!.split(';')[0]!
  }

  /** What a browser adds to what our own page sends. */
  sameOrigin(): Record<string, string> {
    return { origin: this.origin, 'sec-fetch-site': 'same-origin' }
  }

  async close(): Promise<void> {
    await this.server.close()
    await this.holdfast.close()
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

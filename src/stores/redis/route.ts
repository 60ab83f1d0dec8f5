// How calls of one shard get to the server that has it. A server on its own is the plain case here; cluster.ts and sentinel.ts have the
// others.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { connectError } from './errors.js'
import { openConnection } from './node-redis.js'
import type { RedisConnection } from './port.js'

/** What each connection is for, in the words of error messages. */
export const PURPOSES = {
  enqueue: 'write jobs',
  claim: 'claim jobs',
  settle: 'settle jobs',
  extend: 'extend leases',
  upkeep: 'do upkeep',
  operate: 'answer an operator',
  look: 'look up jobs',
  search: 'search jobs',
} as const

export type Purpose = keyof typeof PURPOSES

/** The way to one shard. */
export interface Route {
  /** The connection for a purpose, opened when it is first needed. Raises a HoldfastError. */
  connection(purpose: Purpose): Promise<RedisConnection>
  /** A connection of its own, for messages. */
  open(): Promise<RedisConnection>
  /** A call failed with this error. Returns true when the command was surely not run and may be sent again; it resolves when that makes
   *  sense. */
  failed(error: unknown): Promise<boolean>
  /** The server it leads to now; '' where there is but one. */
  address(): Promise<string>
  /** A call has no answer for a while. */
  slow(): void
}

export interface ServerSettings {
  readonly url: string
  readonly connectMs: number
}

/** Connections of one server, each for its own purpose, so that a slow list never holds up a settlement. */
export class Connections {
  readonly #open: () => Promise<RedisConnection>
  readonly #opened = new Map<Purpose, Promise<RedisConnection>>()

  constructor(open: () => Promise<RedisConnection>) {
    this.#open = open
  }

  get(purpose: Purpose): Promise<RedisConnection> {
    const known = this.#opened.get(purpose)
    if (known !== undefined) return known
    const opening = this.#open()
    this.#opened.set(purpose, opening)
    const forget = () => {
      if (this.#opened.get(purpose) === opening) this.#opened.delete(purpose)
    }
    opening.then((connection) => connection.ended.then(forget), forget)
    return opening
  }

  /** Ends all of them. Calls in flight are rejected. */
  async close(): Promise<void> {
    const opened = [...this.#opened.values()]
    this.#opened.clear()
    for (const each of await Promise.allSettled(opened)) if (each.status === 'fulfilled') each.value.destroy()
  }
}

/** The way to a server on its own. */
export class OneServer implements Route {
  readonly #settings: ServerSettings
  readonly #connections = new Connections(() => this.open())
  #isClosed = false

  constructor(settings: ServerSettings) {
    this.#settings = settings
  }

  connection(purpose: Purpose): Promise<RedisConnection> {
    return this.#connections.get(purpose)
  }

  async open(): Promise<RedisConnection> {
    if (this.#isClosed) throw storeClosed()
    return openServer(this.#settings)
  }

  async failed(): Promise<boolean> {
    return false
  }

  async address(): Promise<string> {
    return ''
  }

  slow(): void {}

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#connections.close()
  }
}

/** Opens a connection to a server. Raises a HoldfastError that names it. */
export async function openServer({ url, connectMs }: ServerSettings): Promise<RedisConnection> {
  return openConnection({ url, connectMs }).catch((error: unknown) => {
    throw connectError(redactUrl(url), error)
  })
}

export function storeClosed(): HoldfastError {
  return new HoldfastError('closed', 'the Redis store is closed: open another one')
}

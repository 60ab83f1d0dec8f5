// A primary that sentinels watch: they are asked where it is whenever a connection is opened, so that a failover is followed.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'
import { errorWord } from './errors.js'
import type { RedisConnection, Reply } from './port.js'
import { Connections, openServer, type Purpose, type Route, storeClosed } from './route.js'

export interface SentinelSettings {
  /** One URL for each sentinel, with its user and password, if it has any. */
  readonly sentinels: readonly string[]
  /** The name the sentinels know the primary by. */
  readonly name: string
  /** The URL of the primary, but for its host and port. */
  readonly url: string
  readonly connectMs: number
}

/** A sentinel that does not answer within this time is passed over. */
const ASK_MS_MAX = 1_000

/** The way to the primary that sentinels name. */
export class SentinelRoute implements Route {
  readonly #settings: SentinelSettings
  #connections = new Connections(() => this.open())
  #looking: Promise<void> | null = null
  #address: string | null = null
  #isClosed = false

  constructor(settings: SentinelSettings) {
    this.#settings = settings
  }

  connection(purpose: Purpose): Promise<RedisConnection> {
    return this.#connections.get(purpose)
  }

  async open(): Promise<RedisConnection> {
    if (this.#isClosed) throw storeClosed()
    const address = await this.#ask()
    this.#address = address
    const url = new URL(this.#settings.url)
    url.host = address
    const connection = await openServer({ url: url.href, connectMs: this.#settings.connectMs })
    try {
      const [role] = (await connection.send(['ROLE'])) as readonly Reply[]
      if (role === 'master') return connection
    } catch (error) {
      connection.destroy()
      throw error
    }
    connection.destroy()
    throw this.#unavailable(`${address} is not a primary yet`)
  }

  // Connections to a server that is no primary any more are of no use.
  async failed(error: unknown): Promise<boolean> {
    if (errorWord(error) !== 'READONLY') return false
    await this.#leave()
    return false
  }

  async address(): Promise<string> {
    return ''
  }

  slow(): void {
    this.#looking ??= this.#look()
      .catch(() => {})
      .finally(() => {
        this.#looking = null
      })
  }

  async #look(): Promise<void> {
    const address = await this.#ask()
    if (this.#address !== null && address !== this.#address) await this.#leave()
  }

  async #leave(): Promise<void> {
    const old = this.#connections
    this.#connections = new Connections(() => this.open())
    await old.close()
  }

  /** Where the primary is, as host:port. */
  async #ask(): Promise<string> {
    const { sentinels, name } = this.#settings
    let last: unknown = null
    for (const url of sentinels) {
      try {
        const reply = await askSentinel(url, ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name])
        if (Array.isArray(reply)) return `${bracketed(String(reply[0]))}:${reply[1]}`
        last = new HoldfastError(
          'invalid_url',
          `the sentinel at ${redactUrl(url)} does not know a primary named "${name}": write the name of its "sentinel monitor" line behind the hosts`,
        )
      } catch (error) {
        last = error
      }
    }
    if (last instanceof HoldfastError && !last.retryable) throw last
    throw this.#unavailable((last as Error).message)
  }

  #unavailable(why: string): HoldfastError {
    const where = this.#settings.sentinels.map(redactUrl).join(', ')
    return new HoldfastError(
      'store_unavailable',
      `the sentinels at ${where} name no primary "${this.#settings.name}" that can be used: ${why}; the call is safe to repeat`,
      { retryable: true },
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#connections.close()
  }
}

async function askSentinel(url: string, command: readonly string[]): Promise<Reply> {
  const connection = await openServer({ url, connectMs: ASK_MS_MAX })
  const timer = setTimeout(() => connection.destroy(), ASK_MS_MAX)
  try {
    return await connection.send(command)
  } finally {
    clearTimeout(timer)
    connection.destroy()
  }
}

function bracketed(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
}

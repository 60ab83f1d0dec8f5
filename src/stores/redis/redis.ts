// The store's connections, each for its own purpose, so that a slow list never holds up a settlement, and the calls of functions on them.

import { randomUUID } from 'node:crypto'
import { HoldfastError } from '../../core/errors.js'
import type { Clock } from '../../core/ports.js'
import { redactUrl } from '../../core/url.js'
import { connectError, errorWord, storeError } from './errors.js'
import { functionName, LIBRARY } from './library.js'
import { openConnection } from './node-redis.js'
import type { RedisConnection, Reply } from './port.js'
import { serverError } from './port.js'

/** What each connection is for, in the words of error messages. */
const PURPOSES = {
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

/** What an accepted job survives. `default`: what the server's own settings give. `replicated`: it is on replicas as well (WAIT).
 *  `fsynced`: it is on disk, here and there (WAITAOF, from Redis 7.2 on). */
export type Durability = 'default' | 'replicated' | 'fsynced'

export interface RedisSettings {
  readonly url: string
  /** What every key begins with; it ends with the hash tag of the shard. */
  readonly base: string
  readonly connectMs: number
  readonly deadlineMs: number
  readonly durability: Durability
  /** How many replicas must have a write. */
  readonly replicas: number
  /** How long a write waits for them. */
  readonly waitMs: number
  /** A test's clock; null for the server's. */
  readonly clock: Pick<Clock, 'now'> | null
}

/** What a writing function reports beside its answer: queues with new ready jobs, and running jobs somebody asked to cancel. */
export interface Report {
  readonly ready: readonly string[]
  readonly asked: readonly string[]
  readonly isEnqueue: boolean
}

interface Answer<T> {
  readonly value: T
  readonly nowMs: number
}

export class Redis {
  readonly settings: RedisSettings
  /** The name of this store among all on the server. */
  readonly self: string = randomUUID().slice(0, 8)
  readonly #connections = new Map<Purpose, Promise<RedisConnection>>()
  readonly #onReport: (report: Report) => void
  #isClosed = false

  constructor(settings: RedisSettings, onReport: (report: Report) => void = () => {}) {
    this.settings = settings
    this.#onReport = onReport
  }

  /** Calls a function that writes, and reports what it woke. Without `waits` it does not wait for replicas: a claim that a failover loses costs
   *  nothing, and one whose answer was thrown away because no replica confirmed it would cost an attempt. */
  async write<T>(
    purpose: Purpose,
    name: string,
    args: readonly (string | number)[],
    { isEnqueue = false, waits = true }: { readonly isEnqueue?: boolean; readonly waits?: boolean } = {},
  ): Promise<Answer<T>> {
    const command = ['FCALL', ...this.#call(name, args)]
    const [time, value, ready, asked] = (await this.#send(purpose, command, waits)) as unknown as [
      string,
      T,
      string[],
      string[],
    ]
    if (ready.length > 0 || asked.length > 0) this.#onReport({ ready, asked, isEnqueue })
    return { value, nowMs: Number(time) }
  }

  /** Calls a function that writes nothing. */
  async read<T>(purpose: Purpose, name: string, args: readonly (string | number)[]): Promise<Answer<T>> {
    const [time, value] = (await this.#send(purpose, ['FCALL_RO', ...this.#call(name, args)], false)) as unknown as [
      string,
      T,
    ]
    return { value, nowMs: Number(time) }
  }

  /** Makes the store where there is none, if it may. Returns the layout that is there, or ''. */
  async open(mayMake: boolean): Promise<string> {
    const command = ['FCALL', functionName('open'), '1', this.settings.base, mayMake ? '1' : '']
    return (await this.#send('operate', command, true)) as string
  }

  /** Sends a command of Redis itself. */
  command(purpose: Purpose, ...command: readonly string[]): Promise<Reply> {
    return this.#send(purpose, command, false)
  }

  /** The facts of INFO, by name. */
  async info(purpose: Purpose): Promise<ReadonlyMap<string, string>> {
    const text = String(await this.command(purpose, 'INFO'))
    const lines = text.split('\r\n').filter((line) => line.includes(':'))
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
  }

  /** The word of a function that refused, such as HFQUEUES; null for any other failure. */
  refusal(error: unknown): string | null {
    return errorWord(error)
  }

  /** Opens a connection of its own, for messages. */
  async connect(): Promise<RedisConnection> {
    const { url, connectMs } = this.settings
    if (this.#isClosed) throw new HoldfastError('closed', 'the Redis store is closed: open another one')
    return openConnection({ url, connectMs }).catch((error: unknown) => {
      throw connectError(redactUrl(url), error)
    })
  }

  #call(name: string, args: readonly (string | number)[]): string[] {
    const { base, clock } = this.settings
    const time = clock === null ? '' : String(Math.floor(clock.now()))
    return [functionName(name), '1', base, time, this.self, ...args.map(String)]
  }

  async #send(purpose: Purpose, command: readonly string[], isWrite: boolean): Promise<Reply> {
    try {
      return await this.#sendOnce(purpose, command, isWrite)
    } catch (error) {
      if (!isFunctionMissing(error)) throw storeError(PURPOSES[purpose], error)
    }
    // A server that was emptied of functions, or a replica that was promoted before it had them.
    try {
      await this.#sendOnce(purpose, ['FUNCTION', 'LOAD', 'REPLACE', LIBRARY], false)
      return await this.#sendOnce(purpose, command, isWrite)
    } catch (error) {
      throw storeError(PURPOSES[purpose], error)
    }
  }

  async #sendOnce(purpose: Purpose, command: readonly string[], isWrite: boolean): Promise<Reply> {
    const connection = await this.#connection(purpose)
    const { deadlineMs } = this.settings
    const timer = setTimeout(() => connection.destroy(), deadlineMs)
    try {
      const sent = connection.send(command)
      // In the same write: WAIT counts what its own connection has written.
      const waiting = isWrite ? this.#wait(connection) : null
      const [reply] = await Promise.all([sent, waiting])
      return reply
    } finally {
      clearTimeout(timer)
    }
  }

  #wait(connection: RedisConnection): Promise<void> | null {
    const { durability, replicas, waitMs } = this.settings
    if (durability === 'default') return null
    const count = String(replicas)
    const command =
      durability === 'replicated' ? ['WAIT', count, String(waitMs)] : ['WAITAOF', '1', count, String(waitMs)]
    return connection.send(command).then((reply) => {
      const [local, remote] = Array.isArray(reply) ? (reply as number[]) : [1, reply as number]
      if (local! >= 1 && remote! >= replicas) return
      throw new HoldfastError(
        'store_unavailable',
        `Redis did not confirm within ${waitMs} ms that a write is ${durability}: ${remote} of ${replicas} replicas have it; it may or may not last, and the call is safe to repeat once they are back`,
        { retryable: true },
      )
    })
  }

  #connection(purpose: Purpose): Promise<RedisConnection> {
    const known = this.#connections.get(purpose)
    if (known !== undefined) return known
    const opening = this.connect()
    this.#connections.set(purpose, opening)
    const forget = () => {
      if (this.#connections.get(purpose) === opening) this.#connections.delete(purpose)
    }
    opening.then((connection) => connection.ended.then(forget), forget)
    return opening
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const opened = await Promise.allSettled(this.#connections.values())
    for (const each of opened) if (each.status === 'fulfilled') each.value.destroy()
    this.#connections.clear()
  }
}

function isFunctionMissing(error: unknown): boolean {
  return /^ERR Function not found/i.test(serverError(error) ?? '')
}

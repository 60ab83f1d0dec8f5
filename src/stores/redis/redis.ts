// One shard: calls of functions on the connections that lead to it.

import { randomUUID } from 'node:crypto'
import { HoldfastError } from '../../core/errors.js'
import type { Clock } from '../../core/ports.js'
import { errorWord, storeError } from './errors.js'
import { functionName, LIBRARY, type Script, scriptFor } from './library.js'
import type { RedisConnection, Reply } from './port.js'
import { serverError } from './port.js'
import { PURPOSES, type Purpose, type Route } from './route.js'

export type { Purpose } from './route.js'

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
  /** False where functions are forbidden: each call is one of a script with the same text then. */
  readonly hasFunctions: boolean
}

/** A call of a function, and the script to load when it is called as one. */
interface Call {
  readonly words: readonly string[]
  readonly script: Script | null
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

/** What a shard of several has beside a store of one shard. */
export interface Sharing {
  /** The newest line of the audit log that this process knows. */
  line: number
  /** What a call of this shard owes others: four values for each message (owed.ts). */
  readonly onOwed: (owed: readonly string[]) => void
}

export interface RedisDeps {
  readonly route: Route
  /** The name of this store among all on the server. */
  readonly self?: string
  readonly onReport?: (report: Report) => void
  readonly sharing?: Sharing
}

/** A call without an answer for this long may be one to a server that is no more. */
const SLOW_MS = 1_000
/** How long a call is sent again that was not run. */
const AGAIN_MS_MAX = 1_000
const AGAIN_MAX = 20
/** The server may change between two loads. */
const LOADS_MAX = 3

export class Redis {
  readonly settings: RedisSettings
  readonly self: string
  readonly #route: Route
  readonly #onReport: (report: Report) => void
  readonly #sharing: Sharing | null

  constructor(
    settings: RedisSettings,
    { route, self = randomUUID().slice(0, 8), onReport = () => {}, sharing }: RedisDeps,
  ) {
    this.settings = settings
    this.self = self
    this.#route = route
    this.#onReport = onReport
    this.#sharing = sharing ?? null
  }

  /** Calls a function that writes, and reports what it woke. Without `waits` it does not wait for replicas: a claim that a failover loses costs
   *  nothing, and one whose answer was thrown away because no replica confirmed it would cost an attempt. */
  async write<T>(
    purpose: Purpose,
    name: string,
    args: readonly (string | number)[],
    { isEnqueue = false, waits = true }: { readonly isEnqueue?: boolean; readonly waits?: boolean } = {},
  ): Promise<Answer<T>> {
    const command = this.#call(name, false, this.#arguments(args))
    const [time, value, ready, asked, owed = [], line = ''] = (await this.#send(
      purpose,
      command,
      waits,
    )) as unknown as [...[string, T, string[], string[]], string[]?, string?]
    if (this.#sharing !== null && line !== '') this.#sharing.line = Math.max(this.#sharing.line, Number(line))
    if (owed.length > 0) this.#sharing?.onOwed(owed)
    if (ready.length > 0 || asked.length > 0) this.#onReport({ ready, asked, isEnqueue })
    return { value, nowMs: Number(time) }
  }

  /** Calls a function that writes nothing. */
  async read<T>(purpose: Purpose, name: string, args: readonly (string | number)[]): Promise<Answer<T>> {
    const [time, value] = (await this.#send(
      purpose,
      this.#call(name, true, this.#arguments(args)),
      false,
    )) as unknown as [string, T]
    return { value, nowMs: Number(time) }
  }

  /** Makes the store where there is none, if it may: shard `shard` of `shards`. Returns the layout that is there, or '', and how many shards
   *  the store has. */
  async open(
    mayMake: boolean,
    { shard, shards }: { readonly shard: number; readonly shards: number },
  ): Promise<{ readonly layout: string; readonly shards: number }> {
    const args = [mayMake ? '1' : '', String(shards), String(shard)]
    const command = this.#call('open', false, args)
    const [layout, known] = (await this.#send('operate', command, true)) as [string, string]
    return { layout, shards: Number(known) }
  }

  /** The commands among these that the ACL user may not run (rights.ts). */
  async missing(commands: readonly string[]): Promise<readonly string[]> {
    // No key is named: the server would answer without saying what else is missing.
    const command = this.#call('rights', true, commands, [])
    return (await this.#send('operate', command, false)) as readonly string[]
  }

  /** Sends a command of Redis itself. */
  command(purpose: Purpose, ...command: readonly string[]): Promise<Reply> {
    return this.#send(purpose, { words: command, script: null }, false)
  }

  /** The facts of INFO, by name. */
  async info(purpose: Purpose, ...sections: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const text = String(await this.command(purpose, 'INFO', ...sections))
    const lines = text.split('\r\n').filter((line) => line.includes(':'))
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
  }

  /** The word of a function that refused, such as HFQUEUES; null for any other failure. */
  refusal(error: unknown): string | null {
    return errorWord(error)
  }

  /** Opens a connection of its own, for messages. */
  connect(): Promise<RedisConnection> {
    return this.#route.open()
  }

  /** Every function takes the time of a test, or '', and who calls. */
  #arguments(args: readonly (string | number)[]): string[] {
    const { clock } = this.settings
    const time = clock === null ? '' : String(Math.floor(clock.now()))
    const self = this.#sharing === null ? this.self : `${this.self} ${this.#sharing.line}`
    return [time, self, ...args.map(String)]
  }

  #call(name: string, isRead: boolean, args: readonly string[], keys: readonly string[] = [this.settings.base]): Call {
    const rest = [String(keys.length), ...keys]
    if (this.settings.hasFunctions) {
      return { words: [isRead ? 'FCALL_RO' : 'FCALL', functionName(name), ...rest, ...args], script: null }
    }
    const script = scriptFor(name, isRead)
    return { words: [isRead ? 'EVALSHA_RO' : 'EVALSHA', script.sha, ...rest, name, ...args], script }
  }

  async #send(purpose: Purpose, { words, script }: Call, isWrite: boolean): Promise<Reply> {
    const startMs = performance.now()
    for (let turn = 1; ; turn++) {
      try {
        return await this.#sendOnce(purpose, words, isWrite)
      } catch (error) {
        if (turn <= LOADS_MAX && isFunctionMissing(error)) {
          await this.#load(purpose, script)
          continue
        }
        const isOver = turn === AGAIN_MAX || performance.now() - startMs > AGAIN_MS_MAX
        const isAgain = await this.#route.failed(error)
        if (!isAgain || isOver) throw storeError(PURPOSES[purpose], error, isAgain)
      }
    }
  }

  /** For a server that was emptied of functions, or one that has just become a master and never had them. */
  async #load(purpose: Purpose, script: Script | null): Promise<void> {
    const words = script === null ? ['FUNCTION', 'LOAD', 'REPLACE', LIBRARY] : ['SCRIPT', 'LOAD', script.text]
    await this.#sendOnce(purpose, words, false).catch((error: unknown) => {
      throw storeError(PURPOSES[purpose], error)
    })
  }

  /** The server that has this shard now, where there are several. */
  address(): Promise<string> {
    return this.#route.address()
  }

  async #sendOnce(purpose: Purpose, command: readonly string[], isWrite: boolean): Promise<Reply> {
    const connection = await this.#route.connection(purpose)
    const { deadlineMs } = this.settings
    let timer = setTimeout(
      () => {
        this.#route.slow()
        timer = setTimeout(() => connection.destroy(), Math.max(0, deadlineMs - SLOW_MS))
      },
      Math.min(SLOW_MS, deadlineMs),
    )
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
}

function isFunctionMissing(error: unknown): boolean {
  return /^(ERR Function not found|NOSCRIPT)/i.test(serverError(error) ?? '')
}

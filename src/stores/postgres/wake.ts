// Wake-ups between processes. NOTIFY takes a lock on the whole database when it commits, so it never rides in an enqueue's
// transaction: it goes out afterwards on a connection of its own, once for many jobs. All of it may be lost; polling finds
// the job a little later.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreListener } from '../../core/job-store.js'
import { type ConnectionSettings, Lane } from './lane.js'
import type { LaneGroup } from './lane-group.js'
import { arrayOf, preparedName } from './statement.js'

/** At most one notification for a queue in this time. */
const QUIET_MS = 10
const DEADLINE_MS = 5_000
/** The pause before it listens again doubles up to the most, as long as nothing that was opened lasts as long as that. */
const AGAIN_MS = 250
const AGAIN_MS_MAX = 5_000
/** Nothing comes on this connection for hours. It is asked now and then whether it is still there, and where it leads. */
const ASK_MS = 5_000
const NOTIFY = 'SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message'
/** When to look after a caller's own transaction, whose commit nobody sees. */
const AFTER_TRANSACTION_MS = [25, 250, 1_000]

export interface WakeOptions {
  readonly settings: () => Promise<ConnectionSettings>
  readonly schema: string
  readonly connectMs: number
  /** The other lanes of its store. Default: none. */
  readonly group?: LaneGroup
}

export class WakeUps {
  readonly #options: WakeOptions
  readonly #channel: string
  readonly #self = randomUUID().slice(0, 8)
  readonly #listeners = new Set<StoreListener>()
  readonly #sender: Lane
  readonly #waiting = new Set<string>()
  #timer: NodeJS.Timeout | null = null
  #sentAt = 0
  #receiver: Lane | null = null
  readonly #closing = new AbortController()

  constructor(options: WakeOptions) {
    this.#options = options
    this.#channel = `holdfast ${options.schema}`
    this.#sender = this.#lane('send wake-ups', true)
  }

  #lane(purpose: string, onlyReads = false): Lane {
    const { settings, connectMs, group } = this.#options
    return new Lane({ settings, connectMs, purpose, onlyReads, ...(group === undefined ? {} : { group }) })
  }

  /** Jobs became ready in a queue: listeners here are told at once, other processes soon. */
  ready(queue: string): void {
    for (const listener of this.#listeners) listener.ready?.(queue)
    this.#send(`r ${queue}`)
  }

  /** Jobs may become ready when a caller's transaction commits. */
  readySoon(queue: string): void {
    for (const ms of AFTER_TRANSACTION_MS) setTimeout(() => this.ready(queue), ms).unref()
  }

  /** A running job should be cancelled. */
  cancel(id: string): void {
    for (const listener of this.#listeners) listener.cancel?.(id)
    this.#send(`c ${id}`)
  }

  #send(message: string): void {
    if (this.#closing.signal.aborted) return
    this.#waiting.add(message)
    if (this.#timer !== null) return
    const wait = Math.max(0, this.#sentAt + QUIET_MS - performance.now())
    this.#timer = setTimeout(() => void this.#flush(), wait)
    this.#timer.unref()
  }

  async #flush(): Promise<void> {
    const messages = [...this.#waiting]
    this.#waiting.clear()
    this.#sentAt = performance.now()
    try {
      const values = [this.#channel, arrayOf(messages.map((message) => `${this.#self} ${message}`))]
      await this.#sender.query({ name: preparedName('notify', NOTIFY), text: NOTIFY, values }, DEADLINE_MS)
    } catch {
      // A lost wake-up costs a poll.
    }
    this.#timer = null
    if (this.#waiting.size > 0) this.#send(this.#waiting.values().next().value as string)
  }

  /** Adds a listener; the connection that hears other processes is opened with the first. */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener)
    if (this.#receiver === null && !this.#closing.signal.aborted) {
      this.#receiver = this.#lane('receive wake-ups', true)
      void this.#receive(this.#receiver)
    }
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Connects, listens until the connection ends, and begins again, until it is closed. The only one that does. */
  async #receive(lane: Lane): Promise<void> {
    let waitMs = AGAIN_MS
    while (!this.#closing.signal.aborted) {
      const sinceMs = performance.now()
      await this.#listenOnce(lane).catch(() => lane.renew())
      waitMs = performance.now() - sinceMs > AGAIN_MS_MAX ? AGAIN_MS : Math.min(waitMs * 2, AGAIN_MS_MAX)
      await this.#pause(waitMs * (0.5 + Math.random()))
    }
  }

  /** Returns when the connection has ended, and raises when it could not listen. */
  async #listenOnce(lane: Lane): Promise<void> {
    const client = await lane.connected()
    let isOpen = true
    const ended = new Promise<void>((resolve) => {
      client.once('end', () => {
        isOpen = false
        resolve()
      })
    })
    client.on('notification', ({ payload }) => this.#heard(payload ?? ''))
    await lane.query({ name: '', text: `LISTEN "${this.#channel}"`, values: [] }, DEADLINE_MS)
    while (isOpen && !this.#closing.signal.aborted) {
      await Promise.race([ended, this.#pause(ASK_MS)])
      if (isOpen) await lane.connected()
    }
  }

  /** Lasts so long, or until everything is closed. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
  }

  #heard(payload: string): void {
    const [sender, kind, ...rest] = payload.split(' ')
    if (sender === this.#self) return
    const name = rest.join(' ')
    for (const listener of this.#listeners) {
      if (kind === 'r') listener.ready?.(name)
      else if (kind === 'c') listener.cancel?.(name)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    if (this.#timer !== null) clearTimeout(this.#timer)
    await Promise.all([this.#sender.close(), this.#receiver?.close()])
  }
}

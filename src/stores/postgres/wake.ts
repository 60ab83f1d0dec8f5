// Wake-ups between processes. NOTIFY takes a lock on the whole database when it commits, so it never rides in an enqueue's
// transaction: it goes out afterwards on a connection of its own, once for many jobs. All of it may be lost; polling finds
// the job a little later.

import { randomUUID } from 'node:crypto'
import type { StoreListener } from '../../core/store.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { arrayOf } from './statement.js'

/** At most one notification for a queue in this time. */
const QUIET_MS = 10
const DEADLINE_MS = 5_000
const RECONNECT_MS = 250
const RECONNECT_MS_MAX = 15_000
/** When to look after a caller's own transaction, whose commit nobody sees. */
const AFTER_TRANSACTION_MS = [25, 250, 1_000]

export interface WakeOptions {
  readonly settings: () => Promise<ConnectionSettings>
  readonly schema: string
  readonly connectMs: number
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
  #isClosed = false

  constructor(options: WakeOptions) {
    this.#options = options
    this.#channel = `holdfast ${options.schema}`
    this.#sender = this.#lane('send wake-ups')
  }

  #lane(purpose: string): Lane {
    const { settings, connectMs } = this.#options
    return new Lane({ settings, connectMs, purpose })
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
    if (this.#isClosed) return
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
      const text = 'SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message'
      await this.#sender.query({ name: 'notify', text, values }, DEADLINE_MS)
    } catch {
      // A lost wake-up costs a poll.
    }
    this.#timer = null
    if (this.#waiting.size > 0) this.#send(this.#waiting.values().next().value as string)
  }

  /** Adds a listener; the connection that hears other processes is opened with the first. */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener)
    if (this.#receiver === null && !this.#isClosed) {
      this.#receiver = this.#lane('receive wake-ups')
      void this.#receive(this.#receiver, RECONNECT_MS)
    }
    return () => {
      this.#listeners.delete(listener)
    }
  }

  async #receive(lane: Lane, waitMs: number): Promise<void> {
    try {
      const client = await lane.connected()
      client.on('notification', ({ payload }) => this.#heard(payload ?? ''))
      const again = () => this.#receiveAgain(lane, RECONNECT_MS)
      client.once('end', again)
      await lane.query({ name: '', text: `LISTEN "${this.#channel}"`, values: [] }, DEADLINE_MS)
    } catch {
      this.#receiveAgain(lane, Math.min(waitMs * 2, RECONNECT_MS_MAX))
    }
  }

  #receiveAgain(lane: Lane, waitMs: number): void {
    if (this.#isClosed) return
    setTimeout(() => void this.#receive(lane, waitMs), waitMs * (0.5 + Math.random())).unref()
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
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await Promise.all([this.#sender.close(), this.#receiver?.close()])
  }
}

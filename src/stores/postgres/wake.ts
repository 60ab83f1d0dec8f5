// Wake-ups between processes. NOTIFY takes a lock on the whole database when it commits, so it never rides in an enqueue's
// transaction: it is sent afterwards on a connection of its own, once for many jobs. Each of them may be lost; then a poll finds the
// job a little later, and a patrol the cancel.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreListener } from '../../core/job-store.js'
import { PACES, Pace } from '../../core/pace.js'
import { type ConnectionSettings, Lane } from './lane.js'
import type { LaneGroup } from './lane-group.js'
import { arrayOf, preparedName } from './statement.js'

const DEADLINE_MS = 5_000
/** The pause before it listens again doubles up to the most, as long as no connection lasts as long as that. */
const AGAIN_MS = 250
const AGAIN_MS_MAX = 5_000
/** No message comes on this connection for hours. It is asked now and then whether it still works, and which server it leads to. */
const ASK_MS = 5_000
const NOTIFY = 'SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message'
/** When to look after a caller's own transaction, whose commit this process does not see. */
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
  readonly #muted = new Set<StoreListener>()
  readonly #sender: Lane
  readonly #pace = new Pace(PACES.notify)
  readonly #waiting = new Set<string>()
  #waitingJobs = 0
  #sentAtMs = 0
  #timer: NodeJS.Timeout | null = null
  #receiver: Lane | null = null
  /** Whether the connection listens; null when that is not known. */
  #isListening: boolean | null = null
  /** Ends when the last LISTEN or UNLISTEN has been answered. */
  #tuning: Promise<void> = Promise.resolve()
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

  /** Jobs became ready in a queue. Listeners here are notified immediately, other processes soon. */
  ready(queue: string): void {
    this.#announce(queue, { jobs: 1, isOwnEnqueue: false })
  }

  /** An enqueue of this process wrote ready jobs into a queue. */
  enqueued(queue: string, jobs: number): void {
    this.#announce(queue, { jobs, isOwnEnqueue: true })
  }

  #announce(queue: string, { jobs, isOwnEnqueue }: { readonly jobs: number; readonly isOwnEnqueue: boolean }): void {
    for (const listener of this.#listeners) listener.ready?.(queue, isOwnEnqueue)
    this.#waitingJobs += jobs
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
    this.#timer = setTimeout(() => void this.#flush(), this.#pace.waitMs(performance.now()))
    this.#timer.unref()
  }

  async #flush(): Promise<void> {
    const messages = [...this.#waiting]
    this.#waiting.clear()
    const startedMs = performance.now()
    const ageMs = this.#waitingJobs === 0 ? Number.POSITIVE_INFINITY : (startedMs - this.#sentAtMs) / this.#waitingJobs
    this.#sentAtMs = startedMs
    this.#waitingJobs = 0
    try {
      const values = [this.#channel, arrayOf(messages.map((message) => `${this.#self} ${message}`))]
      await this.#sender.query({ name: preparedName('notify', NOTIFY), text: NOTIFY, values }, DEADLINE_MS)
    } catch {
      // A lost wake-up costs a poll.
    }
    this.#pace.learn({ startedMs, endedMs: startedMs, ageMs })
    this.#timer = null
    if (this.#waiting.size > 0) this.#send(this.#waiting.values().next().value as string)
  }

  /** Adds a listener. The connection that receives wake-ups is opened with the first. */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener)
    if (this.#receiver === null && !this.#closing.signal.aborted) {
      this.#receiver = this.#lane('receive wake-ups', true)
      void this.#receive(this.#receiver)
    } else void this.#tune()
    return () => {
      this.#listeners.delete(listener)
      this.#muted.delete(listener)
      void this.#tune()
    }
  }

  /** The contract's `mute`. PostgreSQL wakes every connection of the database that listens, to whatever channel, so a process whose
   *  listeners are all muted listens to none. */
  mute(listener: StoreListener, isMuted: boolean): Promise<void> {
    if (isMuted && this.#listeners.has(listener)) this.#muted.add(listener)
    else this.#muted.delete(listener)
    return this.#tune()
  }

  /** Listens, or stops listening, as the listeners want it now. Never raises: after a failure the connection is opened again. */
  #tune(): Promise<void> {
    this.#tuning = this.#tuning.then(async () => {
      const lane = this.#receiver
      const isWanted = this.#muted.size === 0 || this.#muted.size < this.#listeners.size
      if (lane === null || this.#closing.signal.aborted || isWanted === this.#isListening) return
      this.#isListening = isWanted
      const text = isWanted ? `LISTEN "${this.#channel}"` : 'UNLISTEN *'
      await lane.query({ name: '', text, values: [] }, DEADLINE_MS).catch(() => lane.renew())
    })
    return this.#tuning
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

  /** Returns when the connection has ended, and raises when it could not be opened. */
  async #listenOnce(lane: Lane): Promise<void> {
    const client = await lane.connected()
    let isOpen = true
    const ended = new Promise<void>((resolve) => {
      client.once('end', () => {
        isOpen = false
        resolve()
      })
    })
    client.on('notification', ({ payload }) => this.#received(payload ?? ''))
    this.#isListening = null
    await this.#tune()
    while (isOpen && !this.#closing.signal.aborted) {
      await Promise.race([ended, this.#pause(ASK_MS)])
      if (isOpen) await lane.connected()
    }
  }

  /** Lasts this long, or until everything is closed. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
  }

  #received(payload: string): void {
    const [sender, kind, ...rest] = payload.split(' ')
    if (sender === this.#self) return
    const name = rest.join(' ')
    for (const listener of this.#listeners) {
      if (kind === 'c') listener.cancel?.(name)
      else if (kind === 'r' && !this.#muted.has(listener)) listener.ready?.(name, false)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    if (this.#timer !== null) clearTimeout(this.#timer)
    await Promise.all([this.#sender.close(), this.#receiver?.close()])
  }
}

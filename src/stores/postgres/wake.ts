// Wake-ups between processes. NOTIFY takes a lock on the whole database when it commits, so it is never part of an enqueue's
// transaction: it is sent afterwards on its own connection, once for many jobs. A wake-up may be lost. Then a poll finds the job a
// little later, and a patrol finds the cancel. ◄── enqueue.ts · next: worker/fetcher.ts

import { randomUUID } from 'node:crypto'
import { PACES, Pace } from '../../core/pace.js'
import type { StoreListener } from '../../core/store-listener.js'
import { type ConnectionSettings, Lane } from './lane.js'
import type { LaneGroup } from './lane-group.js'
import { arrayOf, preparedName } from './statement.js'
import type { StatementLane } from './statement-lane.js'
import { passOn } from './wake-message.js'
import { WakeReceiver } from './wake-receiver.js'

const DEADLINE_MS = 5_000
const NOTIFY = 'SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message'
/** When to look after a caller's own transaction, whose commit this process does not see. */
const AFTER_TRANSACTION_MS = [25, 250, 1_000]

export interface WakeOptions {
  readonly settings: () => Promise<ConnectionSettings>
  readonly schema: string
  readonly connectMs: number
  /** The other lanes of its store. Default: none. */
  readonly group?: LaneGroup
  /** What wake-ups are sent over. Default: a connection of its own. */
  readonly sender?: StatementLane
  /** Whether wake-ups of other processes are received, over a connection of its own. Default true. */
  readonly receives?: boolean
}

/** Sends wake-ups, and gives those that arrive to the listeners of this process. */
export class WakeUps {
  readonly #options: WakeOptions
  readonly #channel: string
  readonly #self = randomUUID().slice(0, 8)
  readonly #listeners = new Set<StoreListener>()
  readonly #muted = new Set<StoreListener>()
  readonly sender: StatementLane
  readonly #pace = new Pace(PACES.notify)
  readonly #waiting = new Set<string>()
  #waitingJobs = 0
  #sentAtMs = 0
  #timer: NodeJS.Timeout | null = null
  readonly receiver: WakeReceiver
  #isClosed = false

  constructor(options: WakeOptions) {
    this.#options = options
    this.#channel = `holdfast ${options.schema}`
    this.sender = options.sender ?? this.#lane('send wake-ups')
    this.receiver = new WakeReceiver({
      channel: this.#channel,
      open: () => this.#lane('receive wake-ups'),
      isWanted: () => this.#muted.size === 0 || this.#muted.size < this.#listeners.size,
      onMessage: (message) => message.startsWith(`${this.#self} `) || passOn(message, this.#listeners, this.#muted),
      onHears: (hears) => this.#listeners.forEach((listener) => void (hears ? listener.hears?.() : listener.deaf?.())),
    })
  }

  #lane(purpose: string): Lane {
    const { settings, connectMs, group } = this.#options
    return new Lane({ settings, connectMs, purpose, onlyReads: true, ...(group === undefined ? {} : { group }) })
  }

  /** Jobs became ready in a queue. Listeners here are notified immediately, other processes soon. */
  ready(queue: string, jobs = 1): void {
    this.#announce(queue, { jobs, isOwnEnqueue: false })
  }

  /** An enqueue of this process wrote ready jobs into a queue. */
  enqueued(queue: string, jobs: number): void {
    this.#announce(queue, { jobs, isOwnEnqueue: true })
  }

  #announce(queue: string, { jobs, isOwnEnqueue }: { readonly jobs: number; readonly isOwnEnqueue: boolean }): void {
    for (const listener of this.#listeners) listener.ready?.(queue, isOwnEnqueue)
    this.#waitingJobs += jobs
    this.tell(`r ${queue}`)
  }

  /** Jobs may become ready when a caller's transaction commits. */
  readySoon(queue: string): void {
    for (const ms of AFTER_TRANSACTION_MS) setTimeout(() => this.ready(queue), ms).unref()
  }

  /** A running job should be cancelled. */
  cancel(id: string): void {
    for (const listener of this.#listeners) listener.cancel?.(id)
    this.tell(`c ${id}`)
  }

  /** Sends a message to other processes, soon and with others. */
  tell(message: string): void {
    if (this.#isClosed) return
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
      await this.sender.query({ name: preparedName('notify', NOTIFY), text: NOTIFY, values }, DEADLINE_MS)
    } catch {
      // A lost wake-up costs a poll.
    }
    this.#pace.learn({ startedMs, endedMs: startedMs, ageMs })
    this.#timer = null
    if (this.#waiting.size > 0) this.tell(this.#waiting.values().next().value as string)
  }

  /** Adds a listener. The connection that receives wake-ups is opened with the first. */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener)
    if (this.#options.receives !== false) void this.receiver.listen()
    return () => {
      this.#listeners.delete(listener)
      this.#muted.delete(listener)
      void this.receiver.tune()
    }
  }

  /** The contract's `mute`. PostgreSQL wakes every connection of the database that listens, to whatever channel, so a process whose
   *  listeners are all muted listens to none. */
  mute(listener: StoreListener, isMuted: boolean): Promise<void> {
    if (isMuted && this.#listeners.has(listener)) this.#muted.add(listener)
    else this.#muted.delete(listener)
    return this.receiver.tune()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await Promise.all([this.sender.close(), this.receiver.close()])
  }
}

// The connection that receives the wake-ups of other processes. It is opened again whenever it ends. ◄── wake.ts

import { setTimeout as sleep } from 'node:timers/promises'
import type { Query } from './exchange.js'
import type { Lane } from './lane.js'
import type { Row } from './statement.js'

const DEADLINE_MS = 5_000
/** The pause before it listens again doubles up to the most, as long as no connection lasts as long as that. */
const AGAIN_MS = 250
const AGAIN_MS_MAX = 5_000
/** No message comes on this connection for hours. It is asked now and then whether it still works, and which server it leads to. */
const ASK_MS = 5_000

interface ReceiverOptions {
  readonly channel: string
  open(): Lane
  /** Whether any listener wants wake-ups. */
  isWanted(): boolean
  onMessage(message: string): void
  /** Messages arrive from now on, or do not any more. */
  onHears(hears: boolean): void
}

/** The receiver of one store. */
export class WakeReceiver {
  readonly #options: ReceiverOptions
  #lane: Lane | null = null
  /** Whether the connection listens; null when that is not known. */
  #isListening: boolean | null = null
  /** Whether LISTEN was answered on the connection that is open. */
  #isHeard = false
  /** Ends when the last LISTEN or UNLISTEN has been answered. */
  #tuning: Promise<void> = Promise.resolve()
  /** While the process rests, its looks at the store go over this connection, and nothing else is asked on it. */
  #isResting = false
  readonly #closing = new AbortController()

  constructor(options: ReceiverOptions) {
    this.#options = options
  }

  /** There is a listener more. The connection is opened with the first. */
  listen(): Promise<void> {
    if (this.#lane !== null || this.#closing.signal.aborted) return this.tune()
    this.#lane = this.#options.open()
    return this.#receive(this.#lane)
  }

  /** Whether messages arrive: a pooler that hands the session to others takes LISTEN, and passes none on. */
  get hears(): boolean {
    return this.#isHeard && this.#lane?.hasSession === true
  }

  #deafen(): void {
    this.#isHeard = false
    this.#options.onHears(false)
  }

  rest(isResting: boolean): void {
    this.#isResting = isResting
  }

  /** Runs a query that writes on this connection. */
  async write(query: Query): Promise<Row[]> {
    if (this.#lane === null || this.#closing.signal.aborted) return []
    return this.#lane.write(query, DEADLINE_MS)
  }

  /** Listens, or stops listening, as the listeners want it now. Never raises: after a failure the connection is opened again. */
  tune(): Promise<void> {
    this.#tuning = this.#tuning.then(async () => {
      const lane = this.#lane
      const isWanted = this.#options.isWanted()
      if (lane === null || this.#closing.signal.aborted || isWanted === this.#isListening) return
      this.#isListening = isWanted
      const text = isWanted ? `LISTEN "${this.#options.channel}"` : 'UNLISTEN *'
      if (!isWanted) this.#deafen()
      await lane.query({ name: '', text, values: [] }, DEADLINE_MS).then(
        () => {
          this.#isHeard = isWanted
          if (isWanted) this.#options.onHears(true)
        },
        () => lane.renew(),
      )
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
        this.#deafen()
        resolve()
      })
    })
    client.on('notification', ({ payload }) => this.#options.onMessage(payload ?? ''))
    this.#isListening = null
    await this.tune()
    while (isOpen && !this.#closing.signal.aborted) {
      await Promise.race([ended, this.#pause(ASK_MS)])
      if (isOpen && !this.#isResting) await lane.connected()
    }
  }

  /** Lasts this long, or until everything is closed. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#lane?.close()
  }
}

// When to look for rows. Nobody sees the commit of a caller's transaction, so this process looks a few times after it. A process that sends
// nothing by itself rings instead, and those that do hear it. ◄── store.ts

import type { Lane } from '../postgres/lane.js'
import { WakeReceiver } from '../postgres/wake-receiver.js'

/** When a transaction that has just enqueued may have committed. Later ones are found within a second. */
const AFTER_TRANSACTION_MS = [25, 250, 1_000]

interface BellOptions {
  readonly channel: string
  /** Opens a connection that hears others, or null where there can be none. */
  readonly open: (() => Lane) | null
  /** Sends a notification. */
  readonly ring: (channel: string) => Promise<void>
}

export class Bell {
  readonly #options: BellOptions
  readonly #receiver: WakeReceiver | null
  readonly #listeners = new Set<() => void>()
  /** One for each delay; true when another transaction came meanwhile. */
  readonly #waiting = new Map<number, { again: boolean; timer: NodeJS.Timeout }>()
  #ringing: Promise<void> | null = null
  #isClosed = false

  constructor(options: BellOptions) {
    this.#options = options
    const { channel, open } = options
    this.#receiver =
      open === null
        ? null
        : new WakeReceiver({
            channel,
            open,
            isWanted: () => this.#listeners.size > 0,
            onMessage: () => this.#tell(),
            onHears: () => this.#tell(),
          })
  }

  /** Calls `onRows` when rows may have come. Returns the function that ends that. */
  listen(onRows: () => void): () => void {
    this.#listeners.add(onRows)
    void this.#receiver?.listen().catch(() => {})
    return () => {
      this.#listeners.delete(onRows)
      void this.#receiver?.tune()
    }
  }

  /** A transaction of this process has written rows, and will commit or not. */
  afterTransaction(): void {
    for (const ms of AFTER_TRANSACTION_MS) this.#lookIn(ms)
  }

  // While one is due another is not set: it is set when that one has fired, for those who came meanwhile.
  #lookIn(ms: number): void {
    if (this.#isClosed) return
    const due = this.#waiting.get(ms)
    if (due !== undefined) {
      due.again = true
      return
    }
    const own = { again: false, timer: setTimeout(() => this.#fire(ms), ms) }
    own.timer.unref()
    this.#waiting.set(ms, own)
  }

  #fire(ms: number): void {
    const own = this.#waiting.get(ms)
    this.#waiting.delete(ms)
    if (own?.again) this.#lookIn(ms)
    this.now()
  }

  /** Rows have come. */
  now(): void {
    if (this.#listeners.size > 0) this.#tell()
    else this.#ring()
  }

  #tell(): void {
    for (const onRows of this.#listeners) onRows()
  }

  // A hint: without it rows are found a second later. One at a time, because they all say the same.
  #ring(): void {
    if (this.#isClosed || this.#ringing !== null) return
    this.#ringing = this.#options
      .ring(this.#options.channel)
      .catch(() => {})
      .finally(() => {
        this.#ringing = null
      })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { timer } of this.#waiting.values()) clearTimeout(timer)
    this.#waiting.clear()
    await Promise.all([this.#receiver?.close(), this.#ringing])
  }
}

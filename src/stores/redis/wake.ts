// Wake-ups between processes. The functions publish them with what they write; this receives them on a connection of its own. A wake-up
// may be lost: then a poll finds the job a little later. ◄── enqueue.ts · next: worker/fetcher.ts

import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreListener } from '../../core/store-listener.js'
import { longId } from './ids.js'
import type { RedisConnection } from './port.js'
import type { Report } from './redis.js'

/** The pause before it listens again doubles up to the most. */
const AGAIN_MS = 250
const AGAIN_MS_MAX = 5_000

export interface WakeOptions {
  /** The name of this store: what it publishes itself its listeners know already. */
  readonly self: string
  /** Opens the connections that messages come from, with the channels of each. */
  readonly open: () => Promise<readonly WakeSource[]>
}

export interface WakeSource {
  /** Null when it could not be opened now. */
  readonly connection: RedisConnection | null
  readonly channels: readonly string[]
}

/** Gives wake-ups to the listeners of this process. */
export class WakeUps {
  readonly #options: WakeOptions
  readonly #listeners = new Set<StoreListener>()
  readonly #muted = new Set<StoreListener>()
  readonly #closing = new AbortController()
  #connections: readonly RedisConnection[] = []
  #isWhole = false
  #receiving: Promise<void> | null = null
  /** Resolves with the first subscription that holds. */
  #subscribed: () => void = () => {}

  constructor(options: WakeOptions) {
    this.#options = options
  }

  /** What a call of this store has woken. */
  report({ ready, asked, isEnqueue }: Report): void {
    for (const queue of ready) this.ready(queue, isEnqueue)
    for (const id of asked) this.#tell((listener) => listener.cancel?.(longId(id)))
  }

  ready(queue: string, isOwnEnqueue: boolean): void {
    this.#tell((listener) => listener.ready?.(queue, isOwnEnqueue))
  }

  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener)
    this.#receiving ??= this.#receive()
    return () => {
      this.#listeners.delete(listener)
      this.#muted.delete(listener)
    }
  }

  /** The contract's `mute`. The connection goes on listening: a message that no listener wants costs next to nothing. */
  mute(listener: StoreListener, isMuted: boolean): void {
    if (isMuted && this.#listeners.has(listener)) this.#muted.add(listener)
    else this.#muted.delete(listener)
  }

  /** Resolves when messages of other processes are received. For tests. */
  subscribed(): Promise<void> {
    if (this.#isWhole) return Promise.resolve()
    return new Promise((resolve) => {
      this.#subscribed = resolve
    })
  }

  /** Begins anew: the channels may be on other servers now. */
  renew(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  async #receive(): Promise<void> {
    let waitMs = AGAIN_MS
    while (!this.#closing.signal.aborted) {
      try {
        const sources = await this.#options.open()
        this.#connections = sources.flatMap(({ connection }) => connection ?? [])
        if (this.#closing.signal.aborted) return this.renew()
        await Promise.all(sources.flatMap((source) => this.#subscribe(source)))
        const isWhole = this.#connections.length === sources.length
        if (isWhole) {
          waitMs = AGAIN_MS
          this.#isWhole = true
          this.#subscribed()
          this.#tell((listener) => listener.hears?.())
        }
        const again = isWhole ? [] : [sleep(AGAIN_MS_MAX, undefined, { ref: false, signal: this.#closing.signal })]
        await Promise.race([...this.#connections.map(({ ended }) => ended), ...again])
      } catch {
        // Without wake-ups workers poll. The next try comes soon.
      }
      this.#isWhole = false
      this.renew()
      this.#connections = []
      await sleep(waitMs * (0.5 + Math.random()), undefined, { ref: false, signal: this.#closing.signal }).catch(
        () => {},
      )
      waitMs = Math.min(waitMs * 2, AGAIN_MS_MAX)
    }
  }

  #subscribe({ connection, channels }: WakeSource): Promise<void>[] {
    if (connection === null) return []
    return channels.map((channel) => connection.subscribe(channel, (message) => this.#received(message)))
  }

  #received(message: string): void {
    const [sender, kind, ...rest] = message.split(' ')
    if (sender === this.#options.self) return
    const name = rest.join(' ')
    if (kind === 'c') this.#tell((listener) => listener.cancel?.(longId(name)))
    else if (kind === 'r') this.#tell((listener) => this.#muted.has(listener) || listener.ready?.(name, false))
  }

  // A report may be lost, so a listener that throws disturbs no other.
  #tell(speak: (listener: StoreListener) => unknown): void {
    for (const listener of [...this.#listeners]) {
      try {
        speak(listener)
      } catch {}
    }
  }

  close(): void {
    this.#closing.abort()
    this.#listeners.clear()
    this.renew()
  }
}

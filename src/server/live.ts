// Events for the pages that are open: one poller for the process, however many follow, and none while nobody does.

import type { Client } from '../client/client.js'
import type { Overview } from '../core/operating.js'
import { EventStream, type StreamOptions } from './event-stream.js'
import { Refusal } from './problem.js'
import { showOverview } from './show.js'
import type { Warning, WarningBoard } from './warnings.js'
import { maySee, type Who } from './who.js'

const POLL_MS = 1_500
const PING_MS = 15_000
/** Warnings and bulk actions are looked at every so many polls. */
const SELDOM = 3

/** One who follows. */
interface Follower {
  readonly stream: EventStream
  readonly who: Who
  /** False once they may no longer look: signed out, revoked, over. */
  isWelcome(): Promise<boolean>
}

/** The poller while somebody follows. */
interface Loop {
  readonly ping: NodeJS.Timeout
  timer: NodeJS.Timeout | null
  isOver: boolean
}

export class Live {
  readonly #holdfast: Client
  readonly #warnings: WarningBoard
  readonly #streamsMax: number
  readonly #followers = new Set<Follower>()
  #overview: { readonly id: number; readonly value: Overview } | null = null
  #overviewText = ''
  #warningsText = ''
  #bulksText = ''
  #eventId = 0
  #polls = 0
  #loop: Loop | null = null
  #isClosed = false

  constructor(holdfast: Client, warnings: WarningBoard, streamsMax: number) {
    this.#holdfast = holdfast
    this.#warnings = warnings
    this.#streamsMax = streamsMax
  }

  /** Lets somebody follow. Raises 503 when too many do. `lastEventId` is what they have seen already. */
  follow(
    who: Who,
    options: Pick<StreamOptions, 'signal'> & {
      readonly lastEventId: string | null
      readonly isWelcome: () => Promise<boolean>
    },
  ): ReadableStream<Uint8Array> {
    if (this.#isClosed || this.#followers.size >= this.#streamsMax) {
      throw new Refusal(503, 'too_many_requests', `${this.#streamsMax} pages follow the events already: close some`, {
        headers: { 'retry-after': '10' },
      })
    }
    const stream = new EventStream({
      signal: options.signal,
      onEnd: () => {
        this.#followers.delete(follower)
        if (this.#followers.size === 0) this.#stop()
      },
    })
    const follower: Follower = { stream, who, isWelcome: options.isWelcome }
    this.#followers.add(follower)
    stream.comment('connected')
    if (this.#overview !== null && options.lastEventId !== String(this.#overview.id)) {
      this.#sendOverview(follower)
    }
    this.#start()
    return stream.readable
  }

  close(): void {
    this.#isClosed = true
    for (const { stream } of [...this.#followers]) stream.end()
    this.#stop()
  }

  #start(): void {
    if (this.#loop !== null || this.#isClosed) return
    const ping = setInterval(() => void this.#greet(), PING_MS)
    ping.unref()
    this.#loop = { ping, timer: null, isOver: false }
    this.#schedule(this.#loop, 0)
  }

  #stop(): void {
    const loop = this.#loop
    this.#loop = null
    if (loop === null) return
    // One that is asking the store just now ends when it has its answer, and does not ask again.
    loop.isOver = true
    if (loop.timer !== null) clearTimeout(loop.timer)
    clearInterval(loop.ping)
    // What was seen last is old by the time somebody follows again.
    this.#overview = null
    this.#overviewText = ''
  }

  #schedule(loop: Loop, ms: number): void {
    loop.timer = setTimeout(async () => {
      try {
        await this.#poll()
      } catch {
        // The store is away. Those who follow keep their connection, and find out by what they ask.
      }
      if (!loop.isOver) this.#schedule(loop, POLL_MS)
    }, ms)
    loop.timer.unref()
  }

  async #poll(): Promise<void> {
    const overview = await this.#holdfast.overview()
    const text = JSON.stringify(overview.queues)
    if (text !== this.#overviewText) {
      this.#overviewText = text
      this.#overview = { id: ++this.#eventId, value: overview }
      for (const follower of [...this.#followers]) this.#sendOverview(follower)
    }
    if (this.#polls++ % SELDOM !== 0) return
    await this.#pollWarnings()
    await this.#pollBulks()
  }

  #sendOverview({ stream, who }: Follower): void {
    const { id, value } = this.#overview!
    stream.send('overview', showOverview(value, who), id)
  }

  async #pollWarnings(): Promise<void> {
    const warnings = await this.#warnings.read()
    const text = JSON.stringify(warnings.map(({ code, queue }) => [code, queue]))
    if (text === this.#warningsText) return
    this.#warningsText = text
    const seenBy = (who: Who) => warnings.filter((warning) => isFor(warning, who))
    for (const { stream, who } of [...this.#followers]) stream.send('warning', { warnings: seenBy(who) })
  }

  async #pollBulks(): Promise<void> {
    const bulks = await this.#holdfast.bulks({ limit: 20 })
    const text = JSON.stringify(bulks.map(({ id, state, matched }) => [id, state, matched]))
    if (text === this.#bulksText) return
    this.#bulksText = text
    const running = bulks.filter(({ state }) => state === 'running' || state === 'waiting').length
    for (const { stream, who } of [...this.#followers]) if (who.queues === null) stream.send('bulk', { running })
  }

  async #greet(): Promise<void> {
    for (const { stream, isWelcome } of [...this.#followers]) {
      stream.comment('ping')
      // One that cannot be checked now stays: it sees nothing while the store is away.
      if (!(await isWelcome().catch(() => true))) stream.end()
    }
  }
}

/** True for a warning that concerns them: those kept to some queues see only theirs. */
export function isFor(warning: Warning, who: Who): boolean {
  return who.queues === null || (warning.queue !== null && maySee(who, warning.queue))
}

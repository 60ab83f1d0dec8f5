// Server-sent events for open pages. One poller reads the store for all of them, and only while a page is open.

import type { Client } from '../client/client.js'
import type { Overview } from '../core/operating.js'
import { EventStream, type StreamOptions } from './event-stream.js'
import { Refusal } from './problem.js'
import type { Warning } from './schemas/operating.js'
import { showOverview } from './show.js'
import type { WarningBoard } from './warnings.js'
import { maySee, type Who } from './who.js'

const POLL_MS = 1_500
const PING_MS = 15_000
/** How often the rights of followers are checked again, so that a revoked key's stream ends within seconds. */
const RECHECK_MS = 2_000
/** A stream whose rights could not be checked for this long ends. Its page connects again and is checked then. */
const UNCHECKED_MS_MAX = 30_000
const RETRY_AFTER = { headers: { 'retry-after': '10' } }
/** Warnings, bulk actions and limits are read on every third poll. */
const POLLS_BETWEEN = 3

/** What a stream tells. */
export const STREAM_EVENTS = ['overview', 'warning', 'bulk', 'limits'] as const
export type StreamEvent = (typeof STREAM_EVENTS)[number]

/** What pages read by themselves when they are told that it has changed. */
type Read = 'warning' | 'bulk' | 'limits'

/** One open stream. */
interface Follower {
  /** The events it asked for; null for all. */
  readonly names: ReadonlySet<StreamEvent> | null
  readonly stream: EventStream
  readonly who: Who
  readonly address: string
  /** False once the caller has lost the right to read: signed out, revoked or expired. */
  isWelcome(): Promise<boolean>
  /** What it was not told yet. The page may have read it before the stream was open, and what changed between the two reached others only. */
  readonly untold: Set<Read>
  checkedMs: number
  isBeingChecked: boolean
  /** For callers limited to some queues: the last overview and warnings that were sent, and the id of the last event. */
  seenText: string
  warnedText: string
  eventId: number
}

interface StreamLimits {
  readonly streamsMax: number
  readonly streamsPerKeyMax: number
  readonly streamsPerAddressMax: number
}

interface LiveParts {
  readonly holdfast: Client
  readonly warnings: WarningBoard
  readonly limits: StreamLimits
  /** The time, in milliseconds. */
  readonly now: () => number
}

/** The poller while there are followers. */
interface Loop {
  readonly ping: NodeJS.Timeout
  readonly recheck: NodeJS.Timeout
  timer: NodeJS.Timeout | null
  isOver: boolean
}

export class Live {
  readonly #holdfast: Client
  readonly #warnings: WarningBoard
  readonly #limits: StreamLimits
  readonly #now: () => number
  readonly #followers = new Set<Follower>()
  /** Streams that others serve, which count as those here. */
  readonly #held = new Set<Pick<Follower, 'who' | 'address'>>()
  #overview: { readonly id: number; readonly value: Overview } | null = null
  #overviewText = ''
  #warningsText = ''
  #bulksText = ''
  #limitsText = ''
  #eventId = 0
  #polls = 0
  #loop: Loop | null = null
  #isClosed = false

  constructor({ holdfast, warnings, limits, now }: LiveParts) {
    this.#holdfast = holdfast
    this.#warnings = warnings
    this.#limits = limits
    this.#now = now
  }

  /** Opens a stream. Raises 429 when the caller or its address has too many, 503 when there are too many in total.
   *  `lastEventId` is the last event that the page received before it reconnected. */
  follow(
    caller: Who,
    options: Pick<StreamOptions, 'signal'> & {
      readonly address: string
      readonly lastEventId: string | null
      /** The events it asked for; null for all. */
      readonly names?: ReadonlySet<StreamEvent> | null
      /** The queue it asked for; null for all that it may see. */
      readonly queue?: string | null
      readonly isWelcome: () => Promise<boolean>
    },
  ): ReadableStream<Uint8Array> {
    this.#checkRoom(caller, options.address)
    const { names = null, queue = null } = options
    // A reader who asks for one queue is served like one who may see no other.
    const who = queue === null ? caller : { ...caller, queues: [queue] }
    const stream = new EventStream({
      signal: options.signal,
      onEnd: () => {
        this.#followers.delete(follower)
        if (this.#followers.size === 0) this.#stop()
      },
    })
    const { address, isWelcome } = options
    const sent = { seenText: '', warnedText: '', eventId: 0 }
    const follower: Follower = {
      stream,
      who,
      address,
      isWelcome,
      names,
      untold: new Set<Read>(['warning', 'bulk', 'limits']),
      checkedMs: this.#now(),
      isBeingChecked: false,
      ...sent,
    }
    this.#followers.add(follower)
    stream.comment('connected')
    const hasSeen = who.queues === null && options.lastEventId === String(this.#overview?.id)
    if (this.#overview !== null && !hasSeen) {
      this.#sendOverview(follower)
    }
    this.#start()
    return stream.readable
  }

  /** Counts a stream that another part serves, until the function it returns is called. Raises as `follow` does. */
  hold(who: Who, address: string): () => void {
    this.#checkRoom(who, address)
    const held = { who, address }
    this.#held.add(held)
    return () => void this.#held.delete(held)
  }

  #checkRoom({ name, principal }: Who, address: string): void {
    const { streamsMax, streamsPerKeyMax, streamsPerAddressMax } = this.#limits
    const all = [...this.#followers, ...this.#held]
    if (all.filter(({ who }) => who.principal === principal).length >= streamsPerKeyMax) {
      throw new Refusal(
        429,
        'too_many_requests',
        `${name} has ${streamsPerKeyMax} event streams open: close some`,
        RETRY_AFTER,
      )
    }
    if (all.filter((follower) => follower.address === address).length >= streamsPerAddressMax) {
      const text = `this address has ${streamsPerAddressMax} event streams open: close some`
      throw new Refusal(429, 'too_many_requests', text, RETRY_AFTER)
    }
    if (this.#isClosed || all.length >= streamsMax) {
      const text = `the server has ${streamsMax} event streams open: close some`
      throw new Refusal(503, 'too_many_requests', text, RETRY_AFTER)
    }
  }

  close(): void {
    this.#isClosed = true
    for (const { stream } of [...this.#followers]) stream.end()
    this.#stop()
  }

  #start(): void {
    if (this.#loop !== null || this.#isClosed) return
    const ping = setInterval(() => this.#ping(), PING_MS)
    const recheck = setInterval(() => this.#recheck(), RECHECK_MS)
    ping.unref()
    recheck.unref()
    this.#loop = { ping, recheck, timer: null, isOver: false }
    this.#schedule(this.#loop, 0)
  }

  #stop(): void {
    const loop = this.#loop
    this.#loop = null
    if (loop === null) return
    // A poll in progress completes, and no other follows.
    loop.isOver = true
    if (loop.timer !== null) clearTimeout(loop.timer)
    clearInterval(loop.ping)
    clearInterval(loop.recheck)
    // It would be out of date for the next follower.
    this.#overview = null
    this.#overviewText = ''
  }

  #schedule(loop: Loop, ms: number): void {
    loop.timer = setTimeout(async () => {
      await this.#poll(loop)
      if (!loop.isOver) this.#schedule(loop, POLL_MS)
    }, ms)
    loop.timer.unref()
  }

  async #poll(loop: Loop): Promise<void> {
    const isWhole = this.#polls++ % POLLS_BETWEEN === 0
    // Each by itself: one that fails or takes long keeps back none of the others. When the store is unavailable, pages keep their stream
    // and learn it from their own requests.
    const parts = [this.#pollOverview(loop)]
    if (isWhole) parts.push(this.#pollWarnings(), this.#pollBulks(), this.#pollLimits())
    await Promise.allSettled(parts)
  }

  async #pollOverview(loop: Loop): Promise<void> {
    const overview = await this.#holdfast.overview({ maxAge: '1s' })
    // The last follower has left meanwhile. The next one, whenever it comes, must not get this as the newest.
    if (loop.isOver) return
    const text = JSON.stringify(overview.queues)
    if (text !== this.#overviewText) {
      this.#overviewText = text
      this.#overview = { id: ++this.#eventId, value: overview }
      for (const follower of [...this.#followers]) this.#sendOverview(follower)
    }
  }

  #sendOverview(follower: Follower): void {
    const { id, value } = this.#overview!
    const { stream, who } = follower
    if (!isWanted(follower, 'overview')) return
    if (who.queues === null) {
      stream.send('overview', showOverview(value, who), id)
      return
    }
    // Changes in other queues must stay hidden, and also how often they happen.
    const text = JSON.stringify(value.queues.filter(({ name }) => maySee(who, name)))
    if (text === follower.seenText) return
    follower.seenText = text
    stream.send('overview', showOverview(value, who), ++follower.eventId)
  }

  async #pollWarnings(): Promise<void> {
    const warnings = await this.#warnings.read()
    const text = JSON.stringify(warnings.map(({ code, queue }) => [code, queue]))
    const isChanged = text !== this.#warningsText
    this.#warningsText = text
    const seenBy = (who: Who) => warnings.filter((warning) => isFor(warning, who))
    for (const follower of [...this.#followers]) {
      if (!isToTell(follower, 'warning', isChanged)) continue
      const theirs = seenBy(follower.who)
      const theirText = JSON.stringify(theirs.map(({ code, queue }) => [code, queue]))
      if (follower.who.queues !== null && theirText === follower.warnedText) continue
      follower.warnedText = theirText
      follower.stream.send('warning', { warnings: theirs })
    }
  }

  async #pollBulks(): Promise<void> {
    const bulks = await this.#holdfast.bulks({ limit: 20 })
    const text = JSON.stringify(bulks.map(({ id, state, matched }) => [id, state, matched]))
    const isChanged = text !== this.#bulksText
    this.#bulksText = text
    const running = bulks.filter(({ state }) => state === 'running' || state === 'waiting').length
    this.#sendAll('bulk', { running }, isChanged)
  }

  /** What changes by the second, such as how many run, pages read by themselves. */
  async #pollLimits(): Promise<void> {
    const limits = await this.#holdfast.limits()
    const text = JSON.stringify(
      limits.map(({ name, concurrency, adaptive, rate, origin, until, breaker }) => {
        const { settings, position, forced, since } = breaker ?? {}
        return [name, concurrency, adaptive, rate, origin, until, settings, position, forced, since]
      }),
    )
    const isChanged = text !== this.#limitsText
    this.#limitsText = text
    const open = limits.filter(({ breaker }) => breaker !== null && breaker.position !== 'closed').length
    this.#sendAll('limits', { open }, isChanged)
  }

  /** To those who see all queues. */
  #sendAll(name: Read, value: unknown, isChanged: boolean): void {
    for (const follower of [...this.#followers]) {
      if (isToTell(follower, name, isChanged) && follower.who.queues === null) follower.stream.send(name, value)
    }
  }

  #ping(): void {
    for (const { stream } of [...this.#followers]) stream.comment('ping')
  }

  #recheck(): void {
    for (const follower of [...this.#followers]) void this.#check(follower)
  }

  /** Ends the stream of a caller who lost the right to read. When the check itself fails or hangs, the stream stays for a while. */
  async #check(follower: Follower): Promise<void> {
    if (this.#now() - follower.checkedMs > UNCHECKED_MS_MAX) return follower.stream.end()
    if (follower.isBeingChecked) return
    follower.isBeingChecked = true
    try {
      if (await follower.isWelcome()) follower.checkedMs = this.#now()
      else follower.stream.end()
    } catch {
      // The store or the `authenticate` option failed.
    } finally {
      follower.isBeingChecked = false
    }
  }
}

function isWanted({ names }: Follower, name: StreamEvent): boolean {
  return names === null || names.has(name)
}

/** Whether it is told now. From then on it is told of changes only. */
function isToTell(follower: Follower, name: Read, isChanged: boolean): boolean {
  const isUntold = follower.untold.delete(name)
  return (isChanged || isUntold) && isWanted(follower, name)
}

/** True for a warning that the caller may see: those limited to some queues see only theirs. */
export function isFor(warning: Warning, who: Who): boolean {
  return who.queues === null || (warning.queue !== null && maySee(who, warning.queue))
}

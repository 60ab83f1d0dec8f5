// What the lanes of one store share: facts about their server.

import { type Comparison, compareIdentity, type ServerIdentity } from './identity.js'

/** What a lane waits for on a new server: that this process has said again what that may have lost, or that the others have as well. */
export type HeldUntil = 'said' | 'said by all'

/** A lane, as its neighbours see it. */
interface Member {
  /** Gives up its connection and what is under way on it; the next query connects anew. */
  renew(): void
}

/** For how long nothing is prepared after a statement could not be found again, at first and at the most. */
const UNPREPARED_MS = 5_000
const UNPREPARED_MS_MAX = 600_000

interface LaneGroupOptions {
  /** For how long nothing is prepared at first. Default 5 000. */
  readonly unpreparedMs?: number
  /** Called when a connection failed or its server takes no writes any more, so that the primary is looked for again. With it, no lane
   *  stays with a server that takes no writes. Default: there is only one address. */
  readonly onDoubt?: (() => void) | undefined
}

export class LaneGroup {
  readonly #members = new Set<Member>()
  readonly #onDoubt: (() => void) | undefined
  #identity: ServerIdentity | null = null
  #unpreparedMs: number
  #preparesFromMs = Number.NEGATIVE_INFINITY
  /** False once a pooler refused start-up options and took a connection without them. */
  takesOptions = true
  /** False once a server could not say which timeline it is of. */
  asksIdentity = true
  /** Whether statements behind a pooler say which timeline they are for. Only a store that says again what a failover lost needs it: it is one more
   *  query in each exchange, and PgBouncer held up long pipelines for ten seconds with it. */
  guardsTimeline = false
  /** Called when a lane has met a server of a newer timeline, before anything is sent to it. */
  onNewer: ((from: ServerIdentity, to: ServerIdentity) => void) | null = null

  /** Called when a lane has met the same timeline again after a connection had failed: it may be another server all the same. */
  onReturn: (() => void) | null = null
  /** When a server last answered, on the monotonic clock. */
  answeredMs: number = performance.now()
  #isInDoubt = false

  /** Whether a lane that waits for this may not be used yet on the newest server. */
  isHeld: (until: HeldUntil) => boolean = () => false

  constructor({ unpreparedMs = UNPREPARED_MS, onDoubt }: LaneGroupOptions = {}) {
    this.#unpreparedMs = unpreparedMs
    this.#onDoubt = onDoubt
  }

  /** Whether there are several servers to choose from. */
  get isChoosing(): boolean {
    return this.#onDoubt !== undefined
  }

  /** The newest server that was seen. */
  get identity(): ServerIdentity | null {
    return this.#identity
  }

  /** Whether a connection has failed since a lane last met a server. */
  get isInDoubt(): boolean {
    return this.#isInDoubt
  }

  /** A connection failed, or its server takes no writes: it may not be the primary any more. */
  doubt(): void {
    this.#isInDoubt = true
    this.#onDoubt?.()
  }

  isStale(found: ServerIdentity): boolean {
    return this.#identity !== null && compareIdentity(this.#identity, found) === 'stale'
  }

  /** A lane has connected to this server. The lanes leave one of an older timeline. */
  saw(found: ServerIdentity): Comparison {
    const seen = this.#identity
    const comparison = seen === null ? 'same' : compareIdentity(seen, found)
    if (comparison === 'stale') return comparison
    this.#identity = found
    const wasInDoubt = this.#isInDoubt
    this.#isInDoubt = false
    if (seen !== null && comparison === 'newer') {
      this.renew()
      this.onNewer?.(seen, found)
    } else if (wasInDoubt) this.onReturn?.()
    return comparison
  }

  /** Whether statements are prepared under their names. */
  get prepares(): boolean {
    return performance.now() >= this.#preparesFromMs
  }

  /** A statement that was prepared could not be found again. A pooler may have handed out another connection, and will again; or the
   *  statement could not be prepared because its table was locked, which passes. Nothing is prepared for a while, twice as long each time. */
  forgot(): void {
    if (!this.prepares) return
    this.#preparesFromMs = performance.now() + this.#unpreparedMs
    this.#unpreparedMs = Math.min(UNPREPARED_MS_MAX, this.#unpreparedMs * 2)
  }

  join(member: Member): void {
    this.#members.add(member)
  }

  leave(member: Member): void {
    this.#members.delete(member)
  }

  /**
   * The server of one lane used to take writes and no longer does, so the address may lead to another server now. Lanes that only read
   * or listen would never learn that from an answer.
   */
  renew(): void {
    for (const member of this.#members) member.renew()
  }
}

// What the lanes of one store share: facts about their server.

/** A lane, as its neighbours see it. */
interface Member {
  /** Gives up its connection and what is under way on it; the next query connects anew. */
  renew(): void
}

/** For how long nothing is prepared after a statement could not be found again, at first and at the most. */
const UNPREPARED_MS = 5_000
const UNPREPARED_MS_MAX = 600_000

export class LaneGroup {
  readonly #members = new Set<Member>()
  #unpreparedMs: number
  #preparesFromMs = Number.NEGATIVE_INFINITY
  /** False once a pooler refused start-up options and took a connection without them. */
  takesOptions = true

  constructor({ unpreparedMs = UNPREPARED_MS }: { readonly unpreparedMs?: number } = {}) {
    this.#unpreparedMs = unpreparedMs
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

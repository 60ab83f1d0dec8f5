// What this process has been told is accepted travels with its heartbeat to the server, so that a failover which kills both leaves a trace
// of it. The answer says how far every standby is: what all of them have need not be remembered any longer. ◄── failover.ts

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { isHoldfastError } from '../../core/errors.js'
import type { Database } from './database.js'
import type { FailoverMemory } from './failover-memory.js'
import { statement } from './statement.js'

/** How long after the last mark the next one is written, while there is something to remember. A process that has just begun says sooner
 *  how busy it is. */
const AFTER_MS = [1_000, 2_000, 5_000] as const
/** Marks that wait until every standby has what was written before them. */
const PENDING_MAX = 24

const MARK = statement(
  'mark',
  'SELECT written::text, known::text, standbys::text FROM :schema.mark($1::uuid, $2, $3::bigint, $4::integer, $5::uuid)',
)

/** A moment of this process, and how far the log was written then. */
interface Point {
  readonly atMs: number
  readonly written: bigint
}

/** The marks of one store. */
export class Marks {
  readonly #db: Database
  readonly #memory: FailoverMemory
  readonly #client = randomUUID()
  readonly #process = `${hostname()}:${process.pid}`
  #nextMs = 0
  #step = 0
  #marked = 0
  #markedEpoch: string | null = null
  /** The busiest second before the last mark: a mark covers two spans, because the last of them may be lost. */
  #mostBefore = 0
  #pending: Point[] = []
  #standbys: number | null = null
  /** A standby that has gone may be promoted all the same, so nothing is forgotten early for a while. */
  #trustsFromMs = 0
  #isSending = false
  #isRefused = false
  #generation = 0

  constructor(db: Database, memory: FailoverMemory) {
    this.#db = db
    this.#memory = memory
  }

  /** The server may be another one: an answer that is under way says nothing. */
  disregard(): void {
    this.#generation++
  }

  /** The server is another one: what was written to the last one says nothing about it. */
  reset(): void {
    this.#generation++
    this.#pending = []
    this.#standbys = null
    this.#trustsFromMs = performance.now() + this.#memory.ms
  }

  /** Writes a mark if one is due. */
  async tick(epoch: string | null): Promise<void> {
    const { accepted, size } = this.#memory
    if (accepted === this.#marked && size.jobs === 0) this.#step = 0
    const isNews = accepted !== this.#marked || (this.#marked > 0 && epoch !== this.#markedEpoch)
    const hasNews = isNews || (size.jobs > 0 && this.#standbys !== 0)
    if (hasNews && performance.now() >= this.#nextMs) await this.write(epoch)
  }

  /** Writes a mark: what was accepted so far, and the change after which everything was said. */
  async write(epoch: string | null): Promise<void> {
    if (this.#isSending || this.#isRefused) return
    this.#isSending = true
    const generation = this.#generation
    const atMs = performance.now()
    const { accepted } = this.#memory
    const most = this.#memory.takeMost()
    try {
      const values = [this.#client, this.#process, accepted, Math.max(most, this.#mostBefore), epoch]
      // On a connection that is open anyway.
      const [[written, known, standbys] = []] = await this.#db.send(accepted > 0 ? 'enqueue' : 'settle', MARK, values)
      this.#marked = accepted
      this.#markedEpoch = epoch
      this.#mostBefore = most
      if (generation === this.#generation && written != null) {
        this.#forget({ atMs, written: BigInt(written) }, known == null ? null : BigInt(known), Number(standbys))
      }
    } catch (error) {
      // A role without the right to it will not have it a second later. Any other failure is for the calls of others to report.
      if (isHoldfastError(error, 'access_denied')) this.#isRefused = true
    } finally {
      this.#isSending = false
      this.#nextMs = performance.now() + AFTER_MS[Math.min(this.#step++, AFTER_MS.length - 1)]!
    }
  }

  #forget(point: Point, known: bigint | null, standbys: number): void {
    const nowMs = performance.now()
    if (standbys < (this.#standbys ?? 0)) this.#trustsFromMs = nowMs + this.#memory.ms
    this.#standbys = standbys
    if (standbys === 0 || this.#pending.length === PENDING_MAX) this.#pending.shift()
    this.#pending.push(point)
    if (known === null || nowMs < this.#trustsFromMs) return
    const reached = this.#pending.filter(({ written }) => written <= known)
    if (reached.length === 0) return
    this.#pending = this.#pending.slice(reached.length)
    this.#memory.forget(reached.at(-1)!.atMs)
  }
}

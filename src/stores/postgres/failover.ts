// What a store does when its server has changed: another one was promoted and may have lost the last commits. Everything this process
// remembers is said again before it claims, extends or settles anything. ◄── store.ts · next: say-again.ts

import { setTimeout as sleep } from 'node:timers/promises'
import { asError, HoldfastError, isHoldfastError } from '../../core/errors.js'
import type { Emit } from '../../core/events.js'
import { record } from './audit.js'
import type { Database, Send } from './database.js'
import type { FailoverMemory } from './failover-memory.js'
import type { ServerIdentity } from './identity.js'
import type { KnownQueues } from './known-queues.js'
import type { LaneGroup } from './lane-group.js'
import type { LateLooks } from './late-looks.js'
import { enqueueAgain, fireAgain, leaseAgain, unknownOf } from './say-again.js'
import { arrayOf, readMs, statement } from './statement.js'

/** How long claims wait, after the first process has met the new server, for workers that may know of jobs that have ended. */
const HOLD_MS = 5_000
/** And how long at least: the new server does not know a worker that was started in the moments that it lost. */
const HOLD_MS_MIN = 1_500
const LOOK_MS = 100
/** How long a call waits until this process has said what it remembers. */
const SAID_MS = 2_000
const AGAIN_MS = 50
const AGAIN_MS_MAX = 1_000

const NOTE = statement(
  'note_timeline',
  'SELECT own_system, own_timeline::text, recorded::text, since_ms::text, is_changed::text FROM :schema.note_timeline()',
)

const SAID = statement(
  'said_again',
  'UPDATE :schema.workers SET timeline = $2::bigint WHERE workers.id = ANY ($1::text[])',
)

// Workers of the time before the change, which beat every ten seconds.
const WAITED_FOR = statement(
  'waited_for',
  `
SELECT (extract(epoch FROM clock_timestamp() - timeline.since) * 1000)::float8::text,
       (SELECT count(*)
          FROM :schema.workers
         WHERE workers.started_at < timeline.since
           AND workers.seen_at > timeline.since - interval '25 seconds'
           AND workers.timeline IS DISTINCT FROM timeline.timeline)::text
  FROM :schema.timeline`,
)

interface FailoverParts {
  readonly db: Database
  readonly group: LaneGroup
  readonly memory: FailoverMemory
  readonly knownQueues: KnownQueues
  readonly lateLooks: LateLooks
  readonly onReady: (queue: string) => void
}

/** The part of one store that deals with failovers. */
export class Failover {
  readonly #parts: FailoverParts
  /** The workers that report through this store. */
  readonly #workers = new Set<string>()
  #emit: Emit = () => {}
  /** Ends when everything has been said again; null when there is nothing to say. */
  #saying: Promise<void> | null = null
  #changes = 0
  /** Whether claims have to wait for what other processes may say. */
  #isHeld = false
  #holding: Promise<void> | null = null
  readonly #heldBack = new Set<string>()
  readonly #closing = new AbortController()

  constructor(parts: FailoverParts) {
    this.#parts = parts
    parts.group.onNewer = (from, to) => this.#changed(from, to)
    parts.group.isHeld = () => this.#saying !== null
    parts.group.guardsTimeline = true
  }

  /** Events of the store go there from now on. */
  report(emit: Emit): void {
    this.#emit = emit
  }

  worker(id: string): void {
    this.#workers.add(id)
  }

  workerLeft(id: string): void {
    this.#workers.delete(id)
  }

  /** Records which server this is, at the start. Raises `store_stale` when a newer one is on record. */
  async begin(): Promise<void> {
    const sinceMs = await this.#note('look')
    this.#isHeld = sinceMs !== null && sinceMs < HOLD_MS
  }

  /** Resolves when everything this process remembers has been said again; null when that is so. Raises `store_unavailable` when it takes
   *  long: nobody may wait for ever. */
  whenSaid(): Promise<void> | null {
    return this.#saying === null ? null : this.#waitForSaid(this.#saying)
  }

  async #waitForSaid(saying: Promise<void>): Promise<void> {
    await Promise.race([saying, this.#pause(SAID_MS)])
    if (this.#saying === null) return
    throw new HoldfastError(
      'store_unavailable',
      'PostgreSQL has changed hands, and what the new server may have lost is still being said again; the call is safe to repeat',
      { retryable: true },
    )
  }

  /** Whether claims find nothing for now. If so, these queues are announced when they find something again. */
  holdsBack(queues: readonly string[]): boolean {
    const wait = this.#whenClaimable()
    if (wait === null) return false
    for (const queue of queues) this.#heldBack.add(queue)
    const wake = () => {
      const names = [...this.#heldBack]
      this.#heldBack.clear()
      names.forEach(this.#parts.onReady)
    }
    void wait.then(wake, wake)
    return true
  }

  /** Resolves when no other worker can know more about the jobs that wait; null when that is so. */
  #whenClaimable(): Promise<void> | null {
    if (this.#saying === null && !this.#isHeld) return null
    this.#holding ??= this.#hold().finally(() => {
      this.#holding = null
    })
    return this.#holding
  }

  async #hold(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      await this.#saying
      if (!this.#isHeld) return
      const [[sinceMs, others] = []] = await this.#parts.db.send('look', WAITED_FOR, [])
      const enoughMs = Number(others ?? 0) === 0 ? HOLD_MS_MIN : HOLD_MS
      if (this.#saying === null && (readMs(sinceMs) ?? HOLD_MS) >= enoughMs) {
        this.#isHeld = false
        return
      }
      await this.#pause(LOOK_MS)
    }
  }

  #changed(from: ServerIdentity, to: ServerIdentity): void {
    this.#changes++
    this.#isHeld = true
    this.#emit({ name: 'timeline.changed', system: to.system, from: from.timeline, to: to.timeline })
    this.#saying ??= this.#sayAll().finally(() => {
      this.#saying = null
      this.#parts.db.hangUp('again')
    })
  }

  /** Says everything, to the newest server there is. */
  async #sayAll(): Promise<void> {
    let waitMs = AGAIN_MS
    for (let changes = -1; changes !== this.#changes && !this.#closing.signal.aborted; ) {
      changes = this.#changes
      try {
        await this.#sayOnce()
      } catch (error) {
        this.#emit({ name: 'store.failed', during: 'say again', error: asError(error) })
        // Nothing will change that by itself, and jobs must go on.
        if (!isHoldfastError(error) || !error.retryable) return
        await this.#pause(waitMs * (0.5 + Math.random()))
        waitMs = Math.min(AGAIN_MS_MAX, waitMs * 2)
        changes = -1
      }
    }
  }

  async #sayOnce(): Promise<void> {
    const { db, memory, knownQueues, lateLooks, onReady } = this.#parts
    const startedMs = performance.now()
    await this.#note('again')
    knownQueues.forgetAll()
    const { enqueued, inside, fired, leases } = memory.read()
    const jobs = await enqueueAgain(db, enqueued, (some, answers) => {
      void knownQueues.add(some)?.catch(() => {})
      lateLooks.afterEnqueue(answers)
      for (const queue of new Set(some.map(({ queue }) => queue))) onReady(queue)
    })
    const ticks = await fireAgain(db, fired, onReady)
    const { claimed, settled } = await leaseAgain(db, leases, onReady)
    if (leases.length > 0) lateLooks.afterTransaction()
    const gone = await unknownOf(db, inside)
    if (this.#workers.size > 0) await this.#said()
    const tookMs = performance.now() - startedMs
    const counts = { jobs: jobs + ticks, claims: claimed, settlements: settled, inside: gone.size }
    await this.#record(counts)
    this.#emit({ name: 'failover.said', ...counts, tookMs })
  }

  async #record(details: Readonly<Record<string, number>>): Promise<void> {
    if (Object.values(details).every((count) => count === 0)) return
    const { db, group } = this.#parts
    const target = String(group.identity?.timeline ?? '')
    const send: Send = (sql, values) => db.send('again', sql, values)
    // A producer's role has no right to write there. The event says it as well.
    await record(db, send, { actor: 'holdfast', action: 'said_again', target, details }).catch(() => {})
  }

  async #said(): Promise<void> {
    const { db, group } = this.#parts
    const { timeline = 0 } = group.identity ?? {}
    await db.send('again', SAID, [arrayOf([...this.#workers]), timeline])
  }

  /** Records the server's timeline and returns how long ago it was first seen; null when it was there from the first. */
  async #note(purpose: 'look' | 'again'): Promise<number | null> {
    try {
      const [[, own, recorded, sinceMs] = []] = await this.#parts.db.send(purpose, NOTE, [])
      if (own != null && Number(recorded) > Number(own)) throw behind(Number(own), Number(recorded))
      return readMs(sinceMs)
    } catch (error) {
      // A role that was made before there was such a function.
      if (isHoldfastError(error, 'access_denied')) return null
      throw error
    }
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
  }

  /** Says nothing more. */
  stop(): void {
    this.#closing.abort()
    this.#parts.memory.close()
  }
}

function behind(own: number, recorded: number): HoldfastError {
  return new HoldfastError(
    'store_stale',
    `this PostgreSQL server is of timeline ${own}, and its tables know of timeline ${recorded}: it was restored from the files of a newer one; start it from a backup as PostgreSQL recommends, which begins a new timeline`,
    { details: { timeline: own, seen: recorded } },
  )
}

// What a store does when its server has changed: another one was promoted and may have lost the last commits. Everything this process
// remembers is said again before it claims, extends or settles anything. ◄── store.ts · next: say-again.ts

import { setTimeout as sleep } from 'node:timers/promises'
import { asError, HoldfastError, isHoldfastError } from '../../core/errors.js'
import type { Emit } from '../../core/events.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import { type Asked, type AskedCalls, askAgain } from './asked-again.js'
import { record } from './audit.js'
import type { Database, Send } from './database.js'
import type { FailoverMemory, RememberedLease } from './failover-memory.js'
import type { ServerIdentity } from './identity.js'
import type { KnownQueues } from './known-queues.js'
import type { LaneGroup } from './lane-group.js'
import type { LateLooks } from './late-looks.js'
import { Marks } from './marks.js'
import { reportMissing } from './missing.js'
import { enqueueAgain, leaseAgain, ticksAgain, unknownOf, withoutKey } from './say-again.js'
import { arrayOf, readMs, type Statement, statement } from './statement.js'

/** How long claims wait, after the first process has met the new server, for workers that may know of jobs that have ended. */
const HOLD_MS = 8_000
/** How long for workers that have begun to say it, and live. A machine that is short of processor time took twenty seconds. */
const SPEAKING_MS_MAX = 60_000
/** How long what a worker knows of a job waits for the producer that knows the job. Shorter than HOLD_MS: it must be said before others
 *  claim. */
const PATIENCE_MS = 6_000
/** And how long at least: the new server does not know a worker that was started in the moments that it lost. */
const HOLD_MS_MIN = 1_500
const LOOK_MS = 100
/** How long a call waits until this process has said what it remembers. */
const SAID_MS = 2_000
/** And a handler with an open transaction, whose job would run again otherwise. */
const VERIFY_MS = 10_000
/** A process that remembers something asks which server there is when no call was answered for this long: a server that freezes breaks no
 *  connection, and a process that makes no calls would never learn of a failover. */
const SILENT_MS = 1_000
const WATCH_MS = 250
/** How often it asks while it is only idle. */
const ASK_MS = 5_000
/** How long close() lets it say what it remembers. */
const CLOSE_MS = 5_000
/** When what may be missing is reported: everybody has spoken by then, or is silent. A little later than the server lets it be. */
const REPORT_MS = 9_500
const REPORT_JITTER_MS = 2_000
const AGAIN_MS = 50
const AGAIN_MS_MAX = 1_000

const NOTE = statement(
  'note_timeline',
  'SELECT own_system, own_timeline::text, recorded::text, since_ms::text, own_epoch::text FROM :schema.note_timeline()',
)

const SAID = statement(
  'said_again',
  'UPDATE :schema.workers SET timeline = $2::bigint WHERE workers.id = ANY ($1::text[])',
)

// A worker that is saying what it remembers has the new timeline with a minus sign.
const SPEAKS = statement(
  'says_again',
  'UPDATE :schema.workers SET timeline = -$2::bigint, seen_at = clock_timestamp() WHERE workers.id = ANY ($1::text[])',
)

// Workers of the time before the change, which beat every ten seconds, and every thirty when they rest; and how many of all are saying
// something and beat meanwhile.
const WAITED_FOR = statement(
  'waited_for',
  `
SELECT (extract(epoch FROM clock_timestamp() - timeline.since) * 1000)::float8::text,
       (SELECT count(*)
          FROM :schema.workers
         WHERE workers.started_at < timeline.since
           AND workers.seen_at > timeline.since - interval '40 seconds'
           AND workers.timeline IS DISTINCT FROM timeline.timeline)::text,
       (SELECT count(*)
          FROM :schema.workers
         WHERE workers.timeline = -timeline.timeline
           AND workers.seen_at > clock_timestamp() - interval '25 seconds')::text
  FROM :schema.timeline`,
)

/** What is still to be said. */
interface Unsaid {
  readonly jobs: readonly NewJob[]
  readonly leases: readonly RememberedLease[]
  readonly asked: readonly Asked[]
}

type Counts = Record<'jobs' | 'claims' | 'settlements' | 'operations', number>

interface FailoverParts {
  readonly db: Database
  readonly group: LaneGroup
  readonly memory: FailoverMemory
  readonly knownQueues: KnownQueues
  readonly lateLooks: LateLooks
  readonly onReady: (queue: string) => void
  /** Tells workers that a job of theirs is to be cancelled. */
  readonly onAsked: (id: string) => void
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
  /** Which change the tables of the server knew last that everything was said to; null where nobody can tell. */
  #epoch: string | null = null
  #saidChanges = 0
  #isAsking = false
  #askMs = 0
  readonly #watching: NodeJS.Timeout
  readonly #closing = new AbortController()
  readonly #marks: Marks
  #reporting: NodeJS.Timeout | undefined

  constructor(parts: FailoverParts) {
    this.#parts = parts
    this.#marks = new Marks(parts.db, parts.memory)
    parts.group.onNewer = (from, to) => this.#changed(from, to)
    parts.group.onReturn = () => this.#say()
    parts.group.isHeld = (until) => this.#saying !== null || (until === 'said by all' && this.#isHeld)
    this.#watching = setInterval(() => void this.#watch(), WATCH_MS).unref()
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
    const { sinceMs, epoch } = await this.#note('look')
    this.#epoch = epoch
    this.#isHeld = sinceMs !== null && sinceMs < HOLD_MS
  }

  /** Resolves when everything this process remembers has been said again; null when that is so. Raises `store_unavailable` when it takes
   *  long: nobody may wait for ever. */
  whenSaid(): Promise<void> | null {
    return this.#saying === null ? null : this.#waitForSaid(this.#saying)
  }

  /** The same for a handler with an open transaction, which cannot call again. */
  whenSaidInside(): Promise<void> | null {
    return this.#saying === null ? null : this.#waitForSaid(this.#saying, VERIFY_MS)
  }

  async #waitForSaid(saying: Promise<void>, ms = SAID_MS): Promise<void> {
    await Promise.race([saying, this.#pause(ms)])
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
      const [[sinceMs, others, speaking] = []] = await this.#parts.db.send('look', WAITED_FOR, [])
      const silentMs = Number(others ?? 0) === 0 ? HOLD_MS_MIN : HOLD_MS
      const enoughMs = Number(speaking ?? 0) === 0 ? silentMs : SPEAKING_MS_MAX
      if (this.#saying === null && (readMs(sinceMs) ?? SPEAKING_MS_MAX) >= enoughMs) {
        this.#isHeld = false
        return
      }
      await this.#pause(LOOK_MS)
    }
  }

  #changed(from: ServerIdentity, to: ServerIdentity): void {
    this.#changes++
    this.#isHeld = true
    this.#marks.reset()
    this.#emit({ name: 'timeline.changed', system: to.system, from: from.timeline, to: to.timeline })
    this.#say()
  }

  /** Another standby was promoted to the same timeline. */
  #changedUnseen(): void {
    this.#isHeld = true
    this.#marks.reset()
    const { system = '', timeline = 0 } = this.#parts.group.identity ?? {}
    this.#emit({ name: 'timeline.changed', system, from: timeline, to: timeline })
  }

  /** Says what the server may not know, if it is another one. */
  #say(): void {
    if (this.#closing.signal.aborted) return
    this.#marks.disregard()
    // What it was used for last may be stuck on a server that is frozen.
    if (this.#saying === null) this.#parts.db.hangUp('again')
    this.#saying ??= this.#sayAll().finally(() => {
      this.#saying = null
      this.#parts.db.hangUp('again')
    })
  }

  /** Which promotion this process has met last. */
  get epoch(): string | null {
    return this.#epoch
  }

  /** Asks which server this is, and resolves when everything has been said to it. True when it is another one than it was. */
  async verify(before: string | null): Promise<boolean> {
    this.#say()
    if (this.#saying !== null) await this.#waitForSaid(this.#saying, VERIFY_MS)
    return this.#epoch !== before
  }

  /** Looks for a new server when nothing was answered for a while. */
  async #watch(): Promise<void> {
    const { group, memory } = this.#parts
    const nowMs = performance.now()
    const isSilent = nowMs - group.answeredMs > SILENT_MS && nowMs >= this.#askMs
    if (!isSilent && this.#saying === null) void this.#marks.tick(this.#epoch)
    if (!isSilent || this.#isAsking || this.#saying !== null || memory.size.jobs === 0) return
    this.#isAsking = true
    group.doubt()
    this.#say()
    await this.#saying
    this.#askMs = performance.now() + ASK_MS
    this.#isAsking = false
  }

  /** Says everything, to the newest server there is. */
  async #sayAll(): Promise<void> {
    let waitMs = AGAIN_MS
    for (let changes = -1; changes !== this.#changes && !this.#closing.signal.aborted; ) {
      changes = this.#changes
      try {
        const { epoch, sinceMs } = await this.#note('again')
        // The connection for that may be the one that has met the new server.
        changes = this.#changes
        if (epoch === this.#epoch && changes === this.#saidChanges) continue
        if (changes === this.#saidChanges) this.#changedUnseen()
        await this.#sayOnce(sinceMs ?? 0)
        this.#epoch = epoch
        this.#saidChanges = changes
        await this.#marks.write(epoch)
        this.#reportLater(sinceMs ?? 0)
      } catch (error) {
        this.#emit({ name: 'store.failed', during: 'say again', error: asError(error) })
        // Nothing will change that by itself, and jobs must go on.
        if (!isHoldfastError(error) || !error.retryable) return await this.#tellOthers(SAID).catch(() => {})
        await this.#pause(waitMs * (0.5 + Math.random()))
        waitMs = Math.min(AGAIN_MS_MAX, waitMs * 2)
        changes = -1
      }
    }
  }

  async #sayOnce(sinceMs: number): Promise<void> {
    const { db, memory, knownQueues, onReady } = this.#parts
    const startedMs = performance.now()
    const patientUntilMs = startedMs + PATIENCE_MS - sinceMs
    const changes = this.#changes
    knownQueues.forgetAll()
    const { enqueued, inside, fired, leases, asked } = memory.read()
    const counts = { jobs: 0, claims: 0, settlements: 0, operations: 0, inside: 0 }
    let left: Unsaid = { jobs: enqueued, leases, asked }
    await this.#tellOthers(SPEAKS)
    counts.jobs += await ticksAgain(db, fired, onReady)
    for (let isOver = false; ; ) {
      left = await this.#sayThese(left, isOver, counts)
      if (isOver || left.jobs.length + left.leases.length + left.asked.length === 0) break
      await this.#pause(LOOK_MS)
      if (this.#closing.signal.aborted || changes !== this.#changes) break
      isOver = performance.now() >= patientUntilMs
    }
    counts.inside = (await unknownOf(db, inside)).size
    await this.#tellOthers(SAID)
    const tookMs = performance.now() - startedMs
    await this.#record(counts)
    this.#emit({ name: 'failover.said', ...counts, tookMs })
  }

  /** Says jobs and then leases, counts them, and returns what has to wait for others. Nothing does when the time for that is over: a
   *  job was accepted, and must be there, also without the key that another has. */
  async #sayThese(some: Unsaid, isOver: boolean, counts: Counts): Promise<Unsaid> {
    const { db, lateLooks, onReady, onAsked } = this.#parts
    const jobs = await enqueueAgain(db, isOver ? some.jobs.map(withoutKey) : some.jobs, this.#written)
    const leases = await leaseAgain(db, some.leases, { onReady, takesUnknown: isOver })
    if (leases.claimed + leases.settled > 0) lateLooks.afterTransaction()
    const calls: AskedCalls = { asked: onAsked, ready: onReady }
    const asked = await askAgain(db, some.asked, { isOver, ...calls })
    if (asked.done > 0) lateLooks.afterTransaction()
    counts.operations += asked.done
    counts.jobs += jobs.written
    counts.claims += leases.claimed
    counts.settlements += leases.settled
    return { jobs: jobs.left, leases: leases.left, asked: asked.left }
  }

  readonly #written = (jobs: readonly NewJob[], answers: readonly Enqueued[]) => {
    const { knownQueues, lateLooks, onReady } = this.#parts
    void knownQueues.add(jobs)?.catch(() => {})
    lateLooks.afterEnqueue(answers)
    for (const queue of new Set(jobs.map(({ queue }) => queue))) onReady(queue)
  }

  async #record(details: Readonly<Record<string, number>>): Promise<void> {
    if (Object.values(details).every((count) => count === 0)) return
    const { db, group } = this.#parts
    const target = String(group.identity?.timeline ?? '')
    const send: Send = (sql, values) => db.send('again', sql, values)
    // A producer's role has no right to write there. The event says it as well.
    await record(db, send, { actor: 'holdfast', action: 'said_again', target, details }).catch(() => {})
  }

  /** Says what may be missing, once everybody had time to speak; the first process to ask does. */
  #reportLater(sinceMs: number): void {
    clearTimeout(this.#reporting)
    const waitMs = Math.max(0, REPORT_MS - sinceMs) + Math.random() * REPORT_JITTER_MS
    this.#reporting = setTimeout(() => void this.#report().catch(() => {}), waitMs).unref()
  }

  async #report(): Promise<void> {
    if (this.#saying !== null) return
    const found = await reportMissing(this.#parts.db, 'again').finally(() => {
      if (this.#saying === null) this.#parts.db.hangUp('again')
    })
    if (found !== null) this.#emit({ name: 'failover.missing', ...found })
  }

  /** Other workers wait with their claims for what the workers of this process say. */
  async #tellOthers(statement: Statement): Promise<void> {
    if (this.#workers.size === 0) return
    const { db, group } = this.#parts
    const { timeline = 0 } = group.identity ?? {}
    await db.send('again', statement, [arrayOf([...this.#workers]), timeline])
  }

  /** Records the server's timeline. Returns how long ago it was first seen, null when it was there from the first; and the change it
   *  began with, null where nobody can tell. */
  async #note(purpose: 'look' | 'again'): Promise<{ readonly sinceMs: number | null; readonly epoch: string | null }> {
    try {
      const [[, own, recorded, sinceMs, epoch = null] = []] = await this.#parts.db.send(purpose, NOTE, [])
      if (own != null && Number(recorded) > Number(own)) throw behind(Number(own), Number(recorded))
      return { sinceMs: readMs(sinceMs), epoch }
    } catch (error) {
      // A role that was made before there was such a function.
      if (isHoldfastError(error, 'access_denied')) return { sinceMs: null, epoch: null }
      throw error
    }
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
  }

  /** Says nothing more, after it was given a few seconds for what it is saying. */
  async stop(): Promise<void> {
    clearInterval(this.#watching)
    clearTimeout(this.#reporting)
    const { group, memory } = this.#parts
    if (group.isInDoubt && memory.size.jobs > 0) this.#say()
    if (this.#saying !== null) await Promise.race([this.#saying, this.#pause(CLOSE_MS)])
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

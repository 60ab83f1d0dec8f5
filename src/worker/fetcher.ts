// Claims jobs. ◄── stores/postgres/wake.ts, through the store's listener · next: stores/postgres/claim.ts
//
// One claim is in flight at a time. The fetcher is always in one state, and a claim always has a reason:
//
//   state     waits for                  a wake-up      its own enqueue  room for jobs  its timer
//   stopped   start()                    –              –                –              –
//   idle      a wake-up, or its timer    paced          claiming         –              claiming: poll, or follow
//   paced     its timer                  –              claiming         –              claiming
//   crowded   room for jobs              noted          noted            claiming       –
//   claiming  the store's answer         noted          noted            –              –
//   failed    its timer                  –              –                –              claiming: probe
//
// An answer leads from claiming to
//   claiming  when it was full, because more jobs wait: reason backlog
//   idle      when it was short; from there to paced or claiming when something was noted meanwhile
//   failed    when the call failed.
// What leads to claiming leads to crowded while there is no room. What leads to paced leads to claiming when its pace (core/pace.ts)
// asks for no wait. stop() leads from every state to stopped.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { ClaimBatch } from '../core/flow/contract.js'
import type { ClaimedJob, NewJob } from '../core/job.js'
import type { Claim, JobStore } from '../core/job-store.js'
import { PACES, Pace } from '../core/pace.js'
import type { Ports, Timer } from '../core/ports.js'
import type { Reservation } from '../core/reserve.js'
import { PACED, type Reason, strongest } from './claim-reason.js'
import { type Brought, ClaimQueues } from './claim-round.js'
import { Hearing } from './hearing.js'
import type { WorkerSettings } from './options.js'
import { Reservations, type SentClaim } from './reservations.js'
import { type Share, takeTurns } from './shares.js'
import type { Slots } from './slots.js'
import type { StoreTime } from './store-time.js'

type State = 'stopped' | 'idle' | 'paced' | 'crowded' | 'claiming' | 'failed'

// When a poll finds what no wake-up announced, wake-ups are lost, and the longest pause shrinks by this much.
const UNANNOUNCED_FACTOR = 8
// A claim whose answer is lost leases jobs to no worker until their leases run out. After a failure the next claim asks for
// no more than this, so that a store that answers too late does not lose a batch with every try.
const PROBE_JOBS = 10

export interface FetcherDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly hasListeners: () => boolean
  readonly settings: WorkerSettings
  readonly slots: Slots
  readonly storeTime: StoreTime
  readonly workerId: string
  readonly batches: readonly ClaimBatch[]
  readonly onAdmitted: () => void
  /** Whether the process rests: then nothing is claimed before a wake-up. */
  readonly isQuiet: () => boolean
  /** Whether wake-ups of other processes are to be received. */
  readonly mute: (isMuted: boolean) => Promise<void>
}

/** The one fetcher of a worker. */
export class Fetcher {
  readonly #deps: FetcherDeps
  readonly #contact: Contact
  readonly #pace = new Pace(PACES.claim)
  readonly #poll: Pace
  readonly #hearing: Hearing
  #state: State = 'stopped'
  /** Why the next claim is made; null while there is no reason for one. */
  #reason: Reason | null = null
  #timer: Timer | null = null
  /** Resolves when the claims in flight have been answered, and what they brought is in hand. */
  #inFlight: Promise<void> | null = null
  readonly #reservations: Reservations
  readonly #queues: ClaimQueues

  constructor(deps: FetcherDeps) {
    const { pollMinMs, pollMaxMs } = deps.settings
    this.#deps = deps
    this.#contact = new Contact(deps, 'claim')
    this.#poll = new Pace({ ...PACES.poll, minMs: pollMinMs, maxMs: pollMaxMs })
    this.#hearing = new Hearing(deps.mute)
    this.#queues = new ClaimQueues(deps)
    this.#reservations = new Reservations(deps, {
      onClaimed: (jobs, claim) => this.#took(jobs, claim),
      // A claim that was wanted meanwhile found no room.
      onFailed: () => this.nudge(),
    })
  }

  start(): void {
    this.#state = 'idle'
    this.#want('start')
  }

  /** Claims no more, and waits for a claim in flight: what it brings goes to the slots, which give it back. */
  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#timer?.cancel()
    await Promise.all([this.#inFlight, this.#reservations.whenOver()])
  }

  /** There may be jobs in a queue. */
  wake(queue: string, isOwnEnqueue: boolean): void {
    if (!this.#deps.settings.queues.includes(queue)) return
    this.#poll.cap(this.#deps.settings.pollMaxMs)
    this.#queues.flow.woken(queue)
    this.#want(isOwnEnqueue ? 'own enqueue' : 'wake')
  }

  /** Whether it waits for nothing but a wake-up, and has found nothing for as long as it waits at most. */
  get isIdle(): boolean {
    return (
      this.#state === 'idle' && this.#reason === null && !this.#hearing.isMuted && this.#queues.flow.waitMs === null
    )
  }

  /** Claims nothing before a wake-up. */
  rest(): void {
    if (this.#state === 'idle') this.#timer?.cancel()
  }

  /** Looks by itself again. */
  stir(): void {
    if (this.#state === 'idle') this.#want('poll')
  }

  /** There may be room. Called after every job, so it is cheap when there is nothing to do. */
  nudge(): void {
    const wanted = this.#state === 'crowded' ? this.#reason : this.#queues.flow.wantsClaim()
    if (wanted !== null) this.#want(wanted)
  }

  /** N settlements were answered: there is room, and slots of groups and limits are free. */
  flushed(jobs: number): void {
    this.#queues.flow.freed(jobs)
    this.nudge()
  }

  /** There is a reason to claim: claims, or waits for what it has to wait for. */
  #want(reason: Reason): void {
    if (this.#state === 'stopped' || this.#state === 'failed') return
    this.#reason = strongest(this.#reason, reason)
    const isPaced = PACED.has(this.#reason)
    if (this.#state === 'claiming' || (this.#state === 'paced' && isPaced)) return
    this.#timer?.cancel()
    const waitMs = isPaced ? this.#pace.waitMs(this.#nowMs()) : 0
    if (!this.#deps.slots.hasRoom()) this.#state = 'crowded'
    else if (waitMs > 0) this.#rest('paced', waitMs, this.#reason)
    else {
      this.#state = 'claiming'
      // Jobs that end in this turn of the event loop make room for the same claim.
      this.#deps.ports.timers.soon(() => {
        if (this.#state === 'claiming') this.#inFlight = this.#claimAll().finally(() => (this.#inFlight = null))
      })
    }
  }

  /** Does nothing for a while; then there is this reason to claim. */
  #rest(state: State, waitMs: number, reason: Reason): void {
    this.#state = state
    this.#timer = this.#deps.ports.timers.after(waitMs, () => {
      this.#state = 'idle'
      this.#want(reason)
    })
  }

  // A full round is followed by the next immediately, before this turn's settlements are written: short jobs have ended by
  // then, and the store can look for the next while this process writes down the last.
  async #claimAll(): Promise<void> {
    const { slots } = this.#deps
    try {
      let round: Brought
      let reason: Reason
      do {
        reason = this.#reason ?? 'backlog'
        this.#reason = null
        const startedMs = this.#nowMs()
        round = await this.claimRound()
        this.#learn(round, reason, startedMs)
      } while (round.isFull && this.#state === 'claiming' && slots.hasRoom())
      slots.pump()
      if (this.#state === 'claiming') this.#afterClaims(round)
    } catch (error) {
      slots.pump()
      const waitMs = this.#contact.lost(error)
      if (this.#state === 'claiming') this.#rest('failed', waitMs, 'probe')
    }
  }

  #learn({ count, ageMs, isFull }: Brought, reason: Reason, startedMs: number): void {
    const { pollMinMs, pollMaxMs } = this.#deps.settings
    const endedMs = this.#nowMs()
    // While few jobs come, each claim that brings one was worth it, and its age does not count.
    const worth = count > 0 ? Number.POSITIVE_INFINITY : null
    if (!isFull && reason !== 'poll') {
      // A queue whose jobs wait for a time is not empty, so the gap does not grow. But it counts: every wake-up would claim otherwise.
      const isTimed = this.#queues.flow.waitMs !== null
      const found = this.#hearing.isMuted ? ageMs : worth
      this.#pace.learn({ startedMs, endedMs, ageMs: isTimed && found === null ? Number.POSITIVE_INFINITY : found })
    }
    if (count > 0) this.#poll.reset()
    if (count > 0 && reason === 'poll') this.#poll.cap(Math.max(pollMinMs, pollMaxMs / UNANNOUNCED_FACTOR))
    this.#poll.learn({ startedMs, endedMs, ageMs: worth })
    void this.#hearing.learn(count, endedMs)?.then(() => this.#want('wake'))
  }

  #afterClaims({ isFull }: Brought): void {
    const reason = isFull ? 'backlog' : this.#reason
    this.#state = 'idle'
    if (reason !== null) this.#want(reason)
    else if (this.#deps.isQuiet()) this.#timer?.cancel()
    else if (this.#hearing.isMuted) this.#restAtMost(this.#pace.waitMs(this.#nowMs()), 'follow')
    else {
      const jitter = 0.5 + this.#deps.ports.random.float() / 2
      this.#restAtMost(Math.ceil(this.#poll.waitMs(this.#nowMs()) * jitter), 'poll')
    }
  }

  /** Rests; less long when jobs under flow control wait for an earlier time. */
  #restAtMost(waitMs: number, reason: Reason): void {
    const flowMs = this.#queues.flow.waitMs ?? waitMs
    this.#rest('idle', Math.min(flowMs, waitMs), flowMs < waitMs ? 'backlog' : reason)
  }

  /** Claims once from every queue, and once more from those that gave their whole share, while there is room. */
  async claimRound(): Promise<Brought> {
    const round = this.#queues.beginRound(this.#room())
    let count = 0
    let ageMs: number | null = null
    for (let asked = round.next(this.#room()); asked !== null; asked = round.next(this.#room())) {
      const claim = await this.#claim(asked)
      this.#contact.found()
      count += claim.jobs.length
      if (claim.waitedMs !== null) ageMs = Math.max(ageMs ?? 0, claim.waitedMs)
      round.answered(asked, claim)
    }
    return { count, ageMs, isFull: round.isFull }
  }

  #room(): number {
    return Math.min(this.#deps.slots.room(), this.#contact.isLost ? PROBE_JOBS : Number.POSITIVE_INFINITY)
  }

  async #claim(shares: readonly Share[]): Promise<Claim> {
    const { store, settings, slots, storeTime, workerId } = this.#deps
    const sentMs = this.#nowMs()
    const asked = shares.reduce((sum, { limit }) => sum + limit, 0)
    const answer = store.claim({ queues: shares, ...this.#queues.wanted, worker: workerId, leaseMs: settings.leaseMs })
    // What the claim before this one brought runs while the store looks for more.
    slots.pump()
    const claim = await answer
    storeTime.learn(claim.nowMs)
    this.#took(takeTurns(claim.jobs), { asked, sentMs })
    return claim
  }

  #took(jobs: readonly ClaimedJob[], { asked, sentMs }: SentClaim): void {
    const { slots, hasListeners, emit, onAdmitted } = this.#deps
    const tookMs = this.#nowMs() - sentMs
    if (hasListeners()) emit({ name: 'job.claimed', count: jobs.length, asked, tookMs })
    if (jobs.length === 0) return
    slots.admit(jobs, sentMs)
    onAdmitted()
  }

  /** Resolves when the claims in flight have been answered, or after a few milliseconds; null when there is no such claim or idle slot. */
  claimInFlight(): Promise<void> | null {
    return this.#inFlight === null || this.#contact.isLost ? null : this.#reservations.waitFor(this.#inFlight)
  }

  /** Reserves idle slots for the first of these jobs, which are about to be enqueued, when no job is known to wait before them. */
  reserve(jobs: readonly NewJob[]): Reservation | null {
    return this.#state === 'idle' ? this.#reservations.reserve(jobs) : null
  }

  #nowMs(): number {
    return this.#deps.ports.clock.monotonic()
  }
}

// Claims jobs. One claim is in flight at a time; while claims come back full the next follows as soon as there is room,
// and when they do not the fetcher waits for a wake-up from the store, or looks by itself less and less often.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { ClaimedJob, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { isPlain, type Offer } from '../core/offer.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import { ClaimPace } from './claim-pace.js'
import { ClaimSize } from './claim-size.js'
import type { WorkerSettings } from './options.js'
import { rotate, type Share, splitRoom, stillFull, takeTurns } from './shares.js'
import type { Slots } from './slots.js'
import type { StoreTime } from './store-time.js'

// When looking finds what no wake-up announced, wake-ups are lost, and the longest pause shrinks by this much.
const UNANNOUNCED_FACTOR = 8
// A claim whose answer is lost leases jobs to nobody until their leases run out. After a failure the next claim asks for
// no more than this, so that a store that answers too late does not lose a batch with every try.
const PROBE_JOBS = 10
const OFFER_WAIT_MS = 10
const REFILL_PART = 8

export interface FetcherDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly hasListeners: () => boolean
  readonly settings: WorkerSettings
  readonly slots: Slots
  readonly storeTime: StoreTime
  readonly workerId: string
  readonly onAdmitted: () => void
}

/** The one fetcher of a worker. */
export class Fetcher {
  readonly #deps: FetcherDeps
  readonly #contact: Contact
  readonly #types: readonly string[]
  readonly #claimSize: ClaimSize
  readonly #pace = new ClaimPace()
  #isRunning = false
  /** True while a queue may hold more than the last claim took. */
  #mayBeMore = true
  /** True when the last claim itself told so, by coming back full. */
  #isFull = true
  #isBusy = false
  /** True while the timer stands for a claim that a wake-up asked for. */
  #isPaced = false
  #isWoken = false
  /** True when the next round is a look after a pause, not an answer to a wake-up. */
  #isLook = false
  #inFlight: Promise<unknown> = Promise.resolve()
  #claiming: Promise<void> | null = null
  readonly #offers = new Set<Promise<void>>()
  #timer: Timer | null = null
  #pauseMs: number
  #pauseMaxMs: number
  #turn = 0
  /** Queues that had nothing when they were last asked. */
  readonly #dry = new Set<string>()

  constructor(deps: FetcherDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'claim')
    this.#types = [...deps.settings.handlers.keys()]
    this.#claimSize = new ClaimSize(deps.settings.claimBatch)
    this.#pauseMs = deps.settings.pollMinMs
    this.#pauseMaxMs = deps.settings.pollMaxMs
  }

  start(): void {
    this.#isRunning = true
    this.#mayBeMore = true
    this.#isFull = true
    this.nudge()
  }

  /** Claims no more, and waits for a claim in flight: what it brings goes to the slots, which give it back. */
  async stop(): Promise<void> {
    this.#isRunning = false
    this.#isPaced = false
    this.#timer?.cancel()
    await Promise.all([this.#inFlight, ...this.#offers])
  }

  /** Resolves when the claim under way has been answered, after `OFFER_WAIT_MS` at most; null when there is none, or no idle
   *  slot. */
  soonIdle(): Promise<void> | null {
    const { slots, ports } = this.#deps
    if (this.#claiming === null || !this.#isRunning || this.#contact.isLost || slots.idle() === 0) return null
    const patience = new AbortController()
    const answered = this.#claiming.then(() => patience.abort())
    return Promise.race([answered, sleep(ports.timers, OFFER_WAIT_MS, patience.signal)])
  }

  /** Takes the first of these jobs as they are enqueued, when slots are idle and nobody is known to stand in line. */
  offer(jobs: readonly NewJob[]): Offer | null {
    const { slots, settings, ports, workerId, storeTime } = this.#deps
    if (!this.#isRunning || this.#mayBeMore || this.#contact.isLost) return null
    const count = countTakeable(jobs, settings, slots.idle())
    if (count === 0) return null
    slots.reserve(count)
    const sentMs = ports.clock.monotonic()
    let over: () => void = () => {}
    const whenOver = new Promise<void>((resolve) => {
      over = resolve
    })
    this.#offers.add(whenOver)
    const end = (claimed: readonly ClaimedJob[]) => {
      slots.reserve(-count)
      this.#offers.delete(whenOver)
      over()
      if (claimed.length === 0) {
        // A look that came meanwhile found no room, and nothing else would make the next one.
        this.nudge()
        return
      }
      storeTime.learn(claimed[0]!.createdAtMs)
      this.#took(claimed, { asked: count, sentMs })
      slots.pump()
    }
    return {
      claim: { worker: workerId, leaseMs: settings.leaseMs, count },
      claimed: end,
      failed: () => end([]),
    }
  }

  /** There may be jobs in a queue. */
  wake(queue: string): void {
    if (!this.#deps.settings.queues.includes(queue)) return
    this.#isWoken = true
    this.#mayBeMore = true
    this.#pauseMaxMs = this.#deps.settings.pollMaxMs
    this.nudge()
  }

  /** There may be room. Called after every job, so it is cheap when there is nothing to do. */
  nudge(): void {
    if (this.#isBusy || !this.#mayBeMore || !this.#isRunning || !this.#deps.slots.isHungry()) return
    if (!this.#isFull && this.#mustWait()) return
    this.#isBusy = true
    this.#timer?.cancel()
    // Jobs that end in this turn of the event loop make room for the same claim.
    this.#deps.ports.timers.soon(() => {
      if (this.#isRunning) this.#inFlight = this.#fetch()
    })
  }

  /** Whether it is too soon for a wake-up's claim; a timer comes back for it. */
  #mustWait(): boolean {
    if (this.#isPaced) return true
    const { timers, clock } = this.#deps.ports
    const waitMs = Math.ceil(this.#pace.waitMs(clock.monotonic()))
    if (waitMs === 0) return false
    this.#isPaced = true
    this.#timer?.cancel()
    this.#timer = timers.after(waitMs, () => {
      this.#isPaced = false
      this.nudge()
    })
    return true
  }

  // A full round is followed by the next at once, before this turn's settlements are written: short jobs have ended by
  // then, and the store can look for the next while this process writes down the last.
  async #fetch(): Promise<void> {
    const { slots, settings, ports } = this.#deps
    try {
      let isLook: boolean
      let count: number
      do {
        isLook = this.#isLook && !this.#isWoken
        this.#isLook = false
        this.#isWoken = false
        const beganMs = ports.clock.monotonic()
        count = await this.claimRound()
        this.#isFull = this.#mayBeMore
        const nowMs = ports.clock.monotonic()
        if (!this.#isFull && !isLook) this.#pace.learn({ nowMs, tookMs: nowMs - beganMs, count })
      } while (this.#isFull && this.#isRunning && slots.isHungry())
      this.#isBusy = false
      slots.pump()
      if (this.#isWoken) this.#mayBeMore = true
      if (!this.#mayBeMore) {
        this.#pause(count, isLook)
        return
      }
      this.#pauseMs = settings.pollMinMs
      this.nudge()
    } catch (error) {
      slots.pump()
      this.#lookAgainAfter(this.#contact.lost(error))
    }
  }

  /** Claims once from every queue, and once more from those that gave their whole share, while there is room. */
  async claimRound(): Promise<number> {
    const { settings } = this.#deps
    let unasked = rotate(settings.queues, this.#turn++)
    let full: string[] = []
    let isRefill = false
    let count = 0
    const roomAtFirst = this.#room()
    for (let room = this.#room(); room > 0; room = this.#room()) {
      if (unasked.length === 0) {
        // One that never runs dry must not keep the round from ending: the others get their turn again in the next.
        if (isRefill || full.length === 0 || full.length === settings.queues.length) break
        // What queues that were empty left is not worth a way of its own.
        if (room * REFILL_PART < roomAtFirst) break
        isRefill = true
        unasked = full
        full = []
      }
      const shares = splitRoom(unasked, room, this.#dry)
      const asked = shares.filter(({ limit }) => limit > 0)
      const jobs = await this.#claim(asked, room)
      this.#contact.found()
      count += jobs.length
      full.push(...stillFull(asked, jobs))
      this.#learnDry(asked, jobs)
      // With less room than queues the last of them are asked when the first have nothing.
      unasked = unasked.slice(asked.length)
    }
    this.#mayBeMore = unasked.length + full.length > 0
    return count
  }

  #learnDry(asked: readonly Share[], jobs: readonly ClaimedJob[]): void {
    if (asked.length === 1) return
    const given = new Set(jobs.map(({ queue }) => queue))
    for (const { queue } of asked) {
      if (given.has(queue)) this.#dry.delete(queue)
      else this.#dry.add(queue)
    }
  }

  #room(): number {
    return Math.min(this.#deps.slots.room(), this.#contact.isLost ? PROBE_JOBS : this.#claimSize.size)
  }

  async #claim(shares: readonly Share[], asked: number): Promise<readonly ClaimedJob[]> {
    const { store, ports, settings, slots, storeTime, workerId } = this.#deps
    const sentMs = ports.clock.monotonic()
    const answer = store.claim({
      queues: shares,
      types: this.#types,
      worker: workerId,
      leaseMs: settings.leaseMs,
    })
    // What the claim before this one brought runs while the store looks for more.
    slots.pump()
    let jobs: readonly ClaimedJob[]
    let nowMs: number
    let over: () => void = () => {}
    this.#claiming = new Promise<void>((resolve) => {
      over = resolve
    })
    try {
      ;({ jobs, nowMs } = await answer)
    } finally {
      this.#claiming = null
      over()
    }
    storeTime.learn(nowMs)
    if (jobs.length === asked) {
      this.#claimSize.learn({ tookMs: ports.clock.monotonic() - sentMs, isLate: !slots.hasWaiting })
    }
    this.#took(takeTurns(jobs), { asked, sentMs })
    return jobs
  }

  #took(jobs: readonly ClaimedJob[], { asked, sentMs }: { readonly asked: number; readonly sentMs: number }): void {
    const { ports, slots, hasListeners, emit, onAdmitted } = this.#deps
    if (hasListeners()) {
      emit({ name: 'job.claimed', count: jobs.length, asked, tookMs: ports.clock.monotonic() - sentMs })
    }
    if (jobs.length === 0) return
    slots.admit(jobs, sentMs)
    onAdmitted()
  }

  #pause(count: number, isLook: boolean): void {
    const { pollMinMs, pollMaxMs } = this.#deps.settings
    if (count > 0) {
      this.#pauseMs = pollMinMs
      if (isLook) this.#pauseMaxMs = Math.max(pollMinMs, pollMaxMs / UNANNOUNCED_FACTOR)
    }
    const jitter = 0.5 + this.#deps.ports.random.float() / 2
    this.#lookAgainAfter(Math.ceil(this.#pauseMs * jitter))
    this.#pauseMs = Math.min(this.#pauseMaxMs, this.#pauseMs * 2)
  }

  #lookAgainAfter(waitMs: number): void {
    if (!this.#isRunning) return
    const look = () => {
      this.#isBusy = false
      this.#isLook = true
      this.#mayBeMore = true
      this.#isFull = true
      this.nudge()
    }
    this.#timer = this.#deps.ports.timers.after(waitMs, look)
  }
}

/** How many of the first jobs a worker of these settings may take as they are enqueued: of one queue, and known to it. */
function countTakeable(jobs: readonly NewJob[], { queues, handlers }: WorkerSettings, idle: number): number {
  const queue = jobs[0]?.queue
  if (idle === 0 || queue === undefined || !queues.includes(queue)) return 0
  let count = 0
  while (count < jobs.length && count < idle) {
    const job = jobs[count]!
    if (job.queue !== queue || !isPlain(job) || !handlers.has(job.type)) break
    count++
  }
  return count
}

// Claims jobs. One claim is in flight at a time; while claims come back full the next follows as soon as there is room,
// and when they do not the fetcher waits for a wake-up from the store, or looks by itself less and less often.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { ClaimedJob } from '../core/job.js'
import type { Ports, Timer } from '../core/ports.js'
import type { Store } from '../core/store.js'
import type { WorkerSettings } from './options.js'
import { rotate, type Share, splitRoom, stillFull, takeTurns } from './shares.js'
import type { Slots } from './slots.js'
import type { StoreTime } from './store-time.js'

// When looking finds what no wake-up announced, wake-ups are lost, and the longest pause shrinks by this much.
const UNANNOUNCED_FACTOR = 8
// A claim whose answer is lost leases jobs to nobody until their leases run out. After a failure the next claim asks for
// no more than this, so that a store that answers too late does not lose a batch with every try.
const PROBE_JOBS = 10

export interface FetcherDeps {
  readonly store: Store
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
  #isRunning = false
  /** True while a queue may hold more than the last claim took. */
  #mayBeMore = true
  #isBusy = false
  #isWoken = false
  /** True when the next round is a look after a pause, not an answer to a wake-up. */
  #isLook = false
  #inFlight: Promise<unknown> = Promise.resolve()
  #timer: Timer | null = null
  #pauseMs: number
  #pauseMaxMs: number
  #turn = 0

  constructor(deps: FetcherDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'claim')
    this.#types = [...deps.settings.handlers.keys()]
    this.#pauseMs = deps.settings.pollMinMs
    this.#pauseMaxMs = deps.settings.pollMaxMs
  }

  start(): void {
    this.#isRunning = true
    this.#mayBeMore = true
    this.nudge()
  }

  /** Claims no more, and waits for a claim in flight: what it brings goes to the slots, which give it back. */
  async stop(): Promise<void> {
    this.#isRunning = false
    this.#timer?.cancel()
    await this.#inFlight
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
    this.#isBusy = true
    this.#timer?.cancel()
    // Jobs that end in this turn of the event loop make room for the same claim.
    this.#deps.ports.timers.soon(() => {
      if (this.#isRunning) this.#inFlight = this.#fetch()
    })
  }

  // A full round is followed by the next at once, before this turn's settlements are written: short jobs have ended by
  // then, and the store can look for the next while this process writes down the last.
  async #fetch(): Promise<void> {
    const { slots, settings } = this.#deps
    try {
      let isLook: boolean
      let count: number
      do {
        isLook = this.#isLook && !this.#isWoken
        this.#isLook = false
        this.#isWoken = false
        count = await this.claimRound()
        if (this.#isWoken) this.#mayBeMore = true
      } while (this.#mayBeMore && this.#isRunning && slots.isHungry())
      this.#isBusy = false
      if (this.#mayBeMore) this.#pauseMs = settings.pollMinMs
      else this.#pause(count, isLook)
    } catch (error) {
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
    for (let room = this.#room(); room > 0; room = this.#room()) {
      if (unasked.length === 0) {
        // One that never runs dry must not keep the round from ending: the others get their turn again in the next.
        if (isRefill || full.length === 0 || full.length === settings.queues.length) break
        isRefill = true
        unasked = full
        full = []
      }
      const shares = splitRoom(unasked, room)
      const asked = shares.filter(({ limit }) => limit > 0)
      const jobs = await this.#claim(asked, room)
      this.#contact.found()
      count += jobs.length
      full.push(...stillFull(asked, jobs))
      // With less room than queues the last of them are asked when the first have nothing.
      unasked = unasked.slice(asked.length)
    }
    this.#mayBeMore = unasked.length + full.length > 0
    return count
  }

  #room(): number {
    const room = this.#deps.slots.room()
    return this.#contact.isLost ? Math.min(PROBE_JOBS, room) : room
  }

  async #claim(shares: readonly Share[], asked: number): Promise<readonly ClaimedJob[]> {
    const { store, ports, settings, slots, storeTime, workerId } = this.#deps
    const sentMs = ports.clock.monotonic()
    const { jobs, nowMs } = await store.claim({
      queues: shares,
      types: this.#types,
      worker: workerId,
      leaseMs: settings.leaseMs,
    })
    storeTime.learn(nowMs)
    if (this.#deps.hasListeners()) {
      const tookMs = ports.clock.monotonic() - sentMs
      this.#deps.emit({ name: 'job.claimed', count: jobs.length, asked, tookMs })
    }
    if (jobs.length > 0) {
      slots.admit(takeTurns(jobs), sentMs)
      this.#deps.onAdmitted()
    }
    return jobs
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
      this.nudge()
    }
    this.#timer = this.#deps.ports.timers.after(waitMs, look)
  }
}

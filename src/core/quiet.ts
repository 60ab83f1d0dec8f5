// A process that has nothing to do asks for nothing. While its workers are idle, nobody holds a lease and no call comes, its loops rest,
// and one look at the store every half minute (with `idle: 'sleep'` every five minutes) takes their place. What other processes announce
// ends that: a job that became ready, one with a time, a process that has begun to work. So it needs a store that announces, and a
// connection on which announcements arrive. In any other case nothing changes.

import { isHoldfastError } from './errors.js'
import type { JobStore } from './job-store.js'
import type { Ports, Timer } from './ports.js'
import type { StoreListener } from './store-listener.js'
import type { Pulse, UpkeepStore } from './upkeep-store.js'
import type { WorkerBeat } from './views.js'

/** What a process does while it has nothing to do: 'look' every half minute, or 'sleep'. */
export type IdleMode = 'look' | 'sleep'

/** What the store is asked and told; a store without it is never quiet. */
type QuietStore = Pick<UpkeepStore, 'hears' | 'pulse' | 'rest' | 'stir' | 'announceDue'> & Pick<JobStore, 'listen'>

/** What can rest: a worker, or the upkeep of a process. */
export interface QuietPart {
  /** Whether it has nothing in hand. */
  readonly isIdle: boolean
  /** Queues in which a job that waits is work for it. */
  readonly queues: readonly string[]
  readonly beat: WorkerBeat | null
  /** Does nothing by itself from now on. */
  rest(): void
  /** Works as usual again. */
  stir(): void
  /** Something becomes due in N milliseconds. */
  due?(due: Pick<Pulse, 'nextDueMs' | 'nextTickMs'>): void
  /** It is a long time since upkeep did what can wait. */
  tidy?(): void
}

interface QuietDeps {
  readonly store: QuietStore
  readonly ports: Ports
  readonly mode: IdleMode
}

/** How long nothing must have happened. */
const STILL_MS = 10_000
/** How often it is seen whether that is so. No statement is sent for it. */
const LOOK_MS = 2_500
/** How long a process waits that could not rest because others work. */
const AGAIN_MS = 30_000
/** The longest and the shortest time between two looks at the store. Workers count as alive for 35 s. */
const PULSE_MS: Readonly<Record<IdleMode, readonly [number, number]>> = {
  look: [30_000, 24_000],
  sleep: [330_000, 302_000],
}
/** How often what can wait is done all the same: old days are dropped. */
const TIDY_MS: Readonly<Record<IdleMode, number>> = { look: 30 * 60_000, sleep: 6 * 3_600_000 }
/** Others are notified that this process works unless they were within this time. It must be shorter than STILL_MS. */
const TOLD_MS = 5_000
/** A wake-up for a time further away than this is not needed: every process looks by then. */
const DUE_MS_MAX = 400_000

/** Whether one process rests. */
export class Quiet {
  readonly #deps: QuietDeps
  readonly #parts = new Set<QuietPart>()
  #activeMs: number
  #toldMs = Number.NEGATIVE_INFINITY
  #tidyMs: number
  #tryMs = 0
  #isQuiet = false
  #isStopped = true
  #timer: Timer | null = null
  #unlisten: () => void = () => {}
  /** What it needs to hear. */
  readonly listener: Required<Omit<StoreListener, 'cancel' | 'hears'>> = {
    ready: () => this.heard(),
    due: (dueInMs) => this.dueElsewhere(dueInMs),
    stirred: () => this.heard(),
    deaf: () => this.heard(),
  }

  constructor(deps: QuietDeps) {
    this.#deps = deps
    this.#activeMs = deps.ports.clock.monotonic()
    this.#tidyMs = this.#activeMs
  }

  /** Whether everything rests. */
  get isQuiet(): boolean {
    return this.#isQuiet
  }

  /** How long its workers may be silent, beyond the usual, when it rests. */
  get restMs(): number {
    return this.#deps.mode === 'sleep' ? PULSE_MS.sleep[0] : 0
  }

  add(part: QuietPart): () => void {
    this.#parts.add(part)
    // A worker listens as long as it needs to, and this must not make it listen longer.
    if (part.queues.length > 0) this.#unlisten()
    this.#watch()
    return () => this.#parts.delete(part)
  }

  start(): void {
    if (this.#deps.store.pulse === undefined) return
    this.#isStopped = false
    // Without workers nobody listens. A process that should sleep has to.
    if (this.#deps.mode === 'sleep') this.#unlisten = this.#deps.store.listen(this.listener)
    this.#watch()
  }

  stop(): void {
    this.#isStopped = true
    this.#isQuiet = false
    this.#timer?.cancel()
    this.#unlisten()
  }

  /** Something happens in this process or was announced by another. Cheap: it is called with every batch of jobs. */
  heard(): void {
    this.#activeMs = this.#nowMs()
    if (this.#isQuiet) this.#stir()
  }

  /** This process has begun to work on jobs. Others that rest must know, because rescue is theirs if it dies. */
  works(): void {
    this.heard()
    if (this.#isStopped || this.#activeMs - this.#toldMs < TOLD_MS) return
    this.tell()
  }

  /** Ends the rest of every process. */
  tell(): void {
    this.#toldMs = this.#nowMs()
    this.#deps.store.stir?.()
  }

  /** This process wrote a job with a time. */
  timed(dueInMs: number): void {
    if (dueInMs <= DUE_MS_MAX) this.#deps.store.announceDue?.(dueInMs)
  }

  /** Another process wrote a job with a time. While this one does not rest it looks often enough. */
  dueElsewhere(dueInMs: number): void {
    if (this.#isQuiet) this.#dueIn({ nextDueMs: dueInMs, nextTickMs: null })
  }

  #nowMs(): number {
    return this.#deps.ports.clock.monotonic()
  }

  #after(ms: number, run: () => void): void {
    this.#timer?.cancel()
    if (!this.#isStopped) this.#timer = this.#deps.ports.timers.after(ms, run)
  }

  /** Where nothing can rest there is nothing to watch: a test whose clock passes weeks gets no timer. */
  #watch(): void {
    if (this.#timer === null && this.#parts.size > 0) this.#after(LOOK_MS, () => this.#consider())
  }

  #consider(): void {
    this.#timer = null
    if (this.#parts.size === 0) return
    const nowMs = this.#nowMs()
    const isStill = nowMs - this.#activeMs >= STILL_MS && nowMs >= this.#tryMs && this.#deps.store.hears?.() === true
    if (isStill && [...this.#parts].every(({ isIdle }) => isIdle)) void this.#begin()
    else this.#after(LOOK_MS, () => this.#consider())
  }

  async #begin(): Promise<void> {
    const startedMs = this.#nowMs()
    const pulse = await this.#pulse()
    if (this.#isStopped) return
    if (pulse === null || hasWork(pulse) || this.#activeMs >= startedMs || this.#deps.store.hears?.() !== true) {
      this.#tryMs = startedMs + AGAIN_MS
      this.#after(LOOK_MS, () => this.#consider())
      return
    }
    this.#isQuiet = true
    for (const part of this.#parts) part.rest()
    this.#deps.store.rest?.(this.#deps.mode)
    this.#rest(pulse)
  }

  /** Rests until the next look. */
  #rest(pulse: Pulse): void {
    const [most, least] = PULSE_MS[this.#deps.mode]
    this.#dueIn(pulse)
    this.#after(Math.ceil(least + (most - least) * this.#deps.ports.random.float()), () => void this.#look())
  }

  async #look(): Promise<void> {
    const pulse = await this.#pulse()
    if (!this.#isQuiet) return
    if (pulse === null || hasWork(pulse)) {
      this.#stir()
      return
    }
    this.#rest(pulse)
    const nowMs = this.#nowMs()
    if (nowMs - this.#tidyMs < TIDY_MS[this.#deps.mode]) return
    this.#tidyMs = nowMs
    for (const part of this.#parts) part.tidy?.()
  }

  /** A step that was due is over, and found nothing: another process was first. When the next is due only the store knows. */
  lookSoon(): void {
    if (this.#isQuiet) this.#after(0, () => void this.#look())
  }

  #dueIn(due: Pick<Pulse, 'nextDueMs' | 'nextTickMs'>): void {
    for (const part of this.#parts) part.due?.(due)
  }

  /** Null when the store could not answer: then the loops ask it, and say so. */
  async #pulse(): Promise<Pulse | null> {
    const parts = [...this.#parts]
    const beats = parts.flatMap(({ beat }) => (beat === null ? [] : [beat]))
    const queues = [...new Set(parts.flatMap((part) => part.queues))]
    try {
      return await this.#deps.store.pulse!({ queues, beats, isUpkeep: parts.some(({ due }) => due !== undefined) })
    } catch (error) {
      // A role without the rights will not have them a minute later.
      if (isHoldfastError(error, 'access_denied')) this.stop()
      return null
    }
  }

  #stir(): void {
    this.#isQuiet = false
    this.#deps.store.rest?.(null)
    for (const part of this.#parts) part.stir()
    this.#after(LOOK_MS, () => this.#consider())
  }
}

function hasWork({ isRunning, queues, hasUpkeep }: Pulse): boolean {
  return isRunning || hasUpkeep || queues.length > 0
}

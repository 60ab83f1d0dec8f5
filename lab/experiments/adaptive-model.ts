// A model of workers that call a provider under an adaptive limit, on virtual time: what laws are compared with, in milliseconds instead of
// minutes. Claims, settlements and reports take a few milliseconds, as they do on a real store; a refused call is answered immediately, and
// its slot is free for the next.

import type { AdaptiveReport, AdaptiveSettings } from '../../src/core/flow/adaptive.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

/** A law of adaptive concurrency. Its state is its own. */
export interface AdaptiveLaw {
  start(settings: AdaptiveSettings): unknown
  adapt(settings: AdaptiveSettings, state: never, report: AdaptiveReport): unknown
  concurrency(settings: AdaptiveSettings, state: never): number
}

/** A provider over time: how many calls it takes concurrently, and how long each takes. */
export interface ProviderCourse {
  readonly capacity: (ms: number) => number
  readonly latencyMs: (ms: number) => number
}

export interface ModelOptions {
  readonly law: AdaptiveLaw
  readonly settings: AdaptiveSettings
  readonly provider: ProviderCourse
  readonly processes: number
  /** What comes before is not counted. */
  readonly warmUpMs: number
  readonly endMs: number
  readonly seed: number
}

export interface ModelResult {
  /** The part of the provider's capacity that was used. */
  readonly used: number
  /** The part of all calls that was refused. */
  readonly refused: number
  readonly calls: number
  /** The level at each second. */
  readonly levels: readonly (readonly [seconds: number, level: number])[]
}

const REPORT_MS = 250
/** From and to: of a claim, of a settlement, of a report. */
const STEP_MS = [4, 12] as const
const REFUSAL_MS = 2

interface Process {
  isClaiming: boolean
  isReporting: boolean
  hasTimer: boolean
  ok: number
  overloaded: number
}

/** Runs the model. The same seed gives the same result. */
export function modelAdaptive(options: ModelOptions): ModelResult {
  return new Model(options).run()
}

class Model {
  readonly #options: ModelOptions
  readonly #random: { float(): number }
  readonly #events = new Map<number, (() => void)[]>()
  readonly #processes: readonly Process[]
  #nowMs = 0
  #state: never
  #level: number
  /** Leases. */
  #running = 0
  /** Calls in the provider's hands. */
  #calling = 0
  #ok = 0
  #refused = 0
  #usedMs = 0
  #capacityMs = 0

  constructor(options: ModelOptions) {
    const { law, settings, seed, processes } = options
    this.#options = options
    this.#random = seededRandom(seed)
    this.#state = law.start(settings) as never
    this.#level = law.concurrency(settings, this.#state)
    this.#processes = Array.from({ length: processes }, () => ({
      ...{ isClaiming: false, isReporting: false, hasTimer: false, ok: 0, overloaded: 0 },
    }))
  }

  run(): ModelResult {
    const { endMs, warmUpMs, provider } = this.#options
    const levels: (readonly [number, number])[] = []
    for (; this.#nowMs < endMs; this.#nowMs++) {
      for (const event of this.#events.get(this.#nowMs) ?? []) event()
      this.#events.delete(this.#nowMs)
      for (const process of this.#processes) this.#claim(process)
      if (this.#nowMs % 1_000 === 0) levels.push([this.#nowMs / 1_000, this.#level])
      if (this.#nowMs < warmUpMs) continue
      const capacity = provider.capacity(this.#nowMs)
      this.#usedMs += Math.min(capacity, this.#calling)
      this.#capacityMs += capacity
    }
    const calls = this.#ok + this.#refused
    return { used: this.#usedMs / this.#capacityMs, refused: this.#refused / Math.max(1, calls), calls, levels }
  }

  #after(ms: number, event: () => void): void {
    const atMs = this.#nowMs + Math.max(1, Math.round(ms))
    const events = this.#events.get(atMs)
    if (events === undefined) this.#events.set(atMs, [event])
    else events.push(event)
  }

  #stepMs(): number {
    const [from, to] = STEP_MS
    return from + this.#random.float() * (to - from)
  }

  #claim(process: Process): void {
    if (process.isClaiming || this.#running >= this.#level) return
    process.isClaiming = true
    this.#after(this.#stepMs(), () => {
      process.isClaiming = false
      const room = Math.max(0, this.#level - this.#running)
      this.#running += room
      for (let count = 0; count < room; count++) this.#call(process)
    })
  }

  #call(process: Process): void {
    const { provider, warmUpMs } = this.#options
    const isOk = this.#calling < provider.capacity(this.#nowMs)
    if (isOk) this.#calling++
    const ms = isOk ? provider.latencyMs(this.#nowMs) * (0.75 + this.#random.float() / 2) : REFUSAL_MS
    this.#after(ms, () => {
      if (isOk) this.#calling--
      if (this.#nowMs >= warmUpMs) {
        if (isOk) this.#ok++
        else this.#refused++
      }
      this.#ended(process, isOk)
      this.#after(this.#stepMs(), () => this.#running--)
    })
  }

  #ended(process: Process, isOk: boolean): void {
    if (isOk) process.ok++
    else process.overloaded++
    if (!isOk && !process.isReporting) this.#report(process)
    else if (isOk && !process.hasTimer) {
      process.hasTimer = true
      this.#after(REPORT_MS, () => {
        process.hasTimer = false
        if (!process.isReporting) this.#report(process)
      })
    }
  }

  #report(process: Process): void {
    const { law, settings } = this.#options
    const { ok, overloaded } = process
    if (ok + overloaded === 0) return
    process.ok = 0
    process.overloaded = 0
    process.isReporting = true
    this.#after(this.#stepMs(), () => {
      this.#state = law.adapt(settings, this.#state, { ok, overloaded, nowMs: this.#nowMs }) as never
      this.#level = law.concurrency(settings, this.#state)
      process.isReporting = false
      if (process.overloaded > 0) this.#report(process)
    })
  }
}

// What became of jobs that name limits, gathered for a moment and then reported: breakers and adaptive concurrency go by it. ◄── run.ts

import { Contact } from '../core/contact.js'
import type { Emit, HoldfastEvent } from '../core/events.js'
import type { HoldOff, OutcomeReport } from '../core/flow/views.js'
import type { ClaimedJob, SettledJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import type { HeldJob } from './held-job.js'

/** How long successes are gathered. Failures are reported immediately, because each moment more of them start; while one call is in flight, the
 *  next gathers. */
const REPORT_MS = 250
/** The most limits one call reports on. The rest waits for the next. */
const LIMITS_MAX = 1_000

/** What the end of an attempt says about others. */
export interface FlowEnd {
  /** What waits together with the job. */
  readonly holdOff?: HoldOff | null
  /** What it called refused it for load, failed, or took too long. */
  readonly isOverload?: boolean
  /** How long it ran; null when no handler did. */
  readonly ranMs?: number | null
}

/** The settlement of a job, with what flow control adds to it. */
export function settledWith(plain: SettledJob, { job, spent, parked }: HeldJob, end: FlowEnd | undefined): SettledJob {
  const settled = parked === null ? plain : { ...plain, ...parked.until }
  const holdOff = end?.holdOff ?? null
  if (job.flow === undefined && holdOff === null) return settled
  return {
    ...settled,
    ...(job.flow === undefined ? {} : { flow: job.flow }),
    ...(holdOff === null ? {} : { holdOff }),
    ...(spent === null ? {} : { spent }),
  }
}

type Ended = Extract<HoldfastEvent, { name: 'job.ended' }>

/** What waits with a job that was told to wait, for its event. */
export function heldWith(outcome: string, end: FlowEnd | undefined): Pick<Ended, 'scope' | 'limit'> {
  if (outcome !== 'rate_limited') return {}
  const holdOff = end?.holdOff ?? null
  if (holdOff === null) return { scope: 'job' }
  return holdOff.scope === 'limit' ? { scope: 'limit', limit: holdOff.limit } : { scope: holdOff.scope }
}

interface ReportDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
}

type Counted = 'ok' | 'failed' | 'overloaded'
type Counts = { [Name in Counted | 'overloadedAfterMs']: number }

/** The reports of one worker. */
export class LimitReports {
  readonly #deps: ReportDeps
  readonly #contact: Contact
  readonly #counts = new Map<string, Counts>()
  #timer: Timer | null = null
  #sending: Promise<void> = Promise.resolve()
  #isSending = false

  constructor(deps: ReportDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'observe')
  }

  /** An attempt has ended with this outcome. Costs nothing for a job that names no limit. */
  ended({ flow }: ClaimedJob, outcome: string, end: FlowEnd | undefined): void {
    if (flow === undefined || flow.limits.length === 0) return
    const counted = countsOf(outcome, end?.isOverload === true)
    if (counted === null) return
    for (const limit of flow.limits) {
      const counts = this.#counts.get(limit) ?? { ok: 0, failed: 0, overloaded: 0, overloadedAfterMs: 0 }
      if (counted.includes('overloaded')) {
        const afterMs = end?.ranMs ?? 0
        counts.overloadedAfterMs = counts.overloaded === 0 ? afterMs : Math.min(counts.overloadedAfterMs, afterMs)
      }
      for (const name of counted) counts[name]++
      this.#counts.set(limit, counts)
    }
    if (counted.includes('ok')) this.#timer ??= this.#deps.ports.timers.after(REPORT_MS, () => void this.flush())
    else if (!this.#isSending) this.#deps.ports.timers.soon(() => void this.flush())
  }

  /** Reports what was gathered. Reports that the store does not take are dropped: they are about this moment. */
  flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    const names = [...this.#counts.keys()].slice(0, LIMITS_MAX)
    if (names.length === 0) return this.#sending
    const reports = names.map((limit) => ({ limit, ...this.#counts.get(limit)! }))
    for (const name of names) this.#counts.delete(name)
    this.#isSending = true
    this.#sending = this.#sending.then(() => this.#send(reports))
    return this.#sending
  }

  async #send(reports: readonly OutcomeReport[]): Promise<void> {
    try {
      for (const { limit, to, ok, failed } of await this.#deps.store.observe(reports)) {
        this.#deps.emit({ name: to === 'open' ? 'breaker.opened' : 'breaker.closed', limit, ok, failed })
      }
      this.#contact.found()
    } catch (error) {
      this.#contact.lost(error)
    } finally {
      this.#isSending = false
      this.#timer ??= this.#counts.size === 0 ? null : this.#deps.ports.timers.after(0, () => void this.flush())
    }
  }
}

/** Which counts an outcome adds to; null for one that says nothing about the limit. */
function countsOf(outcome: string, isOverload: boolean): readonly Counted[] | null {
  if (outcome === 'succeeded') return ['ok']
  if (outcome === 'rate_limited') return ['overloaded']
  if (outcome !== 'failed') return null
  return isOverload ? ['failed', 'overloaded'] : ['failed']
}

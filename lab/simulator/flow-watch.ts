// Checks flow control at every claim, against the simulator's own bookkeeping (flow-rules.ts) and what runs in the memory: no limit is
// passed, also not while it is lowered; no rate starts too many; no ordered group overtakes itself; nothing starts through an open breaker
// but probes. And that nothing is held which could start while a worker is idle.

import type { Breaker } from '../../src/core/flow/breaker.js'
import type { HoldOff } from '../../src/core/flow/views.js'
import type { JobState } from '../../src/core/states.js'
import type { Job, Memory } from '../../src/stores/memory/memory.js'
import type { Violation } from '../history/verdict.js'
import { FlowRules, groupOf, limitNames, scopesOf, shownScope } from './flow-rules.js'
import type { AppliedCall } from './truth.js'

const VIOLATIONS_MAX = 20

/** A worker that could take a job. */
export interface IdleWorker {
  readonly name: string
  readonly queues: readonly string[]
}

/** Watches flow control of one run. */
export class FlowWatch {
  readonly violations: Violation[] = []
  readonly rules: FlowRules = new FlowRules()
  readonly #memory: Memory
  /** The place of each job in its ordered group: that of its enqueue, or of its requeue when others went on meanwhile. */
  readonly #orders = new Map<string, number>()
  readonly #claimed: Job[] = []
  /** Who claimed each job last. */
  readonly #holders = new Map<string, string>()
  readonly #changed = new Set<string>()
  readonly #breakers = new Map<string, Breaker>()
  /** Outcomes that workers have reported since the breaker of a limit came to its position. */
  readonly #reported = new Map<string, { readonly atMs: number; readonly ok: number; readonly failed: number }[]>()
  /** Since when each queue has had a job that could start, and an idle worker for it. */
  readonly #idleSince = new Map<string, { readonly job: string; readonly sinceMs: number }>()
  #orderCount = 0

  constructor(memory: Memory) {
    this.#memory = memory
  }

  stored(job: Job): void {
    this.#orders.set(job.facts.id, ++this.#orderCount)
  }

  /** Its place in its group, if that is ordered. */
  placeOf(id: string): number {
    return this.#orders.get(id)!
  }

  /** A job has moved. */
  changed(job: Job, from: JobState, { name }: AppliedCall): void {
    const { id, queue } = job.facts
    this.#changed.add(id)
    if (job.state === 'running' && from !== 'running') this.#claimed.push(job)
    if (name === 'settle' && job.state === 'dead') this.rules.died(job)
    if (name !== 'requeue' || job.state !== 'ready') return
    const { ordered, onDead } = this.rules.groupsOf(queue)
    if (!(ordered && onDead === 'stop' && groupOf(job) !== null)) this.#orders.set(id, ++this.#orderCount)
  }

  /** Called after all changes of a call are known. */
  check(call: AppliedCall): void {
    const claimed = this.#claimed.splice(0)
    if (call.name === 'settle') this.#applyHolds(call)
    if (call.name === 'observe') this.#checkObserved(call)
    for (const job of claimed) this.#checkStart(job, call)
    this.rules.apply(call)
    this.#changed.clear()
    for (const [name, { breaker }] of this.#memory.limits) {
      if (this.#breakers.get(name)?.sinceMs !== breaker.sinceMs) this.#reported.delete(name)
      this.#breakers.set(name, breaker)
    }
  }

  #applyHolds({ args, atMs }: AppliedCall): void {
    for (const { id, holdOff } of args[0] as readonly { id: string; holdOff?: HoldOff }[]) {
      const job = this.#memory.jobs.get(id)
      if (job !== undefined && holdOff !== undefined && this.#changed.has(id)) this.rules.held(job, holdOff, atMs)
    }
  }

  #checkStart(job: Job, { atMs, caller }: AppliedCall): void {
    const { id } = job.facts
    this.#holders.set(id, caller)
    const closed = this.rules.closedScope(job, atMs)
    if (closed !== null) this.#report('I11', id, `started at ${atMs} in spite of ${closed}`)
    this.rules.start(job, atMs)
    if (this.rules.isPaused(job)) this.#report('I11', id, `started while its group was paused`)
    for (const { name, most } of this.rules.bounds(job)) {
      const running = most === null ? 0 : this.#running(name)
      if (most !== null && running > most) {
        this.#report('I11', id, `started as number ${running} of at most ${most} of ${shownScope(name)}`)
      }
    }
    for (const name of limitNames(job)) this.#checkBreaker(job, name, atMs)
    this.#checkOrder(job)
  }

  #running(scope: string): number {
    return this.#memory.running.values.filter((job) => scopesOf(job).includes(scope)).length
  }

  #checkBreaker(job: Job, name: string, atMs: number): void {
    const breaker = this.#breakers.get(name)
    const settings = this.rules.limit(name).breaker
    if (breaker === undefined || (settings === null && breaker.forced === null)) return
    const { forced, position, probeAtMs } = breaker
    if (forced === 'closed' || (forced === null && position === 'closed')) return
    if (forced === 'open' || (position === 'open' && probeAtMs! > atMs)) {
      this.#report('I11', job.facts.id, `started at ${atMs} while the breaker of ${name} was open`)
    } else if (this.#running(name) > settings!.probes) {
      this.#report('I11', job.facts.id, `started as a probe of ${name} beside ${settings!.probes} others`)
    }
  }

  /** A breaker whose outcomes are bad enough is not closed. Only outcomes that surely count are added up. */
  #checkObserved({ args, atMs }: AppliedCall): void {
    for (const { limit, ok, failed } of args[0] as readonly { limit: string; ok: number; failed: number }[]) {
      const settings = this.rules.limit(limit).breaker
      const before = this.#breakers.get(limit)
      const after = this.#memory.limits.get(limit)?.breaker
      if (settings === null || before === undefined || after === undefined || before.forced !== null) continue
      const reported = this.#reported.get(limit) ?? []
      reported.push({ atMs, ok, failed })
      this.#reported.set(limit, reported)
      if (before.position !== 'closed' || after.position !== 'closed') continue
      // Outcomes are kept by whole seconds, so that those of the window's first second may be gone.
      const sinceMs = atMs - settings.withinMs
      const recent = reported.filter((report) => secondOf(report) * 1_000 > sinceMs && report.atMs <= atMs)
      const [bad, all] = newestOf(recent, settings.of)
      const isStale = reported.length > recent.length
      if (!isStale && all >= settings.of && bad >= settings.failures * all) {
        this.#report('I11', null, `the breaker of ${limit} stays closed after ${bad} of ${all} outcomes failed`)
      }
    }
  }

  #checkOrder(job: Job): void {
    const blocker = this.#blockerOf(job)
    if (blocker === null) return
    const { id } = blocker.facts
    const what = blocker.state === 'ready' ? 'comes first and was ready' : 'waited for its next attempt'
    this.#report('I10', job.facts.id, `started before ${id} of its ordered group ${groupOf(job)}, which ${what}`)
  }

  /** The job of its ordered group that one must wait for; null when there is none, or the group is not ordered. */
  #blockerOf(job: Job): Job | null {
    const group = groupOf(job)
    const { ordered, onRetry } = this.rules.groupsOf(job.facts.queue)
    if (group === null || !ordered) return null
    for (const other of this.#memory.jobs.values()) {
      if (other === job || other.facts.queue !== job.facts.queue || groupOf(other) !== group) continue
      const isBefore = this.#orders.get(other.facts.id)! < this.#orders.get(job.facts.id)!
      if (isBefore && other.state === 'ready') return other
      const hasStarted = other.fence > 0 && (other.state === 'retrying' || other.state === 'scheduled')
      if (hasStarted && onRetry === 'wait') return other
    }
    return null
  }

  /** The jobs a process has in hand. */
  heldBy(process: string): readonly Job[] {
    return this.#memory.running.values.filter(({ facts }) => this.#holders.get(facts.id) === process)
  }

  /** Looks whether a job could start that a worker has had time to take. Called again and again while all is well. */
  lookAtIdle(
    workers: readonly IdleWorker[],
    { nowMs, boundMs }: { readonly nowMs: number; readonly boundMs: number },
  ): void {
    const served = new Set(workers.flatMap(({ queues }) => queues))
    const free = new Map<string, Job>()
    for (const job of this.#memory.jobs.values()) {
      const { queue } = job.facts
      if (job.state === 'ready' && served.has(queue) && !free.has(queue) && this.#mayStart(job, nowMs))
        free.set(queue, job)
    }
    for (const queue of [...this.#idleSince.keys()]) if (!free.has(queue)) this.#idleSince.delete(queue)
    for (const [queue, job] of free) {
      const { id } = job.facts
      const known = this.#idleSince.get(queue)
      if (known === undefined || known.job !== id) this.#idleSince.set(queue, { job: id, sinceMs: nowMs })
      else if (nowMs - known.sinceMs > boundMs) {
        this.#report(
          'I17',
          id,
          `could have started since ${known.sinceMs}, and was still held at ${nowMs}, beside an idle worker`,
        )
      }
    }
  }

  #mayStart(job: Job, nowMs: number): boolean {
    const { queue } = job.facts
    if (this.#memory.queues.get(queue)?.paused || this.rules.isPaused(job)) return false
    if (this.rules.closedScope(job, nowMs) !== null) return false
    if (this.rules.bounds(job).some(({ name, most }) => most !== null && this.#running(name) >= most)) return false
    if (!limitNames(job).every((name) => this.#letsStart(name, nowMs))) return false
    return this.#blockerOf(job) === null
  }

  #letsStart(name: string, nowMs: number): boolean {
    const breaker = this.#memory.limits.get(name)?.breaker
    const settings = this.rules.limit(name).breaker
    if (breaker === undefined || breaker.forced === 'closed') return true
    if (breaker.forced === 'open') return false
    if (settings === null || breaker.position === 'closed') return true
    return (breaker.probeAtMs ?? 0) <= nowMs && this.#running(name) < settings.probes
  }

  #report(invariant: Violation['invariant'], job: string | null, message: string): void {
    if (this.violations.length < VIOLATIONS_MAX) this.violations.push({ invariant, job, message })
  }
}

/** The failed and all outcomes of the newest whole seconds, as few as have enough: what a breaker judges by. */
function newestOf(
  reports: readonly { readonly atMs: number; readonly ok: number; readonly failed: number }[],
  enough: number,
): [bad: number, all: number] {
  let [bad, all, second] = [0, 0, Number.POSITIVE_INFINITY]
  for (const report of reports.toSorted((one, other) => other.atMs - one.atMs)) {
    if (secondOf(report) < second && all >= enough) break
    second = secondOf(report)
    bad += report.failed
    all += report.ok + report.failed
  }
  return [bad, all]
}

function secondOf({ atMs }: { readonly atMs: number }): number {
  return Math.floor(atMs / 1_000)
}

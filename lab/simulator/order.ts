// Checks the order of claims, pauses and waits against the memory store at the moment of each claim, because a history does not
// say which other jobs were waiting.

import type { ClaimRequest } from '../../src/core/job-store.js'
import type { JobState } from '../../src/core/states.js'
import type { Job, Memory } from '../../src/stores/memory/memory.js'
import type { Violation } from '../history/verdict.js'
import type { AppliedCall } from './truth.js'

/** A job's position in its queue: timed and released jobs come first, then the rest in order of arrival. */
interface Place {
  readonly isFront: boolean
  /** Jobs that arrived with one call have no order among them here: the kind of call decides it. */
  readonly call: number
}

const VIOLATIONS_MAX = 20

/** Watches which job is claimed before which. */
export class Order {
  readonly violations: Violation[] = []
  readonly #memory: Memory
  readonly #places = new Map<string, Place>()
  readonly #claimed: Job[] = []
  readonly #paused = new Set<string>()
  /** Queues whose groups are, or were, ordered. Jobs that waited then keep that order when there is none any more. */
  readonly #ordered = new Set<string>()
  #calls = 0

  constructor(memory: Memory) {
    this.#memory = memory
  }

  /** A job was written. */
  stored(job: Job, state: JobState): void {
    if (state === 'ready') this.#stand(job, job.schedule !== null)
  }

  /** A job has moved. */
  changed(job: Job, from: JobState): void {
    if (job.state === 'ready' && from !== 'ready') this.#stand(job, from === 'scheduled' || from === 'running')
    else if (job.state === 'running' && from !== 'running') this.#claimed.push(job)
  }

  #stand(job: Job, isFront: boolean): void {
    this.#places.set(job.facts.id, { isFront, call: this.#calls })
  }

  /** Called after all changes of a call are known. */
  check({ name, args }: AppliedCall): void {
    if (name === 'pause') this.#paused.add(args[0] as string)
    else if (name === 'resume') this.#paused.delete(args[0] as string)
    else if (name === 'setQueue') this.#noteOrder(args[0] as string)
    const claimed = this.#claimed.splice(0)
    this.#calls++
    for (const job of claimed) {
      if (this.#paused.has(job.facts.queue)) this.#report('I11', job.facts.id, `was claimed while its queue was paused`)
      if (name === 'claim') this.#checkLine(job, (args[0] as ClaimRequest).types)
    }
  }

  #noteOrder(queue: string): void {
    if (this.#memory.queues.get(queue)?.settings?.flow?.groups.ordered) this.#ordered.add(queue)
  }

  /** A failed job waits as long as its policy says, if the policy has no jitter. */
  waits({ facts, state, attempt, runAtMs }: Job, atMs: number): void {
    const { retry } = facts.limits
    // `later` chooses its own wait.
    if (state !== 'retrying' || retry === undefined || retry.jitter || facts.type === 'later') return
    const factor = { fixed: 1, linear: attempt, exponential: 2 ** (attempt - 1) }[retry.backoff as string] ?? 0
    const waitMs = Math.min(retry.capMs, retry.baseMs * factor)
    const gotMs = (runAtMs ?? atMs) - atMs
    if (Math.abs(gotMs - waitMs) > 1) this.#report('I8', facts.id, `waits ${gotMs} ms after a failure, not ${waitMs}`)
  }

  #checkLine(job: Job, types: ClaimRequest['types']): void {
    // Ordered groups have an order of their own: see flow-watch.ts.
    if (this.#ordered.has(job.facts.queue) && (job.facts.flow?.group ?? null) !== null) return
    for (const other of this.#memory.jobs.values()) {
      if (other.state !== 'ready' || other.facts.queue !== job.facts.queue) continue
      if (types !== null && !types.includes(other.facts.type)) continue
      if (!isOfOneLine(other, job)) continue
      const why = this.#isBefore(other, job)
      if (why !== null) this.#report('I9', job.facts.id, `was claimed before ${other.facts.id}, which ${why}`)
    }
  }

  /** Why one job comes before the other, or null when it does not. */
  #isBefore(one: Job, other: Job): string | null {
    if (one.facts.priority !== other.facts.priority) {
      return one.facts.priority > other.facts.priority ? 'has a higher priority' : null
    }
    const place = this.#places.get(one.facts.id)
    const otherPlace = this.#places.get(other.facts.id)
    if (place === undefined || otherPlace === undefined) return null
    if (place.isFront !== otherPlace.isFront) return place.isFront ? 'had waited for its time, or was released' : null
    return place.call < otherPlace.call ? 'was before it' : null
  }

  #report(invariant: Violation['invariant'], job: string, message: string): void {
    if (this.violations.length < VIOLATIONS_MAX) this.violations.push({ invariant, job, message })
  }
}

/** Groups take turns, and so do the jobs of different sets of limits: an order holds among those of one group and one set. */
function isOfOneLine({ facts: one }: Job, { facts: other }: Job): boolean {
  const lineOf = ({ flow }: Job['facts']) => JSON.stringify([flow?.group ?? null, flow?.limits ?? []])
  return lineOf(one) === lineOf(other)
}

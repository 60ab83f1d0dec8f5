// Invariants between jobs: priority within a queue, and idempotency keys. Read in the store's order. flow.ts has those of groups and limits.

import { isFinished } from '../../src/core/states.js'
import type { JobClaimed, JobStored } from './events.js'
import { type Life, type Reading, ROOM_MS, report } from './life.js'
import { shown } from './steps.js'

/** Jobs that are ready, by queue and priority, those ready longest first. */
type Waiting = Map<string, Map<number, Map<string, Life>>>

export class Lines {
  readonly inversions: { count: number; longestMs: number } = { count: 0, longestMs: 0 }
  readonly #reading: Reading
  readonly #windowMs: number
  readonly #waiting: Waiting = new Map()
  readonly #holders = new Map<string, Life>()
  /** Claims of one transaction happen atomically, so they are checked together. */
  #batch: { event: JobClaimed; life: Life }[] = []

  constructor(reading: Reading) {
    this.#reading = reading
    this.#windowMs = reading.run?.priorityWindowMs ?? Number.POSITIVE_INFINITY
  }

  /** Before the event is applied to the job's life. */
  before(event: { readonly ev: string; readonly tx?: string }): void {
    const last = this.#batch[this.#batch.length - 1]
    if (last === undefined) return
    if (event.ev !== 'claimed' || event.tx === undefined || event.tx !== last.event.tx) this.flush()
  }

  /** After it was applied. */
  after(life: Life, event: JobClaimed | JobStored | { readonly ev: string }): void {
    if (event.ev === 'stored') this.#takeKey(life, life.stored!.at)
    if (event.ev === 'claimed') {
      this.#stand(life, false)
      this.#batch.push({ event: event as JobClaimed, life })
      return
    }
    this.#stand(life, life.state === 'ready')
  }

  /** A requeued job takes its key again. */
  requeued(life: Life, at: number): void {
    this.#takeKey(life, at)
  }

  /** Checks the remaining claims. */
  flush(): void {
    for (const { event, life } of this.#batch) this.#checkPriority(life, event.at)
    this.#batch = []
  }

  #stand(life: Life, isReady: boolean): void {
    // Under flow control priority counts inside a group only, and groups take turns.
    if (life.stored === null || isUnderFlow(life.stored)) return
    const { queue, priority } = life.stored
    const lines = inside(this.#waiting, queue, () => new Map<number, Map<string, Life>>())
    const line = inside(lines, priority, () => new Map<string, Life>())
    if (!isReady) line.delete(life.job)
    else if (!line.has(life.job)) line.set(life.job, life)
  }

  #checkPriority(life: Life, claimedAt: number): void {
    if (life.stored === null || isUnderFlow(life.stored)) return
    let longestMs = -1
    for (const [priority, line] of this.#waiting.get(life.stored.queue) ?? []) {
      if (priority <= life.stored.priority) continue
      const first = line.values().next().value
      if (first !== undefined) longestMs = Math.max(longestMs, claimedAt - (first.readySince ?? claimedAt))
    }
    if (longestMs < 0) return
    this.inversions.count++
    this.inversions.longestMs = Math.max(this.inversions.longestMs, longestMs)
    if (longestMs <= this.#windowMs) return
    const what = `claimed at ${shown(claimedAt)} while a job of higher priority had been ready for ${longestMs.toFixed(0)} ms`
    report(this.#reading, 'I9', life.job, what)
  }

  #takeKey(life: Life, takenAt: number): void {
    const stored = life.stored
    if (stored === null || stored.idempotencyKey === null) return
    const name = `${stored.queue}\0${stored.idempotencyKey}`
    const holder = this.#holders.get(name)
    if (holder !== undefined && holder !== life && holds(holder, takenAt)) {
      const what = `took the key ${stored.idempotencyKey} at ${shown(takenAt)}, which ${holder.job} (${holder.state}) still held`
      report(this.#reading, 'I16', life.job, what)
    }
    this.#holders.set(name, life)
  }
}

function isUnderFlow({ group, limits }: JobStored): boolean {
  return (group ?? null) !== null || (limits?.length ?? 0) > 0
}

function holds(holder: Life, at: number): boolean {
  const ttlMs = holder.stored?.keyTtlMs ?? null
  return ttlMs === null ? !isFinished(holder.state) : at < holder.stored!.at + ttlMs - ROOM_MS
}

function inside<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

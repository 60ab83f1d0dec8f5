// Invariants between jobs: priority within a queue, order within a group, limits, and idempotency keys. Read in the store's order.

import { isFinished } from '../../src/core/states.js'
import type { JobClaimed, JobStored, RunBegun } from './events.js'
import { type Life, type Reading, ROOM_MS, report } from './life.js'
import { shown } from './steps.js'

/** Jobs that are ready, by queue and priority, those ready longest first. */
type Waiting = Map<string, Map<number, Map<string, Life>>>

interface Limit {
  readonly key: string
  readonly running: number
  readonly held: Set<Life>
  readonly starts: { readonly most: number; readonly perMs: number; readonly times: number[] } | null
}

export class Lines {
  readonly inversions: { count: number; longestMs: number } = { count: 0, longestMs: 0 }
  readonly #reading: Reading
  readonly #windowMs: number
  readonly #waiting: Waiting = new Map()
  readonly #holders = new Map<string, Life>()
  readonly #ordered: ReadonlySet<string>
  readonly #groups = new Map<string, Life[]>()
  readonly #limits: readonly Limit[]
  /** Claims of one transaction happen atomically, so they are checked together. */
  #batch: { event: JobClaimed; life: Life }[] = []

  constructor(reading: Reading) {
    this.#reading = reading
    this.#windowMs = reading.run?.priorityWindowMs ?? Number.POSITIVE_INFINITY
    this.#ordered = new Set(reading.run?.ordered ?? [])
    this.#limits = (reading.run?.limits ?? []).map(limitOf)
  }

  /** Before the event is applied to the job's life. */
  before(event: { readonly ev: string; readonly tx?: string }): void {
    const last = this.#batch[this.#batch.length - 1]
    if (last === undefined) return
    if (event.ev !== 'claimed' || event.tx === undefined || event.tx !== last.event.tx) this.flush()
  }

  /** After it was applied. */
  after(life: Life, event: JobClaimed | JobStored | { readonly ev: string }): void {
    if (event.ev === 'stored') {
      this.#takeKey(life, life.stored!.at)
      if (this.#isOrdered(life)) push(this.#groups, life.stored!.group!, life)
    }
    if (event.ev === 'claimed') {
      this.#stand(life, false)
      this.#batch.push({ event: event as JobClaimed, life })
      this.#checkOrder(life, event as JobClaimed)
      this.#checkLimits(life, event as JobClaimed)
      return
    }
    this.#stand(life, life.state === 'ready')
    if (life.lease === null) for (const limit of this.#limits) limit.held.delete(life)
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
    if (life.stored === null) return
    const { queue, priority } = life.stored
    const lines = inside(this.#waiting, queue, () => new Map<number, Map<string, Life>>())
    const line = inside(lines, priority, () => new Map<string, Life>())
    if (!isReady) line.delete(life.job)
    else if (!line.has(life.job)) line.set(life.job, life)
  }

  #checkPriority(life: Life, claimedAt: number): void {
    if (life.stored === null) return
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

  #isOrdered(life: Life): boolean {
    const group = life.stored?.group
    return typeof group === 'string' && this.#ordered.has(group)
  }

  #checkOrder(life: Life, event: JobClaimed): void {
    if (!this.#isOrdered(life)) return
    const members = this.#groups.get(life.stored!.group!)!
    // Finished ones at the front are dropped, so each is visited once.
    while (members.length > 0 && isFinished(members[0]!.state) && members[0] !== life) members.shift()
    const first = members[0]
    if (first === undefined || first === life) return
    const what = `claimed at ${shown(event.at)} while ${first.job}, before it in group ${life.stored!.group}, was ${first.state}`
    report(this.#reading, 'I10', life.job, what)
  }

  #checkLimits(life: Life, event: JobClaimed): void {
    for (const limit of this.#limits) {
      if (life.stored?.queue !== limit.key && life.stored?.group !== limit.key) continue
      limit.held.add(life)
      this.#checkHeld(limit, life, event.at)
      this.#checkStarts(limit, life, event.at)
    }
  }

  #checkHeld(limit: Limit, life: Life, claimedAt: number): void {
    if (limit.held.size <= limit.running) return
    // An expired lease no longer counts, even before it is rescued.
    for (const other of limit.held) {
      if (other.lease === null || other.lease.leasedUntil <= claimedAt) limit.held.delete(other)
    }
    if (limit.held.size <= limit.running) return
    const what = `claimed at ${shown(claimedAt)} as number ${limit.held.size} of at most ${limit.running} of ${limit.key}`
    report(this.#reading, 'I11', life.job, what)
  }

  #checkStarts(limit: Limit, life: Life, claimedAt: number): void {
    if (limit.starts === null) return
    const { most, perMs, times } = limit.starts
    times.push(claimedAt)
    if (times.length <= most) return
    const first = times.shift()!
    if (claimedAt - first >= perMs - ROOM_MS) return
    const what = `claimed at ${shown(claimedAt)} as number ${most + 1} within ${perMs} ms of at most ${most} of ${limit.key}`
    report(this.#reading, 'I11', life.job, what)
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

function limitOf({ key, running, starts }: RunBegun['limits'][number]): Limit {
  return { key, running, held: new Set(), starts: starts === undefined ? null : { ...starts, times: [] } }
}

function holds(holder: Life, at: number): boolean {
  const ttlMs = holder.stored?.keyTtlMs ?? null
  return ttlMs === null ? !isFinished(holder.state) : at < holder.stored!.at + ttlMs - ROOM_MS
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else list.push(value)
}

function inside<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

// What flow control allows, by a bookkeeping of the simulator's own: read from the calls that set it, not from what the store made of them.

import type { QueueFlow, Rate } from '../../src/core/flow/settings.js'
import {
  type GroupOverride,
  type GroupSettings,
  type LimitSettings,
  NO_GROUP_SETTINGS,
  NO_LIMIT,
} from '../../src/core/flow/settings.js'
import type { HoldOff } from '../../src/core/flow/views.js'
import type { Job } from '../../src/stores/memory/memory.js'
import type { AppliedCall } from './truth.js'

/** The token bucket of a rate since it was set. It was full then, which is the most it can have been. */
class Bucket {
  readonly #rate: Rate
  #tokens: number
  #atMs: number

  constructor(rate: Rate, nowMs: number) {
    this.#rate = rate
    this.#tokens = rate.burst
    this.#atMs = nowMs
  }

  tokens(nowMs: number): number {
    const { limit, perMs, burst } = this.#rate
    this.#tokens = Math.min(burst, this.#tokens + (Math.max(0, nowMs - this.#atMs) * limit) / perMs)
    this.#atMs = nowMs
    return this.#tokens
  }

  take(nowMs: number): void {
    this.#tokens = this.tokens(nowMs) - 1
  }

  /** As after a rest. */
  fill(nowMs: number): void {
    this.#tokens = this.#rate.burst
    this.#atMs = nowMs
  }
}

/** Times are whole milliseconds, and a token may be due within one. */
const ROUNDING_TOKENS = 0.05

/** A scope that can be told to wait and may have a rate: a limit, or a group. */
interface Scope {
  rate: Rate | null
  bucket: Bucket | null
  notBeforeMs: number
}

/** Everything in force. */
export class FlowRules {
  readonly #limits = new Map<string, LimitSettings>()
  readonly #flows = new Map<string, QueueFlow>()
  readonly #overrides = new Map<string, GroupOverride | null>()
  readonly #paused = new Set<string>()
  readonly #scopes = new Map<string, Scope>()
  #lastMs = Number.NEGATIVE_INFINITY

  /** Applies what a call sets. */
  apply({ name, args, atMs }: AppliedCall): void {
    const [first, second, third] = args as [string, never, never]
    // A store may begin a bucket anew when its clock was set back: waiting until the clock is there again could take days.
    if (atMs < this.#lastMs) for (const { bucket } of this.#scopes.values()) bucket?.fill(atMs)
    this.#lastMs = atMs
    if (name === 'setLimit') this.#limits.set(first, second as LimitSettings)
    else if (name === 'setQueue') this.#setQueue(first, (second as { flow?: QueueFlow }).flow)
    else if (name === 'setGroup') this.#overrides.set(placeOf(first, second), third)
    else if (name === 'pauseGroup') this.#paused.add(placeOf(first, second))
    else if (name === 'resumeGroup') this.#paused.delete(placeOf(first, second))
    for (const scope of this.#scopes.keys()) this.#scope(scope, this.#rateOf(scope), atMs)
  }

  #setQueue(queue: string, flow: QueueFlow | undefined): void {
    if (flow === undefined) this.#flows.delete(queue)
    else this.#flows.set(queue, flow)
  }

  /** A job of an ordered group died. */
  died(job: Job): void {
    const { ordered, onDead } = this.groupsOf(job.facts.queue)
    if (groupOf(job) !== null && ordered && onDead === 'stop') this.#paused.add(placeOf(job.facts.queue, groupOf(job)!))
  }

  /** A handler was told to wait. */
  held(job: Job, hold: HoldOff, nowMs: number): void {
    const group = groupOf(job)
    const name =
      hold.scope === 'limit' ? hold.limit : hold.scope === 'queue' ? queueName(job) : placeOf(job.facts.queue, group!)
    if (hold.scope === 'group' && group === null) return
    const scope = this.#scope(name, this.#rateOf(name), nowMs)
    scope.notBeforeMs = Math.max(scope.notBeforeMs, nowMs + hold.afterMs)
  }

  groupsOf(queue: string): GroupSettings {
    return this.#flows.get(queue)?.groups ?? NO_GROUP_SETTINGS
  }

  limit(name: string): LimitSettings {
    return this.#limits.get(name) ?? NO_LIMIT
  }

  /** What bounds a limit, or a queue by the name of its limit. */
  boundsOf(name: string): Pick<LimitSettings, 'concurrency' | 'rate'> {
    if (!name.startsWith('queue:')) return this.limit(name)
    return this.#flows.get(name.slice('queue:'.length)) ?? NO_LIMIT
  }

  /** What one group has of its own. */
  ownOf(queue: string, group: string): { readonly isPaused: boolean; readonly override: GroupOverride | null } {
    const place = placeOf(queue, group)
    return { isPaused: this.#paused.has(place), override: this.#overrides.get(place) ?? null }
  }

  isPaused(job: Job): boolean {
    const group = groupOf(job)
    return group !== null && this.#paused.has(placeOf(job.facts.queue, group))
  }

  get pausedGroups(): readonly { readonly queue: string; readonly group: string }[] {
    return [...this.#paused].map((place) => {
      const [queue, group] = place.split('\0') as [string, string]
      return { queue, group }
    })
  }

  /** How many jobs may run in each of the scopes of a job; null for any number. */
  bounds(job: Job): readonly { readonly name: string; readonly most: number | null }[] {
    const { queue } = job.facts
    const group = groupOf(job)
    const settings = this.groupsOf(queue)
    const ofQueue = { name: queueName(job), most: this.#flows.get(queue)?.concurrency ?? null }
    const ofLimits = limitNames(job).map((name) => ({ name, most: this.limit(name).concurrency }))
    if (group === null) return [ofQueue, ...ofLimits]
    const override = this.#overrides.get(placeOf(queue, group)) ?? null
    const most = settings.ordered ? 1 : (override?.concurrency ?? settings.concurrency)
    return [ofQueue, ...ofLimits, { name: placeOf(queue, group), most }]
  }

  /** The scope of a job that lets nothing start now, because of its rate or because it was told to wait; null when none does. */
  closedScope(job: Job, nowMs: number): string | null {
    for (const name of scopesOf(job)) {
      const scope = this.#scope(name, this.#rateOf(name), nowMs)
      if (scope.notBeforeMs > nowMs) return `${shownScope(name)}, which was told to wait until ${scope.notBeforeMs}`
      const tokens = scope.bucket?.tokens(nowMs) ?? 1
      if (tokens < 1 - ROUNDING_TOKENS) return `the rate of ${shownScope(name)}`
    }
    return null
  }

  /** A job starts. */
  start(job: Job, nowMs: number): void {
    for (const name of scopesOf(job)) this.#scope(name, this.#rateOf(name), nowMs).bucket?.take(nowMs)
  }

  #rateOf(name: string): Rate | null {
    if (name.startsWith('queue:')) return this.#flows.get(name.slice('queue:'.length))?.rate ?? null
    if (!name.includes('\0')) return this.limit(name).rate
    const [queue] = name.split('\0') as [string, string]
    return this.#overrides.get(name)?.rate ?? this.groupsOf(queue).rate
  }

  #scope(name: string, rate: Rate | null, nowMs: number): Scope {
    const known = this.#scopes.get(name)
    if (known !== undefined && isSame(known.rate, rate)) return known
    const bucket = rate === null ? null : new Bucket(rate, nowMs)
    const scope = { rate, bucket, notBeforeMs: known?.notBeforeMs ?? 0 }
    this.#scopes.set(name, scope)
    return scope
  }
}

export function groupOf({ facts }: Job): string | null {
  return facts.flow?.group ?? null
}

/** The limits a job names. */
export function limitNames({ facts }: Job): readonly string[] {
  return facts.flow?.limits ?? []
}

/** The queue, the limits and the group of a job. */
export function scopesOf(job: Job): readonly string[] {
  const group = groupOf(job)
  return [queueName(job), ...limitNames(job), ...(group === null ? [] : [placeOf(job.facts.queue, group)])]
}

/** A scope's name for people. */
export function shownScope(name: string): string {
  return name.includes('\0') ? `group ${name.replace('\0', '/')}` : name
}

function queueName({ facts }: Job): string {
  return `queue:${facts.queue}`
}

/** No limit has such a name. */
function placeOf(queue: string, group: string): string {
  return `${queue}\0${group}`
}

function isSame(one: Rate | null, other: Rate | null): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

// What flow control allowed, over time. A change takes effect somewhere between the moment it was made and the moment it was surely visible,
// so that more than one value may have held at a time. A claim is wrong only if it is wrong by all of them.

import type { Rate } from '../../src/core/flow/settings.js'
import type { FlowEvent, GroupChanged, GroupsChanged, LimitChanged } from './events.js'
import { ROOM_MS } from './life.js'

/** What bounds the jobs of a limit or a group. */
export interface Bound {
  /** How many may run; infinite for no bound, 0 while nothing may start. */
  readonly most: number
  readonly rate: Rate | null
  /** A breaker that is not closed is what bounds it. */
  readonly isProbed: boolean
}

/** A setting's values, each with the time in which it may have held. */
class Timeline<V> {
  readonly #entries: { readonly value: V; readonly from: number; to: number }[]

  constructor(initial: V) {
    this.#entries = [{ value: initial, from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }]
  }

  set(value: V, at: number, surelyAt: number): void {
    this.#entries[this.#entries.length - 1]!.to = surelyAt
    this.#entries.push({ value, from: at, to: Number.POSITIVE_INFINITY })
  }

  /** All values that may have held between two moments. */
  during(from: number, to: number): V[] {
    const values: V[] = []
    // A later value ends later, so that the first one that ended too early ends the search.
    for (let index = this.#entries.length - 1; index >= 0; index--) {
      const entry = this.#entries[index]!
      if (entry.to < from) break
      if (entry.from <= to) values.push(entry.value)
    }
    return values
  }

  /** The moments at which a value began or surely ended. */
  moments(): number[] {
    return this.#entries.flatMap(({ from, to }) => [from, to]).filter(Number.isFinite)
  }
}

const NO_GROUPS = { concurrency: null, rate: null, ordered: false, onRetry: 'wait' } as const
type Groups = Pick<GroupsChanged, 'concurrency' | 'rate' | 'ordered' | 'onRetry'>
type Limit = Pick<LimitChanged, 'concurrency' | 'rate' | 'breaker' | 'notBefore'>
type Own = Pick<GroupChanged, 'isPaused' | 'notBefore' | 'override'>

/** The name under which the jobs of a group are counted. Names of limits have no such character. */
export function groupKey(queue: string, group: string): string {
  return `${queue}\0${group}`
}

export class FlowTerms {
  readonly #visibleMs: number
  readonly #limits = new Map<string, Timeline<Limit>>()
  readonly #queues = new Map<string, Timeline<Groups>>()
  readonly #groups = new Map<string, Timeline<Own>>()

  constructor(visibleMs: number) {
    this.#visibleMs = visibleMs
  }

  /** When a change was surely visible to all that begin after it. */
  surelyAt({ at, committedAt }: { readonly at: number; readonly committedAt?: number }): number {
    return committedAt === undefined ? at : committedAt + this.#visibleMs
  }

  read(event: FlowEvent): void {
    const surelyAt = this.surelyAt(event)
    if (event.ev === 'limit') {
      inside(this.#limits, event.limit, () => new Timeline<Limit>(NO_LIMIT)).set(event, event.at, surelyAt)
    } else if (event.ev === 'groups') {
      inside(this.#queues, event.queue, () => new Timeline<Groups>(NO_GROUPS)).set(event, event.at, surelyAt)
    } else {
      const key = groupKey(event.queue, event.group)
      inside(this.#groups, key, () => new Timeline<Own>(NOTHING_OWN)).set(event, event.at, surelyAt)
    }
  }

  /** Whether anything was ever set under this name, or for the queue of this group. */
  isBound(key: string): boolean {
    return this.#limits.has(key) || this.#groups.has(key) || this.#queues.has(queueOf(key))
  }

  /** What may have held for the groups of a queue between two moments. */
  groupsOf(queue: string, from: number, to: number): readonly Groups[] {
    return this.#queues.get(queue)?.during(from, to) ?? [NO_GROUPS]
  }

  /** Everything that may have bounded a start that was decided between two moments. */
  bounds(key: string, from: number, to: number): readonly Bound[] {
    const limit = this.#limits.get(key)
    if (limit !== undefined) return limit.during(from, to).map((value) => limitBound(value, to))
    const groups = this.groupsOf(queueOf(key), from, to)
    const own = this.#groups.get(key)?.during(from, to) ?? [NOTHING_OWN]
    return own.flatMap((value) => groups.map((group) => groupBound(group, value, to)))
  }

  /** The moments at which the bounds of a limit or group changed, or may have. */
  moments(key: string): number[] {
    const lines = [this.#limits.get(key), this.#groups.get(key), this.#queues.get(queueOf(key))]
    return lines.flatMap((line) => line?.moments() ?? [])
  }
}

const NO_LIMIT: Limit = { concurrency: null, rate: null, breaker: null, notBefore: null }
const NOTHING_OWN: Own = { isPaused: false, notBefore: null, override: null }

function queueOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf('\0')))
}

function limitBound({ concurrency, rate, breaker, notBefore }: Limit, at: number): Bound {
  const most = concurrency ?? Number.POSITIVE_INFINITY
  if (breaker?.position === 'open') return { most: 0, rate, isProbed: true }
  if (breaker?.position === 'half_open') return { most: Math.min(most, breaker.probes), rate, isProbed: true }
  return { most: isToldToWait(notBefore, at) ? 0 : most, rate, isProbed: false }
}

function groupBound(groups: Groups, { isPaused, notBefore, override }: Own, at: number): Bound {
  const most = groups.ordered ? 1 : (override?.concurrency ?? groups.concurrency ?? Number.POSITIVE_INFINITY)
  const isShut = isPaused || isToldToWait(notBefore, at)
  return { most: isShut ? 0 : most, rate: override?.rate ?? groups.rate, isProbed: false }
}

function isToldToWait(notBefore: number | null, at: number): boolean {
  return notBefore !== null && at < notBefore - ROOM_MS
}

function inside<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

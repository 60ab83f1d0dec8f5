// Flow control: limits and rates are kept, ordered groups keep their order, and nothing waits beside a free slot. What may have been
// otherwise by any order of what happened is not a violation.

import { isFinished } from '../../src/core/states.js'
import type { Ability } from './ability.js'
import type {
  Busy,
  FaultRecord,
  FlowEvent,
  JobClaimed,
  JobSettled,
  JobStored,
  ProcessEvent,
  StoreEvent,
} from './events.js'
import { FlowHeld } from './flow-held.js'
import { Leases, type Occupied } from './flow-leases.js'
import { FlowOrder } from './flow-order.js'
import { FlowTerms, groupKey } from './flow-terms.js'
import { type Life, type Reading, report } from './life.js'

/** The steps of a life that matter here. */
type Step = Exclude<StoreEvent, { ev: 'tick' | 'final' | 'extended' | 'queue' | 'undone' | 'effect' } | FlowEvent>

/** A lease that holds, or the time a job of an ordered group waits for its retry. */
interface Open extends Omit<Occupied, 'to' | 'freed'> {
  readonly limits: readonly string[]
  readonly group: string | null
}

export class Flow {
  readonly #reading: Reading
  readonly #terms: FlowTerms
  readonly #order: FlowOrder
  readonly #held: FlowHeld
  readonly #isOn: boolean
  /** When each enqueue was answered, by the clock of the machine. */
  readonly #answered = new Map<string, number>()
  readonly #leases = new Map<string, Leases>()
  readonly #open = new Map<Life, Open>()
  readonly #retrying = new Map<Life, Open & { readonly waitsFrom: number }>()
  readonly #groups = new Set<string>()

  constructor(
    reading: Reading,
    events: { readonly store: readonly StoreEvent[]; readonly processEvents: readonly ProcessEvent[] },
  ) {
    this.#reading = reading
    const settings = events.store.filter(isFlowEvent)
    this.#isOn = settings.length > 0
    this.#terms = new FlowTerms(reading.run?.flow?.visibleMs ?? 0)
    this.#order = new FlowOrder(reading, this.#terms)
    this.#held = new FlowHeld(reading)
    for (const event of settings) this.#terms.read(event)
    reading.counts.flow.changes = settings.length
    if (!this.#isOn) return
    for (const event of events.processEvents) {
      if (event.ev !== 'enqueue.ok' || event.job === null || event.wall === undefined || event.created === false)
        continue
      this.#answered.set(event.job, event.wall + 1)
    }
  }

  /** Before the event is applied to the job's life. */
  before(life: Life, event: { readonly ev: string; readonly at?: number; readonly committedAt?: number }): void {
    if (!this.#isOn || event.ev === 'effect' || event.ev === 'extended' || event.ev === 'final') return
    if (event.ev === 'operated' && life.lease !== null) return
    const endedAt = event.committedAt ?? event.at!
    const waited = this.#retrying.get(life)
    this.#retrying.delete(life)
    if (waited !== undefined) {
      const to = this.#keptUntil(waited.group!, life.stored!.queue, { from: waited.waitsFrom, to: endedAt })
      this.#add([waited.group!], { ...waited, to, freed: endedAt })
    }
    const lease = this.#open.get(life)
    this.#open.delete(life)
    if (lease !== undefined) this.#end(life, lease, endedAt, event.ev === 'settled' ? (event as JobSettled) : null)
  }

  #end(life: Life, lease: Open, endedAt: number, settled: JobSettled | null): void {
    const to = Math.min(endedAt, life.lease?.leasedUntil ?? endedAt)
    this.#add(lease.limits, { ...lease, to, freed: endedAt })
    if (lease.group === null) return
    const isAgain = settled !== null && (settled.to === 'retrying' || settled.to === 'scheduled')
    if (isAgain && this.#keepsOthers(life.stored!.queue, endedAt)) {
      this.#retrying.set(life, { ...lease, waitsFrom: endedAt })
    } else this.#add([lease.group], { ...lease, to, freed: endedAt })
  }

  /** Whether the others of its group wait while a job that has started waits for a time. */
  #keepsOthers(queue: string, at: number): boolean {
    return this.#terms.groupsOf(queue, at, at).every(({ ordered, onRetry }) => ordered && onRetry === 'wait')
  }

  /** Until when they surely waited: its queue may have been set to let them pass meanwhile. */
  #keptUntil(group: string, queue: string, { from, to }: { readonly from: number; readonly to: number }): number {
    const moments = this.#terms.moments(group).filter((at) => at > from && at < to)
    return Math.min(to, ...moments.filter((at) => !this.#keepsOthers(queue, at)))
  }

  #add(keys: readonly string[], occupied: Occupied): void {
    for (const key of keys) {
      let leases = this.#leases.get(key)
      if (leases === undefined) {
        leases = new Leases(key)
        this.#leases.set(key, leases)
      }
      leases.add(occupied)
    }
  }

  /** After it was applied. */
  after(life: Life, event: Step): void {
    if (!this.#isOn || life.stored === null) return
    const { queue, group: name = null, limits = [] } = life.stored
    const group = name === null ? null : groupKey(queue, name)
    const ofQueue = `queue:${queue}`
    const isFlow = group !== null || limits.length > 0
    if (!isFlow && !this.#terms.isBound(ofQueue)) return
    const keys = [ofQueue, ...limits].filter((key) => this.#terms.isBound(key))
    if (event.ev === 'stored' && isFlow) this.#countJob(group)
    if (event.ev === 'claimed') this.#claimed(life, event, { keys, group, isFlow })
    else if (event.ev !== 'operated' || event.action !== 'ask to cancel') this.#stands(life, event, { keys, group })
  }

  /** Whether flow control may keep the job waiting. */
  bounds({ stored }: Life): boolean {
    if (stored === null) return false
    return (
      (stored.group ?? null) !== null ||
      (stored.limits ?? []).length > 0 ||
      this.#terms.isBound(`queue:${stored.queue}`)
    )
  }

  #countJob(group: string | null): void {
    this.#reading.counts.flow.jobs++
    if (group !== null) this.#groups.add(group)
  }

  #claimed(
    life: Life,
    event: JobClaimed,
    { keys, group, isFlow }: { keys: string[]; group: string | null; isFlow: boolean },
  ): void {
    const { at, began = at, committedAt: from = at } = event
    if (isFlow) this.#reading.counts.flow.starts++
    if (group !== null) this.#order.claimed(group, life, { began, at })
    this.#held.left(this.#lineOf(life, group), life, at)
    this.#open.set(life, { job: life.job, began, at, from, limits: keys, group })
  }

  #stands(life: Life, event: Step, { keys, group }: { keys: string[]; group: string | null }): void {
    const line = this.#lineOf(life, group)
    if (life.state !== 'ready') {
      if (group !== null) this.#order.left(group, life)
      this.#held.left(line, life, event.at)
      return
    }
    const surelyAt = this.#surelyAt(event)
    const { order } = event
    const place = 'place' in event ? event.place : undefined
    if (group !== null) this.#order.waits(group, { life, place, order, surelyAt })
    this.#held.waits(line, life, group === null ? keys : [...keys, group], surelyAt)
  }

  #surelyAt(event: Step): number {
    const answeredAt = event.ev === 'stored' ? this.#answered.get(event.job) : undefined
    return answeredAt === undefined ? this.#terms.surelyAt(event) : Math.max(answeredAt, (event as JobStored).at)
  }

  /** Jobs that wait for the same: those of one group with one set of limits. An ordered group has one line. */
  #lineOf({ stored }: Life, group: string | null): string {
    const { queue, limits = [] } = stored!
    const isOrdered =
      group !== null && this.#terms.groupsOf(queue, stored!.at, stored!.at).some(({ ordered }) => ordered)
    return isOrdered ? group : `${group ?? queue}\0${limits.join('\0')}`
  }

  /** A fault, a span of overload, or a group that the store found forgotten. */
  read(event: FaultRecord | Busy | Extract<ProcessEvent, { ev: 'flow.repaired' }>): void {
    if (event.ev !== 'flow.repaired') {
      this.#held.read(event)
      return
    }
    this.#reading.counts.flow.repaired += event.count
    report(
      this.#reading,
      'I21',
      null,
      `${event.process} found ${event.count} groups with a job and a free slot that no claim would have looked at`,
    )
  }

  /** Called once everything is read. */
  check(ability: Ability | null): void {
    if (!this.#isOn) return
    this.#reading.counts.flow.groups = this.#groups.size
    for (const [life, lease] of this.#open) {
      const to = life.lease?.leasedUntil ?? Number.POSITIVE_INFINITY
      const keys = lease.group === null ? lease.limits : [...lease.limits, lease.group]
      this.#add(keys, { ...lease, to, freed: Number.POSITIVE_INFINITY })
    }
    for (const [life, lease] of this.#retrying) {
      if (isFinished(life.state)) continue
      const to = this.#keptUntil(lease.group!, life.stored!.queue, {
        from: lease.waitsFrom,
        to: Number.POSITIVE_INFINITY,
      })
      this.#add([lease.group!], { ...lease, to, freed: Number.POSITIVE_INFINITY })
    }
    for (const leases of this.#leases.values()) {
      leases.checkOverlaps(this.#reading, this.#terms)
      leases.checkRates(this.#reading, this.#terms)
    }
    const closed = new Map<string, ReturnType<Leases['closed']>>()
    this.#held.check(ability, (key) => {
      const known = closed.get(key) ?? (this.#leases.get(key) ?? new Leases(key)).closed(this.#terms)
      closed.set(key, known)
      return known
    })
  }
}

function isFlowEvent(event: StoreEvent): event is FlowEvent {
  return event.ev === 'limit' || event.ev === 'groups' || event.ev === 'group'
}

// What a run has seen so far, and how operations find in it what they refer to.

import { idMaker } from '../../src/core/id.js'
import type { ClaimedJob, Enqueued, NewJob, SettledJob } from '../../src/core/job.js'
import type { JobFilter } from '../../src/core/job-filter.js'
import type { Claim, SettleResult } from '../../src/core/job-store.js'
import type { Schedule } from '../../src/core/schedule.js'
import type { Fired } from '../../src/core/upkeep-store.js'
import type { ManualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import type { JobReference, JobSketch, LeaseReference, ScheduleSketch, SettlementSketch } from './operation.js'

/** How far behind such a process is, and which share of the ids it makes. */
const LATE_MS = 40
const LATE_SHARE = 0.3

/** A lease as the run was given it. */
export type SeenLease = Pick<ClaimedJob, 'id' | 'fence' | 'queue' | 'attempt' | 'idempotencyKey' | 'flow'>

export class Seen {
  readonly #clock: ManualClock
  readonly #makeId: () => string
  readonly #suffix: string
  /** Every job that was sent, written or not, oldest first. */
  readonly #sent: NewJob[] = []
  /** Ids of the jobs that were written, the one that something happened to last at the end. */
  readonly #written = new Set<string>()
  readonly #leases: SeenLease[] = []
  #held: SeenLease[] = []
  #dead: string[] = []
  readonly #bulks: string[] = []
  #prunes = 0

  /** `run` is part of every queue's name: a store may remember for good which queues it knows. With `lateIds` some ids of a batch are made
   *  by a process whose clock is a little behind, so that ids do not only ascend. */
  constructor(clock: ManualClock, run: number, lateIds = false) {
    this.#clock = clock
    this.#suffix = `.${String(run).padStart(6, '0')}`
    const random = seededRandom(1)
    const makers = [0, LATE_MS].map((lateMs) => idMaker(() => clock.now() - lateMs, random))
    this.#makeId = () => makers[lateIds && random.float() < LATE_SHARE ? 1 : 0]!()
  }

  queue(name: string): string {
    return name + this.#suffix
  }

  job(reference: JobReference): string {
    return this.#known(reference) ?? this.#makeId()
  }

  #known(reference: JobReference): string | undefined {
    if (reference === 'unknown') return undefined
    const dead = reference.of === 'dead' ? nth(this.#dead, reference.back) : undefined
    return dead ?? nth([...this.#written], reference.back)
  }

  /** For a job to come after: any that was sent, in this batch too, whether it was written or not. */
  #parent(reference: JobReference): string {
    const known = reference === 'unknown' ? undefined : nth(this.#sent, reference.back)
    return known?.id ?? this.#makeId()
  }

  /** Names of queues without a star are those of this run. */
  filter(filter: JobFilter): JobFilter {
    const own = (queues: readonly string[]) => queues.map((name) => (name.includes('*') ? name : this.queue(name)))
    return {
      ...filter,
      ...(filter.queues === undefined ? {} : { queues: own(filter.queues) }),
      ...(filter.notQueues === undefined ? {} : { notQueues: own(filter.notQueues) }),
    }
  }

  newBulk(): string {
    const id = this.#makeId()
    this.#bulks.push(id)
    return id
  }

  bulk(back: number): string {
    return nth(this.#bulks, back) ?? this.#makeId()
  }

  lease({ of, back, fenceShift }: LeaseReference): SeenLease {
    const known = nth(of === 'held' ? this.#held : this.#leases, back)
    const lease = known ?? {
      id: this.job({ of: 'any', back }),
      fence: 1,
      queue: 'none',
      attempt: 1,
      idempotencyKey: null,
    }
    return { ...lease, fence: lease.fence + fenceShift }
  }

  /** Makes the job of a sketch, which from now on can be referred to: also by the next one of its batch. */
  send(sketch: JobSketch): NewJob {
    const job = this.#makeJob(sketch)
    this.#sent.push(job)
    return job
  }

  #makeJob(sketch: JobSketch): NewJob {
    if ('again' in sketch) return nth(this.#sent, sketch.again) ?? this.#makeJob(PLAIN)
    const { queue, key, replace = null, lifo, ...same } = sketch
    // As in the client: a job that may give its payload to another has a key, and no time and parents of its own.
    const isReplacing = key !== null && replace !== null
    const [when, after] = isReplacing ? [null, []] : [same.when, same.after]
    return {
      ...same,
      ...(isReplacing ? { replace } : {}),
      ...(lifo === true && (same.flow?.group ?? null) === null ? { lifo } : {}),
      id: this.#makeId(),
      queue: this.queue(queue),
      when: when !== null && 'runInMs' in when ? { runAtMs: this.#clock.now() + when.runInMs } : when,
      idempotencyKey: isReplacing ? { key: key.key, ttlMs: null } : key,
      after: after.map((reference) => this.#parent(reference)),
    }
  }

  sendTick({ queue, type, payload, version, priority, limits, tags, flow }: Omit<Schedule, 'name'>): NewJob {
    const job: NewJob = {
      ...(flow === undefined ? {} : { flow }),
      ...{ id: this.#makeId(), queue, type, payload, version, priority, limits, tags },
      ...{ when: null, idempotencyKey: null, after: [], onParentDead: 'cancel', trace: null },
    }
    this.#sent.push(job)
    return job
  }

  schedule({ queue, ...sketch }: ScheduleSketch): Schedule {
    const job = { queue: this.queue(queue), type: 'send', payload: '{"tick":true}', version: 1, priority: 0 }
    return { ...sketch, ...job, catchUpMax: 10 }
  }

  settlement(sketch: SettlementSketch): SettledJob {
    const { state, reason, crashes, delayMs, result, error, ranMs } = sketch
    const { id, fence, queue, idempotencyKey, flow, ...lease } = this.lease(sketch.lease)
    const counts = { attempt: lease.attempt - (sketch.givesBack ? 1 : 0), crashes }
    const carried = flow === undefined ? {} : { flow, ...flowEnd(sketch, flow.group) }
    const rest = { id, fence, queue, idempotencyKey, result, error, ranMs, ...carried }
    if (state === 'dead') return { ...rest, settlement: { state, ...counts, reason } }
    if (state === 'retrying' || state === 'scheduled') return { ...rest, settlement: { state, ...counts, delayMs } }
    return { ...rest, settlement: { state, ...counts } }
  }

  /** How often to call prune until nothing is left: each prune of the run may have prepared a few days to drop. */
  pruneCalls(): number {
    return 1 + 2 * ++this.#prunes
  }

  enqueued(answers: readonly Enqueued[]): void {
    for (const answer of answers) if ('created' in answer) this.#touch(answer.id)
  }

  fired({ jobs }: Fired): void {
    for (const id of jobs) this.#touch(id)
  }

  claimed({ jobs }: Pick<Claim, 'jobs'>): void {
    for (const { id, fence, queue, attempt, idempotencyKey, flow } of jobs) {
      const lease = { id, fence, queue, attempt, idempotencyKey, ...(flow === undefined ? {} : { flow }) }
      this.#leases.push(lease)
      this.#held = [...this.#held.filter((held) => held.id !== id), lease]
      this.#touch(id)
    }
  }

  settled(results: readonly SettleResult[]): void {
    for (const { id, fence, result, state } of results) {
      if (result === 'lost') continue
      this.#held = this.#held.filter((held) => held.id !== id || held.fence !== fence)
      if (state === 'dead' && !this.#dead.includes(id)) this.#dead.push(id)
      this.#touch(id)
    }
  }

  /** What an operator did: it leaves no job dead unless it was refused. */
  operated(results: readonly { readonly id: string; readonly result: string }[]): void {
    for (const { id, result } of results) {
      if (result === 'missing' || result === 'refused') continue
      this.#dead = this.#dead.filter((dead) => dead !== id)
      this.#touch(id)
    }
  }

  #touch(id: string): void {
    this.#written.delete(id)
    this.#written.add(id)
  }
}

const PLAIN: JobSketch = {
  ...{ queue: 'email', type: 'send', payload: 'null', version: 1, priority: 0, when: null, limits: {}, key: null },
  ...{ after: [], onParentDead: 'cancel', tags: [], trace: null },
}

/** What a handler of a flow job was told. Only a job of a group can be told to wait with its group. */
function flowEnd({ holdOff, spent }: SettlementSketch, group: string | null): Pick<SettledJob, 'holdOff' | 'spent'> {
  const isHeld = holdOff !== undefined && (holdOff.scope !== 'group' || group !== null)
  return { ...(isHeld ? { holdOff } : {}), ...(spent === undefined ? {} : { spent }) }
}

/** This number of steps back from the newest, starting over at the end; undefined when there is nothing. */
function nth<T>(list: readonly T[], back: number): T | undefined {
  return list[list.length - 1 - (back % Math.max(1, list.length))]
}

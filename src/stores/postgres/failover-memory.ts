// What this process was told that the store has accepted, for as long as a failover may lose it: enqueued jobs, claims, settlements and
// fired ticks. The caller keeps its jobs anyway until it is answered; here a reference to them stays for a while longer.
// ◄── store.ts · next: failover.ts

import type { ClaimedJob, Enqueued, Lease, NewJob, SettledJob } from '../../core/job.js'
import type { SettleResult } from '../../core/job-store.js'
import type { FireRequest } from '../../core/upkeep-store.js'
import { type Asked, nameOfAsked } from './asked-again.js'
import { MEMORY_DEFAULTS, type MemoryBounds } from './failover-options.js'

/** A claim, with what is needed to write it for a job that the store does not know. */
interface ClaimedLease extends Lease {
  readonly type: string
  readonly priority: number
  readonly attempt: number
  readonly crashes: number
  readonly worker: string
  readonly leaseMs: number
}

/** Ticks that were fired, and the jobs that this made: a tick that would have overlapped made none. */
export interface FiredTicks extends FireRequest {
  readonly made: ReadonlySet<string>
}

/** What one call did. */
interface Entry {
  readonly atMs: number
  readonly bytes: number
  readonly count: number
  readonly enqueued?: readonly NewJob[]
  /** Ids of jobs enqueued in a caller's transaction. */
  readonly inside?: readonly string[]
  readonly claimed?: readonly ClaimedLease[]
  readonly settled?: readonly SettledJob[]
  readonly fired?: FiredTicks
  readonly asked?: readonly Asked[]
}

// What an entry, and a job or lease in it, take beside their texts. Measured with --expose-gc: 190 to 230 bytes for a job's object and id.
const JOB_BYTES = 220
const ENTRY_BYTES = 120
/** Entries that were dropped are removed from the array once there are this many, and more than are left: each is copied once at most. */
const DROPPED_MAX = 4_096

/** The memory of one store. */
export class FailoverMemory {
  readonly #bounds: MemoryBounds
  readonly #nowMs: () => number
  #entries: Entry[] = []
  #head = 0
  #bytes = 0
  #count = 0
  #timer: NodeJS.Timeout | null = null
  #accepted = 0
  #second = { sinceMs: Number.NEGATIVE_INFINITY, jobs: 0 }
  #most = 0

  constructor(bounds: MemoryBounds = MEMORY_DEFAULTS, nowMs: () => number = () => performance.now()) {
    this.#bounds = bounds
    this.#nowMs = nowMs
  }

  /** For how long something is remembered at most. */
  get ms(): number {
    return this.#bounds.ms
  }

  /** How much is remembered now. */
  get size(): { readonly jobs: number; readonly bytes: number } {
    this.trim()
    return { jobs: this.#count, bytes: this.#bytes }
  }

  /** How many jobs this process was told are accepted. */
  get accepted(): number {
    return this.#accepted
  }

  /** The most of them in one second since this was asked last. */
  takeMost(): number {
    const most = Math.max(this.#most, this.#second.jobs)
    this.#most = 0
    return most
  }

  #tally(jobs: number): void {
    this.#accepted += jobs
    const nowMs = this.#nowMs()
    if (nowMs - this.#second.sinceMs >= 1_000) {
      this.#most = Math.max(this.#most, this.#second.jobs)
      this.#second = { sinceMs: nowMs, jobs: 0 }
    }
    this.#second.jobs += jobs
  }

  /** Jobs were written, and their callers are about to be answered. */
  enqueued(jobs: readonly NewJob[], answers: readonly Enqueued[]): void {
    const areNew = answers.every(isCreated)
    const written = areNew ? jobs : jobs.filter((_, index) => isCreated(answers[index]!))
    if (!areNew) this.#replaced(jobs, answers)
    let bytes = 0
    for (const { payload } of written) bytes += payload.length + JOB_BYTES
    this.#tally(written.length)
    this.#add({ bytes, count: written.length, enqueued: written })
  }

  /** Jobs gave their payloads to others. */
  #replaced(jobs: readonly NewJob[], answers: readonly Enqueued[]): void {
    const atMs = Date.now()
    this.asked(
      jobs.flatMap((job, index): Asked[] => {
        const answer = answers[index]!
        const isReplaced = 'replaced' in answer && answer.id !== job.id
        return isReplaced ? [{ kind: 'replace', atMs, by: 'holdfast', id: answer.id, job }] : []
      }),
    )
  }

  /** Something was asked for, and done. */
  asked(asked: readonly Asked[]): void {
    let bytes = 0
    for (const one of asked) bytes += JOB_BYTES + (one.kind === 'replace' ? one.job.payload.length : 0)
    for (const one of asked) bytes += one.kind === 'update' ? (one.changes.payload?.length ?? 0) : 0
    this.#add({ bytes, count: asked.length, asked })
  }

  /** Jobs were deleted: what is known of them is forgotten, and they are deleted again. */
  deleted(asked: readonly Extract<Asked, { kind: 'delete' }>[]): void {
    if (asked.length === 0) return
    const ids = new Set(asked.map(({ id }) => id))
    for (let at = this.#head; at < this.#entries.length; at++) this.#entries[at] = without(this.#entries[at]!, ids)
    this.asked(asked)
  }

  /** Jobs were written in a caller's transaction, which may or may not commit. */
  enqueuedInside(answers: readonly Enqueued[]): void {
    const inside = answers.filter(isCreated).map(({ id }) => id)
    this.#add({ bytes: inside.length * 60, count: inside.length, inside })
  }

  claimed(
    jobs: readonly ClaimedJob[],
    { worker, leaseMs }: { readonly worker: string; readonly leaseMs: number },
  ): void {
    // Without the payload, which would stay in memory long after the job has ended.
    const claimed = jobs.map(({ id, fence, queue, type, priority, attempt, crashes }) => {
      return { id, fence, queue, type, priority, attempt, crashes, worker, leaseMs }
    })
    this.#add({ bytes: claimed.length * JOB_BYTES, count: claimed.length, claimed })
  }

  settled(jobs: readonly SettledJob[], results: readonly SettleResult[]): void {
    const isSettled = (index: number) => results[index]?.result === 'settled'
    // A job that waits is not said again: what it waits for may be lost as well. Its handler runs again, and waits again.
    const isRemembered = (job: SettledJob, index: number) =>
      isSettled(index) && job.wait === undefined && job.children === undefined
    const settled = jobs.every(isRemembered) ? jobs : jobs.filter(isRemembered)
    let bytes = 0
    for (const { result, error } of settled) {
      bytes +=
        JOB_BYTES + (result?.length ?? 0) + (error === null ? 0 : error.message.length + (error.stack?.length ?? 0))
    }
    this.#add({ bytes, count: settled.length, settled })
  }

  fired(request: FireRequest, jobs: readonly string[]): void {
    let bytes = 0
    for (const { job } of request.ticks) bytes += job.payload.length + JOB_BYTES
    this.#add({ bytes, count: 1 + request.ticks.length, fired: { ...request, made: new Set(jobs) } })
  }

  #add(entry: Omit<Entry, 'atMs'>): void {
    if (entry.count === 0) return
    const bytes = entry.bytes + ENTRY_BYTES
    this.#entries.push({ ...entry, bytes, atMs: this.#nowMs() })
    this.#bytes += bytes
    this.#count += entry.count
    this.trim()
    this.#trimLater()
  }

  // An idle process forgets as well.
  #trimLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.trim()
      if (this.#count > 0) this.#trimLater()
    }, this.#bounds.ms).unref()
  }

  /** Forgets what was accepted up to then: every standby has it. */
  forget(untilMs: number): void {
    this.trim(untilMs)
  }

  /** Drops what is too old or too much. */
  trim(untilMs: number = this.#nowMs() - this.#bounds.ms): void {
    const oldestMs = Math.max(untilMs, this.#nowMs() - this.#bounds.ms)
    const { bytes, jobs } = this.#bounds
    while (this.#head < this.#entries.length) {
      const entry = this.#entries[this.#head]!
      if (entry.atMs >= oldestMs && this.#bytes <= bytes && this.#count <= jobs) break
      this.#entries[this.#head++] = undefined as unknown as Entry
      this.#bytes -= entry.bytes
      this.#count -= entry.count
    }
    const isMostlyDropped = this.#head > DROPPED_MAX && this.#head * 2 > this.#entries.length
    if (this.#head === this.#entries.length || isMostlyDropped) {
      this.#entries = this.#entries.slice(this.#head)
      this.#head = 0
    }
  }

  /** What is remembered, the oldest first. Of a job's leases only the newest counts. */
  read(): Remembered {
    this.trim()
    const entries = this.#entries.slice(this.#head)
    const leases = new Map<string, RememberedLease>()
    for (const { claimed = [], settled = [] } of entries) {
      for (const claim of claimed) remember(leases, { id: claim.id, fence: claim.fence, claim, settled: null })
      for (const job of settled) remember(leases, { id: job.id, fence: job.fence, claim: null, settled: job })
    }
    return {
      asked: lastOfEach(entries.flatMap(({ asked = [] }) => asked)),
      enqueued: entries.flatMap(({ enqueued = [] }) => enqueued),
      inside: entries.flatMap(({ inside = [] }) => inside),
      fired: entries.flatMap(({ fired }) => (fired === undefined ? [] : [fired])),
      leases: [...leases.values()],
    }
  }

  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#entries = []
    this.#head = 0
  }
}

interface Remembered {
  readonly asked: readonly Asked[]
  readonly enqueued: readonly NewJob[]
  readonly inside: readonly string[]
  readonly fired: readonly FiredTicks[]
  readonly leases: readonly RememberedLease[]
}

/** A lease: its claim, its settlement, or both. */
export interface RememberedLease {
  readonly id: string
  readonly fence: number
  readonly claim: ClaimedLease | null
  readonly settled: SettledJob | null
}

function remember(leases: Map<string, RememberedLease>, found: RememberedLease): void {
  const known = leases.get(found.id)
  if (known === undefined || known.fence < found.fence) leases.set(found.id, found)
  else if (known.fence === found.fence) {
    leases.set(found.id, { ...known, claim: known.claim ?? found.claim, settled: known.settled ?? found.settled })
  }
}

/** The same entry without these jobs. Its size stays what it was counted with. */
function without(entry: Entry, ids: ReadonlySet<string>): Entry {
  const { enqueued, claimed, settled, asked, fired } = entry
  const isOther = ({ id }: { readonly id: string }) => !ids.has(id)
  const isUntouched =
    [enqueued, claimed, settled].every((each) => each?.every(isOther) ?? true) &&
    (asked?.every((each) => !('id' in each) || isOther(each)) ?? true) &&
    (fired?.ticks.every(({ job }) => isOther(job)) ?? true)
  if (isUntouched) return entry
  return {
    ...entry,
    ...(enqueued === undefined ? {} : { enqueued: enqueued.filter(isOther) }),
    ...(claimed === undefined ? {} : { claimed: claimed.filter(isOther) }),
    ...(settled === undefined ? {} : { settled: settled.filter(isOther) }),
    ...(asked === undefined ? {} : { asked: asked.filter((each) => !('id' in each) || isOther(each)) }),
    ...(fired === undefined ? {} : { fired: withoutJobs(fired, ids) }),
  }
}

/** The ticks stay fired. */
function withoutJobs(fired: FiredTicks, ids: ReadonlySet<string>): FiredTicks {
  return {
    ...fired,
    ticks: fired.ticks.map((tick) =>
      ids.has(tick.job.id) ? { ...tick, job: { ...tick.job, payload: 'null' } } : tick,
    ),
    made: new Set([...fired.made].filter((id) => !ids.has(id))),
  }
}

/** Of each kind for one job the last. Changes of a job that touch different things count together. */
function lastOfEach(all: readonly Asked[]): readonly Asked[] {
  const last = new Map<string, Asked>()
  for (const one of all) {
    const name = nameOfAsked(one)
    const before = last.get(name)
    const isMore = one.kind === 'update' && before?.kind === 'update'
    last.delete(name)
    last.set(name, isMore ? { ...one, changes: { ...before.changes, ...one.changes } } : one)
  }
  return [...last.values()]
}

function isCreated(answer: Enqueued): answer is Extract<Enqueued, { readonly created: boolean }> {
  return 'created' in answer && answer.created
}

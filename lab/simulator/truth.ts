// What the store really did. After each call the memory is compared with its state before, so that no code under test is trusted
// about its own effects. Each difference is an event of the history.

import { CRASHES_MAX, LIMIT_DEFAULTS } from '../../src/core/limits.js'
import type { JobState } from '../../src/core/states.js'
import type { Job, Memory } from '../../src/stores/memory/memory.js'
import type { HistoryEvent, JobOperated, StoreEvent } from '../history/events.js'
import { Blame } from './blame.js'
import { FlowEvents } from './flow-events.js'
import { FlowWatch } from './flow-watch.js'
import { Order } from './order.js'

/** A call that was just applied. */
export interface AppliedCall {
  readonly name: string
  readonly args: readonly unknown[]
  /** The caller: a process and the number of its run. */
  readonly caller: string
  readonly atMs: number
}

/** A job as it was at the last comparison. */
interface Seen {
  state: JobState
  fence: number
  attempt: number
  leasedUntilMs: number | null
  isCancelAsked: boolean
  priority: number
  runAtMs: number | null
}

/** What the producers of a run put into payloads. */
interface Marked {
  readonly key?: string
  readonly effect?: 'in transaction' | 'outside' | 'none'
}

// Omit over a union keeps only what its members share.
type Unnumbered = StoreEvent extends infer Event
  ? Event extends StoreEvent
    ? Omit<Event, 'order' | 'at'>
    : never
  : never

/** Watches one memory. */
export class Truth {
  readonly order: Order
  readonly blame: Blame
  readonly flow: FlowWatch
  /** Set in a run whose history tells of flow control. */
  #flowEvents: FlowEvents | null = null
  /** The first lease that had expired before it was extended or settled. */
  late: { readonly job: string; readonly byMs: number } | null = null
  readonly #memory: Memory
  readonly #write: (event: HistoryEvent) => void
  readonly #seen = new Map<string, Seen>()
  readonly #ticks = new Map<string, number>()
  #count = 0
  #calls = 0

  constructor(memory: Memory, write: (event: HistoryEvent) => void) {
    this.#memory = memory
    this.#write = write
    this.order = new Order(memory)
    this.blame = new Blame(memory)
    this.flow = new FlowWatch(memory)
  }

  /** Writes down what the call changed. */
  look(call: AppliedCall): void {
    const tx = `c${++this.#calls}`
    for (const job of this.#memory.jobs.values()) this.#compare(job, call, tx)
    if (call.name === 'fire') this.#lookAtTicks(call, tx)
    if (call.name === 'pause' || call.name === 'resume') {
      this.#add({ ev: 'queue', queue: call.args[0] as string, isPaused: call.name === 'pause' }, call.atMs)
    }
    this.order.check(call)
    this.flow.check(call)
    for (const event of this.#flowEvents?.changes() ?? []) this.#add(event, call.atMs)
  }

  /** From now on the history tells what flow control allows. */
  tellFlow(): void {
    this.#flowEvents = new FlowEvents(this.#memory, this.flow.rules)
  }

  /** An effect of a job's handler took place. */
  effect(effect: Omit<Extract<StoreEvent, { ev: 'effect' }>, 'ev' | 'order' | 'at'>, atMs: number): void {
    this.#add({ ev: 'effect', ...effect }, atMs)
  }

  /** Where every job stands at the end. */
  finish(): void {
    for (const { facts, state, attempt, ending } of this.#memory.jobs.values()) {
      const key = markOf(facts.payload).key ?? null
      this.#write({ ev: 'final', job: facts.id, key, state, attempts: attempt, reason: ending?.reason ?? null })
    }
  }

  #compare(job: Job, call: AppliedCall, tx: string): void {
    const id = job.facts.id
    let seen = this.#seen.get(id)
    if (seen === undefined) {
      seen = look(job)
      // Claimed as it was written: record it as ready first.
      if (job.state === 'running') seen = { ...seen, state: 'ready', fence: 0, attempt: 0, leasedUntilMs: null }
      this.#seen.set(id, seen)
      this.#stored(job, seen.state, call, tx)
    }
    if (!hasChanged(seen, job)) return
    const before = { ...seen }
    Object.assign(seen, look(job))
    this.#changed(job, before, call, tx)
  }

  #stored(job: Job, state: JobState, { atMs }: AppliedCall, tx: string): void {
    const { id, queue, type, priority, limits, idempotencyKey, after, onParentDead, payload } = job.facts
    const { schedule } = job
    const mark = markOf(payload)
    this.flow.stored(job)
    this.#add(
      {
        ev: 'stored',
        job: id,
        tx,
        queue,
        type,
        state,
        priority,
        runAt: job.runAtMs,
        maxAttempts: limits.maxAttempts ?? LIMIT_DEFAULTS.maxAttempts,
        maxCrashes: CRASHES_MAX,
        key: schedule === null ? (mark.key ?? null) : null,
        idempotencyKey: idempotencyKey?.key ?? null,
        keyTtlMs: idempotencyKey?.ttlMs ?? null,
        after,
        onParentDead,
        effect: mark.effect ?? 'none',
        tick: schedule === null ? null : { schedule: schedule.name, at: schedule.tickMs },
        group: job.facts.flow?.group ?? null,
        limits: job.facts.flow?.limits ?? [],
        place: this.flow.placeOf(id),
      },
      atMs,
    )
    this.order.stored(job, state)
  }

  #changed(job: Job, before: Seen, call: AppliedCall, tx: string): void {
    const id = job.facts.id
    const { atMs, name, caller } = call
    const add = (event: Unnumbered) => this.#add(event, atMs)
    const isRunning = job.state === 'running'
    this.flow.changed(job, before.state, call)
    if (isRunning && (before.state !== 'running' || before.fence !== job.fence)) {
      const leasedUntil = job.lease?.leasedUntilMs ?? atMs
      add({ ev: 'claimed', job: id, tx, fence: job.fence, attempt: job.attempt, worker: caller, leasedUntil })
    } else if (isRunning) {
      const leasedUntil = job.lease?.leasedUntilMs ?? atMs
      if (leasedUntil !== before.leasedUntilMs) this.#noteLate(job, before, atMs)
      if (leasedUntil !== before.leasedUntilMs)
        add({ ev: 'extended', job: id, tx, fence: fenceAsked(call, id, before.fence) ?? job.fence, leasedUntil })
      if (job.lease?.cancelRequested && !before.isCancelAsked)
        add({ ev: 'operated', job: id, tx, action: 'ask to cancel', to: 'running' })
    } else if (name === 'settle' && fenceAsked(call, id, before.fence) !== null) {
      this.#settled(job, before, call, tx)
    } else {
      this.#moved(job, before, call, tx)
    }
    this.order.changed(job, before.state)
  }

  #settled(job: Job, before: Seen, call: AppliedCall, tx: string): void {
    const onlyExpired = (call.args[1] as { onlyExpired?: boolean } | undefined)?.onlyExpired === true
    const event = {
      ev: 'settled',
      job: job.facts.id,
      tx,
      fence: fenceAsked(call, job.facts.id, before.fence)!,
      to: job.state,
      reason: job.ending?.reason ?? null,
      attempts: job.attempt,
      crashes: job.crashes,
      notBefore: job.runAtMs,
      // Also without the flag: a call that takes back a lost lease names no worker's settlement.
      rescued: onlyExpired || isRescue(call, job.facts.id),
      place: this.flow.placeOf(job.facts.id),
    } as const
    this.#add(event, call.atMs)
    this.#noteLate(job, before, call.atMs)
    if (!event.rescued) this.order.waits(job, call.atMs)
  }

  #noteLate(job: Job, { leasedUntilMs }: Seen, atMs: number): void {
    if (leasedUntilMs !== null && atMs > leasedUntilMs) this.late ??= { job: job.facts.id, byMs: atMs - leasedUntilMs }
  }

  #moved(job: Job, before: Seen, call: AppliedCall, tx: string): void {
    const id = job.facts.id
    const { state } = job
    const to = (action: JobOperated['action']) => {
      const notBefore = action === 'update' ? { notBefore: job.runAtMs } : {}
      this.#add(
        { ev: 'operated', job: id, tx, action, to: state, place: this.flow.placeOf(id), ...notBefore },
        call.atMs,
      )
    }
    if (call.name === 'requeue') to('requeue')
    else if (call.name === 'discard') to('discard')
    else if (call.name === 'update') to('update')
    else if (state === 'cancelled') to('cancel')
    else if (state === 'ready' || state === 'scheduled') {
      if (before.state !== state)
        this.#add({ ev: 'promoted', job: id, tx, to: state, place: this.flow.placeOf(id) }, call.atMs)
    }
  }

  #lookAtTicks({ atMs }: AppliedCall, tx: string): void {
    for (const [schedule, ticks] of this.#memory.ticks) {
      const known = this.#ticks.get(schedule) ?? 0
      if (ticks.size === known) continue
      this.#ticks.set(schedule, ticks.size)
      for (const tick of [...ticks].slice(known)) {
        this.#add({ ev: 'tick', tx, schedule, tick, job: this.#jobOfTick(schedule, tick) }, atMs)
      }
    }
  }

  #jobOfTick(name: string, tickMs: number): string | null {
    for (const { facts, schedule } of this.#memory.jobs.values()) {
      if (schedule?.name === name && schedule.tickMs === tickMs) return facts.id
    }
    return null
  }

  #add(event: Unnumbered, at: number): void {
    this.#write({ ...event, order: ++this.#count, at } as StoreEvent)
  }
}

function look(job: Job): Seen {
  return {
    state: job.state,
    fence: job.fence,
    attempt: job.attempt,
    leasedUntilMs: job.lease?.leasedUntilMs ?? null,
    isCancelAsked: job.lease?.cancelRequested ?? false,
    priority: job.facts.priority,
    runAtMs: job.runAtMs,
  }
}

function hasChanged(seen: Seen, job: Job): boolean {
  return (
    seen.state !== job.state ||
    seen.fence !== job.fence ||
    seen.attempt !== job.attempt ||
    seen.leasedUntilMs !== (job.lease?.leasedUntilMs ?? null) ||
    seen.isCancelAsked !== (job.lease?.cancelRequested ?? false) ||
    seen.runAtMs !== job.runAtMs ||
    seen.priority !== job.facts.priority
  )
}

/** The fence the caller named for the job, or null when the call is not about it. */
function fenceAsked({ args }: AppliedCall, id: string, heldFence: number): number | null {
  if (!Array.isArray(args[0])) return null
  const own = (args[0] as { id: string; fence: number }[]).filter((lease) => lease.id === id)
  // A worker that claimed a job it had lost before may name both leases. One that holds is enough.
  const lease = own.find(({ fence }) => fence === heldFence) ?? own[0]
  return lease?.fence ?? null
}

function isRescue({ args }: AppliedCall, id: string): boolean {
  const settled = (args[0] as { id: string; error: { code?: string } | null }[]).find((each) => each.id === id)
  return settled?.error?.code === 'worker_lost'
}

const marks = new Map<string, Marked>()
const MARKS_MAX = 10_000

/** Payloads are parsed once, because most of them never change. */
function markOf(payload: string): Marked {
  let mark = marks.get(payload)
  if (mark === undefined) {
    mark = (JSON.parse(payload) ?? {}) as Marked
    if (marks.size >= MARKS_MAX) marks.clear()
    marks.set(payload, mark)
  }
  return mark
}

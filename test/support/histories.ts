// Histories that are valid by construction: a small queue played by seed, with retries, rescues, releases, snoozes, cancels,
// requeues, keys, chains, ticks and lost answers. It shares nothing with the checker it is there to test.

import type { HistoryEvent, JobStored, RunBegun, StoreEvent } from '../../lab/history/events.js'
import { isFinished, type JobState } from '../../src/core/states.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

interface Played {
  readonly stored: JobStored
  state: JobState
  attempts: number
  crashes: number
  fence: number
  leasedUntil: number
  dueAt: number
  cancelAsked: boolean
  readyOrder: number
  reason: 'attempts' | 'crashed' | 'dropped' | null
}

type Unplaced<E> = E extends unknown ? Omit<E, 'order' | 'at'> : never

const LEASE_MS = 2_000
const START = 1_800_000_000_000
const QUEUES = ['one', 'two']
const EVERY_MS = 1_000

export function validHistory(seed: number, steps = 150): HistoryEvent[] {
  return new Play(seed).play(steps)
}

class Play {
  readonly #random: () => number
  readonly #events: HistoryEvent[] = []
  readonly #jobs: Played[] = []
  #at = START
  #order = 0
  #lastTick = START
  #mono = 0
  #keys = 0

  constructor(seed: number) {
    const random = seededRandom(seed)
    this.#random = () => random.float()
  }

  play(steps: number): HistoryEvent[] {
    this.#events.push({
      process: 'chaos',
      processRun: 1,
      mono: 0,
      ev: 'fault.begin',
      kind: 'kill',
      target: 'a',
      index: 0,
    })
    const acts = [
      this.#enqueue,
      this.#enqueue,
      this.#claim,
      this.#claim,
      this.#end,
      this.#end,
      this.#extend,
      this.#operate,
    ]
    for (let step = 0; step < steps; step++) {
      this.#at += this.#random() * 400
      this.#upkeep()
      acts[Math.floor(this.#random() * acts.length)]!.call(this)
    }
    const healedAt = this.#at
    for (let round = 0; round < 1_000 && this.#open().length > 0; round++) {
      this.#at += 500
      this.#upkeep()
      this.#claim()
      for (const job of this.#running()) this.#succeed(job)
    }
    for (const { stored, state, attempts, reason } of this.#jobs) {
      this.#events.push({ ev: 'final', job: stored.job, key: stored.key, state, attempts, reason })
    }
    return [this.#run(healedAt), ...this.#shuffled()]
  }

  #run(healedAt: number): RunBegun {
    const schedules = [
      { name: 'every', everyMs: EVERY_MS, from: START + 1, to: this.#lastTick, catchUp: 'all' as const },
    ]
    const busy = { jobs: 0, expiries: 0, unknownAnswers: 0 }
    const faults = [{ index: 0, kind: 'kill' }]
    const known = { seed: '1', commit: null, leaseMs: LEASE_MS, rescueMs: 5_000, drainMs: 60_000 }
    return { ev: 'run', ...known, faults, healedAt, schedules, busy, priorityWindowMs: 0 }
  }

  /** The witnesses' lines come in files of their own: only the order within one is kept. */
  #shuffled(): HistoryEvent[] {
    return [
      ...this.#events.filter((event) => 'process' in event),
      ...this.#events.filter((event) => !('process' in event)),
    ]
  }

  #store(event: Unplaced<StoreEvent>): void {
    this.#events.push({ ...event, order: ++this.#order, at: this.#at } as StoreEvent)
  }

  #record(): { process: string; processRun: number; mono: number } {
    return { process: 'worker', processRun: 1, mono: ++this.#mono }
  }

  #open(): Played[] {
    return this.#jobs.filter(({ state }) => !isFinished(state))
  }

  #running(): Played[] {
    return this.#jobs.filter(({ state }) => state === 'running')
  }

  #pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)]
  }

  #upkeep(): void {
    while (this.#lastTick + EVERY_MS <= this.#at) this.#fire()
    for (const job of this.#jobs) {
      if ((job.state === 'scheduled' || job.state === 'retrying') && job.dueAt <= this.#at) this.#makeReady(job)
      if (job.state === 'blocked') this.#unblock(job)
      if (job.state === 'running' && job.leasedUntil <= this.#at && this.#random() < 0.5) this.#rescue(job)
    }
  }

  #fire(): void {
    this.#lastTick += EVERY_MS
    const job = this.#add({
      key: null,
      tick: { schedule: 'every', at: this.#lastTick },
      priority: 0,
      idempotencyKey: null,
    })
    this.#store({ ev: 'tick', schedule: 'every', tick: this.#lastTick, job: job.stored.job })
  }

  #makeReady(job: Played): void {
    job.state = 'ready'
    job.readyOrder = this.#order
    this.#store({ ev: 'promoted', job: job.stored.job })
  }

  #unblock(job: Played): void {
    const parents = job.stored.after.map((id) => this.#jobs.find(({ stored }) => stored.job === id)!)
    if (parents.some(({ state }) => state === 'dead' || state === 'cancelled')) {
      job.state = 'cancelled'
      this.#store({ ev: 'operated', action: 'cancel', to: 'cancelled', job: job.stored.job })
    } else if (parents.every(({ state }) => state === 'succeeded')) this.#makeReady(job)
  }

  #enqueue(): void {
    const key = `key ${++this.#keys}`
    const idempotencyKey = this.#random() < 0.3 ? `welcome ${Math.floor(this.#random() * 3)}` : null
    const record = { ...this.#record(), key }
    this.#events.push({ ...record, ev: 'enqueue.invoke', idempotencyKey, after: this.#at })
    const luck = this.#random()
    if (luck < 0.05) {
      this.#events.push({ ...record, ev: 'enqueue.fail', job: null })
      return
    }
    const queue = this.#pick(QUEUES)!
    const holder = this.#open().find(({ stored }) => {
      return idempotencyKey !== null && stored.idempotencyKey === idempotencyKey && stored.queue === queue
    })
    if (holder !== undefined) {
      this.#events.push({ ...record, ev: 'enqueue.ok', job: holder.stored.job, created: false })
      return
    }
    // Not every request of which nobody knows was lost on its way there.
    if (luck < 0.1) {
      this.#events.push({ ...record, ev: 'enqueue.info', job: null })
      return
    }
    const parent = this.#random() < 0.15 ? this.#pick(this.#open()) : undefined
    const after = parent === undefined ? [] : [parent.stored.job]
    const runAt = this.#random() < 0.2 ? this.#at + 1_500 : null
    const state = after.length > 0 ? 'blocked' : runAt === null ? 'ready' : 'scheduled'
    const priority = Math.floor(this.#random() * 3)
    const facts = {
      key,
      idempotencyKey,
      after,
      runAt: after.length > 0 ? null : runAt,
      state,
      priority,
      queue,
    } as const
    const job = this.#add({ ...facts, tick: null })
    const answer =
      luck < 0.2 ? ({ ev: 'enqueue.info', job: null } as const) : ({ ev: 'enqueue.ok', created: true } as const)
    this.#events.push({ job: job.stored.job, ...record, ...answer })
  }

  #add(facts: Partial<JobStored> & Pick<JobStored, 'key' | 'tick' | 'priority' | 'idempotencyKey'>): Played {
    const stored: Unplaced<JobStored> = {
      ev: 'stored',
      job: `job ${this.#jobs.length + 1}`,
      queue: 'one',
      type: 'work',
      state: 'ready',
      runAt: null,
      maxAttempts: 3,
      maxCrashes: 3,
      after: [],
      onParentDead: 'cancel',
      effect: 'both',
      ...facts,
    }
    this.#store(stored)
    const placed = this.#events[this.#events.length - 1] as JobStored
    const job: Played = {
      stored: placed,
      state: placed.state,
      attempts: 0,
      crashes: 0,
      fence: 0,
      leasedUntil: 0,
      dueAt: placed.runAt ?? 0,
      cancelAsked: false,
      readyOrder: this.#order,
      reason: null,
    }
    this.#jobs.push(job)
    return job
  }

  #claim(): void {
    const queue = this.#pick(QUEUES)
    const ready = this.#jobs.filter(({ stored, state }) => state === 'ready' && stored.queue === queue)
    ready.sort((a, b) => b.stored.priority - a.stored.priority || a.readyOrder - b.readyOrder)
    const tx = `tx ${this.#order}`
    for (const job of ready.slice(0, 3).reverse()) {
      job.state = 'running'
      job.fence += 1 + Math.floor(this.#random() * 5)
      job.leasedUntil = this.#at + LEASE_MS
      job.attempts++
      job.cancelAsked = false
      const { fence, leasedUntil, attempts } = job
      this.#store({ ev: 'claimed', tx, job: job.stored.job, fence, attempt: attempts, worker: 'a', leasedUntil })
      this.#events.push({ ...this.#record(), ev: 'started', job: job.stored.job, fence, attempt: attempts })
    }
  }

  #extend(): void {
    const job = this.#pick(this.#running())
    if (job === undefined) return
    job.leasedUntil = this.#at + LEASE_MS
    this.#store({ ev: 'extended', job: job.stored.job, fence: job.fence, leasedUntil: job.leasedUntil })
  }

  #effect(job: Played, inTransaction: boolean, tx: string): void {
    const { fence, attempts } = job
    this.#events.push({ ...this.#record(), ev: 'effect.begin', job: job.stored.job, fence })
    this.#store({ ev: 'effect', job: job.stored.job, fence, attempt: attempts, inTransaction, tx })
  }

  #succeed(job: Played): void {
    const tx = `tx ${this.#order}`
    this.#effect(job, false, `${tx} before`)
    this.#effect(job, true, tx)
    this.#settle(job, 'succeeded', { tx })
  }

  /** A worker ends an attempt of its own. */
  #end(): void {
    const job = this.#pick(this.#running())
    if (job === undefined) return
    const luck = this.#random()
    if (luck < 0.4) this.#succeed(job)
    else if (luck < 0.5) this.#settle(job, 'dead', { reason: 'dropped' })
    else if (luck < 0.75) this.#fail(job)
    else {
      job.attempts--
      this.#settle(job, luck < 0.9 ? 'ready' : 'scheduled', { delayMs: 700 })
    }
  }

  #fail(job: Played): void {
    if (this.#random() < 0.3) this.#effect(job, false, `tx ${this.#order}`)
    if (job.attempts >= 3) this.#settle(job, 'dead', { reason: 'attempts' })
    else this.#settle(job, 'retrying', { delayMs: 500 })
  }

  #rescue(job: Played): void {
    if (this.#random() < 0.3) this.#effect(job, false, `tx ${this.#order}`)
    this.#events.push({
      ...this.#record(),
      ev: 'lost_lease',
      job: job.stored.job,
      fence: job.fence,
      attempt: job.attempts,
    })
    if (this.#random() < 0.3) {
      job.attempts--
      this.#settle(job, 'ready', { rescued: true })
      return
    }
    job.crashes++
    if (job.crashes >= 3) this.#settle(job, 'dead', { rescued: true, reason: 'crashed' })
    else if (job.attempts >= 3) this.#settle(job, 'dead', { rescued: true, reason: 'attempts' })
    else if (job.crashes === 1) this.#settle(job, 'ready', { rescued: true })
    else this.#settle(job, 'retrying', { rescued: true, delayMs: 900 })
  }

  #settle(
    job: Played,
    wanted: JobState,
    how: { rescued?: boolean; reason?: Played['reason']; delayMs?: number; tx?: string },
  ): void {
    const to = job.cancelAsked && !isFinished(wanted) ? 'cancelled' : wanted
    const waits = to === 'retrying' || to === 'scheduled'
    job.state = to
    job.dueAt = this.#at + (how.delayMs ?? 0)
    job.readyOrder = this.#order
    job.reason = to === 'dead' ? (how.reason ?? null) : null
    const { attempts, crashes, fence, reason } = job
    const notBefore = waits ? job.dueAt : null
    const tx = how.tx === undefined ? {} : { tx: how.tx }
    const rescued = how.rescued ?? false
    this.#store({ ev: 'settled', job: job.stored.job, fence, to, reason, attempts, crashes, notBefore, rescued, ...tx })
  }

  #operate(): void {
    const job = this.#pick(this.#jobs)
    if (job === undefined) return
    const id = job.stored.job
    if (job.state === 'running') {
      job.cancelAsked = true
      this.#store({ ev: 'operated', job: id, action: 'ask to cancel', to: 'running' })
    } else if (job.state === 'dead') this.#operateDead(job)
    else if (!isFinished(job.state) && this.#random() < 0.3) {
      job.state = 'cancelled'
      this.#store({ ev: 'operated', job: id, action: 'cancel', to: 'cancelled' })
    }
  }

  #operateDead(job: Played): void {
    const { idempotencyKey, queue } = job.stored
    const isTaken = this.#open().some(
      ({ stored }) => stored.idempotencyKey === idempotencyKey && stored.queue === queue,
    )
    const action = this.#random() < 0.3 ? 'discard' : 'requeue'
    if (action === 'requeue' && idempotencyKey !== null && isTaken) return
    job.reason = null
    job.state = action === 'requeue' ? 'ready' : 'cancelled'
    if (action === 'requeue') {
      job.attempts = 0
      job.crashes = 0
      job.readyOrder = this.#order
    }
    this.#store({ ev: 'operated', job: job.stored.job, action, to: job.state })
  }
}

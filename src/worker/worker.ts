// A worker, and the life of a job in its hands:
//
//   fetcher.ts    claims it, in fair turns over the queues (shares.ts), woken by the store or by itself (hearing.ts)
//   slots.ts      keeps it (held-job.ts) until a slot is free, and starts it; prefetch.ts has those that wait, suspects.ts those
//                 that were lost with a worker before
//   run.ts        checks its payload, calls its handler with a context (context.ts), and reads how it ended (outcome.ts)
//   settler.ts    sends what becomes of it, together with others, until the store confirms; limit-reports.ts reports how jobs that
//                 name limits ended
//
// Meanwhile
//
//   heartbeat.ts  extends its lease (lease-table.ts, lease-keeper.ts) from a thread of its own (heartbeat-thread.ts)
//   deadlines.ts  ends its patience when the timeout is over
//   cancel-hints.ts  learns that it may have been cancelled, and asks the store
//   patrol.ts     asks whether it was cancelled, writes its notes (notes.ts), and gives back what waits too long
//   interrupt.ts  tells it to stop: a cancel, a lost lease, a shutdown
//   life-sign.ts  shows that the worker lives

import { checkKeys } from '../core/check.js'
import type { JobContext } from '../core/definition.js'
import type { Duration } from '../core/duration.js'
import { HoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { leaseName, type NewJob } from '../core/job.js'
import type { Extension, JobStore, SettleResult, Watch } from '../core/job-store.js'
import type { TallySink } from '../core/operating.js'
import type { OperatorStore } from '../core/operator-store.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import type { Quiet, QuietPart } from '../core/quiet.js'
import type { Reservation } from '../core/reserve.js'
import type { JobState } from '../core/states.js'
import type { StoreListener } from '../core/store-listener.js'
import type { JobTracer } from '../core/tracer.js'
import { type ChildrenView, WORKER_JOBS_MAX, type WorkerBeat, type WorkerJob } from '../core/views.js'
import { groupBatches, withBatches } from './batches.js'
import { CancelHints } from './cancel-hints.js'
import { confirmCompletion } from './completion.js'
import { ownHandlerError } from './current-job.js'
import { Deadlines } from './deadlines.js'
import { callFailureHooks, errorOf } from './failure-hooks.js'
import { Fetcher } from './fetcher.js'
import { Heartbeat } from './heartbeat.js'
import type { HeldJob } from './held-job.js'
import { abortForShutdown, cancelHeld, giveUpStuck, loseCompleting, loseHeld } from './interrupt.js'
import type { Isolation } from './isolation.js'
import { keepingOf } from './keeping.js'
import { LeaseTable } from './lease-table.js'
import { LifeSign } from './life-sign.js'
import { LimitReports } from './limit-reports.js'
import { resolveDrain, resolveWorkerOptions, type WorkerOptions, type WorkerSettings } from './options.js'
import { Patrol } from './patrol.js'
import type { RunScope } from './run.js'
import { Settler } from './settler.js'
import { leasesInHandMax, Slots } from './slots.js'
import { StoreTime } from './store-time.js'
import { Unsettled } from './unsettled.js'

/** How long a handler may take to end after the drain time is over and its signal fired. */
const SHUTDOWN_GRACE_MS = 1_000
/** How long a stopping worker waits for a store that does not take its settlements; after that rescue does. */
const FLUSH_MS_MAX = 10_000

export interface WorkerDeps {
  readonly store: JobStore & Pick<OperatorStore, 'setLimit'>
  readonly ports: Ports
  readonly emit: Emit
  /** False while events have no listener: those about single jobs are not made then. */
  readonly hasListeners: () => boolean
  /** The version of the package, shown with the worker. */
  readonly version: string
  readonly host: string
  readonly pid: number
  /** Counts what this worker does. */
  readonly tally?: TallySink
  /** Called when a settlement makes a job due after `dueInMs`, so that upkeep in this process promotes it in time. */
  readonly onDueIn?: (dueInMs: number) => void
  readonly tracer?: JobTracer | null
  /** What its handlers get as `ctx.holdfast`. */
  readonly holdfast?: JobContext['holdfast']
  /** Where isolated handlers run. Default null: in this thread, like the others. */
  readonly isolation?: Isolation | null
  /** Whether the process rests while nothing is to be done. Default null: it never does. */
  readonly quiet?: Quiet | null
}

/** Claims jobs, runs their handlers, settles them. */
export class Worker {
  readonly id: string
  readonly #deps: WorkerDeps
  readonly #settings: WorkerSettings
  readonly #scope: RunScope
  readonly #table: LeaseTable
  readonly #unsettled: Unsettled
  readonly #deadlines: Deadlines
  readonly #slots: Slots
  readonly #fetcher: Fetcher
  readonly #settler: Settler
  readonly #heartbeat: Heartbeat
  readonly #patrol: Patrol
  readonly #cancelHints: CancelHints
  readonly #lifeSign: LifeSign
  readonly #limitReports: LimitReports
  readonly #listener: StoreListener = {
    ready: (queue, isOwnEnqueue) => {
      this.#fetcher.wake(queue, isOwnEnqueue)
      this.#deps.quiet?.heard()
    },
    cancel: (id) => this.#cancelHints.receive(id),
    due: (dueInMs) => this.#deps.quiet?.listener.due(dueInMs),
    stirred: () => this.#deps.quiet?.heard(),
    deaf: () => this.#deps.quiet?.heard(),
    hears: () => this.#settings.queues.forEach((queue) => void this.#fetcher.wake(queue, false)),
  }
  readonly #drainOver = new AbortController()
  #drainTimer: Timer | null = null
  #drainAtMs = Number.POSITIVE_INFINITY
  #state: 'new' | 'ticking' | 'started' | 'draining' | 'stopped' = 'new'
  #stopping: Promise<void> | null = null
  #unlisten: () => void = () => {}
  #leaveQuiet: () => void = () => {}
  #released = 0

  /** Checks the options; raises `invalid_option`, `invalid_name` or `duplicate_handler`. Nothing runs until `start()`. */
  constructor(deps: WorkerDeps, options: WorkerOptions) {
    const { store, ports, emit, hasListeners } = deps
    const resolved = resolveWorkerOptions(options)
    const settings = { ...resolved, handlers: withBatches(resolved.handlers, ports) }
    this.#limitReports = new LimitReports({ store, ports, emit })
    this.#deps = deps
    this.#settings = settings
    this.id = makeId(settings.name ?? deps.host, deps)
    this.#unsettled = new Unsettled(settings.concurrency)
    // Jobs that have ended keep their leases until the store has confirmed.
    this.#table = LeaseTable.withRoomFor(leasesInHandMax(settings) + this.#unsettled.max, settings.queues)
    const storeTime = new StoreTime(ports.clock)
    this.#scope = {
      store,
      clock: ports.clock,
      storeTime,
      emit,
      hasListeners,
      random: () => ports.random.float(),
      tracer: deps.tracer ?? null,
      holdfast: deps.holdfast ?? null,
      keeping: keepingOf({ store, ports, emit }),
      limitReports: this.#limitReports,
      isolation: deps.isolation ?? null,
      onCompleting: (held, failure) => {
        void confirmCompletion(held, this.#scope, { ports, failure, isStopped: () => this.isStopped })
      },
      onLateStart: (held) => this.#slots.startClock(held),
      onLost: (held) => loseHeld(held, this.#scope, this.#deadlines),
      onEnded: (held) => this.#onEnded(held),
    }
    this.#deadlines = new Deadlines({
      ports,
      running: () => this.#slots.running,
      onStuck: (held) => giveUpStuck(held, this.#scope),
    })
    const parts = { table: this.#table, deadlines: this.#deadlines, unsettled: this.#unsettled }
    this.#slots = new Slots({ scope: this.#scope, settings, ...parts })
    const onAdmitted = () => {
      this.#patrol.start()
      deps.quiet?.works()
    }
    const isQuiet = () => deps.quiet?.isQuiet ?? false
    const { id: workerId } = this
    this.#fetcher = new Fetcher({
      store,
      ports,
      emit,
      hasListeners,
      settings,
      slots: this.#slots,
      storeTime,
      workerId,
      batches: groupBatches(settings.handlers, deps.isolation ?? null),
      onAdmitted,
      isQuiet,
      mute: (isMuted) => store.mute(this.#listener, isMuted),
    })
    this.#settler = new Settler({
      store,
      ports,
      emit,
      onDone: (held, answer) => this.#onDone(held, answer),
      onFlushed: (jobs) => {
        this.#slots.pump()
        this.#fetcher.flushed(jobs)
      },
    })
    this.#heartbeat = new Heartbeat({
      store,
      ports,
      emit,
      table: this.#table,
      leaseMs: settings.leaseMs,
      heartbeatMs: settings.heartbeatMs,
      onExtended: (extended) => {
        this.#slots.extended(extended.fromMs)
        if (hasListeners()) emit({ name: 'lease.extended', count: extended.count })
        this.#onWatched(extended)
      },
    })
    const onWatched = (watch: Watch) => this.#onPatrolled(watch)
    this.#patrol = new Patrol({ store, ports, emit, slots: this.#slots, onWatched })
    this.#cancelHints = new CancelHints({ store, ports, emit, slots: this.#slots, onWatched })
    this.#lifeSign = new LifeSign({ store, ports, emit, read: () => this.#readBeat(), isQuiet })
  }

  /** Begins to claim and run jobs. A store that is away is waited for. Raises `closed` after `stop()`. */
  async start(): Promise<void> {
    if (this.#state === 'started') return
    if (this.#state === 'ticking') {
      throw new HoldfastError('wrong_state', `worker ${this.id} cannot start while tick() is under way: await it first`)
    }
    if (this.#state !== 'new') {
      throw new HoldfastError('closed', `worker ${this.id} has been stopped and cannot start again: make another`)
    }
    this.#state = 'started'
    if (this.#scope.isolation !== null) await this.#startIsolation(this.#scope.isolation)
    await this.#setTypeLimits()
    if (!this.isRunning) return
    this.#listen()
    this.#heartbeat.start()
    this.#lifeSign.start()
    this.#fetcher.start()
    this.#leaveQuiet = this.#deps.quiet?.add(this.#quietPart()) ?? this.#leaveQuiet
    this.#deps.quiet?.heard()
    this.#deps.emit({ name: 'worker.started', worker: this.id })
  }

  /** Writes what definitions ask for, where no operator has set it. A store that is away is not waited for: the next start writes it. */
  async #setTypeLimits(): Promise<void> {
    const { store, emit } = this.#deps
    for (const { definition } of this.#settings.handlers.values()) {
      const own = definition.flow?.own
      if (own == null) continue
      try {
        await store.setLimit(own.name, own.settings, `worker ${this.id}`, 'definition')
      } catch (error) {
        emit({ name: 'store.failed', during: 'set limit', error: error as Error })
      }
    }
  }

  async #startIsolation(isolation: Isolation): Promise<void> {
    try {
      await isolation.start()
    } catch (error) {
      if (this.isRunning) this.#state = 'new'
      throw error
    }
  }

  /**
   * Claims no more, gives back what waits, lets running jobs finish for the drain time (`drain`, else the worker's own;
   * null waits for ever), then aborts and releases the rest and resolves when every settlement has been answered. Called
   * again it shortens the drain when it asks for less. Raises `wrong_state` in a handler that this worker runs.
   */
  stop(options: { readonly drain?: Duration | null } = {}): Promise<void> {
    checkKeys('stop', options, ['drain'])
    const refusal = this.ownHandlerError('stop()')
    if (refusal !== null) return Promise.reject(refusal)
    this.#drainFor(options.drain === undefined ? this.#settings.drainMs : resolveDrain(options.drain))
    this.#stopping ??= this.#stop().finally(() => this.#scope.isolation?.stop())
    return this.#stopping
  }

  /** The error to raise when the calling code is a handler that this worker runs, else null. `call` names what was called. */
  ownHandlerError(call: string): HoldfastError | null {
    return ownHandlerError(this.#scope, call)
  }

  /** True from `start()` until `stop()` is called. */
  get isRunning(): boolean {
    return this.#state === 'started'
  }

  /** How many jobs it runs concurrently at most, and how many it runs now. */
  get concurrency(): number {
    return this.#settings.concurrency
  }

  get running(): number {
    return this.#slots.running.length
  }

  /** The children that run its handlers; null when it has none. */
  get children(): ChildrenView | null {
    return this.#scope.isolation?.children ?? null
  }

  /** Resolves when a claim in flight has been answered, for a worker with idle slots; null when there is none to wait for. */
  claimInFlight(): Promise<void> | null {
    return this.#state === 'started' ? this.#fetcher.claimInFlight() : null
  }

  /** Reserves idle slots for the first of these jobs, which this process enqueues; null when it has none. */
  reserve(jobs: readonly NewJob[]): Reservation | null {
    return this.#state === 'started' ? this.#fetcher.reserve(jobs) : null
  }

  /** True once `stop()` has resolved. */
  get isStopped(): boolean {
    return this.#state === 'stopped'
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /**
   * One round for tests: claims what is ready, as far as there is room, runs it and settles it. Resolves with the number
   * of jobs claimed. Only for a worker that is not started.
   */
  async tick(): Promise<number> {
    if (this.#state !== 'new') {
      throw new HoldfastError(
        'wrong_state',
        `tick() steps a worker that is not started; worker ${this.id} is ${this.#state}`,
      )
    }
    this.#state = 'ticking'
    this.#listen()
    this.#heartbeat.start()
    try {
      const { count } = await this.#fetcher.claimRound()
      this.#slots.pump()
      await this.#slots.whenEmpty()
      await this.#settler.whenIdle()
      await this.#limitReports.flush()
      return count
    } finally {
      await this.#heartbeat.stop()
      this.#unlisten()
      if (this.#state === 'ticking') this.#state = 'new'
    }
  }

  /** What rests of this worker while nothing is to be done. */
  #quietPart(): QuietPart {
    const [fetcher, slots, unsettled] = [this.#fetcher, this.#slots, this.#unsettled]
    const readBeat = () => ({ ...this.#readBeat(), restMs: this.#deps.quiet?.restMs ?? 0 })
    return {
      queues: this.#settings.queues,
      get isIdle() {
        return fetcher.isIdle && slots.isEmpty && unsettled.isEmpty
      },
      get beat() {
        return readBeat()
      },
      rest: () => fetcher.rest(),
      stir: () => fetcher.stir(),
    }
  }

  #listen(): void {
    this.#unlisten = this.#deps.store.listen(this.#listener)
  }

  #onEnded(held: HeldJob): void {
    if (held.settled === null) {
      this.#table.drop(held.leaseSlot)
      // Settled in the handler's own transaction: this process does not know more than that it was not lost.
      if (held.isCompleting && !held.isLost) this.#count(held, 'succeeded')
    } else {
      this.#unsettled.add(held)
      this.#settler.add(held)
      if (this.#state === 'draining' && held.settled.settlement.state === 'ready') this.#released++
    }
    this.#slots.remove(held)
    if (held.settled === null) this.#slots.confirmed(held)
    this.#fetcher.nudge()
  }

  #onDone(held: HeldJob, answer: SettleResult | null): void {
    this.#table.drop(held.leaseSlot)
    this.#unsettled.remove(held)
    this.#slots.confirmed(held)
    if (answer === null) return
    const { id, type, queue, fence } = held.job
    if (answer.result === 'lost') {
      this.#deps.emit({ name: 'lease.lost', id, type, queue, fence })
      return
    }
    const { settlement } = held.settled!
    const state = answer.state ?? settlement.state
    this.#count(held, state)
    const delayMs = 'delayMs' in settlement && state === settlement.state ? settlement.delayMs : null
    if (delayMs !== null) this.#deps.onDueIn?.(delayMs)
    if (held.settled!.error !== null || state === 'dead') {
      callFailureHooks(held, state, this.#settings, this.#deps.emit)
    }
    if (!this.#deps.hasListeners()) return
    const reason = state === 'dead' && 'reason' in settlement ? settlement.reason : null
    const error = errorOf(held)
    this.#deps.emit({
      name: 'job.settled',
      id,
      type,
      queue,
      state,
      reason,
      delayMs,
      ...(error === null ? {} : { error }),
    })
  }

  #count(held: HeldJob, state: JobState): void {
    if (this.#deps.tally === undefined) return
    const { job, settled } = held
    // What came back from a shutdown or waits for its time was no attempt.
    if (state === 'ready' || state === 'scheduled') return
    const waitMs = job.attempt === 1 ? this.#scope.storeTime.at(held.startedMs) - job.createdAtMs : null
    this.#deps.tally.ended(settled ?? { queue: job.queue, error: null, ranMs: null }, state, waitMs)
  }

  #onWatched({ lost, cancelled }: Extension): void {
    for (const held of this.#slots.find(lost)) loseHeld(held, this.#scope, this.#deadlines)
    for (const held of this.#slots.find(cancelled)) cancelHeld(held, this.#scope, this.#deadlines)
  }

  /** What a patrol was told. Of a handler that called complete() it says more than a heartbeat: whether its transaction settled. */
  #onPatrolled(watch: Watch): void {
    const isSettled = new Set(watch.settled.map(leaseName))
    for (const held of this.#slots.find(watch.lost)) {
      if (held.isCompleting && !isSettled.has(leaseName(held))) loseCompleting(held, this.#scope, this.#deadlines)
    }
    this.#onWatched(watch)
  }

  #readBeat(): WorkerBeat {
    return {
      id: this.id,
      host: this.#deps.host,
      pid: this.#deps.pid,
      queues: this.#settings.queues,
      concurrency: this.#settings.concurrency,
      running: this.#slots.running.length,
      draining: this.#state === 'draining',
      version: this.#deps.version,
      types: [...this.#settings.handlers.keys()],
      jobs: this.#readJobs(),
      children: this.children,
    }
  }

  #readJobs(): WorkerJob[] {
    return [...this.#slots.running]
      .sort((one, other) => one.startedMs - other.startedMs)
      .slice(0, WORKER_JOBS_MAX)
      .map(({ job: { id, type, queue, attempt }, startedMs }) => {
        return { id, type, queue, attempt, startedAtMs: Math.round(this.#scope.storeTime.at(startedMs)) }
      })
  }

  #drainFor(drainMs: number | null): void {
    const { clock, timers } = this.#deps.ports
    const atMs = drainMs === null ? Number.POSITIVE_INFINITY : clock.monotonic() + drainMs
    if (atMs >= this.#drainAtMs) return
    this.#drainAtMs = atMs
    this.#drainTimer?.cancel()
    if (drainMs === 0) this.#drainOver.abort()
    else this.#drainTimer = timers.after(drainMs!, () => this.#drainOver.abort(), { keepAlive: true })
  }

  async #stop(): Promise<void> {
    const wasStarted = this.#state === 'started'
    this.#state = wasStarted ? 'draining' : 'stopped'
    if (!wasStarted) {
      this.#drainTimer?.cancel()
      return
    }
    const { emit } = this.#deps
    this.#leaveQuiet()
    const fetching = this.#fetcher.stop()
    this.#slots.close()
    emit({ name: 'worker.draining', worker: this.id, running: this.#slots.running.length })
    await Promise.race([this.#slots.whenEmpty(), fired(this.#drainOver.signal)])
    this.#drainTimer?.cancel()
    for (const held of [...this.#slots.running]) abortForShutdown(held)
    await this.#within(SHUTDOWN_GRACE_MS, this.#slots.whenEmpty())
    for (const held of [...this.#slots.running]) giveUpStuck(held, this.#scope)
    // Handlers in children are gone a moment later; a child that cannot be ended holds nothing up.
    await this.#within(SHUTDOWN_GRACE_MS, this.#slots.whenEmpty())
    for (const held of [...this.#slots.running]) giveUpStuck(held, this.#scope)
    await fetching
    await this.#within(FLUSH_MS_MAX, this.#settler.whenIdle())
    this.#settler.giveUp()
    await this.#settler.whenIdle()
    await this.#within(SHUTDOWN_GRACE_MS, this.#limitReports.flush())
    this.#unlisten()
    this.#deadlines.stop()
    await Promise.all([this.#patrol.stop(), this.#cancelHints.stop(), this.#heartbeat.stop(), this.#lifeSign.stop()])
    this.#state = 'stopped'
    emit({ name: 'worker.stopped', worker: this.id, released: this.#released })
  }

  async #within(ms: number, done: Promise<void>): Promise<void> {
    const patience = new AbortController()
    await Promise.race([done, sleep(this.#deps.ports.timers, ms, patience.signal)])
    patience.abort()
  }
}

function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** A name people recognise, the number of the process, and what tells two workers of one process apart. */
function makeId(name: string, { pid, ports }: WorkerDeps): string {
  const bytes = new Uint8Array(4)
  ports.random.fill(bytes)
  const tail = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${name.replace(/[^A-Za-z0-9._-]/g, '_').slice(0, 60) || 'worker'}:${pid}:${tail}`
}

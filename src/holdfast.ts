// A connected queue: the client, the workers started from it, and the upkeep that runs beside them.

import { hostname } from 'node:os'
import { Client } from './client/client.js'
import type { ClientDeps, ClientSettings } from './client/client-deps.js'
import { checkCodecs, type PayloadCodec, withCodecs } from './client/codec-store.js'
import type { EnqueueManyOptions, EnqueueTogetherOptions, EntryOptions } from './client/enqueue-many.js'
import type { EnqueueOptions } from './client/enqueue-options.js'
import { Events } from './client/events.js'
import type { JobHandle } from './client/job-handle.js'
import { type EnqueueCall, enqueueThrough, type Middleware } from './client/middleware.js'
import type { JobTarget } from './client/prepare.js'
import { StoreTime } from './client/store-time.js'
import { Tally } from './client/tally.js'
import { checkBoolean, checkKeys, checkName, checkWhole } from './core/check.js'
import type { JobDefinition } from './core/definition.js'
import { type Duration, durationMs } from './core/duration.js'
import { HoldfastError, invalidOption, show } from './core/errors.js'
import { given } from './core/given.js'
import { PAYLOAD_BYTES_MAX } from './core/json.js'
import { checkLogger, EventLog, type Logger } from './core/logger.js'
import type { Ports } from './core/ports.js'
import { type IdleMode, Quiet } from './core/quiet.js'
import type { LocalWorkers } from './core/reserve.js'
import type { Store } from './core/store.js'
import type { JobTracer } from './core/tracer.js'
import { Host } from './host/host.js'
import { type HostOptions, refuseInChild, resolveHostOptions, splitHostOptions } from './host/options.js'
import { systemPorts } from './system-ports.js'
import { Upkeep, type UpkeepOptions } from './upkeep/upkeep.js'
import { VERSION } from './version.js'
import { checkMiddleware, runThrough } from './worker/middleware.js'
import { resolveWorkerOptions, type WorkerOptions } from './worker/options.js'
import { Worker } from './worker/worker.js'

// Here and not in core, which knows neither client nor connection.
declare module './core/definition.js' {
  interface JobContext<Returned = unknown> {
    /** The connection of the worker that runs the job. Never close it in a handler. In child processes it has the calls about jobs. */
    readonly holdfast: Holdfast
    /** Enqueues a job that knows which job enqueued it (`enqueuedBy`), as `holdfast.enqueue` does, with `tx` too. */
    readonly enqueue: Holdfast['enqueue']
  }
}

/** What holds for a connection, whichever store it is to. */
export interface HoldfastOptions {
  /** The largest payload, in bytes of JSON, up to 64 MiB. Default 1 MiB. Large payloads slow every store down: enqueue a
   *  reference instead. */
  readonly payloadBytesMax?: number
  /** How long an enqueue keeps trying while the store cannot be reached. Default '30s'. */
  readonly enqueueTimeout?: Duration
  /** The most enqueue calls that may wait concurrently, from 1 to 1,000,000. Default 20,000. */
  readonly enqueueBufferMax?: number
  /** How long succeeded and cancelled jobs are kept, where their queue sets nothing longer. Default '7d'. */
  readonly retention?: Duration
  /** How long lines of the audit log are kept. Default '365d'. The process must own the store's tables to drop them. */
  readonly auditRetention?: Duration
  /** Whether this process takes part in upkeep: making timed jobs ready, rescuing lost ones, firing schedules, pruning.
   *  Default true. Some process must. With `hold`, how long rescue waits after an outage, so that living workers can
   *  extend their leases first; default '15s'. */
  readonly upkeep?: boolean | Pick<UpkeepOptions, 'hold'>
  /** What this process does while its workers have nothing to do and nobody runs a job: 'look' at the store every half minute, over at most
   *  three connections; or 'sleep', one look in five minutes over one connection, for databases that are paid by use. Jobs of other
   *  processes wake it in both cases, and timed jobs and schedules stay on time. Default 'look'. Only PostgreSQL does either. */
  readonly idle?: IdleMode
  /** What the ids of its workers begin with. Default the name of the host. */
  readonly name?: string
  /** Where time, timers and chance come from. Default the machine's; tests give their own. */
  readonly ports?: Ports
  /** Follows jobs from their enqueue to their end, as `openTelemetry()` of holdfast/tracing does. Default null: nobody. */
  readonly tracer?: JobTracer | null
  /** Seals the payloads that are enqueued here, and opens those that workers here claim: `aes256gcm({ keys, use })`, `[gzip(), aes256gcm(…)]`, or
   *  codecs of your own. What is looked at stays sealed. Default null: payloads are kept as they are. */
  readonly codec?: PayloadCodec | readonly PayloadCodec[] | null
  /** Gets what happens in this process: a pino logger, or anything with debug, info, warn and error that take facts and a
   *  message. Gets no payloads; errors of handlers come with their messages. Default null: nobody. */
  readonly logger?: Logger | null
}

/** The names of these options, for those that take them together with their own. */
export const HOLDFAST_OPTIONS = [
  'payloadBytesMax',
  'enqueueTimeout',
  'enqueueBufferMax',
  'retention',
  'auditRetention',
  'upkeep',
  'idle',
  'name',
  'ports',
  'tracer',
  'codec',
  'logger',
] as const

const DEFAULTS = {
  payloadBytesMax: PAYLOAD_BYTES_MAX,
  enqueueTimeout: '30s',
  enqueueBufferMax: 20_000,
  retention: '7d',
  auditRetention: '365d',
  upkeep: true,
  idle: 'look',
} as const

const PAYLOAD_BYTES_LIMIT = 64 * 1024 * 1024

interface HoldfastSettings extends ClientSettings {
  readonly retentionMs: number
  readonly auditRetentionMs: number
  readonly upkeep: boolean | Pick<UpkeepOptions, 'hold'>
  readonly idle: IdleMode
  readonly name: string | null
  readonly ports: Ports
  readonly tracer: JobTracer | null
  readonly codecs: readonly PayloadCodec[]
  readonly logger: Logger | null
}

/** Checks the options of a connection and fills in what is left out. */
export function resolveHoldfastOptions(options: HoldfastOptions): HoldfastSettings {
  const all = { ...DEFAULTS, ...given(options) }
  const { upkeep, name, ports, tracer, logger } = all
  return {
    payloadBytesMax: checkWhole('payloadBytesMax', all.payloadBytesMax, 1, PAYLOAD_BYTES_LIMIT),
    enqueueTimeoutMs: durationMs(all.enqueueTimeout, { name: 'enqueueTimeout', minMs: 1 }),
    bufferJobsMax: checkWhole('enqueueBufferMax', all.enqueueBufferMax, 1, 1_000_000),
    retentionMs: durationMs(all.retention, { name: 'retention' }),
    auditRetentionMs: durationMs(all.auditRetention, { name: 'auditRetention' }),
    upkeep: typeof upkeep === 'object' ? upkeep : checkBoolean('upkeep', upkeep),
    idle: checkIdle(all.idle),
    name: name === undefined ? null : checkName('name', name),
    ports: ports === undefined ? systemPorts : checkPorts(ports),
    tracer: tracer == null ? null : checkTracer(tracer),
    codecs: all.codec == null ? [] : checkCodecs(all.codec),
    logger: logger == null ? null : checkLogger(logger),
  }
}

function checkIdle(idle: unknown): IdleMode {
  if (idle === 'look' || idle === 'sleep') return idle
  throw invalidOption("idle must be 'look' or 'sleep'", idle)
}

function checkTracer(tracer: JobTracer): JobTracer {
  const isTracer = (['enqueue', 'run', 'ended'] as const).every((name) => typeof tracer[name] === 'function')
  if (isTracer) return tracer
  throw invalidOption(
    'tracer must have the functions enqueue, run and ended, as openTelemetry() of holdfast/tracing gives them',
    tracer,
  )
}

function checkPorts(ports: Ports): Ports {
  checkKeys('ports', ports, ['clock', 'timers', 'random'])
  for (const key of ['clock', 'timers', 'random'] as const) {
    if (typeof ports[key] === 'object' && ports[key] !== null) continue
    throw invalidOption(`ports must have a clock, timers and random, got ${show(ports[key])} as ${key}`)
  }
  return ports
}

/** A connected queue. `close()` it, or declare it with `await using`. */
export class Holdfast extends Client {
  readonly #store: Store
  readonly #events: Events
  readonly #upkeep: Upkeep | null
  readonly #tally: Tally
  readonly #quiet: Quiet
  readonly #settings: HoldfastSettings
  #workers: readonly Worker[] = []
  #middlewares: readonly Middleware[] = []
  #closing: Promise<void> | null = null

  /** Made by `connect` and `openHoldfast`. */
  constructor(
    deps: ClientDeps & { readonly store: Store; readonly tally: Tally; readonly quiet: Quiet },
    upkeep: Upkeep | null,
    settings: HoldfastSettings,
  ) {
    super(deps, settings)
    this.#tally = deps.tally
    this.#store = deps.store
    this.#events = deps.events
    this.#upkeep = upkeep
    this.#quiet = deps.quiet
    this.#settings = settings
  }

  /** Its workers that run. */
  get localWorkers(): readonly Worker[] {
    return this.#workers.filter((worker) => worker.isRunning)
  }

  /** Puts code around every enqueue of this connection, and around every run of the workers it makes from now on. The first one is outermost.
   *  Batch handlers run without. Handlers in children run in the `middleware` that their module exports: without one `start()` raises. */
  use(middleware: Middleware): this {
    this.#middlewares = [...this.#middlewares, checkMiddleware(middleware)]
    // Own properties before the methods: a connection without middleware does not even look for it.
    Object.defineProperties(this, {
      enqueue: { configurable: true, value: this.#enqueueThrough },
      enqueueMany: { configurable: true, value: this.#enqueueManyThrough },
    })
    return this
  }

  readonly #enqueueThrough = async (
    job: JobTarget,
    payload: unknown,
    options: EnqueueOptions = {},
  ): Promise<JobHandle> => {
    const send = async ({ jobs: [one] }: EnqueueCall) => [
      await super.enqueue(one!.job as JobDefinition, one!.payload, one!.options),
    ]
    const handles = await enqueueThrough(this.#middlewares, { jobs: [{ job, payload, options }] }, send)
    return handles[0]!
  }

  readonly #enqueueManyThrough = async (
    first: JobTarget | readonly (readonly [JobTarget, unknown, EntryOptions?])[],
    second?: readonly unknown[] | EnqueueTogetherOptions,
    third: EnqueueManyOptions = {},
  ): Promise<readonly JobHandle[]> => {
    const isMixed = Array.isArray(first)
    // What cannot be read is refused as it would be without middleware.
    if (isMixed ? !first.every(Array.isArray) : !Array.isArray(second)) {
      return super.enqueueMany(first as string, second as unknown[], third)
    }
    const { tx, signal, ...options } = third
    const together = isMixed ? ((second ?? {}) as EnqueueTogetherOptions) : given({ tx, signal })
    const jobs = isMixed
      ? first.map(([job, payload, own = {}]) => ({ job, payload, options: own }))
      : (second as readonly unknown[]).map((payload) => ({ job: first as JobTarget, payload, options }))
    return enqueueThrough(this.#middlewares, { jobs }, (call) =>
      super.enqueueMany(
        call.jobs.map(({ job, payload, options: own }) => [job as JobDefinition, payload, own] as const),
        together,
      ),
    )
  }

  /** Makes a worker. It claims nothing before its `start()`, and `close()` stops it. */
  worker(options: WorkerOptions & HostOptions): Worker {
    if (this.#closing !== null) throw new HoldfastError('closed', 'this client is closed: connect again to work')
    refuseInChild()
    const { name, ports, tracer } = this.#settings
    const [hostOptions, workerOptions] = splitHostOptions(options)
    const hasRunMiddleware = this.#middlewares.some(({ run }) => run !== undefined)
    const hosted = resolveHostOptions(hostOptions, { ...resolveWorkerOptions(workerOptions), hasRunMiddleware })
    const worker = new Worker(
      {
        store: this.#store,
        ports,
        emit: this.#events.emit,
        hasListeners: () => this.#events.isHeard,
        version: VERSION,
        host: hostname(),
        pid: process.pid,
        tally: this.#tally,
        tracer,
        holdfast: this,
        isolation: hosted === null ? null : new Host({ ports, emit: this.#events.emit }, hosted),
        quiet: this.#quiet,
        onDueIn: (dueInMs) => {
          this.#upkeep?.nudge(dueInMs)
          this.#quiet.timed(dueInMs)
        },
      },
      { ...given({ name: name ?? undefined }), ...workerOptions, ...this.#handlersThrough(workerOptions) },
    )
    this.#workers = [...this.#workers.filter((other) => !other.isStopped), worker]
    return worker
  }

  #handlersThrough({ handlers }: WorkerOptions): Partial<WorkerOptions> {
    if (this.#middlewares.length === 0 || !Array.isArray(handlers)) return {}
    return { handlers: handlers.map((handler) => runThrough(this.#middlewares, handler)) }
  }

  /**
   * Drains its workers, ends upkeep, writes what was enqueued, and closes the store, in this order: handlers that still
   * run may enqueue. The same promise however often it is called. Raises `wrong_state` in a handler of one of its workers.
   */
  override close(): Promise<void> {
    const refusal = firstOf(this.#workers, (worker) => worker.ownHandlerError('close()'))
    if (refusal !== null) return Promise.reject(refusal)
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    try {
      this.#quiet.stop()
      await Promise.all(this.#workers.map((worker) => worker.stop()))
      await this.#upkeep?.stop()
      await super.close()
      await this.#tally.close()
    } finally {
      await this.#store.close()
    }
  }
}

/**
 * Opens a queue on a store that is open already, and owns it from then on: closing the one closes the other. `connect`
 * opens the store as well.
 */
export async function openHoldfast(opened: Store, options: HoldfastOptions = {}): Promise<Holdfast> {
  checkKeys('openHoldfast', options, HOLDFAST_OPTIONS)
  const settings = resolveHoldfastOptions(options)
  const { ports, retentionMs, auditRetentionMs, tracer, logger } = settings
  const events = new Events()
  if (logger !== null) events.on(new EventLog(logger).receive)
  opened.reportTo?.(events.emit)
  const store =
    settings.codecs.length === 0
      ? opened
      : withCodecs(opened, settings.codecs, { emit: events.emit, clock: ports.clock })
  const time = await StoreTime.read(store, ports.clock)
  const tally = new Tally({ store, ports, emit: events.emit })
  const quiet = new Quiet({ store, ports, mode: settings.idle })
  const upkeepOptions = typeof settings.upkeep === 'object' ? settings.upkeep : {}
  const upkeep = settings.upkeep
    ? new Upkeep(
        { store, ports, emit: events.emit, tally, onStepped: () => quiet.lookSoon() },
        { ...upkeepOptions, retention: retentionMs, auditRetention: auditRetentionMs },
      )
    : null
  const onTimed = (delayMs: number) => {
    upkeep?.nudge(delayMs)
    quiet.timed(delayMs)
  }
  const onScheduled = () => {
    quiet.heard()
    quiet.tell()
    upkeep?.nudgeSchedules()
  }
  const onBulk = () => {
    quiet.heard()
    quiet.tell()
    upkeep?.nudgeBulks()
  }
  const workers: LocalWorkers = {
    isWorking: () => holdfast.localWorkers.length > 0,
    claimInFlight: () => firstOf(holdfast.localWorkers, (worker) => worker.claimInFlight()),
    reserve: (jobs) => firstOf(holdfast.localWorkers, (worker) => worker.reserve(jobs)),
  }
  const holdfast = new Holdfast(
    { store, ports, events, time, tally, quiet, tracer, onTimed, onScheduled, onBulk, workers },
    upkeep,
    settings,
  )
  upkeep?.start()
  if (upkeep !== null) quiet.add(upkeep)
  quiet.start()
  return holdfast
}

function firstOf<T>(workers: readonly Worker[], ask: (worker: Worker) => T | null): T | null {
  for (const worker of workers) {
    const answer = ask(worker)
    if (answer !== null) return answer
  }
  return null
}

// A connected queue: the client, the workers started from it, and the upkeep that runs beside them.

import { hostname } from 'node:os'
import { Client, type ClientDeps, type ClientSettings } from './client/client.js'
import { Events } from './client/events.js'
import { StoreTime } from './client/store-time.js'
import { Tally } from './client/tally.js'
import { checkBoolean, checkKeys, checkName, checkWhole } from './core/check.js'
import { type Duration, durationMs } from './core/duration.js'
import { HoldfastError, invalidOption, show } from './core/errors.js'
import { given } from './core/given.js'
import { PAYLOAD_BYTES_MAX } from './core/json.js'
import { checkLogger, EventLog, type Logger } from './core/logger.js'
import type { Ports } from './core/ports.js'
import type { LocalWorkers } from './core/reserve.js'
import type { Store } from './core/store.js'
import type { JobTracer } from './core/tracer.js'
import { Host } from './host/host.js'
import { type HostOptions, refuseInChild, resolveHostOptions, splitHostOptions } from './host/options.js'
import { systemPorts } from './system-ports.js'
import { Upkeep, type UpkeepOptions } from './upkeep/upkeep.js'
import { VERSION } from './version.js'
import { resolveWorkerOptions, type WorkerOptions } from './worker/options.js'
import { Worker } from './worker/worker.js'

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
  /** What the ids of its workers begin with. Default the name of the host. */
  readonly name?: string
  /** Where time, timers and chance come from. Default the machine's; tests give their own. */
  readonly ports?: Ports
  /** Follows jobs from their enqueue to their end, as `openTelemetry()` of holdfast/tracing does. Default null: nobody. */
  readonly tracer?: JobTracer | null
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
  'name',
  'ports',
  'tracer',
  'logger',
] as const

const DEFAULTS = {
  payloadBytesMax: PAYLOAD_BYTES_MAX,
  enqueueTimeout: '30s',
  enqueueBufferMax: 20_000,
  retention: '7d',
  auditRetention: '365d',
  upkeep: true,
} as const

const PAYLOAD_BYTES_LIMIT = 64 * 1024 * 1024

interface HoldfastSettings extends ClientSettings {
  readonly retentionMs: number
  readonly auditRetentionMs: number
  readonly upkeep: boolean | Pick<UpkeepOptions, 'hold'>
  readonly name: string | null
  readonly ports: Ports
  readonly tracer: JobTracer | null
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
    name: name === undefined ? null : checkName('name', name),
    ports: ports === undefined ? systemPorts : checkPorts(ports),
    tracer: tracer == null ? null : checkTracer(tracer),
    logger: logger == null ? null : checkLogger(logger),
  }
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
  readonly #settings: HoldfastSettings
  #workers: readonly Worker[] = []
  #closing: Promise<void> | null = null

  /** Made by `connect` and `openHoldfast`. */
  constructor(
    deps: ClientDeps & { readonly store: Store; readonly tally: Tally },
    upkeep: Upkeep | null,
    settings: HoldfastSettings,
  ) {
    super(deps, settings)
    this.#tally = deps.tally
    this.#store = deps.store
    this.#events = deps.events
    this.#upkeep = upkeep
    this.#settings = settings
  }

  /** Its workers that run. */
  get localWorkers(): readonly Worker[] {
    return this.#workers.filter((worker) => worker.isRunning)
  }

  /** Makes a worker. It claims nothing before its `start()`, and `close()` stops it. */
  worker(options: WorkerOptions & HostOptions): Worker {
    if (this.#closing !== null) throw new HoldfastError('closed', 'this client is closed: connect again to work')
    refuseInChild()
    const { name, ports, tracer } = this.#settings
    const [hostOptions, workerOptions] = splitHostOptions(options)
    const hosted = resolveHostOptions(hostOptions, resolveWorkerOptions(workerOptions))
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
        isolation: hosted === null ? null : new Host({ ports, emit: this.#events.emit }, hosted),
        onDueIn: (dueInMs) => this.#upkeep?.nudge(dueInMs),
      },
      name === null ? workerOptions : { name, ...workerOptions },
    )
    this.#workers = [...this.#workers.filter((other) => !other.isStopped), worker]
    return worker
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
export async function openHoldfast(store: Store, options: HoldfastOptions = {}): Promise<Holdfast> {
  checkKeys('openHoldfast', options, HOLDFAST_OPTIONS)
  const settings = resolveHoldfastOptions(options)
  const { ports, retentionMs, auditRetentionMs, tracer, logger } = settings
  const events = new Events()
  if (logger !== null) events.on(new EventLog(logger).receive)
  store.reportTo?.(events.emit)
  const time = await StoreTime.read(store, ports.clock)
  const tally = new Tally({ store, ports, emit: events.emit })
  const upkeepOptions = typeof settings.upkeep === 'object' ? settings.upkeep : {}
  const upkeep = settings.upkeep
    ? new Upkeep(
        { store, ports, emit: events.emit, tally },
        { ...upkeepOptions, retention: retentionMs, auditRetention: auditRetentionMs },
      )
    : null
  const onTimed = (delayMs: number) => upkeep?.nudge(delayMs)
  const onScheduled = () => upkeep?.nudgeSchedules()
  const onBulk = () => upkeep?.nudgeBulks()
  const workers: LocalWorkers = {
    isWorking: () => holdfast.localWorkers.length > 0,
    claimInFlight: () => firstOf(holdfast.localWorkers, (worker) => worker.claimInFlight()),
    reserve: (jobs) => firstOf(holdfast.localWorkers, (worker) => worker.reserve(jobs)),
  }
  const holdfast = new Holdfast(
    { store, ports, events, time, tally, tracer, onTimed, onScheduled, onBulk, workers },
    upkeep,
    settings,
  )
  upkeep?.start()
  return holdfast
}

function firstOf<T>(workers: readonly Worker[], ask: (worker: Worker) => T | null): T | null {
  for (const worker of workers) {
    const answer = ask(worker)
    if (answer !== null) return answer
  }
  return null
}

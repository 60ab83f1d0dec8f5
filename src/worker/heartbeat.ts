// Keeps a worker's leases alive: starts the heartbeat thread where the store has a way to extend from one, watches over
// it, and falls back to the main thread when there is none or it will not run.

import { existsSync } from 'node:fs'
import { Worker as Thread } from 'node:worker_threads'
import { brotliDecompressSync } from 'node:zlib'
import { HoldfastError } from '../core/errors.js'
import type { Emit, HoldfastEvent } from '../core/events.js'
import type { ExtenderSpec, JobStore } from '../core/job-store.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import { HEARTBEAT_CODE } from './heartbeat-code.js'
import { BLOCKED_AFTER_MS, type KeeperReport, LeaseKeeper, tickMs } from './lease-keeper.js'
import type { LeaseTable } from './lease-table.js'
import type { HeartbeatThreadStart, ToHeartbeat } from './run-heartbeat.js'

// A thread that ends this often without one extension in between cannot run here, e.g. in a bundle that left it out.
const STARTS_MAX = 5
const RESTART_AFTER_MS = 200
const CLOSE_MS_MAX = 1_000

export interface HeartbeatDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly table: LeaseTable
  readonly leaseMs: number
  readonly heartbeatMs: number
  readonly onExtended: (extended: Extract<KeeperReport, { kind: 'extended' }>) => void
}

/** The heartbeat of one worker. */
export class Heartbeat {
  readonly #deps: HeartbeatDeps
  #keeper: LeaseKeeper | null = null
  #thread: Thread | null = null
  #starts = 0
  #timer: Timer | null = null
  #tickedMs = 0
  #isStopped = false

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#isStopped = false
    const extender = this.#deps.store.extender()
    if (extender === null) {
      this.#keepHere()
      return
    }
    this.#tickedMs = this.#deps.ports.clock.monotonic()
    this.#tick()
    this.#startThread(extender)
  }

  /** Stops extending, and waits for an extension in flight; a thread that does not end by itself is ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    await this.#keeper?.stop()
    this.#keeper = null
    const thread = this.#thread
    this.#thread = null
    if (thread === null) return
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
    thread.postMessage('stop')
    const patience = new AbortController()
    await Promise.race([ended, sleep(this.#deps.ports.timers, CLOSE_MS_MAX, patience.signal)])
    patience.abort()
    await thread.terminate()
  }

  #keepHere(): void {
    const { store, ports, table, leaseMs, heartbeatMs } = this.#deps
    this.#keeper = new LeaseKeeper({
      ports,
      table,
      extend: (leases, extendMs) => store.extend(leases, extendMs),
      report: (report) => this.#hear(report),
      leaseMs,
      heartbeatMs,
      isApart: false,
    })
    this.#keeper.start()
  }

  #startThread(extender: ExtenderSpec): void {
    const { table, leaseMs, heartbeatMs } = this.#deps
    const { kind, module, data } = extender
    const [buffer, queues] = [table.buffer, table.queues]
    const start: HeartbeatThreadStart = { buffer, queues, extender: { kind, module, data }, leaseMs, heartbeatMs }
    this.#starts++
    const { source, isCode } = threadSource()
    const thread = new Thread(source, {
      eval: isCode,
      workerData: start,
      name: 'holdfast-heartbeat',
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    })
    thread.unref()
    this.#thread = thread
    let failure: unknown = null
    thread.on('message', (said: KeeperReport | 'secret') => {
      if (said === 'secret') void answer(thread, extender)
      else this.#hear(said)
    })
    thread.on('error', (error) => {
      failure = error
    })
    thread.on('exit', (code) => {
      if (this.#thread === thread && !this.#isStopped) this.#threadEnded(extender, failure ?? `exit code ${code}`)
      else extender.onEnd?.()
    })
  }

  #threadEnded(extender: ExtenderSpec, cause: unknown): void {
    this.#thread = null
    const willRestart = this.#starts < STARTS_MAX && !isMissing(cause)
    const next = willRestart ? 'it is started again' : 'leases are extended from the main thread from now on'
    const why = cause instanceof Error ? cause.message : String(cause)
    const error = new HoldfastError('store_unavailable', `the heartbeat thread ended: ${why}; ${next}`, { cause })
    this.#deps.emit({ name: 'store.failed', during: 'heartbeat thread', error })
    if (!willRestart) {
      extender.onEnd?.()
      this.#timer?.cancel()
      this.#keepHere()
      return
    }
    this.#deps.ports.timers.after(RESTART_AFTER_MS * this.#starts, () => {
      if (!this.#isStopped) this.#startThread(extender)
    })
  }

  // Tells the thread that this one is alive, and notices when it was not.
  #tick(): void {
    const { ports, table, emit, heartbeatMs } = this.#deps
    const nowMs = ports.clock.monotonic()
    const silentMs = nowMs - this.#tickedMs
    this.#tickedMs = nowMs
    table.tick(nowMs)
    if (silentMs >= BLOCKED_AFTER_MS) emit({ name: 'loop.blocked', forMs: Math.round(silentMs) })
    this.#timer = ports.timers.after(tickMs(heartbeatMs), () => this.#tick())
  }

  #hear(report: KeeperReport): void {
    if (report.kind === 'event') {
      this.#deps.emit(revive(report.event))
      return
    }
    this.#starts = 0
    this.#deps.onExtended(report)
  }
}

async function answer(thread: Thread, { secret }: ExtenderSpec): Promise<void> {
  const said: ToHeartbeat = await (secret?.() ?? Promise.reject(new Error('there is no password to ask for'))).then(
    (got) => ({ secret: got }),
    (error: Error) => ({ failure: error.message }),
  )
  thread.postMessage(said)
}

/** The thread's file; where a bundler has left none, its text. */
function threadSource(): { readonly source: URL | string; readonly isCode: boolean } {
  // A bundle in CommonJS has no address of its own.
  const here = import.meta.url as string | undefined
  const file = here === undefined ? null : new URL('./heartbeat-thread.js', here)
  if (file !== null && existsSync(file)) return { source: file, isCode: false }
  if (HEARTBEAT_CODE !== null) return { source: unpacked(HEARTBEAT_CODE), isCode: true }
  return { source: file ?? './heartbeat-thread.js', isCode: false }
}

function unpacked(code: string): string {
  return brotliDecompressSync(Buffer.from(code, 'base64')).toString('utf8')
}

function isMissing(cause: unknown): boolean {
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
}

// An error loses its class on its way between threads.
function revive(event: HoldfastEvent): HoldfastEvent {
  if (event.name !== 'store.failed' || event.error.name === 'HoldfastError') return event
  const { error } = event
  return { ...event, error: new HoldfastError('store_unavailable', error.message, { cause: error, retryable: true }) }
}

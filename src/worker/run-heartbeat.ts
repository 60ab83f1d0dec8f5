// What the heartbeat thread does. It has a connection of its own and its own clock and timers, so a handler that blocks the
// main thread does not lose its lease.

import { parentPort, workerData } from 'node:worker_threads'
import type { Lease } from '../core/job.js'
import type { ExtenderSpec, Extension, JobStore } from '../core/job-store.js'
import type { Ports } from '../core/ports.js'
import { type KeeperReport, LeaseKeeper } from './lease-keeper.js'
import { LeaseTable } from './lease-table.js'

/** What the main thread gives the thread at its start. */
export interface HeartbeatThreadStart {
  readonly buffer: SharedArrayBuffer
  readonly queues: readonly string[]
  readonly extender: Pick<ExtenderSpec, 'kind' | 'module' | 'data'>
  readonly leaseMs: number
  readonly heartbeatMs: number
}

interface Extender {
  readonly extend: JobStore['extend']
  /** Ends connections that are not needed for now; the next extension opens them again. */
  readonly rest?: () => void
  readonly close: () => Promise<void>
}

type OpenExtender = (settings: unknown, ask: () => Promise<string>) => Promise<Extender>

/** What the main thread says: stop, or the answer to what was asked. */
export type ToHeartbeat = 'stop' | { readonly secret: string } | { readonly failure: string }

/** Runs the thread. `known` are the extenders that came with the code, by the kind of their store; any other is loaded. */
export async function runHeartbeat(ports: Ports, known: Readonly<Record<string, OpenExtender>> = {}): Promise<void> {
  if (parentPort === null) return
  const port = parentPort
  const start = workerData as HeartbeatThreadStart
  const openExtender = known[start.extender.kind] ?? (await loadExtender(start.extender))
  const secrets = new Secrets(ports.timers, (question) => port.postMessage(question))
  const extender = new LazyExtender(() => openExtender(start.extender.data, () => secrets.ask()))
  const keeper = new LeaseKeeper({
    ports,
    table: new LeaseTable(start.buffer, start.queues),
    extend: (leases, leaseMs) => extender.extend(leases, leaseMs),
    rest: () => extender.rest(),
    report: (report) => port.postMessage(portable(report)),
    leaseMs: start.leaseMs,
    heartbeatMs: start.heartbeatMs,
    isApart: true,
  })
  keeper.start()
  // Waiting for messages is also what keeps the thread alive.
  port.on('message', (said: ToHeartbeat) => {
    if (said !== 'stop') {
      secrets.answer(said)
      return
    }
    keeper
      .stop()
      .then(() => extender.close())
      .finally(() => port.close())
  })
}

/** How long the main thread may take to answer. While it is blocked, the last answer has to do. */
const ANSWER_MS = 1_000

/** Gets passwords from the main thread. */
class Secrets {
  readonly #timers: Ports['timers']
  readonly #post: (question: 'secret') => void
  readonly #waiting: ((said: Exclude<ToHeartbeat, 'stop'>) => void)[] = []
  #last: string | null = null

  constructor(timers: Ports['timers'], post: (question: 'secret') => void) {
    this.#timers = timers
    this.#post = post
  }

  ask(): Promise<string> {
    return new Promise((resolve, reject) => {
      const last = this.#last
      const timer = last === null ? null : this.#timers.after(ANSWER_MS, () => resolve(last))
      this.#waiting.push((said) => {
        timer?.cancel()
        if ('failure' in said) {
          reject(new Error(said.failure))
          return
        }
        this.#last = said.secret
        resolve(said.secret)
      })
      this.#post('secret')
    })
  }

  answer(said: Exclude<ToHeartbeat, 'stop'>): void {
    this.#waiting.shift()?.(said)
  }
}

async function loadExtender({ kind, module }: Pick<ExtenderSpec, 'kind' | 'module'>): Promise<OpenExtender> {
  if (module === null) throw new Error(`the extender of a ${kind} store was not bundled with the heartbeat thread`)
  return ((await import(module)) as { readonly openExtender: OpenExtender }).openExtender
}

// Opened with the first extension, so that a store that is away when the thread starts is a failed extension like any
// other, tried again, and not a thread that ends.
class LazyExtender {
  readonly #open: () => Promise<Extender>
  #opening: Promise<Extender> | null = null

  constructor(open: () => Promise<Extender>) {
    this.#open = open
  }

  async extend(leases: readonly Lease[], leaseMs: number): Promise<Extension> {
    if (leases.length === 0) return { lost: [], cancelled: [] }
    this.#opening ??= this.#open()
    try {
      return await (await this.#opening).extend(leases, leaseMs)
    } catch (error) {
      if (!(await isOpen(this.#opening))) this.#opening = null
      throw error
    }
  }

  rest(): void {
    this.#opening?.then((extender) => extender.rest?.()).catch(() => {})
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close()
  }
}

function isOpen(opening: Promise<unknown>): Promise<boolean> {
  return opening.then(
    () => true,
    () => false,
  )
}

// An error may hold what cannot cross to another thread, so only its text does.
function portable(report: KeeperReport): KeeperReport {
  if (report.kind !== 'event' || report.event.name !== 'store.failed') return report
  return { kind: 'event', event: { ...report.event, error: new Error(report.event.error.message) } }
}

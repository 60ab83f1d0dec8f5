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
  readonly extender: ExtenderSpec
  readonly leaseMs: number
  readonly heartbeatMs: number
}

interface Extender {
  readonly extend: JobStore['extend']
  readonly close: () => Promise<void>
}

type OpenExtender = (settings: unknown) => Promise<Extender>

/** Runs the thread. `known` are the extenders that came with the code, by the kind of their store; any other is loaded. */
export async function runHeartbeat(ports: Ports, known: Readonly<Record<string, OpenExtender>> = {}): Promise<void> {
  if (parentPort === null) return
  const port = parentPort
  const start = workerData as HeartbeatThreadStart
  const openExtender = known[start.extender.kind] ?? (await loadExtender(start.extender))
  const extender = new LazyExtender(() => openExtender(start.extender.data))
  const keeper = new LeaseKeeper({
    ports,
    table: new LeaseTable(start.buffer, start.queues),
    extend: (leases, leaseMs) => extender.extend(leases, leaseMs),
    report: (report) => port.postMessage(portable(report)),
    leaseMs: start.leaseMs,
    heartbeatMs: start.heartbeatMs,
    isApart: true,
  })
  keeper.start()
  // Waiting for messages is also what keeps the thread alive.
  port.on('message', () => {
    keeper
      .stop()
      .then(() => extender.close())
      .finally(() => port.close())
  })
}

async function loadExtender({ kind, module }: ExtenderSpec): Promise<OpenExtender> {
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

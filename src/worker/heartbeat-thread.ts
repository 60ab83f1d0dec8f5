// The heartbeat thread: where it starts. It has a connection of its own and its own clock and timers, so a handler that
// blocks the main thread does not lose its lease. As the first module of a thread it puts together what runs there, which
// is why it alone in this folder takes the real clock.

import { parentPort, workerData } from 'node:worker_threads'
import type { Lease } from '../core/job.js'
import type { ExtenderSpec, Extension, Store } from '../core/store.js'
import { systemPorts } from '../system-ports.js'
import { type KeeperReport, LeaseKeeper } from './lease-keeper.js'
import { LeaseTable } from './lease-table.js'

/** What the main thread gives the thread at its start. */
export interface HeartbeatThreadStart {
  readonly buffer: SharedArrayBuffer
  readonly extender: ExtenderSpec
  readonly leaseMs: number
  readonly heartbeatMs: number
}

interface Extender {
  readonly extend: Store['extend']
  readonly close: () => Promise<void>
}

interface ExtenderModule {
  readonly openExtender: (settings: unknown) => Promise<Extender>
}

async function main(start: HeartbeatThreadStart): Promise<void> {
  const port = parentPort!
  const { openExtender } = (await import(start.extender.module)) as ExtenderModule
  const extender = new LazyExtender(() => openExtender(start.extender.data))
  const keeper = new LeaseKeeper({
    ports: systemPorts,
    table: new LeaseTable(start.buffer),
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

if (parentPort !== null) await main(workerData as HeartbeatThreadStart)

// What the store says: how much is where, who works, how the database is. Asked for at most once in a while, however often
// it is scraped, and never waited for long: a scrape must not be one more load on a store in trouble.

import type { Registry } from 'prom-client'
import type { Health } from '../client/look.js'
import type { Duration } from '../core/duration.js'
import type { FlowCounts } from '../core/flow/counts.js'
import { type Horizon, isLiveAfter, type Overview, type QueueOverview } from '../core/operating.js'
import type { OutboxHealth } from '../core/outbox.js'
import { type Ports, sleep } from '../core/ports.js'
import type { WorkerView } from '../core/views.js'
import { FlowGauges } from './flow-gauges.js'
import { gaugesOf } from './gauges.js'
import type { BoundedNames } from './names.js'

/** How long one scrape waits for the store. */
const PATIENCE_MS = 2_000
// A worker that is gone for longer is not one whose heartbeat is late.
const HEARTBEAT_WATCHED_MS = 5 * 60_000
const STATES = ['blocked', 'scheduled', 'ready', 'running', 'retrying', 'dead'] as const
const HOLDERS: readonly NonNullable<Horizon['holder']>['kind'][] = ['transaction', 'prepared', 'slot', 'standby']

const UNHELD: Horizon = { ageMs: 0, xids: 0, holder: null }

/** What the gauges are read from. */
interface StoreSource {
  overview(options: { readonly maxAge: Duration }): Promise<Overview>
  workers(): Promise<readonly WorkerView[]>
  health(): Promise<Health>
  flowCounts(options: { readonly maxAge: Duration }): Promise<FlowCounts>
}

export interface StoreMetricsDeps {
  readonly source: StoreSource
  readonly registry: Registry
  readonly queues: BoundedNames
  readonly limits: BoundedNames
  readonly ports: Ports
  /** How long an answer of the store is good for. */
  readonly cacheMs: number
}

/** The gauges of one store. */
export class StoreMetrics {
  readonly #deps: StoreMetricsDeps
  readonly #gauges: ReturnType<typeof makeGauges>
  readonly #flow: FlowGauges
  #askedMs = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | null = null

  constructor(deps: StoreMetricsDeps) {
    this.#deps = deps
    this.#gauges = makeGauges(deps.registry)
    this.#flow = new FlowGauges(deps)
  }

  /** Asks the store when the last answer is too old, and waits for it a moment at most. Never raises. */
  async refresh(): Promise<void> {
    const { ports, cacheMs } = this.#deps
    if (this.#asking === null) {
      if (ports.clock.monotonic() - this.#askedMs < cacheMs) return
      this.#askedMs = ports.clock.monotonic()
      this.#asking = this.#ask().finally(() => {
        this.#asking = null
      })
    }
    const patience = new AbortController()
    const isLate = await Promise.race([
      this.#asking.then(() => false),
      sleep(ports.timers, PATIENCE_MS, patience.signal).then(() => true),
    ])
    patience.abort()
    if (isLate) this.#forget()
  }

  async #ask(): Promise<void> {
    const { source } = this.#deps
    try {
      const [overview, workers, health, flow] = await Promise.all([
        source.overview({ maxAge: '1s' }),
        source.workers(),
        source.health(),
        source.flowCounts({ maxAge: '1s' }),
      ])
      this.#forget()
      this.#gauges.up.set(1)
      this.#showQueues(overview.queues)
      this.#showWorkers(workers, overview.nowMs)
      this.#showHealth(health)
      this.#flow.show(flow)
    } catch {
      // The calls that use the store report what is wrong with it.
      this.#forget()
    }
  }

  // What is not known is not shown: a number that stands still looks like a queue that does.
  #forget(): void {
    for (const gauge of Object.values(this.#gauges)) gauge.reset()
    this.#flow.reset()
    this.#gauges.up.set(0)
  }

  #showQueues(queues: readonly QueueOverview[]): void {
    const { depth, oldest, paused, workers, slots } = this.#gauges
    const ages = new Map<string, number>()
    for (const overview of queues) {
      const queue = this.#deps.queues.of(overview.name)
      for (const state of STATES) depth.inc({ queue, state }, overview[state])
      ages.set(queue, Math.max(ages.get(queue) ?? 0, overview.oldestAgeS))
      paused.inc({ queue }, overview.paused ? 1 : 0)
      workers.inc({ queue }, overview.workers)
      slots.inc({ queue }, overview.slots)
    }
    for (const [queue, ageS] of ages) oldest.set({ queue }, ageS)
  }

  #showWorkers(workers: readonly WorkerView[], nowMs: number): void {
    const ages = workers.map(({ seenAt }) => Math.max(0, nowMs - seenAt.getTime()))
    const watched = ages.filter((ageMs) => ageMs <= HEARTBEAT_WATCHED_MS)
    this.#gauges.live.set(workers.filter((worker, index) => isLiveAfter(ages[index]!, worker)).length)
    this.#gauges.heartbeat.set(Math.max(0, ...watched) / 1_000)
  }

  #showHealth({ roundTripMs, postgres, outbox }: Health): void {
    const { roundTrip, bytes, deadRows } = this.#gauges
    roundTrip.set(roundTripMs / 1_000)
    if (outbox !== undefined) this.#showOutbox(outbox)
    if (postgres === null) return
    bytes.set(postgres.databaseBytes)
    for (const table of postgres.tables) deadRows.set({ table: table.name }, table.deadRows)
    this.#gauges.postponed.set(postgres.postponedDays.length)
    this.#showHorizon(postgres.horizon ?? UNHELD)
  }

  #showOutbox({ isReachable, waiting, oldestMs, refused }: OutboxHealth): void {
    const { outboxUp, outboxWaiting, outboxOldest, outboxRefused } = this.#gauges
    outboxUp.set(isReachable ? 1 : 0)
    if (!isReachable) return
    outboxWaiting.set(waiting)
    outboxOldest.set(oldestMs / 1_000)
    outboxRefused.set(refused)
  }

  #showHorizon({ ageMs, xids, holder }: Horizon): void {
    const { horizonAge, horizonXids, horizonHeld } = this.#gauges
    horizonAge.set(ageMs / 1_000)
    horizonXids.set(xids)
    for (const kind of HOLDERS) horizonHeld.set({ kind }, holder?.kind === kind ? 1 : 0)
  }
}

function makeGauges(registry: Registry) {
  const gauge = gaugesOf(registry)
  return {
    up: gauge('store_up', '1 when the store answered the last time it was asked.'),
    depth: gauge('queue_jobs', 'Jobs by queue and state.', ['queue', 'state']),
    oldest: gauge('queue_oldest_ready_seconds', 'Age of the job that has been ready longest; 0 without one.', [
      'queue',
    ]),
    paused: gauge('queue_paused', '1 while the queue gives no jobs.', ['queue']),
    workers: gauge('queue_workers', 'Live workers that serve the queue, in every process.', ['queue']),
    slots: gauge('queue_slots', 'Jobs those workers can run concurrently, of this and their other queues.', ['queue']),
    live: gauge('workers', 'Live workers, in every process.'),
    heartbeat: gauge(
      'worker_heartbeat_age_seconds',
      'How long ago the most silent worker was seen, of those seen within 5 minutes.',
    ),
    roundTrip: gauge('store_round_trip_seconds', 'How long the store took to say its time.'),
    outboxUp: gauge('outbox_up', '1 when PostgreSQL answered the last time the outbox was asked.'),
    outboxWaiting: gauge(
      'outbox_waiting',
      'Rows of the outbox that are committed and not sent; at most 20,000 are counted.',
    ),
    outboxOldest: gauge('outbox_oldest_seconds', 'How long the oldest of them has waited; 0 without one.'),
    outboxRefused: gauge('outbox_refused', 'Jobs of the last seven days that could never be created; at most 1,000.'),
    bytes: gauge('database_bytes', 'Size of the database.'),
    deadRows: gauge('database_dead_rows', 'Rows that wait to be vacuumed, by table.', ['table']),
    postponed: gauge('retention_days_postponed', 'Days past their retention that could not be dropped.'),
    horizonAge: gauge('database_horizon_age_seconds', 'Age of the oldest snapshot that keeps dead rows from removal.'),
    horizonXids: gauge('database_horizon_xids', 'Transactions since that snapshot.'),
    horizonHeld: gauge('database_horizon_held', '1 for the kind of thing that holds it.', ['kind']),
  }
}

// Metrics of one process for Prometheus: what it does (process-metrics.ts), how its workers and its event loop are, and
// what the store says (store-metrics.ts).

import { Registry } from 'prom-client'
import { checkBoolean, checkKeys, checkName, checkWhole } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { invalidOption } from '../core/errors.js'
import type { Ports } from '../core/ports.js'
import type { Holdfast } from '../holdfast.js'
import { systemPorts } from '../system-ports.js'
import { VERSION } from '../version.js'
import { EventLoop } from './event-loop.js'
import { gaugesOf } from './gauges.js'
import { BoundedNames } from './names.js'
import { ProcessMetrics } from './process-metrics.js'
import { StoreMetrics } from './store-metrics.js'

/** What is measured, and in how much detail. */
export interface MetricsOptions {
  /** The most queues, and the most types, that get a label of their own, from 1 to 1,000. Default 50. Those seen later are `other`.
   *  Counters of jobs have a series for each pair of queue and type that occurs. */
  readonly namesMax?: number
  /** Queues and types that get one whatever is seen first. Default those seen first. */
  readonly queues?: readonly string[]
  readonly types?: readonly string[]
  /** Limits that get one, of up to `namesMax`. Default the first by name of those there are at the first look, then as they are made. */
  readonly limits?: readonly string[]
  /** Whether this process also asks the store for depths, workers and health. Default true; one process that does is enough. */
  readonly store?: boolean
  /** How long an answer of the store is good for, at least '5s'. Default '10s'. */
  readonly cache?: Duration
  /** Where time comes from. Default the machine's; tests give their own. */
  readonly ports?: Ports
}

const DEFAULTS = { namesMax: 50, queues: [], types: [], limits: [], store: true, cache: '10s' } as const
const CACHE_MS_MIN = 5_000
const ACTIVITIES_MAX = 50

/** The metrics of one process. */
export interface Metrics extends Disposable {
  /** Where they are registered; add your own to it. Read them with `render`, which brings them up to date first. */
  readonly registry: Registry
  /** The Content-Type of what `render` gives. */
  readonly contentType: string
  /** Everything in the text format of Prometheus. Waits for the store 2 seconds at most, and does not raise when it is away. */
  render(): Promise<string>
  /** Ends counting. What was counted can still be rendered. */
  close(): void
}

/**
 * Counts what happens in this process from now on. Make one for each connected queue.
 *
 * @example
 * const metrics = createMetrics(holdfast)
 * response.setHeader('content-type', metrics.contentType).end(await metrics.render())
 */
export function createMetrics(holdfast: Holdfast, options: MetricsOptions = {}): Metrics {
  const settings = resolveOptions(options)
  const registry = new Registry()
  const queues = new BoundedNames(settings.namesMax, settings.queues)
  const types = new BoundedNames(settings.namesMax, settings.types)
  const activities = new BoundedNames(ACTIVITIES_MAX)
  const limits = new BoundedNames(settings.namesMax, settings.limits)
  const own = new ProcessMetrics({ registry, queues, types, limits, activities })
  const { ports, cacheMs } = settings
  const store = settings.store ? new StoreMetrics({ source: holdfast, registry, queues, limits, ports, cacheMs }) : null
  const surroundings = new Surroundings(holdfast, registry, ports)
  const unlisten = holdfast.on(own.hear)
  const close = () => {
    unlisten()
    surroundings.close()
  }
  return {
    registry,
    contentType: registry.contentType,
    async render() {
      await store?.refresh()
      own.refresh()
      surroundings.refresh()
      return registry.metrics()
    },
    close,
    [Symbol.dispose]: close,
  }
}

interface MetricsSettings {
  readonly namesMax: number
  readonly queues: readonly string[]
  readonly types: readonly string[]
  readonly limits: readonly string[]
  readonly store: boolean
  readonly cacheMs: number
  readonly ports: Ports
}

function resolveOptions(options: MetricsOptions): MetricsSettings {
  checkKeys('createMetrics', options, ['namesMax', 'queues', 'types', 'limits', 'store', 'cache', 'ports'])
  return {
    namesMax: checkWhole('namesMax', options.namesMax ?? DEFAULTS.namesMax, 1, 1_000),
    queues: checkNames('queues', options.queues ?? DEFAULTS.queues),
    types: checkNames('types', options.types ?? DEFAULTS.types),
    limits: checkNames('limits', options.limits ?? DEFAULTS.limits),
    store: checkBoolean('store', options.store ?? DEFAULTS.store),
    cacheMs: durationMs(options.cache ?? DEFAULTS.cache, { name: 'cache', minMs: CACHE_MS_MIN }),
    ports: options.ports ?? systemPorts,
  }
}

function checkNames(what: string, names: readonly string[]): readonly string[] {
  if (Array.isArray(names) && names.length <= 1_000) return names.map((name) => checkName(`each of ${what}`, name))
  throw invalidOption(`${what} must be an array of at most 1,000 names`, names)
}

// The lag is that of a while; two scrapers must not take it from each other.
const LAG_MS = 5_000

/** What is around the jobs: this process's workers and its event loop. */
class Surroundings {
  readonly #holdfast: Holdfast
  readonly #ports: Ports
  readonly #loop = new EventLoop()
  readonly #gauges: ReturnType<typeof makeGauges>
  #lagReadMs = Number.NEGATIVE_INFINITY

  constructor(holdfast: Holdfast, registry: Registry, ports: Ports) {
    this.#holdfast = holdfast
    this.#ports = ports
    this.#gauges = makeGauges(registry)
    this.#gauges.build.set({ version: VERSION }, 1)
  }

  refresh(): void {
    const workers = this.#holdfast.localWorkers
    const slots = workers.reduce((sum, worker) => sum + worker.concurrency, 0)
    const running = workers.reduce((sum, worker) => sum + worker.running, 0)
    const gauges = this.#gauges
    gauges.slots.set(slots)
    gauges.utilisation.set(slots === 0 ? 0 : running / slots)
    gauges.children.set(workers.reduce((sum, worker) => sum + (worker.children?.running ?? 0), 0))
    const nowMs = this.#ports.clock.monotonic()
    if (nowMs - this.#lagReadMs < LAG_MS) return
    this.#lagReadMs = nowMs
    for (const [stat, seconds] of Object.entries(this.#loop.read())) gauges.lag.set({ stat }, seconds)
  }

  close(): void {
    this.#loop.stop()
  }
}

function makeGauges(registry: Registry) {
  const gauge = gaugesOf(registry)
  return {
    build: gauge('build_info', 'Always 1; its label says which version this is.', ['version']),
    slots: gauge('worker_slots', 'Jobs the workers of this process can run concurrently.'),
    utilisation: gauge('worker_utilisation_ratio', 'How many of those slots are taken, 0 to 1.'),
    children: gauge('children', 'Children of those workers that are ready to run handlers.'),
    lag: gauge('event_loop_lag_seconds', 'How late the event loop was since the last reading.', ['stat']),
  }
}

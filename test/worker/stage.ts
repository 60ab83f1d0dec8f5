// Where the tests of worker and upkeep play: a memory store, a manual clock, chance that repeats itself, and a record of
// every event.

import { defineJob } from '../../src/client/define-job.js'
import type { Handler, HandlerFunction } from '../../src/core/definition.js'
import { HoldfastError } from '../../src/core/errors.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import { idMaker } from '../../src/core/id.js'
import type { NewJob } from '../../src/core/job.js'
import { type Ports, sleep } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import type { JobView } from '../../src/core/views.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { Upkeep, type UpkeepOptions } from '../../src/upkeep/upkeep.js'
import type { WorkerOptions } from '../../src/worker/options.js'
import { Worker } from '../../src/worker/worker.js'

type EventNamed<Name extends HoldfastEvent['name']> = Extract<HoldfastEvent, { name: Name }>

export interface Stage {
  readonly clock: ManualClock
  readonly ports: Ports
  /** The store, which fails on demand. */
  readonly store: Store
  readonly events: HoldfastEvent[]
  /** Makes calls of these methods fail until `heal()`; without names, every call. `lose` lets them take effect first. */
  fail(methods?: readonly (keyof Store)[], options?: { readonly error?: Error; readonly lose?: boolean }): void
  heal(): void
  /** Makes calls of a method take this long before they take effect, by the manual clock. */
  slow(method: keyof Store, ms: number): void
  /** Calls of a store method so far. */
  calls(method: keyof Store): number
  heard<Name extends HoldfastEvent['name']>(name: Name): EventNamed<Name>[]
  /** With another store than the stage's own, where one is given. */
  worker(options: WorkerOptions, otherStore?: Store): Worker
  upkeep(options?: UpkeepOptions): Upkeep
  enqueue(job?: Partial<NewJob>): Promise<string>
  get(id: string): Promise<JobView>
}

export function openStage(): Stage {
  const clock = manualClock()
  const ports: Ports = { clock, timers: clock.timers, random: seededRandom() }
  const events: HoldfastEvent[] = []
  const emit = (event: HoldfastEvent) => void events.push(event)
  const faults = new Map<string, { readonly error: Error; readonly lose: boolean }>()
  const counts = new Map<string, number>()
  const memory = memoryStore({ clock })
  const slows = new Map<string, number>()
  const store = withFaults(memory, { faults, counts, slows, ports })
  const makeId = idMaker(() => clock.now(), ports.random)

  return {
    clock,
    ports,
    store,
    events,
    fail(methods = ['*' as keyof Store], { error = unavailable(), lose = false } = {}) {
      for (const method of methods) faults.set(method, { error, lose })
    },
    heal: () => faults.clear(),
    slow: (method, ms) => void slows.set(method, ms),
    calls: (method) => counts.get(method) ?? 0,
    heard: (name) => events.filter((event) => event.name === name) as never,
    worker: (options, otherStore = store) =>
      new Worker(
        { store: otherStore, ports, emit, hasListeners: () => true, version: '0.0.0', host: 'test', pid: 1 },
        { name: 'w', ...options },
      ),
    upkeep: (options) => new Upkeep({ store, ports, emit }, options),
    async enqueue(job = {}) {
      const id = makeId()
      await memory.enqueue([{ ...PLAIN_JOB, id, ...job }])
      return id
    },
    async get(id) {
      const view = await memory.get(id)
      if (view === null) throw new Error(`no job ${id}`)
      return view
    },
  }
}

const PLAIN_JOB: Omit<NewJob, 'id'> = {
  queue: 'default',
  type: 'work',
  payload: '{}',
  version: 1,
  priority: 0,
  when: null,
  limits: {},
  idempotencyKey: null,
  after: [],
  onParentDead: 'cancel',
  tags: [],
  trace: null,
}

export function unavailable(): HoldfastError {
  return new HoldfastError('store_unavailable', 'the store is away', { retryable: true })
}

function withFaults(
  memory: Store,
  {
    faults,
    counts,
    slows,
    ports,
  }: {
    readonly faults: ReadonlyMap<string, { readonly error: Error; readonly lose: boolean }>
    readonly counts: Map<string, number>
    readonly slows: ReadonlyMap<string, number>
    readonly ports: Ports
  },
): Store {
  return new Proxy(memory, {
    get(target, method: string) {
      const plain = target[method as keyof Store]
      if (typeof plain !== 'function' || ['listen', 'mute', 'wake', 'extender'].includes(method)) return plain
      return async (...values: unknown[]) => {
        counts.set(method, (counts.get(method) ?? 0) + 1)
        const slowMs = slows.get(method)
        if (slowMs !== undefined) await sleep(ports.timers, slowMs)
        const fault = faults.get(method) ?? faults.get('*')
        if (fault !== undefined && !fault.lose) throw fault.error
        const answer: unknown = await (plain as (...values: unknown[]) => unknown)(...values)
        if (fault !== undefined) throw fault.error
        return answer
      }
    },
  })
}

/** A handler of type "work" in the default queue. */
export function work(run: HandlerFunction<unknown>): Handler {
  return defineJob('work').handle(run)
}

/** A promise and the functions that end it. */
export interface Gate<T = void> {
  readonly promise: Promise<T>
  readonly open: (value: T) => void
  readonly fail: (error: unknown) => void
}

export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void
  let fail!: (error: unknown) => void
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve
    fail = reject
  })
  return { promise, open, fail }
}

/** Resolves when the signal fires, with its reason. */
export function whenAborted(signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.resolve(signal.reason)
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason), { once: true }))
}

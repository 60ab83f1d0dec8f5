// A client on the memory store with a clock that stands still, and a way to make the store fail.

import { Client } from '../../src/client/client.js'
import type { ClientSettings } from '../../src/client/client-deps.js'
import { Events } from '../../src/client/events.js'
import { StoreTime } from '../../src/client/store-time.js'
import type { Settlement } from '../../src/core/decide.js'
import { HoldfastError } from '../../src/core/errors.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Enqueued, NewJob } from '../../src/core/job.js'
import type { Ports } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

export interface OpenClient {
  readonly client: Client
  /** The store beneath the client, which never fails. */
  readonly store: Store
  readonly clock: ManualClock
  readonly events: Events
  readonly heard: HoldfastEvent[]
  /** What upkeep would have been told. */
  readonly timed: number[]
}

export interface OpenOptions extends Partial<ClientSettings> {
  /** Stands between the client and the store. */
  readonly between?: (store: Store) => Store
}

export async function openClient({ between = (store) => store, ...settings }: OpenOptions = {}): Promise<OpenClient> {
  const clock = manualClock()
  const store = memoryStore({ clock })
  const events = new Events()
  const heard: HoldfastEvent[] = []
  events.on((event) => heard.push(event))
  const timed: number[] = []
  const seen = between(store)
  const client = new Client(
    {
      store: seen,
      ports: testPorts(clock),
      events,
      time: await StoreTime.read(store, clock),
      onTimed: (ms) => timed.push(ms),
      onScheduled: () => {},
      workers: { isWorking: () => false, claimInFlight: () => null, reserve: () => null },
    },
    { payloadBytesMax: 1024 * 1024, enqueueTimeoutMs: 30_000, bufferJobsMax: 20_000, ...settings },
  )
  return { client, store, clock, events, heard, timed }
}

export function testPorts(clock: ManualClock): Ports {
  return { clock, timers: clock.timers, random: seededRandom() }
}

/** What happens to one enqueue: raise to fail before the write, wait to delay it. */
export interface EnqueueFaults {
  before?(jobs: readonly NewJob[]): void | Promise<void>
  /** After the write, before its answer arrives. */
  after?(jobs: readonly NewJob[]): void | Promise<void>
}

/** Lets faults happen to enqueue; everything else goes through. `calls` has the jobs of each call. */
export function faultyEnqueue(store: Store, faults: EnqueueFaults, calls: (readonly NewJob[])[] = []): Store {
  return {
    ...store,
    async enqueue(jobs, options): Promise<readonly Enqueued[]> {
      calls.push(jobs)
      await faults.before?.(jobs)
      const answers = await store.enqueue(jobs, options)
      await faults.after?.(jobs)
      return answers
    },
  }
}

export function unavailable(): HoldfastError {
  return new HoldfastError('store_unavailable', 'the connection was cut', { retryable: true })
}

/** A promise that is opened from outside. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

/** Lets everything run that does not wait for time. */
export async function settled(clock: ManualClock): Promise<void> {
  await clock.advance(0)
}

/** Claims the one ready job of a queue and settles it, as a worker would. */
export async function finish(
  store: Store,
  queue: string,
  settlement: { readonly state: Settlement['state']; readonly result?: unknown; readonly error?: Error },
): Promise<string> {
  const { jobs } = await store.claim({ queues: [{ queue, limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 })
  const job = jobs[0]
  if (job === undefined) throw new Error(`queue ${queue} has no ready job`)
  const { error, result } = settlement
  await store.settle([
    {
      id: job.id,
      fence: job.fence,
      queue,
      settlement: {
        state: settlement.state,
        attempt: job.attempt,
        crashes: 0,
        reason: 'attempts',
        delayMs: 1_000,
      } as Settlement,
      result: result === undefined ? null : JSON.stringify(result),
      error: error === undefined ? null : { name: error.name, message: error.message },
      ranMs: 5,
      idempotencyKey: job.idempotencyKey,
    },
  ])
  return job.id
}

/** The error a promise rejects with; fails when it does not. */
export async function failure(promise: Promise<unknown>): Promise<HoldfastError> {
  const result = await promise.then(
    () => null,
    (error: unknown) => error,
  )
  if (result instanceof Error) return result as HoldfastError
  throw new Error('it was expected to reject and did not')
}

/** How many jobs there are, in any state. */
export async function count(store: Store): Promise<number> {
  return (await store.list({ filter: {}, limit: 200, before: null })).jobs.length
}

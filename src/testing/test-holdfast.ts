// A whole queue for tests: the memory store or a schema of its own, a clock in the test's hands, and everything else as in production.

import type { Handler } from '../core/definition.js'
import { given } from '../core/given.js'
import type { Ports } from '../core/ports.js'
import type { JobView } from '../core/views.js'
import { type Holdfast, type HoldfastOptions, openHoldfast } from '../holdfast.js'
import { type AnswerQuery, beginIn, type MemoryTransaction, memoryStore } from '../stores/memory/index.js'
import { openTestStore } from '../test-store.js'
import { Upkeep } from '../upkeep/upkeep.js'
import { type DrainOptions, drain } from './drain.js'
import { type ManualClock, manualClock } from './manual-clock.js'
import { seededRandom } from './seeded-random.js'

/** What a test may choose. */
export interface TestHoldfastOptions extends Omit<HoldfastOptions, 'ports' | 'upkeep'> {
  /** A PostgreSQL server to use instead of the memory store: everything is in a schema of its own, which `close()` drops. */
  readonly url?: string
  /** The clock to use, for several queues on one. Default a new one that shows noon of 15 January 2026 UTC. */
  readonly clock?: ManualClock
  /** Where jitter and ids come from: the same seed gives the same ones. Default 1. */
  readonly seed?: number
}

/** A queue in the hands of a test. */
export interface TestHoldfast extends AsyncDisposable {
  /** As `connect` gives it. Its upkeep runs when the test drains. */
  readonly holdfast: Holdfast
  readonly clock: ManualClock
  /** The schema of a queue on PostgreSQL; null on the memory store. */
  readonly schema: string | null
  /** Begins a transaction of the memory store, for code that takes a `tx`. It answers other queries with what `answer` gives, by default
   *  no rows, and records them. Raises `unsupported` on PostgreSQL, where a transaction is that of any client. */
  begin(answer?: AnswerQuery): MemoryTransaction
  /**
   * Runs every job that is due and has a handler, also those that become ready meanwhile, and resolves with the jobs that
   * finished by it. Jobs of other types stay where they are.
   */
  drain(handlers: readonly Handler[], options?: DrainOptions): Promise<readonly JobView[]>
  close(): Promise<void>
}

/**
 * Opens a queue that needs no server; or, with `url`, one on PostgreSQL whose time is that of the test's clock.
 *
 * @example
 * const { holdfast, drain } = await testHoldfast()
 * await signUp(holdfast, 'ann@example.com')
 * const [job] = await drain([sendEmail.handle(send)])
 */
export async function testHoldfast(options: TestHoldfastOptions = {}): Promise<TestHoldfast> {
  const { clock = manualClock(), seed = 1, url, ...others } = options
  const ports: Ports = { clock, timers: clock.timers, random: seededRandom(seed) }
  const { store, schema } =
    url === undefined ? { store: memoryStore({ clock }), schema: null } : await openTestStore(url, clock)
  const holdfast = await openHoldfast(store, { ...others, ports, upkeep: false })
  // Stepped by drain, never started: nothing happens behind the test's back.
  const { retention } = others
  // A clock that is moved by hours is no outage here, so rescue does not wait for anybody.
  const upkeep = new Upkeep({ store, ports, emit: () => {} }, { ...given({ retention }), hold: 0 })
  const close = () => holdfast.close()
  return {
    holdfast,
    clock,
    schema,
    begin: (answer) => beginIn(store, answer),
    drain: (handlers, how) => drain({ holdfast, store, clock, upkeep }, handlers, how),
    close,
    [Symbol.asyncDispose]: close,
  }
}

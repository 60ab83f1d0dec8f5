// What the conformance suite needs from its caller, and what each of its facts is given.

import type { Store } from '../../core/store.js'
import { type ManualClock, manualClock } from '../manual-clock.js'
import { START_MS } from './samples.js'

/** The part of a test runner's expectations the suite uses. Vitest's and Jest's fit. */
export interface Expectation {
  toBe(expected: unknown): void
  toEqual(expected: unknown): void
  toMatchObject(expected: object): void
  toHaveLength(length: number): void
  toContain(expected: unknown): void
  toBeGreaterThan(expected: number): void
}

export type Expect = (value: unknown) => Expectation

/** Parts of the contract that a store may lack. */
export type Capability = 'flow' | 'replace' | 'kept'

/** What runs the suite: a test runner's two functions, and how to open the store in question. */
export interface SuiteContext {
  readonly test: (name: string, run: () => Promise<void>) => unknown
  readonly expect: Expect
  /** Opens a store that keeps nothing yet and takes its time from the clock. The suite closes it. */
  readonly openStore: (clock: ManualClock) => Promise<Store>
  /** Opens the store that was opened last a second time, as another process would. Without it the facts about concurrency
   *  make all their calls through one. */
  readonly openPeer?: (clock: ManualClock) => Promise<Store>
  /** What the store lacks, and why. The facts about it are skipped. */
  readonly lacks?: Readonly<Partial<Record<Capability, string>>>
  /** Registers a test that is not run. Without it such facts are left out. */
  readonly skip?: (name: string) => unknown
}

/** What a fact works with. Everything in it is its own. */
export interface Scene {
  readonly store: Store
  /** Stands at START_MS. */
  readonly clock: ManualClock
  readonly expect: Expect
  /** The same store as another process sees it. */
  readonly openPeer: () => Promise<Store>
}

/** Facts by name. The names of all files together read as the specification of a store. */
export type Facts = Readonly<Record<string, (scene: Scene) => Promise<void>>>

/** The same fact about each of several things, named for each. */
export function factsFor<const T>(
  things: readonly T[],
  name: (thing: T) => string,
  run: (scene: Scene, thing: T) => Promise<void>,
): Facts {
  return Object.fromEntries(things.map((thing) => [name(thing), (scene: Scene) => run(scene, thing)]))
}

/** Registers facts as tests. Each gets a fresh store, which is closed also when the fact fails. Those that need a capability which the
 *  store lacks are skipped with its reason. */
export function register(context: SuiteContext, facts: Facts, ...capabilities: readonly Capability[]): void {
  const missing = capabilities.map((capability) => context.lacks?.[capability]).find((reason) => reason !== undefined)
  for (const [name, run] of Object.entries(facts)) {
    if (missing === undefined) context.test(name, () => runFact(context, run))
    else context.skip?.(`${name} (${missing})`)
  }
}

async function runFact(context: SuiteContext, run: Facts[string]): Promise<void> {
  const clock = manualClock(START_MS)
  const store = await context.openStore(clock)
  const opened = [store]
  const openPeer = async (): Promise<Store> => {
    if (context.openPeer === undefined) return store
    const peer = await context.openPeer(clock)
    opened.push(peer)
    return peer
  }
  try {
    await run({ store, clock, expect: context.expect, openPeer })
  } finally {
    await Promise.all(opened.map((each) => each.close()))
  }
}

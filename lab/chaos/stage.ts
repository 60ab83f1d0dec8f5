// What a run needs of the store it is on. postgres/stage.ts has it for PostgreSQL, redis/stage.ts for Redis. Everything else in a run is
// the same for both.

import type { Store } from '../../src/core/store.js'
import type { Holdfast } from '../../src/holdfast.js'
import type { Recorder } from '../gen/recorder.js'
import type { FinalDay, RunBegun, StoreEvent } from '../history/events.js'
import type { FleetWorker } from './fleet.js'
import type { Producer } from './load.js'
import type { PlannedFault } from './plan.js'
import type { FaultProxy } from './proxy.js'
import type { FaultKind } from './settings.js'

/** How a process gets to the store. */
export interface Way {
  readonly url: string
  /** Its own link, which can be broken; null for a process that finds the server itself. */
  readonly link: FaultProxy | null
}

/** Who goes the way. */
export interface Traveller {
  readonly kind: 'worker' | 'producer'
  /** Counted from 1. */
  readonly number: number
}

/** A run that is on: its processes and its records. */
export interface Scene {
  readonly stage: Stage
  readonly fleet: readonly FleetWorker[]
  readonly producers: readonly Producer[]
  readonly recorder: Recorder
}

/** Makes a fault. `begin` is called when it happens. */
export type Make = (scene: Scene, fault: PlannedFault, begin: () => void) => Promise<void>

export interface Stage {
  /** Whether it has a disk that can be filled. */
  readonly hasDisk: boolean
  /** What processes are told beside the URL. */
  readonly schema: string
  /** Where handlers outside a transaction leave their effects; null for the store itself. */
  readonly effectsUrl: string | null
  /** Opens the way of a process. Its caller closes the link. */
  way(traveller: Traveller): Promise<Way>
  /** Makes the store, and lets `setUp` fill it past all links. Then everything that happens in it is recorded. */
  prepare(setUp: (store: Store) => Promise<void>): Promise<void>
  /** Opens what is there beside workers and producers. */
  enter(place: { readonly folder: string; readonly recorder: Recorder }): Promise<void>
  /** A client past the links of workers and producers; null where the run needs none. */
  readonly operator: Holdfast | null
  /** The faults that only this store has, and those of all stores that it makes in its own way. */
  readonly makers: Readonly<Partial<Record<FaultKind, Make>>>
  /** Waits until its servers are complete again after a fault. */
  settled(): Promise<void>
  /** Ends what is left of faults. */
  heal(): void
  /** The store's time. */
  now(): Promise<number>
  /** A small write, past all links. */
  probe(): Promise<void>
  /** Whether each schedule has fired up to this time. */
  hasFired(untilMs: number): Promise<boolean>
  removeSchedules(): Promise<void>
  /** How many jobs have not finished; null when the store can't tell now. */
  left(): Promise<number | null>
  /** Whether the days past their retention are gone. */
  isPruned(): Promise<boolean>
  /** Ends what `enter` opened. */
  leave(): Promise<void>
  /** What happened in the store, then each job's final state. */
  events(run: RunBegun): AsyncIterable<StoreEvent | FinalDay>
  close(): Promise<void>
}

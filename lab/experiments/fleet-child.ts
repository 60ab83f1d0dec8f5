// One worker process of a fleet: runs generated, plain and timed jobs, and reports when asked.

import { openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import type { Message } from '../bench/children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import { Backends } from './backends.js'
import { Effects } from './effects.js'
import { fleetHandlers } from './handlers.js'
import type { PackedHistogram } from './histogram.js'
import { profileFor, type TopFunction } from './profile.js'
import { RecordFile } from './records.js'
import type { CallSplit } from './split.js'
import { SplitWatch } from './split-watch.js'
import { type StoreCounts, StoreWatch } from './store-watch.js'

export interface FleetAssignment {
  readonly url: string
  /** A list, or the weight of each. */
  readonly queues: readonly string[] | Readonly<Record<string, number>>
  readonly slots: number
  /** Null takes the worker's default, here and below. */
  readonly prefetch: number | null
  readonly claimBatch: number | null
  readonly leaseMs: number | null
  readonly drainMs: number | null
  /** How long rescue waits after the server has started. */
  readonly holdMs: number | null
  /** How long plain jobs run whose payload says nothing about it, drawn evenly. */
  readonly plainMs: readonly [from: number, to: number]
  /** Types beside "noop" that run as plain jobs do. */
  readonly types: readonly string[]
  /** What jobs of the type "call" call; null when there are none. */
  readonly dependencyUrl: string | null
  /** File for records of runs; null for none. */
  readonly record: string | null
  /** Whether handlers write to the table of effects. */
  readonly hasEffects: boolean
  /** False lets leases expire as if nothing extended them. */
  readonly extends: boolean
}

/** The answer to `sample`: counts since the start, times since the last sample. */
export interface FleetSample extends Message {
  readonly counts: StoreCounts
  readonly claims: PackedHistogram
  readonly claimSplits: readonly CallSplit[]
  readonly late: PackedHistogram
  readonly running: number
  readonly repeatedEffects: number
  readonly cpuUs: number
  /** How long the main thread has waited for a processor since the start. */
  readonly waitedUs: number
}

export interface DependencyMessage extends Message {
  readonly kind: 'dependency'
  readonly isDown: boolean
}

export interface ProfileMessage extends Message {
  readonly kind: 'profile'
  readonly ms: number
}

export interface ProfileAnswer extends Message {
  readonly kind: 'profiled'
  readonly top: readonly TopFunction[]
}

async function main(assignment: FleetAssignment): Promise<void> {
  const record = assignment.record === null ? null : new RecordFile(assignment.record)
  const split = new SplitWatch(new Backends(), 'claim jobs')
  const watch = new StoreWatch({ record, extends: assignment.extends, split })
  const effects = assignment.hasEffects ? new Effects(assignment.url) : null
  const dependency = { isDown: false }
  const { handlers, late } = fleetHandlers({ assignment, record, effects, dependency })
  const { holdMs, prefetch, claimBatch, leaseMs, drainMs } = assignment
  const store = watch.wrap(await postgresStore(assignment.url))
  const client = await openHoldfast(store, holdMs === null ? {} : { upkeep: { hold: holdMs } })
  const worker = client.worker({
    handlers,
    queues: assignment.queues,
    concurrency: assignment.slots,
    ...(prefetch === null ? {} : { prefetch }),
    ...(claimBatch === null ? {} : { claimBatch }),
    ...(leaseMs === null ? {} : { lease: leaseMs }),
    ...(drainMs === null ? {} : { drain: drainMs }),
  })
  answerParent('sample', () => {
    const { user, system } = process.cpuUsage()
    const repeatedEffects = effects?.repeated ?? 0
    const { counts } = watch
    const times = { claims: watch.claims.take(), claimSplits: watch.claimSplits.take(), late: late.take() }
    const spent = { cpuUs: user + system, waitedUs: split.waitedUs }
    return { counts, ...times, running: worker.running, repeatedEffects, ...spent }
  })
  answerParent<DependencyMessage>('dependency', ({ isDown }) => {
    dependency.isDown = isDown
    return {}
  })
  void receiveFromParent<ProfileMessage>('profile').then(async ({ ms }) => {
    sendToParent<ProfileAnswer>({ kind: 'profiled', top: await profileFor(ms) })
  })
  // A deploy ends a worker like this, and so does the parent.
  const stop = Promise.race([new Promise((resolve) => process.once('SIGTERM', resolve)), receiveFromParent('stop')])
  sendToParent({ kind: 'ready' })
  await receiveFromParent('start')
  await worker.start()
  await stop
  await worker.stop()
  await client.close()
  await effects?.close()
  record?.close()
  sendToParent({ kind: 'stopped' })
  leaveParent()
}

await main(readAssignment<FleetAssignment>())

// One worker process of a fleet: runs generated, plain and timed jobs, and reports when asked.

import { openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import type { Message } from '../bench/children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import { Effects } from './effects.js'
import { fleetHandlers } from './handlers.js'
import type { PackedHistogram } from './histogram.js'
import { profileFor, type TopFunction } from './profile.js'
import { RecordFile } from './records.js'
import { type StoreCounts, StoreWatch } from './store-watch.js'

export interface FleetAssignment {
  readonly url: string
  readonly queues: readonly string[]
  readonly slots: number
  /** Null takes the worker's default, here and below. */
  readonly prefetch: number | null
  readonly claimBatch: number | null
  readonly leaseMs: number | null
  readonly drainMs: number | null
  /** How long rescue waits after the server has started. */
  readonly holdMs: number | null
  /** How long plain jobs run, drawn evenly. */
  readonly plainMs: readonly [from: number, to: number]
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
  readonly late: PackedHistogram
  readonly running: number
  readonly repeatedEffects: number
  readonly cpuUs: number
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
  const watch = new StoreWatch({ record, extends: assignment.extends })
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
    const times = { claims: watch.claims.take(), late: late.take() }
    return { counts, ...times, running: worker.running, repeatedEffects, cpuUs: user + system }
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

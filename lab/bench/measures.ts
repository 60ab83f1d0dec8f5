// The measures, each written once against a contender.

import type { Contender, Feature, Servers } from './contender.js'
import { drain, drainDepth, drainTogether, drainWith } from './drains.js'
import { memory } from './memory.js'
import { PAYLOAD } from './payloads.js'

/** One measurement in one process. */
export interface Measured {
  readonly jobs: number
  readonly seconds: number
  /** Milliseconds, where single calls or jobs were timed. */
  readonly p50?: number
  readonly p99?: number
  readonly max?: number
  /** Processor time of further processes that took part, in microseconds. */
  readonly othersCpuUs?: number
  /** Memory of the server for each job, in bytes: while it waits, and when it has finished and is kept. */
  readonly waitingBytes?: number
  readonly finishedBytes?: number
}

export interface Scale {
  /** How long timed measures run. */
  readonly seconds: number
  /** How many jobs are drained; a contender may drain a share of it. */
  readonly drainJobs: number
  /** A short backlog and a deep one, whose speeds are compared. */
  readonly depths: { readonly short: number; readonly deep: number }
  readonly latencySamples: number
}

/** The context of a measure. */
export interface Stage {
  readonly contender: Contender
  /** The contender's name on the command line, for those that open it in further processes. */
  readonly name: string
  readonly servers: Servers
  readonly scale: Scale
}

export interface Measure {
  /** The feature it needs, which not every contender has. */
  readonly feature: Feature | null
  /** The store that it is for; all where this is absent. */
  readonly store?: 'redis'
  /** The contenders that it is for; all where this is absent. */
  readonly only?: readonly string[]
  run(stage: Stage): Promise<Measured>
}

const BATCH = 500

/** Callers that each await one enqueue after the other. */
const single =
  (callers: number): Measure['run'] =>
  async ({ contender, scale: { seconds } }) => {
    const took: number[] = []
    const began = performance.now()
    const until = began + seconds * 1_000
    await Promise.all(
      Array.from({ length: callers }, async () => {
        for (let now = performance.now(); now < until; ) {
          await contender.enqueueOne(PAYLOAD)
          const after = performance.now()
          took.push(after - now)
          now = after
        }
      }),
    )
    return timed(took, (performance.now() - began) / 1_000)
  }

/** Batches of 500, two in flight. */
const bulk: Measure['run'] = async ({ contender, scale: { seconds } }) => {
  const payloads = Array.from({ length: BATCH }, () => PAYLOAD)
  let jobs = 0
  const began = performance.now()
  const until = began + seconds * 1_000
  await Promise.all(
    [1, 2].map(async () => {
      while (performance.now() < until) {
        await contender.enqueueMany(payloads)
        jobs += BATCH
      }
    }),
  )
  return { jobs, seconds: (performance.now() - began) / 1_000 }
}

/** 64 callers enqueue while the worker drains; counts what was handled. */
const both: Measure['run'] = async ({ contender, scale: { seconds } }) => {
  let handled = 0
  const stop = await contender.startWorker(() => {
    handled++
  })
  const began = performance.now()
  const until = began + seconds * 1_000
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      while (performance.now() < until) await contender.enqueueOne(PAYLOAD)
    }),
  )
  const measured = { jobs: handled, seconds: (performance.now() - began) / 1_000 }
  await stop()
  return measured
}

/** From enqueue to the handler's start, one job at a time on an idle queue. */
const idle: Measure['run'] = async ({ contender, scale: { latencySamples } }) => {
  const took: number[] = []
  let started: () => void = () => {}
  const stop = await contender.startWorker(() => started())
  const began = performance.now()
  for (let sample = 0; sample < latencySamples + 20; sample++) {
    const start = new Promise<void>((resolve) => {
      started = resolve
    })
    const at = performance.now()
    await contender.enqueueOne(PAYLOAD)
    await start
    // The first ones open connections.
    if (sample >= 20) took.push(performance.now() - at)
    await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 10))
  }
  await stop()
  return timed(took, (performance.now() - began) / 1_000)
}

/** From enqueue to start at 1,000 jobs a second, sent on time whether the queue keeps up or not. */
const loaded: Measure['run'] = async ({ contender, scale: { seconds } }) => {
  const took: number[] = []
  const stop = await contender.startWorker((payload) => {
    took.push(performance.now() - (payload as { at: number }).at)
  })
  const count = seconds * 1_000
  const began = performance.now()
  const sent: Promise<void>[] = []
  for (let n = 0; n < count; ) {
    const due = Math.min(count, Math.floor(performance.now() - began))
    for (; n < due; n++) sent.push(contender.enqueueOne({ at: began + n }))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(sent)
  const until = performance.now() + 10_000
  while (took.length < count && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 10))
  await stop()
  return timed(took.slice(Math.floor(took.length / 10)), (performance.now() - began) / 1_000)
}

/** How long the claims of a drain take that find jobs. */
const claims: Measure['run'] = async (stage) => {
  const { jobs, seconds } = await drain(stage)
  return { ...timed(stage.contender.claimsMs ?? [], seconds), jobs }
}

function timed(took: readonly number[], seconds: number): Measured {
  // Sorted once and as numbers, because this costs processor time that counts.
  const sorted = Float64Array.from(took).sort()
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
  return { jobs: took.length, seconds, p50: at(0.5), p99: at(0.99), max: at(1) }
}

const plain = (run: Measure['run']): Measure => ({ feature: null, run })

/** Every measure by its name, in the order of the table. */
export const MEASURES: Readonly<Record<string, Measure>> = {
  'single, 1 caller': plain(single(1)),
  'single, 8 callers': plain(single(8)),
  'single, 64 callers': plain(single(64)),
  'single, 512 callers': plain(single(512)),
  'bulk, batches of 500': plain(bulk),
  'drain, one process': plain(drain),
  'drain, four processes': plain(drainTogether),
  'drain, 1 KB payload': plain(drainWith('large payloads')),
  'drain, with keys': { feature: 'keys', run: drainWith('keys') },
  'drain, with results': { feature: 'results', run: drainWith('results') },
  'drain, 10 % failing': { feature: 'retries', run: drainWith('failures') },
  'both concurrently': plain(both),
  'enqueue to start, idle': plain(idle),
  'enqueue to start, 1,000/s': plain(loaded),
  'drain of 60,000': { feature: 'depth', store: 'redis', run: drainDepth('short') },
  'drain of a million': { feature: 'depth', store: 'redis', run: drainDepth('deep') },
  'claims of a drain': { feature: 'claims', only: ['holdfast', 'holdfast-redis'], run: claims },
  memory: { feature: 'history', store: 'redis', run: memory },
}

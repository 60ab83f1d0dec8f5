// A process that enqueues on time, whether the store keeps up or not. A call counts from the moment it was due.

import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import type { Message } from '../bench/children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import { generatedJobs } from '../gen/handlers.js'
import { jobAt, type Mix } from '../gen/mix.js'
import { Backends } from './backends.js'
import { timed } from './handlers.js'
import { Histogram, type PackedHistogram } from './histogram.js'
import { RecordFile } from './records.js'
import { type CallSplit, SplitLog } from './split.js'
import { type Before, SplitWatch } from './split-watch.js'

export interface FeedAssignment {
  readonly url: string
  readonly seed: number
  readonly mix: Mix
  /** Its number among the producers, and their count: they share one sequence. */
  readonly number: number
  readonly producers: number
  /** The maximum number of jobs for all producers; null for no limit. */
  readonly jobs: number | null
  /** True makes flapping jobs fail only because of the dependency. */
  readonly flapsOnlyByDependency: boolean
  /** Options of the generated jobs, beyond their definitions. */
  readonly options: EnqueueOptions
  /** Timed jobs beside the others, this far ahead; null for none. */
  readonly timed: { readonly perSecond: number; readonly aheadMs: number; readonly queue: string } | null
  /** File for the accepted jobs; null for none. */
  readonly record: string | null
}

/** Sets the pace of this process; 0 pauses it. */
export interface PaceMessage extends Message {
  readonly kind: 'pace'
  readonly perSecond: number
}

/** The answer to `sample`: counts since the start, times since the last sample. */
export interface FeedSample extends Message {
  readonly sent: number
  readonly accepted: number
  readonly timedAccepted: number
  readonly refused: number
  readonly enqueues: PackedHistogram
  /** Of one call in SPLIT_EVERY, from the moment it was due. */
  readonly enqueueSplits: readonly CallSplit[]
  readonly cpuUs: number
  /** How long the main thread has waited for a processor since the start. */
  readonly waitedUs: number
}

const TICK_MS = 2
/** A hundred of 5,000 calls a second are enough for a 99th percentile within a minute. */
const SPLIT_EVERY = 50

async function main(assignment: FeedAssignment): Promise<void> {
  const split = new SplitWatch(new Backends(), 'write jobs')
  const client = await openHoldfast(await postgresStore(assignment.url), { enqueueBufferMax: 200_000 })
  const record = assignment.record === null ? null : new RecordFile(assignment.record)
  const feed = new Feed({ client, assignment, record, split })
  answerParent('sample', () => feed.sample())
  answerParent<PaceMessage>('pace', ({ perSecond }) => {
    feed.setPace(perSecond)
    return {}
  })
  const stop = receiveFromParent('stop')
  sendToParent({ kind: 'ready' })
  const timer = setInterval(() => feed.tick(), TICK_MS)
  await stop
  clearInterval(timer)
  await feed.idle()
  sendToParent({ kind: 'stopped', ...feed.sample() })
  await client.close()
  record?.close()
  leaveParent()
}

interface FeedDeps {
  readonly client: Holdfast
  readonly assignment: FeedAssignment
  readonly record: RecordFile | null
  readonly split: SplitWatch
}

class Feed {
  readonly #client: Holdfast
  readonly #assignment: FeedAssignment
  readonly #record: RecordFile | null
  readonly #split: SplitWatch
  readonly #jobs = generatedJobs()
  readonly #enqueues = new Histogram()
  readonly #enqueueSplits = new SplitLog()
  /** Read at the end of the last tick, so before everything that is due since. */
  #before: Before | null = null
  readonly #counts = { sent: 0, accepted: 0, timedAccepted: 0, refused: 0 }
  #pace = { perSecond: 0, sinceMs: 0, sentBefore: 0 }
  #timedBeganMs = 0
  #timedBefore = 0
  #timedSent = 0
  #open = 0
  #whenIdle: (() => void) | null = null

  constructor({ client, assignment, record, split }: FeedDeps) {
    this.#client = client
    this.#assignment = assignment
    this.#record = record
    this.#split = split
  }

  setPace(perSecond: number): void {
    this.#pace = { perSecond, sinceMs: performance.now(), sentBefore: this.#counts.sent }
    // Calls that were not due during a pause are not caught up.
    this.#timedBeganMs = performance.now()
    this.#timedBefore = this.#timedSent
  }

  /** Makes the calls that are due. */
  tick(): void {
    const nowMs = performance.now()
    const { perSecond, sinceMs, sentBefore } = this.#pace
    const { number, producers, jobs } = this.#assignment
    const due = sentBefore + Math.floor(((nowMs - sinceMs) * perSecond) / 1_000)
    while (this.#counts.sent < due) {
      const seq = this.#counts.sent * producers + number
      if (jobs !== null && seq >= jobs) break
      const dueMs = sinceMs + ((this.#counts.sent - sentBefore) * 1_000) / perSecond
      this.#counts.sent++
      void this.#send(seq, dueMs)
    }
    this.#tickTimed(nowMs)
    this.#before = perSecond === 0 ? null : this.#split.before()
  }

  #tickTimed(nowMs: number): void {
    const { timed: wanted } = this.#assignment
    if (wanted === null || this.#pace.perSecond === 0) return
    const due = this.#timedBefore + Math.floor(((nowMs - this.#timedBeganMs) * wanted.perSecond) / 1_000)
    for (; this.#timedSent < due; this.#timedSent++) void this.#sendTimed(wanted.aheadMs, wanted.queue)
  }

  async #send(seq: number, dueMs: number): Promise<void> {
    const { seed, mix, options, flapsOnlyByDependency } = this.#assignment
    const drawn = jobAt(seed, seq, mix)
    const before = this.#counts.sent % SPLIT_EVERY === 0 ? this.#before : null
    const payload = flapsOnlyByDependency && drawn.kind === 'flapping' ? { ...drawn, failures: 0 } : drawn
    await this.#call(async () => {
      const { id } = await this.#client.enqueue(this.#jobs[payload.kind], payload, options)
      this.#enqueues.add(performance.now() - dueMs)
      const parts = before === null ? null : this.#split.after(before, dueMs)
      if (parts !== null) this.#enqueueSplits.add(parts)
      this.#counts.accepted++
      this.#record?.accepted(seq, id)
    })
  }

  async #sendTimed(aheadMs: number, queue: string): Promise<void> {
    const dueMs = Date.now() + aheadMs
    await this.#call(async () => {
      await this.#client.enqueue(timed, { dueMs }, { runAt: new Date(dueMs), queue })
      this.#counts.timedAccepted++
    })
  }

  async #call(run: () => Promise<void>): Promise<void> {
    this.#open++
    try {
      await run()
    } catch {
      this.#counts.refused++
    }
    this.#open--
    if (this.#open === 0) this.#whenIdle?.()
  }

  /** Resolves when every call has been answered. */
  idle(): Promise<void> {
    if (this.#open === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#whenIdle = resolve
    })
  }

  sample(): Omit<FeedSample, 'kind'> {
    const { user, system } = process.cpuUsage()
    const times = { enqueues: this.#enqueues.take(), enqueueSplits: this.#enqueueSplits.take() }
    return { ...this.#counts, ...times, cpuUs: user + system, waitedUs: this.#split.waitedUs }
  }
}

await main(readAssignment<FeedAssignment>())

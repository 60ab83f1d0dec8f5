// A process that enqueues on time, whether the store keeps up or not. A call counts from the moment it was due.

import type { EnqueueOptions } from '../../src/client/prepare.js'
import { connect, type Holdfast } from '../../src/index.js'
import type { Message } from '../bench/children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import { generatedJobs } from '../gen/handlers.js'
import { jobAt, type Mix } from '../gen/mix.js'
import { timed } from './handlers.js'
import { Histogram, type PackedHistogram } from './histogram.js'
import { RecordFile } from './records.js'

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
  readonly cpuUs: number
}

const TICK_MS = 2

async function main(assignment: FeedAssignment): Promise<void> {
  const client = await connect(assignment.url, { enqueueBufferMax: 200_000 })
  const record = assignment.record === null ? null : new RecordFile(assignment.record)
  const feed = new Feed(client, assignment, record)
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

class Feed {
  readonly #client: Holdfast
  readonly #assignment: FeedAssignment
  readonly #record: RecordFile | null
  readonly #jobs = generatedJobs()
  readonly #enqueues = new Histogram()
  readonly #counts = { sent: 0, accepted: 0, timedAccepted: 0, refused: 0 }
  #pace = { perSecond: 0, sinceMs: 0, sentBefore: 0 }
  #timedBeganMs = 0
  #timedBefore = 0
  #timedSent = 0
  #open = 0
  #whenIdle: (() => void) | null = null

  constructor(client: Holdfast, assignment: FeedAssignment, record: RecordFile | null) {
    this.#client = client
    this.#assignment = assignment
    this.#record = record
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
    const payload = flapsOnlyByDependency && drawn.kind === 'flapping' ? { ...drawn, failures: 0 } : drawn
    await this.#call(async () => {
      const { id } = await this.#client.enqueue(this.#jobs[payload.kind], payload, options)
      this.#enqueues.add(performance.now() - dueMs)
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
    return { ...this.#counts, enqueues: this.#enqueues.take(), cpuUs: user + system }
  }
}

await main(readAssignment<FeedAssignment>())

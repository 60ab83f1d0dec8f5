// The producers of an experiment: processes that share one sequence of jobs and one rate.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from '../bench/children.js'
import { MIX_DEFAULT } from '../gen/mix.js'
import type { FeedAssignment, FeedSample, PaceMessage } from './feed-child.js'
import { Histogram } from './histogram.js'
import { pause } from './proof.js'
import type { CallSplit } from './split.js'

const CHILD = new URL('./feed-child.js', import.meta.url)
const DEADLINE_MS = 3 * 3_600_000

/** The setup of the producers. Options that are left out have a default that fits most experiments. */
export interface ProducersOptions extends Partial<Omit<FeedAssignment, 'url' | 'seed' | 'number' | 'record'>> {
  readonly url: string
  readonly seed: number
  /** Records accepted jobs, one file for each process. Default false. */
  readonly records?: boolean
}

export interface ProducersTotals {
  readonly sent: number
  readonly accepted: number
  readonly timedAccepted: number
  readonly refused: number
  readonly enqueues: Histogram
  readonly enqueueSplits: readonly CallSplit[]
  readonly cpuUs: number
  /** How long their main threads have waited for a processor. */
  readonly waitedUs: number
}

export class Producers {
  readonly #children: readonly Child[]
  readonly #folder: string
  readonly #options: ProducersOptions

  private constructor(children: readonly Child[], folder: string, options: ProducersOptions) {
    this.#children = children
    this.#folder = folder
    this.#options = options
  }

  static async open(options: ProducersOptions): Promise<Producers> {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-producers-'))
    const { records, ...given } = options
    const children = Array.from({ length: options.producers ?? 1 }, (_, number) => {
      const assignment: FeedAssignment = {
        mix: MIX_DEFAULT,
        producers: 1,
        jobs: null,
        flapsOnlyByDependency: false,
        options: {},
        timed: null,
        ...given,
        number,
        record: records ? join(folder, `accepted-${number}`) : null,
      }
      return new Child(CHILD, assignment, { name: 'a producer', deadlineMs: DEADLINE_MS })
    })
    const producers = new Producers(children, folder, options)
    try {
      await Promise.all(children.map((child) => child.hear('ready')))
    } catch (error) {
      await producers.close()
      throw error
    }
    return producers
  }

  /** The files with the accepted jobs. */
  get records(): readonly string[] {
    return this.#options.records ? this.#children.map((_, number) => join(this.#folder, `accepted-${number}`)) : []
  }

  /** Sets the rate of all producers together; 0 pauses them. */
  async setPace(perSecond: number): Promise<void> {
    const message: PaceMessage = { kind: 'pace', perSecond: perSecond / this.#children.length }
    await Promise.all(this.#children.map((child) => child.ask(message)))
  }

  /** The counts of all so far, and the times since the last sample. */
  async sample(): Promise<ProducersTotals> {
    return this.#sum(await Promise.all(this.#children.map((child) => child.ask<FeedSample>({ kind: 'sample' }))))
  }

  /** Waits until this many calls have been answered. */
  async whenAccepted(jobs: number, deadlineSeconds: number): Promise<void> {
    const endMs = performance.now() + deadlineSeconds * 1_000
    for (;;) {
      const { accepted, refused } = await this.sample()
      if (accepted + refused >= jobs) return
      if (performance.now() > endMs) {
        throw new Error(`only ${accepted} of ${jobs} jobs were accepted within ${deadlineSeconds} s`)
      }
      await pause(100)
    }
  }

  /** Waits for the answers to all calls, and ends them. */
  async stop(): Promise<ProducersTotals> {
    const answers = this.#children.map((child) => child.hear<FeedSample>('stopped'))
    for (const child of this.#children) child.send({ kind: 'stop' })
    const totals = this.#sum(await Promise.all(answers))
    await Promise.all(this.#children.map((child) => child.ended()))
    return totals
  }

  #sum(samples: readonly FeedSample[]): ProducersTotals {
    const enqueues = new Histogram()
    for (const sample of samples) enqueues.merge(sample.enqueues)
    const sum = (read: (sample: FeedSample) => number) => samples.reduce((total, sample) => total + read(sample), 0)
    return {
      sent: sum(({ sent }) => sent),
      accepted: sum(({ accepted }) => accepted),
      timedAccepted: sum(({ timedAccepted }) => timedAccepted),
      refused: sum(({ refused }) => refused),
      enqueues,
      enqueueSplits: samples.flatMap(({ enqueueSplits }) => enqueueSplits),
      cpuUs: sum(({ cpuUs }) => cpuUs),
      waitedUs: sum(({ waitedUs }) => waitedUs),
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()))
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Starts producers for `work` and ends them afterwards. */
export async function withProducers<T>(
  options: ProducersOptions,
  work: (producers: Producers) => Promise<T>,
): Promise<T> {
  const producers = await Producers.open(options)
  try {
    return await work(producers)
  } finally {
    await producers.close()
  }
}

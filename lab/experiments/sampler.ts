// Samples a run once a second: jobs by state, jobs in and out, times of claims and enqueues, lateness of timed jobs.

import type { Spread } from '../bench/statistics.js'
import { say } from '../say.js'
import type { Fleet, FleetTotals } from './fleet.js'
import { Histogram } from './histogram.js'
import type { Ground } from './place.js'
import type { Producers, ProducersTotals } from './producers.js'
import { SplitLog, type SplitSummary } from './split.js'

export interface Sample {
  readonly seconds: number
  readonly acceptedPerSecond: number
  /** Succeeded and dead. */
  readonly donePerSecond: number
  readonly retriedPerSecond: number
  /** Counted up to READY_MAX. */
  readonly ready: number
  readonly running: number
  /** Retries and timed jobs whose time has not come, counted up to READY_MAX. */
  readonly scheduled: number
  readonly claimP50Ms: number | null
  readonly claimP99Ms: number | null
  readonly enqueueP50Ms: number | null
  readonly enqueueP99Ms: number | null
  readonly lateP50Ms: number | null
  readonly lateP99Ms: number | null
}

/** The result of a part of a run. */
export interface Stretch {
  readonly seconds: number
  readonly accepted: number
  readonly succeeded: number
  readonly dead: number
  readonly retried: number
  readonly claims: Spread
  readonly enqueues: Spread
  /** Where the time of claims and enqueues went; null without any. */
  readonly claimSplit: SplitSummary | null
  readonly enqueueSplit: SplitSummary | null
  readonly late: Spread
  readonly runningMean: number
  readonly readyAtStart: number
  readonly readyAtEnd: number
  readonly readyMost: number
  readonly workersCpuUs: number
  readonly producersCpuUs: number
  /** How long their main threads waited for a processor. */
  readonly workersWaitedUs: number
  readonly producersWaitedUs: number
}

/** Counting further is too expensive. */
const READY_MAX = 100_000

// Index-only scans of a bounded length: jobs of other queues cost nothing.
const DEPTH = `
SELECT (SELECT count(*) FROM (SELECT FROM holdfast.ready WHERE queue = ANY ($1) LIMIT ${READY_MAX}) AS few)::integer AS ready,
       (SELECT count(*) FROM (SELECT FROM holdfast.scheduled LIMIT ${READY_MAX}) AS few)::integer AS scheduled`

interface Look {
  readonly atMs: number
  readonly fleet: FleetTotals
  readonly feed: ProducersTotals | null
  readonly ready: number
  readonly scheduled: number
}

export interface SamplerDeps {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers | null
  readonly queues: readonly string[]
}

const EVERY_MS = 1_000
const SAY_EVERY = 30

export class Sampler {
  readonly samples: Sample[] = []
  readonly #deps: SamplerDeps
  readonly #beganMs = performance.now()
  #last: Look
  #stretch: OpenStretch
  #isOver = false
  #loop: Promise<void>

  private constructor(deps: SamplerDeps, first: Look) {
    this.#deps = deps
    this.#last = first
    this.#stretch = new OpenStretch(first)
    this.#loop = this.#run()
  }

  /** Begins to sample. */
  static async open(deps: SamplerDeps): Promise<Sampler> {
    return new Sampler(deps, await look(deps))
  }

  /** Seconds since it began. */
  get seconds(): number {
    return (performance.now() - this.#beganMs) / 1_000
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const wait = this.#beganMs + (this.samples.length + 1) * EVERY_MS - performance.now()
      await new Promise((resolve) => setTimeout(resolve, Math.max(10, wait)))
      if (!this.#isOver) await this.#sample()
    }
  }

  async #sample(): Promise<void> {
    const now = await look(this.#deps)
    const sample = compare(this.#last, now, this.#beganMs)
    this.#last = now
    this.#stretch.add(now)
    this.samples.push(sample)
    if (this.samples.length % SAY_EVERY === 0) say(`  ${describe(sample)}`)
  }

  /** Ends the part of the run that began with the last call, and begins the next. */
  async cut(): Promise<Stretch> {
    // Waits for a sample in progress: of two concurrent samples, each would miss what the other took.
    this.#isOver = true
    await this.#loop
    await this.#sample()
    const stretch = this.#stretch.end(this.#last)
    this.#stretch = new OpenStretch(this.#last)
    this.#isOver = false
    this.#loop = this.#run()
    return stretch
  }

  /** Ends it. */
  async stop(): Promise<void> {
    this.#isOver = true
    await this.#loop
  }
}

class OpenStretch {
  readonly #first: Look
  readonly #claims = new Histogram()
  readonly #enqueues = new Histogram()
  readonly #late = new Histogram()
  readonly #claimSplits = new SplitLog()
  readonly #enqueueSplits = new SplitLog()
  #running = 0
  #looks = 0
  #readyMost: number

  constructor(first: Look) {
    this.#first = first
    this.#readyMost = first.ready
  }

  add({ fleet, feed, ready }: Look): void {
    this.#claims.merge(packed(fleet.claims))
    this.#claimSplits.addAll(fleet.claimSplits)
    this.#enqueueSplits.addAll(feed?.enqueueSplits ?? [])
    this.#late.merge(packed(fleet.late))
    if (feed !== null) this.#enqueues.merge(packed(feed.enqueues))
    this.#running += fleet.running
    this.#looks++
    this.#readyMost = Math.max(this.#readyMost, ready)
  }

  end({ atMs, fleet, feed, ready }: Look): Stretch {
    const first = this.#first
    return {
      seconds: (atMs - first.atMs) / 1_000,
      accepted: (feed?.accepted ?? 0) - (first.feed?.accepted ?? 0),
      succeeded: fleet.counts.succeeded - first.fleet.counts.succeeded,
      dead: fleet.counts.dead - first.fleet.counts.dead,
      retried: fleet.counts.retried - first.fleet.counts.retried,
      claims: this.#claims.spread(),
      enqueues: this.#enqueues.spread(),
      claimSplit: this.#claimSplits.summary(),
      enqueueSplit: this.#enqueueSplits.summary(),
      late: this.#late.spread(),
      runningMean: this.#running / Math.max(1, this.#looks),
      readyAtStart: first.ready,
      readyAtEnd: ready,
      readyMost: this.#readyMost,
      workersCpuUs: fleet.cpuUs - first.fleet.cpuUs,
      producersCpuUs: (feed?.cpuUs ?? 0) - (first.feed?.cpuUs ?? 0),
      workersWaitedUs: fleet.waitedUs - first.fleet.waitedUs,
      producersWaitedUs: (feed?.waitedUs ?? 0) - (first.feed?.waitedUs ?? 0),
    }
  }
}

/** A histogram's counts, without resetting it. */
function packed(histogram: Histogram): ReturnType<Histogram['take']> {
  const taken = histogram.take()
  histogram.merge(taken)
  return taken
}

async function look({ ground, fleet, producers, queues }: SamplerDeps): Promise<Look> {
  const [totals, feed, { rows }] = await Promise.all([
    fleet.sample(),
    producers?.sample() ?? null,
    ground.client.query({ name: 'depth', text: DEPTH, values: [queues] }),
  ])
  return { atMs: performance.now(), fleet: totals, feed, ready: rows[0].ready, scheduled: rows[0].scheduled }
}

function compare(last: Look, now: Look, beganMs: number): Sample {
  const seconds = Math.max(0.001, (now.atMs - last.atMs) / 1_000)
  const { counts } = now.fleet
  const before = last.fleet.counts
  const claims = now.fleet.claims.spread()
  const enqueues = now.feed?.enqueues.spread()
  const late = now.fleet.late.spread()
  return {
    seconds: (now.atMs - beganMs) / 1_000,
    acceptedPerSecond: ((now.feed?.accepted ?? 0) - (last.feed?.accepted ?? 0)) / seconds,
    donePerSecond: (counts.succeeded + counts.dead - before.succeeded - before.dead) / seconds,
    retriedPerSecond: (counts.retried - before.retried) / seconds,
    ready: now.ready,
    running: now.fleet.running,
    scheduled: now.scheduled,
    claimP50Ms: claims.p50,
    claimP99Ms: claims.p99,
    enqueueP50Ms: enqueues?.p50 ?? null,
    enqueueP99Ms: enqueues?.p99 ?? null,
    lateP50Ms: late.p50,
    lateP99Ms: late.p99,
  }
}

function describe({ seconds, donePerSecond, ready, running, claimP99Ms, enqueueP99Ms }: Sample): string {
  const ms = (value: number | null) => (value === null ? '–' : `${value.toFixed(1)} ms`)
  return `${Math.round(seconds)} s: ${Math.round(donePerSecond).toLocaleString('en')} jobs/s, ready ${ready}, running ${running}, claim p99 ${ms(claimP99Ms)}, enqueue p99 ${ms(enqueueP99Ms)}`
}

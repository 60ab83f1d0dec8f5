// Adaptive concurrency against a provider whose limit and latency change: how much of its capacity is used, and how many calls it refuses.
// Other laws are compared with the product's on a model of the same provider.

import { loadavg } from 'node:os'
import type { Holdfast } from '../../src/index.js'
import { column } from '../bench/growth/measure.js'
import type { Figure } from '../plot.js'
import { LAWS } from './adaptive-laws.js'
import { modelAdaptive } from './adaptive-model.js'
import { type Dependency, withDependency } from './dependency.js'
import { call } from './dependency-call.js'
import { defineExperiment, type Experiment, expectNone, expectThat, type Verdict } from './experiment.js'
import { withHoldfast } from './fairness-parts.js'
import { withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { pause } from './proof.js'

interface Stage {
  readonly seconds: number
  readonly capacity: number
  readonly latencyMs: number
}

interface AdaptiveConfig {
  readonly stages: readonly Stage[]
  /** From the floor to the first level that is near; what comes before is not counted in the aims. */
  readonly warmUpSeconds: number
  readonly min: number
  readonly max: number
  readonly processes: number
  readonly slots: number
  /** How often the model goes through the stages. */
  readonly modelRounds: number
}

const QUEUE = 'calls'
const LIMIT = 'provider'
const SAMPLE_MS = 250
/** Jobs that wait all the time. */
const BACKLOG = 1_000
const USED_MIN = 0.9
const REFUSED_MAX = 0.01

export const adaptive: Experiment = defineExperiment<AdaptiveConfig>({
  about: 'adaptive concurrency against a provider whose limits change: capacity used, calls refused',
  longTakes: '5 minutes',
  short: {
    stages: [
      { seconds: 2, capacity: 10, latencyMs: 60 },
      { seconds: 2, capacity: 16, latencyMs: 40 },
      { seconds: 2, capacity: 6, latencyMs: 60 },
    ],
    warmUpSeconds: 1,
    min: 2,
    max: 60,
    processes: 1,
    slots: 64,
    modelRounds: 1,
  },
  long: {
    stages: [
      { seconds: 45, capacity: 40, latencyMs: 200 },
      { seconds: 45, capacity: 80, latencyMs: 200 },
      { seconds: 45, capacity: 30, latencyMs: 200 },
      { seconds: 45, capacity: 30, latencyMs: 400 },
      { seconds: 45, capacity: 60, latencyMs: 400 },
      { seconds: 45, capacity: 40, latencyMs: 150 },
    ],
    warmUpSeconds: 15,
    min: 2,
    max: 200,
    processes: 4,
    slots: 48,
    modelRounds: 4,
  },
  async run({ config, place, seed }) {
    const { processes, slots, min, max, stages } = config
    const models = Object.entries(LAWS).map(([name, law]) => ({ name, ...model(config, law, seed) }))
    const seen = await withDependency(stages[0]!, (dependency) =>
      withGround(
        place,
        async () => {},
        (ground) =>
          withFleet({ url: ground.url, processes, slots, queues: [QUEUE], dependencyUrl: dependency.url }, (fleet) =>
            withHoldfast(ground.url, async (holdfast) => {
              await holdfast.setLimit(LIMIT, { concurrency: { min, max } })
              const stopFeed = await startFeed(holdfast, ground)
              fleet.start()
              const run = await observe(config, { ground, dependency })
              await stopFeed()
              await fleet.stop()
              return { ...run, ...(await readEnds(ground)) }
            }),
          ),
      ),
    )
    return {
      columns: COLUMNS,
      rows: [
        { what: 'measured', used: seen.used, refused: seen.refused, calls: seen.calls },
        { what: 'measured, with the start', used: seen.usedAll, refused: seen.refusedAll, calls: seen.callsAll },
        ...models.map(({ name, used, refused, calls }) => ({
          ...{ what: `model: ${name}`, used: 100 * used, refused: 100 * refused, calls },
        })),
      ],
      verdicts: verdictsOf(config, seen),
      notes: [
        `An HTTP server that takes ${stages.map(({ capacity, latencyMs, seconds }) => `${capacity} calls of ${latencyMs} ms for ${seconds} s`).join(', ')}, and answers 429 beyond. Between ${min} and ${max} concurrent calls, ${processes} ${processes === 1 ? 'process' : 'processes'} with ${slots} slots each, more jobs than can run all the time. Capacity used is the calls in its hands over what it takes, integrated over time, from second ${config.warmUpSeconds} on.`,
        'The model has the same stages on virtual time, eight processes, and 4 to 12 ms for a claim, a settlement and a report.',
        `Load average of the machine: ${loadavg()[0]!.toFixed(1)}.`,
      ],
      figures: { adaptive: figureOf(config, seen.samples) },
      samples: seen.samples.map((sample) => ({ ...sample })),
      evidence: {},
    }
  },
})

function model(
  { stages, modelRounds, warmUpSeconds, min, max }: AdaptiveConfig,
  law: (typeof LAWS)[string],
  seed: number,
) {
  const roundMs = 1_000 * stages.reduce((sum, { seconds }) => sum + seconds, 0)
  const stageAt = (ms: number) => {
    let left = ms % roundMs
    for (const stage of stages) {
      left -= stage.seconds * 1_000
      if (left < 0) return stage
    }
    return stages.at(-1)!
  }
  return modelAdaptive({
    ...{ law, seed, settings: { min, max }, processes: 8 },
    provider: { capacity: (ms) => stageAt(ms).capacity, latencyMs: (ms) => stageAt(ms).latencyMs },
    ...{ warmUpMs: warmUpSeconds * 1_000, endMs: modelRounds * roundMs },
  })
}

/** Keeps jobs waiting until it is stopped. */
async function startFeed(holdfast: Holdfast, { client }: Ground): Promise<() => Promise<void>> {
  let isOver = false
  const fill = async () => {
    const { rows } = await client.query<{ count: number }>('SELECT count(*)::integer AS count FROM holdfast.held')
    const missing = BACKLOG - rows[0]!.count
    const payloads = Array.from({ length: Math.max(0, missing) }, () => ({}))
    if (missing > 0) await holdfast.enqueueMany(call, payloads, { queue: QUEUE, limits: [LIMIT] })
  }
  await fill()
  const loop = (async () => {
    while (!isOver) {
      await pause(100)
      await fill()
    }
  })()
  return async () => {
    isOver = true
    await loop
  }
}

interface AdaptiveSample {
  readonly seconds: number
  readonly capacity: number
  readonly level: number
  readonly callsRunning: number
  readonly refusedPerSecond: number
}

async function observe(
  { stages, warmUpSeconds }: AdaptiveConfig,
  { ground, dependency }: { readonly ground: Ground; readonly dependency: Dependency },
) {
  const beganMs = performance.now()
  const nowSeconds = () => (performance.now() - beganMs) / 1_000
  const first = dependency.sample()
  const samples: AdaptiveSample[] = []
  let warm = first
  let last = { seconds: 0, refused: first.refused }
  let endSeconds = 0
  for (const stage of stages) {
    dependency.become(stage)
    endSeconds += stage.seconds
    while (nowSeconds() < endSeconds) {
      await pause(Math.min(SAMPLE_MS, 1_000 * (endSeconds - nowSeconds())))
      const level = await readLevel(ground)
      const [seconds, counts] = [nowSeconds(), dependency.sample()]
      const refusedPerSecond = (counts.refused - last.refused) / Math.max(0.001, seconds - last.seconds)
      samples.push({ seconds, capacity: stage.capacity, level, callsRunning: dependency.running, refusedPerSecond })
      if (seconds <= warmUpSeconds) warm = counts
      last = { seconds, refused: counts.refused }
    }
  }
  const end = dependency.sample()
  const since = (from: typeof end) => ({
    used: (100 * (end.usedMs - from.usedMs)) / (end.capacityMs - from.capacityMs),
    refused: (100 * (end.refused - from.refused)) / Math.max(1, end.calls - from.calls),
    calls: end.calls - from.calls,
  })
  const all = since(first)
  return { samples, ...since(warm), usedAll: all.used, refusedAll: all.refused, callsAll: all.calls }
}

async function readLevel({ client }: Ground): Promise<number> {
  const { rows } = await client.query<{ concurrency: number }>(
    'SELECT concurrency FROM holdfast.limits WHERE name = $1',
    [LIMIT],
  )
  return rows[0]!.concurrency
}

async function readEnds({ client }: Ground): Promise<{ readonly dead: number; readonly again: number }> {
  const { rows } = await client.query<{ dead: number; again: number }>(`
    SELECT (SELECT count(*) FROM holdfast.dead)::integer AS dead,
           (SELECT count(*) FROM holdfast.finished WHERE attempt > 1)::integer AS again`)
  return rows[0]!
}

interface Seen {
  readonly used: number
  readonly refused: number
  readonly calls: number
  readonly dead: number
  readonly again: number
  readonly samples: readonly AdaptiveSample[]
}

function verdictsOf({ min, max }: AdaptiveConfig, { used, refused, calls, dead, again, samples }: Seen): Verdict[] {
  const levels = samples.map(({ level }) => level)
  const isWithin = levels.every((level) => level >= min && level <= max)
  return [
    expectThat(
      'the concurrency stays within its bounds, and moves',
      `${min} to ${max}`,
      `${Math.min(...levels)} to ${Math.max(...levels)}`,
      isWithin && Math.max(...levels) > min,
    ),
    expectThat('calls that were made', 'some', String(calls), calls > 0),
    expectNone('jobs dead', dead),
    expectNone('jobs that lost an attempt to a 429', again),
    {
      kind: 'aim',
      about: 'capacity used',
      expected: `at least ${100 * USED_MIN} %`,
      seen: `${used.toFixed(1)} %`,
      holds: used >= 100 * USED_MIN,
    },
    {
      kind: 'aim',
      about: 'calls refused with 429',
      expected: `at most ${100 * REFUSED_MAX} %`,
      seen: `${refused.toFixed(2)} %`,
      holds: refused <= 100 * REFUSED_MAX,
    },
  ]
}

const COLUMNS = [
  column('what', 'what'),
  column('capacity used, %', 'used', 1),
  column('refused, %', 'refused', 2),
  column('calls', 'calls'),
]

function figureOf({ min, max }: AdaptiveConfig, samples: readonly AdaptiveSample[]): Figure {
  const line = (name: string, read: (sample: AdaptiveSample) => number) => ({
    name,
    points: samples.map((sample) => [sample.seconds, read(sample)] as const),
  })
  return {
    title: 'Adaptive concurrency against a provider whose limits change',
    subtitle: `between ${min} and ${max}; the provider answers 429 to calls beyond its capacity`,
    x: { label: 'seconds', scale: 'linear' },
    panels: [
      {
        label: 'concurrent calls',
        series: [
          line('capacity', ({ capacity }) => capacity),
          line('the limit', ({ level }) => level),
          line('calls it works on', ({ callsRunning }) => callsRunning),
        ],
      },
      { label: 'refused calls/s', series: [line('refused', ({ refusedPerSecond }) => refusedPerSecond)] },
    ],
  }
}

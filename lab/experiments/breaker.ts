// A dependency that is down for a while, with a breaker on its limit and without one: how often it is called meanwhile, what that costs,
// and how soon everything is back.

import { loadavg } from 'node:os'
import type { BreakerOptions, Holdfast } from '../../src/index.js'
import { column } from '../bench/growth/measure.js'
import { serverCpuUs } from '../bench/resources.js'
import type { Figure } from '../plot.js'
import { say } from '../say.js'
import { type Dependency, withDependency } from './dependency.js'
import { call } from './dependency-call.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  expectNone,
  expectThat,
  type Verdict,
} from './experiment.js'
import { withHoldfast } from './fairness-parts.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { countEnds, pause, waitUntilDone } from './proof.js'

interface BreakerConfig {
  /** Jobs each second. One in `callEvery` calls the dependency. */
  readonly rate: number
  readonly callEvery: number
  readonly beforeSeconds: number
  readonly downSeconds: number
  readonly afterSeconds: number
  readonly breaker: BreakerOptions
  readonly maxAttempts: number
  readonly baseMs: number
  readonly capMs: number
  readonly processes: number
  readonly slots: number
  readonly deadlineSeconds: number
}

const QUEUE = 'work'
const LIMIT = 'dependency'
const CALL_MS = 20
const SAMPLE_MS = 250
const TICK_MS = 20

export const breaker: Experiment = defineExperiment<BreakerConfig>({
  about: 'a dependency that is down, with a breaker and without: calls, processor time, recovery',
  longTakes: '5 minutes',
  short: {
    rate: 100,
    callEvery: 4,
    beforeSeconds: 0.5,
    downSeconds: 3,
    afterSeconds: 1.5,
    breaker: { of: 5, within: '10s', cooldown: '250ms', cooldownMax: '500ms', probes: 1 },
    maxAttempts: 25,
    baseMs: 100,
    capMs: 500,
    processes: 1,
    slots: 32,
    deadlineSeconds: 60,
  },
  long: {
    rate: 600,
    callEvery: 20,
    beforeSeconds: 10,
    downSeconds: 60,
    afterSeconds: 25,
    breaker: { cooldown: '2s', cooldownMax: '4s', probes: 1 },
    maxAttempts: 25,
    baseMs: 1_000,
    capMs: 15_000,
    processes: 2,
    slots: 64,
    deadlineSeconds: 120,
  },
  async run(context) {
    const { config } = context
    const without = await runOnce(context, false)
    const guarded = await runOnce(context, true)
    const arms = [without, guarded]
    return {
      columns: COLUMNS,
      rows: arms.map(({ row }) => row),
      verdicts: [...arms.flatMap(armVerdicts), ...compare(without, guarded)],
      notes: [
        `${config.rate} jobs/s; one in ${config.callEvery} calls a dependency over HTTP, which answers 503 for ${config.downSeconds} s. Retries wait from ${config.baseMs / 1_000} s, doubled up to ${config.capMs / 1_000} s, with jitter. The breaker: ${JSON.stringify(config.breaker)}, defaults for the rest.`,
        'Back to full speed: from the recovery to the end of the first second in which as many calls went well as are enqueued in one.',
        `Processor time is that of the server and the workers during the outage. Load average of the machine: ${arms.map(({ load }) => load.toFixed(1)).join(' and ')}.`,
      ],
      figures: { breaker: figureOf(config, without, guarded) },
      samples: arms.map(({ name, samples }) => ({ name, samples })),
      evidence: {},
    }
  },
})

interface BreakerSample {
  /** Since the dependency went down. */
  readonly seconds: number
  readonly callsPerSecond: number
  readonly okPerSecond: number
  readonly waiting: number
  readonly cores: number | null
}

interface Arm {
  readonly name: string
  readonly row: Readonly<Record<string, string | number | null>>
  readonly samples: readonly BreakerSample[]
  readonly isDone: boolean
  readonly accepted: number
  readonly ends: { readonly succeeded: number; readonly dead: number }
  readonly callsWhileDown: number
  readonly fullSpeedSeconds: number | null
  readonly outageCpuSeconds: number | null
  readonly load: number
}

function runOnce(context: ExperimentContext<BreakerConfig>, hasBreaker: boolean): Promise<Arm> {
  const { config, place } = context
  const { processes, slots } = config
  say(`  ${hasBreaker ? 'with' : 'without'} a breaker`)
  return withDependency({ capacity: 1_000_000, latencyMs: CALL_MS }, (dependency) =>
    withGround(
      place,
      async () => {},
      (ground) =>
        withFleet(
          {
            ...{ url: ground.url, processes, slots, queues: [QUEUE], plainMs: [1, 5] },
            dependencyUrl: dependency.url,
          },
          (fleet) =>
            withHoldfast(ground.url, async (holdfast) => {
              // Without one it is a limit that bounds nothing: the cost of flow control is the same.
              await holdfast.setLimit(LIMIT, hasBreaker ? { breaker: config.breaker } : {})
              return observe(context, { ground, fleet, holdfast, dependency }, hasBreaker)
            }),
        ),
    ),
  )
}

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly holdfast: Holdfast
  readonly dependency: Dependency
}

async function observe(context: ExperimentContext<BreakerConfig>, cast: Cast, hasBreaker: boolean): Promise<Arm> {
  const { config, place } = context
  const { ground, fleet, holdfast, dependency } = cast
  const { beforeSeconds, downSeconds, afterSeconds, rate, callEvery, deadlineSeconds } = config
  const serverPid = await place.serverPid()
  fleet.start()
  const feed = startFeed(holdfast, config)
  await pause(beforeSeconds * 1_000)
  const watch = startWatch(cast, serverPid)
  dependency.setDown(true)
  const [before, cpuBefore] = [dependency.sample(), await watch.cpuUs()]
  await pause(downSeconds * 1_000)
  const [after, cpuAfter] = [dependency.sample(), await watch.cpuUs()]
  dependency.setDown(false)
  const recoveredSeconds = watch.nowSeconds()
  await pause(afterSeconds * 1_000)
  const accepted = await feed.stop()
  const isDone = await waitUntilDone(ground.client, [QUEUE], deadlineSeconds * 1_000)
  const doneSeconds = watch.nowSeconds() - recoveredSeconds
  const samples = await watch.stop()
  await fleet.stop()
  const ends = await countEnds(ground.client)
  const name = hasBreaker ? 'with a breaker' : 'without'
  const callsWhileDown = after.calls - before.calls
  const fullSpeedSeconds = fullSpeedAfter(samples, recoveredSeconds, rate / callEvery)
  const outageCpuSeconds = cpuAfter === null || cpuBefore === null ? null : (cpuAfter - cpuBefore) / 1e6
  return {
    ...{
      name,
      samples,
      isDone,
      accepted,
      ends,
      callsWhileDown,
      fullSpeedSeconds,
      outageCpuSeconds,
      load: loadavg()[0]!,
    },
    row: {
      ...{ name, accepted, succeeded: ends.succeeded, dead: ends.dead, callsWhileDown },
      ...{ fullSpeedSeconds, doneSeconds, outageCpuSeconds },
    },
  }
}

/** Enqueues on time until it is stopped, which resolves with how many jobs were accepted. */
function startFeed(holdfast: Holdfast, config: BreakerConfig): { stop(): Promise<number> } {
  const { rate, callEvery, maxAttempts, baseMs, capMs } = config
  const retry = { backoff: 'exponential', base: baseMs, cap: capMs } as const
  const beganMs = performance.now()
  const calls: Promise<unknown>[] = []
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - beganMs) * rate) / 1_000)
    let calling = 0
    const first = sent
    for (; sent < due; sent++) if (sent % callEvery === 0) calling++
    const list = (count: number) => Array.from({ length: count }, () => ({}))
    const options = { queue: QUEUE, limits: [LIMIT], maxAttempts, retry }
    if (calling > 0) calls.push(holdfast.enqueueMany(call, list(calling), options))
    const others = sent - first - calling
    if (others > 0) calls.push(holdfast.enqueueMany('noop', list(others), { queue: QUEUE }))
  }, TICK_MS)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(calls)
      return sent
    },
  }
}

const WAITING = `
SELECT (SELECT count(*) FROM holdfast.held)::integer
     + (SELECT count(*) FROM holdfast.scheduled)::integer AS waiting`

/** Samples until it is stopped. */
function startWatch({ ground, fleet, dependency }: Cast, serverPid: number | null) {
  const beganMs = performance.now()
  const nowSeconds = () => (performance.now() - beganMs) / 1_000
  const samples: BreakerSample[] = []
  let isOver = false
  const cpuUs = async () => {
    if (serverPid === null) return null
    return (await fleet.sample()).cpuUs + serverCpuUs(serverPid)
  }
  const look = async () => {
    let last = { seconds: nowSeconds(), ...dependency.sample(), cpuUs: await cpuUs() }
    while (!isOver) {
      await pause(SAMPLE_MS)
      const { rows } = await ground.client.query<{ waiting: number }>(WAITING)
      const next = { seconds: nowSeconds(), ...dependency.sample(), cpuUs: await cpuUs() }
      const took = next.seconds - last.seconds
      samples.push({
        seconds: next.seconds,
        callsPerSecond: (next.calls - last.calls) / took,
        okPerSecond: (next.ok - last.ok) / took,
        waiting: rows[0]!.waiting,
        cores: next.cpuUs === null || last.cpuUs === null ? null : (next.cpuUs - last.cpuUs) / 1e6 / took,
      })
      last = next
    }
  }
  const looking = look()
  return {
    nowSeconds,
    cpuUs,
    async stop(): Promise<readonly BreakerSample[]> {
      isOver = true
      await looking
      return samples
    },
  }
}

/** Seconds from the recovery to the end of the first second that had at least `pace` calls that went well. */
function fullSpeedAfter(samples: readonly BreakerSample[], recovered: number, pace: number): number | null {
  const after = samples.filter(({ seconds }) => seconds > recovered)
  for (const [index, { seconds }] of after.entries()) {
    let ok = 0
    let fromSeconds = seconds
    for (let at = index; at >= 0 && seconds - fromSeconds < 1; at--) {
      const began = at === 0 ? recovered : after[at - 1]!.seconds
      ok += after[at]!.okPerSecond * (after[at]!.seconds - began)
      fromSeconds = began
    }
    if (ok >= pace) return seconds - recovered
  }
  return null
}

function armVerdicts({ name, isDone, ends, accepted, callsWhileDown }: Arm): Verdict[] {
  return [
    expectThat(`${name}: all jobs end`, 'yes', isDone ? 'yes' : 'no', isDone),
    expectNone(`${name}: jobs dead`, ends.dead),
    expectThat(`${name}: jobs that succeed`, String(accepted), String(ends.succeeded), ends.succeeded === accepted),
    expectThat(
      `${name}: the dependency was called while it was down`,
      'yes',
      String(callsWhileDown),
      callsWhileDown > 0,
    ),
  ]
}

function compare(without: Arm, guarded: Arm): Verdict[] {
  const part = guarded.callsWhileDown / Math.max(1, without.callsWhileDown)
  const speed = guarded.fullSpeedSeconds
  const saved =
    without.outageCpuSeconds === null || guarded.outageCpuSeconds === null
      ? null
      : 1 - guarded.outageCpuSeconds / without.outageCpuSeconds
  return [
    expectThat(
      'calls while it was down, with a breaker',
      `fewer than ${without.callsWhileDown.toLocaleString('en')}`,
      guarded.callsWhileDown.toLocaleString('en'),
      part < 1,
    ),
    {
      kind: 'aim',
      about: 'calls while it was down, with a breaker over without',
      expected: 'at most 1 %',
      seen: `${(100 * part).toFixed(2)} %`,
      holds: part <= 0.01,
    },
    {
      kind: 'aim',
      about: 'back to full speed after it recovered, with a breaker',
      expected: 'within 5 s',
      seen: speed === null ? 'not seen' : `${speed.toFixed(1)} s`,
      holds: speed !== null && speed <= 5,
    },
    {
      kind: 'aim',
      about: 'processor time saved during the outage',
      expected: 'some',
      seen: saved === null ? 'not known' : `${(100 * saved).toFixed(0)} %`,
      holds: saved !== null && saved > 0,
    },
  ]
}

const COLUMNS = [
  column('breaker', 'name'),
  column('accepted', 'accepted'),
  column('succeeded', 'succeeded'),
  column('dead', 'dead'),
  column('calls while down', 'callsWhileDown'),
  column('full speed after, s', 'fullSpeedSeconds', 1),
  column('all done after, s', 'doneSeconds', 1),
  column('processor s while down', 'outageCpuSeconds', 1),
]

function figureOf({ downSeconds, rate, callEvery }: BreakerConfig, without: Arm, guarded: Arm): Figure {
  const panel = (label: string, read: (sample: BreakerSample) => number | null) => ({
    label,
    series: [without, guarded].map(({ name, samples }) => ({
      name,
      points: samples.map((sample) => [sample.seconds, read(sample) ?? Number.NaN] as const),
    })),
  })
  return {
    title: 'A dependency that is down, with a breaker and without',
    subtitle: `${rate} jobs/s, one in ${callEvery} calls it; it is down for ${downSeconds} s from 0 on`,
    x: { label: 'seconds', scale: 'linear' },
    marks: [{ x: downSeconds, label: 'back' }],
    panels: [
      panel('calls/s', ({ callsPerSecond }) => callsPerSecond),
      panel('jobs that wait', ({ waiting }) => waiting),
      panel('processor time of server and workers, cores', ({ cores }) => cores),
    ],
  }
}

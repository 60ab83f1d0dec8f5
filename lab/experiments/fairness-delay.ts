// How long a single job of a quiet tenant waits in the queue of a tenant with a million, and in the same queue without those.

import { loadavg } from 'node:os'
import type { Spread } from '../bench/statistics.js'
import { say } from '../say.js'
import type { ExperimentContext, Verdict } from './experiment.js'
import { type FairnessConfig, type FleetSize, type Part, withHoldfast } from './fairness-parts.js'
import { withFleet } from './fleet.js'
import { timed } from './handlers.js'
import { type Ground, withGround } from './place.js'
import { pause } from './proof.js'
import { seedHeld } from './seed-held.js'

const QUEUE = 'shared'
/** By how much the million may delay it at p99. */
const DELAY_MS = 50
const WARM_UP_MS = 2_000

export interface DelayRun {
  readonly processes: number
  readonly hasFlood: boolean
  readonly waits: Spread
  readonly sent: number
  /** Of the machine, over the last minute. */
  readonly load: number
  readonly part: Part
}

/** With the million and without, for each size of fleet. */
export async function measureDelays(context: ExperimentContext<FairnessConfig>): Promise<readonly DelayRun[]> {
  const { place, config } = context
  const { million } = config
  const runs: DelayRun[] = []
  for (const hasFlood of [false, true]) {
    say(`  single jobs ${hasFlood ? `beside ${million.toLocaleString('en')}` : 'alone'}`)
    await withGround(
      place,
      (client) => seedHeld(client, { queue: QUEUE, group: 'flood', jobs: hasFlood ? million : 0 }),
      async (ground) => {
        for (const { processes } of config.fleets) {
          runs.push(await measure(config, ground, { size: { processes, slots: config.floodSlots }, hasFlood }))
        }
      },
    )
  }
  return runs
}

function measure(
  config: FairnessConfig,
  { url }: Ground,
  { size, hasFlood }: { readonly size: FleetSize; readonly hasFlood: boolean },
): Promise<DelayRun> {
  const { singlesPerSecond, singleSeconds, floodMs } = config
  return withFleet({ url, ...size, queues: [QUEUE], plainMs: floodMs }, (fleet) =>
    withHoldfast(url, async (holdfast) => {
      fleet.start()
      const everyMs = 1_000 / singlesPerSecond
      const send = (number: number) =>
        holdfast.enqueue(timed, { dueMs: Date.now() }, { queue: QUEUE, group: `single-${number}-${size.processes}` })
      // Until all processes have claimed, and their code is compiled.
      const warmUp = Math.ceil(WARM_UP_MS / everyMs)
      for (let number = 0; number < warmUp; number++) {
        await Promise.all([send(-number - 1), pause(everyMs)])
      }
      await pause(500)
      await fleet.sample()
      const sent = Math.round(singlesPerSecond * singleSeconds)
      const calls: Promise<unknown>[] = []
      for (let number = 0; number < sent; number++) {
        calls.push(send(number))
        await pause(everyMs)
      }
      await Promise.all(calls)
      await pause(500)
      const waits = (await fleet.sample()).late.spread()
      const { processes } = size
      const what = hasFlood ? 'a single job beside a million' : 'a single job alone'
      const part = { what, processes, expected: null, seen: `${waits.count} of ${sent}` }
      const { p50, p99, max } = waits
      return { processes, hasFlood, waits, sent, load: loadavg()[0]!, part: { ...part, p50, p99, max } }
    }),
  )
}

/** What the million costs a single job. */
export function delayVerdicts(runs: readonly DelayRun[]): Verdict[] {
  return runs
    .filter(({ hasFlood }) => hasFlood)
    .flatMap(({ processes, waits, sent }) => {
      const alone = runs.find((run) => run.processes === processes && !run.hasFlood)!
      const delayMs = (waits.p99 ?? Number.NaN) - (alone.waits.p99 ?? Number.NaN)
      const name = `${processes} ${processes === 1 ? 'process' : 'processes'}`
      const isServed = waits.count >= 0.99 * sent
      return [
        {
          kind: 'promise',
          about: `${name}: single jobs served while the flood lasts`,
          expected: `${sent}, but for those sent last`,
          seen: String(waits.count),
          holds: isServed,
        },
        {
          kind: 'aim',
          about: `${name}: what the flood adds to the wait of a single job, p99`,
          expected: `at most ${DELAY_MS} ms`,
          seen: `${delayMs.toFixed(1)} ms`,
          holds: delayMs <= DELAY_MS,
        },
      ] satisfies Verdict[]
    })
}

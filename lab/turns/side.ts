// One of two builds that are measured in turns: its own fleet, producers and database. It runs one window of load after the other.

import type { Message } from '../bench/children.js'
import { seedReady } from '../bench/growth/seed.js'
import { leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import { serverCpuUs } from '../bench/resources.js'
import type { Spread } from '../bench/statistics.js'
import { type Fleet, withFleet } from '../experiments/fleet.js'
import { type Ground, openPlace, withGround } from '../experiments/place.js'
import { type Producers, withProducers } from '../experiments/producers.js'
import { pause, waitUntilDone } from '../experiments/proof.js'
import { Sampler } from '../experiments/sampler.js'
import type { SplitSummary } from '../experiments/split.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'

export interface SideAssignment {
  readonly url: string
  readonly seed: number
  readonly processes: number
  readonly slots: number
  readonly producers: number
  /** Jobs that wait in another queue the whole time. */
  readonly standing: number
}

/** Asks for one window of load. */
export interface WindowMessage extends Message {
  readonly kind: 'window'
  readonly rate: number
  /** At the same rate, before what is measured. */
  readonly leadSeconds: number
  readonly seconds: number
}

/** The answer: what was done in the window, and what it cost. */
export interface WindowReport extends Message {
  readonly kind: 'measured'
  readonly seconds: number
  readonly accepted: number
  readonly done: number
  /** Processor time; of the server only where it can be seen from here. */
  readonly serverUs: number | null
  readonly workersUs: number
  readonly producersUs: number
  readonly claims: Spread
  readonly enqueues: Spread
  readonly claimSplit: SplitSummary | null
  readonly enqueueSplit: SplitSummary | null
  readonly readyAtStart: number
  readonly readyAtEnd: number
}

const QUEUES = ['gen']
const CLAIM_BATCH = 250
const DRAIN_MS = 60_000
// None longer than the lease: such a job would still run in the other build's window.
const MIX: Mix = { ...MIX_DEFAULT, shares: { ...MIX_DEFAULT.shares, slow: 0.2, long: 0 } }

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
  readonly serverPid: number | null
}

async function main({ url, seed, processes, slots, producers: count, standing }: SideAssignment): Promise<void> {
  const place = await openPlace(url)
  const serverPid = await place.serverPid()
  await withGround(
    place,
    (client) => seedReady(client, standing, ['standing']),
    (ground) =>
      withFleet({ url: ground.url, processes, slots, claimBatch: CLAIM_BATCH, queues: QUEUES }, (fleet) =>
        withProducers({ url: ground.url, seed, mix: MIX, producers: count }, async (producers) => {
          fleet.start()
          await serve({ ground, fleet, producers, serverPid })
          await producers.stop()
          await fleet.stop()
        }),
      ),
  )
  sendToParent({ kind: 'stopped' })
  leaveParent()
}

/** Runs windows until the parent says that it is over. */
async function serve(cast: Cast): Promise<void> {
  let isOver = false
  const over = receiveFromParent('stop').then(() => {
    isOver = true
    return null
  })
  sendToParent({ kind: 'ready' })
  while (!isOver) {
    const asked = await Promise.race([receiveFromParent<WindowMessage>('window'), over])
    if (asked !== null) sendToParent<WindowReport>({ kind: 'measured', ...(await runWindow(cast, asked)) })
  }
}

async function runWindow(
  cast: Cast,
  { rate, leadSeconds, seconds }: WindowMessage,
): Promise<Omit<WindowReport, 'kind'>> {
  const { ground, producers, serverPid } = cast
  const cpuUs = () => (serverPid === null ? null : serverCpuUs(serverPid))
  await producers.setPace(rate)
  await pause(leadSeconds * 1_000)
  const sampler = await Sampler.open({ ...cast, queues: QUEUES })
  const before = cpuUs()
  await pause(seconds * 1_000)
  const stretch = await sampler.cut()
  const after = cpuUs()
  await sampler.stop()
  await producers.setPace(0)
  await waitUntilIdle(ground)
  return {
    seconds: stretch.seconds,
    accepted: stretch.accepted,
    done: stretch.succeeded + stretch.dead,
    serverUs: before === null || after === null ? null : after - before,
    workersUs: stretch.workersCpuUs,
    producersUs: stretch.producersCpuUs,
    claims: stretch.claims,
    enqueues: stretch.enqueues,
    claimSplit: stretch.claimSplit,
    enqueueSplit: stretch.enqueueSplit,
    readyAtStart: stretch.readyAtStart,
    readyAtEnd: stretch.readyAtEnd,
  }
}

/** Until nothing of this side is left to do, so that it costs the other side nothing. */
async function waitUntilIdle({ client }: Ground): Promise<void> {
  await waitUntilDone(client, QUEUES, DRAIN_MS)
  // Between two flushes of a producer nothing may be left for a moment.
  await pause(500)
  await waitUntilDone(client, QUEUES, DRAIN_MS)
}

await main(readAssignment<SideAssignment>())

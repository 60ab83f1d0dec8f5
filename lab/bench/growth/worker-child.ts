// A process with Holdfast workers that drains the backlog and reports its speed for each requested window.

import { defineJob, type HoldfastEvent, openHoldfast } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { Message } from '../children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../parent.js'
import { type Spread, spreadOf } from '../statistics.js'
import { Pacer } from './pacer.js'
import { type SeenClaim, watchStore } from './watched-store.js'
import { type Window, WindowClock, type WindowRequest } from './window.js'

export interface WorkerAssignment {
  readonly postgresUrl: string
  readonly workers: readonly WorkerSpec[]
  /** Whether it has an event listener, for warnings; that costs the worker a little for each job. Default false. */
  readonly listens?: boolean
}

export interface WorkerSpec {
  readonly queues: readonly string[]
  readonly slots: number
  /** Null takes the default. */
  readonly prefetch: number | null
}

/** The answer to `sample`: the counts since the last sample. */
export interface WorkerSample extends Message {
  readonly succeeded: number
  readonly claims: Spread
  readonly warnings: readonly string[]
  readonly cpuUs: number
}

const WARNINGS: readonly HoldfastEvent['name'][] = [
  'horizon.held',
  'horizon.freed',
  'store.failed',
  'store.recovered',
  'lease.lost',
  'job.stuck',
  'job.rescued',
  'rescue.held',
  'loop.blocked',
]
const WARNINGS_MAX = 100

async function main({ postgresUrl, workers: specs, listens }: WorkerAssignment): Promise<void> {
  const clock = new WindowClock()
  const pacer = new Pacer()
  let claims: SeenClaim[] = []
  let warnings: string[] = []
  const store = watchStore(await postgresStore(postgresUrl), {
    claimed(claim) {
      clock.claimed(claim)
      if (claim.jobs > 0) claims.push(claim)
    },
    succeeded: (jobs) => clock.succeeded(jobs),
  })
  const client = await openHoldfast(store)
  if (listens) {
    client.on((event) => {
      if (WARNINGS.includes(event.name) && warnings.length < WARNINGS_MAX) warnings.push(describe(event))
    })
  }
  answerParent('sample', () => {
    const took = claims.map(({ tookMs }) => tookMs)
    const { user, system } = process.cpuUsage()
    const answer = { succeeded: clock.total, claims: spreadOf(took), warnings, cpuUs: user + system }
    claims = []
    warnings = []
    return answer
  })
  answerParent('wake', () => {
    client.wake(...specs.flatMap(({ queues }) => queues))
    return {}
  })
  const noop = defineJob<object>('noop')
  const workers = specs.map(({ queues, slots, prefetch }) =>
    client.worker({
      queues,
      concurrency: slots,
      ...(prefetch === null ? {} : { prefetch }),
      handlers: [noop.handle(() => pacer.pass())],
    }),
  )
  const stop = receiveFromParent('stop')
  void answerWindows(clock, pacer)
  sendToParent({ kind: 'ready' })
  await receiveFromParent('start')
  await Promise.all(workers.map((worker) => worker.start()))
  await stop
  pacer.setPace(null)
  await Promise.all(workers.map((worker) => worker.stop()))
  await client.close()
  sendToParent({ kind: 'stopped' })
  leaveParent()
}

async function answerWindows(clock: WindowClock, pacer: Pacer): Promise<void> {
  for (;;) {
    const request = await receiveFromParent<WindowRequest>('window')
    pacer.setPace(request.jobsPerSecond)
    sendToParent<Window>(await clock.window(request))
  }
}

function describe(event: HoldfastEvent): string {
  if (event.name === 'store.failed') return `store.failed during ${event.during}: ${event.error.message}`
  if (event.name === 'store.recovered') return `store.recovered during ${event.during}`
  if (event.name === 'rescue.held') return `rescue.held: ${event.why}`
  if (event.name === 'horizon.held') return `horizon.held: ${event.text}`
  return event.name
}

await main(readAssignment<WorkerAssignment>())

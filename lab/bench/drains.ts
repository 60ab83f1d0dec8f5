// Drains a backlog that exists when the workers start: in one process, in four, and with jobs that use more features.

import { Child } from './children.js'
import type { Contender } from './contender.js'
import type { DrainerAssignment, Handled, Stopped } from './drainer.js'
import type { Measure, Measured, Scale, Stage } from './measures.js'
import { PAYLOAD, PAYLOAD_1KB } from './payloads.js'
import { sum } from './statistics.js'

const BATCH = 500
const PROCESSES = 4
const DRAINER = new URL('./drainer.js', import.meta.url)
const DEADLINE_MS = 240_000

/** A backlog of plain jobs. Ends when every job has been handled and settled. */
export const drain: Measure['run'] = async ({ contender, scale: { drainJobs } }) => {
  await fill(contender, drainJobs, () => PAYLOAD)
  return drainAll(contender, drainJobs, () => undefined)
}

/** A backlog of one of two lengths. */
export function drainDepth(which: keyof Scale['depths']): Measure['run'] {
  return async ({ contender, scale: { depths } }) => {
    await fill(contender, depths[which], () => PAYLOAD)
    return drainAll(contender, depths[which], () => undefined)
  }
}

/** A backlog whose jobs use more features than plain ones. */
export function drainWith(what: 'large payloads' | 'keys' | 'results' | 'failures'): Measure['run'] {
  return async ({ contender, scale: { drainJobs } }) => {
    const payloadOf = (n: number) => (what === 'large payloads' ? PAYLOAD_1KB : { ...PAYLOAD, n })
    await fill(contender, drainJobs, payloadOf, what === 'keys' ? (n) => `order-${n}` : undefined)
    return drainAll(contender, drainJobs, onJobOf(what))
  }
}

function onJobOf(what: 'large payloads' | 'keys' | 'results' | 'failures'): (payload: object) => unknown {
  if (what === 'results') return (payload) => ({ sent: true, n: (payload as { n: number }).n })
  if (what !== 'failures') return () => undefined
  const failed = new Set<number>()
  return (payload) => {
    const { n } = payload as { n: number }
    if (n % 10 !== 0 || failed.has(n)) return undefined
    failed.add(n)
    throw new Error('the mail server did not answer')
  }
}

/** Writes a backlog in batches. */
export async function fill(
  contender: Contender,
  jobs: number,
  payloadOf: (n: number) => object,
  keyOf?: (n: number) => string,
): Promise<void> {
  for (let from = 0; from < jobs; from += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, jobs - from) }, (_, index) => from + index)
    await contender.enqueueMany(numbers.map(payloadOf), keyOf === undefined ? undefined : numbers.map(keyOf))
  }
}

/** Drains until `jobs` have been handled without an error, and everything has been settled. */
export async function drainAll(
  contender: Contender,
  jobs: number,
  onJob: (payload: object) => unknown,
): Promise<Measured> {
  let handled = 0
  let resolveDone: () => void = () => {}
  const all = new Promise<void>((resolve) => {
    resolveDone = resolve
  })
  const began = performance.now()
  const stop = await contender.startWorker((payload) => {
    const result = onJob(payload)
    if (++handled === jobs) resolveDone()
    return result
  })
  await all
  await stop()
  return { jobs: handled, seconds: (performance.now() - began) / 1_000 }
}

/** Four processes and one backlog. They are connected before the time begins; it ends when the last of them has settled. */
export async function drainTogether({ contender, name, servers, scale: { drainJobs } }: Stage): Promise<Measured> {
  await fill(contender, drainJobs, () => PAYLOAD)
  const assignment: DrainerAssignment = { contender: name, servers }
  const drainers = Array.from(
    { length: PROCESSES },
    (_, index) => new Child(DRAINER, assignment, { name: `drainer ${index + 1} of ${name}`, deadlineMs: DEADLINE_MS }),
  )
  try {
    await Promise.all(drainers.map((drainer) => drainer.hear('ready')))
    const all = allHandled(drainers, drainJobs)
    const began = performance.now()
    for (const drainer of drainers) drainer.send({ kind: 'start' })
    // A process that ends too early has failed, and the others may never finish the backlog.
    const stopped = Promise.all(drainers.map((drainer) => drainer.hear<Stopped>('stopped')))
    await Promise.race([all, stopped])
    for (const drainer of drainers) drainer.send({ kind: 'stop' })
    const reports = await stopped
    const seconds = (performance.now() - began) / 1_000
    await Promise.all(drainers.map((drainer) => drainer.ended()))
    const jobs = sum(reports.map(({ handled }) => handled))
    return { jobs, seconds, othersCpuUs: sum(reports.map(({ nodeCpuUs }) => nodeCpuUs)) }
  } finally {
    await Promise.all(drainers.map((drainer) => drainer.kill()))
  }
}

/** Resolves when the processes have handled this many jobs together. */
export function allHandled(drainers: readonly Child[], jobs: number): Promise<void> {
  const counts = drainers.map(() => 0)
  return new Promise((resolve) => {
    drainers.forEach((drainer, index) => {
      drainer.on<Handled>('handled', ({ handled }) => {
        counts[index] = handled
        if (sum(counts) >= jobs) resolve()
      })
    })
  })
}

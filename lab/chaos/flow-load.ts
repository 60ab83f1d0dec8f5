// The load of a run with flow control: which group and limits each job has, what is allowed at first, and an operator who keeps changing it.
//
//   mail   groups of two, one with settings of its own     tracks: none · shared · rated · dependency
//   bill   ordered groups that wait for a retry            tracks: none · shared
//   ship   ordered groups that pass a retry                tracks: none · wide
//   bulk   a concurrency and a rate of the queue; plain jobs, and shared; full at a depth, and then enqueues wait
//   push   batches of one group; the concurrency of their type

import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import type { Random } from '../../src/core/ports.js'
import type { Holdfast } from '../../src/holdfast.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import type { GeneratedJob } from '../gen/handlers.js'
import { sleep } from './sleep.js'
import { FLOW_JOBS } from './work.js'

const MAIL_GROUPS = 150
const ORDERED_GROUPS = 60
/** The groups that the operator pauses and changes. */
const WATCHED = 4
const EVERY_MS = 250
const PAUSE_MS = 700
/** How long an operation is tried again after a fault prevented it. */
const PATIENCE_MS = 60_000

/** What is allowed at first, and again at the end. */
export async function allowUsual(holdfast: Holdfast): Promise<void> {
  await holdfast.setLimit('shared', { concurrency: 7 })
  await holdfast.setLimit('wide', { concurrency: 200 })
  await holdfast.setLimit('rated', { rate: { limit: 60, per: '1s', burst: 20 } })
  // Longer than a change may take to be seen (FLOW.visibleMs): otherwise no claim is surely one of an open breaker.
  const breaker = { failures: 0.5, of: 10, within: '5s', cooldown: '2500ms', probes: 2 } as const
  await holdfast.setLimit('dependency', { concurrency: 20, breaker })
  await holdfast.setQueue('mail', { groups: { concurrency: 2 } })
  await holdfast.setQueue('bill', { groups: { ordered: true } })
  await holdfast.setQueue('ship', { groups: { ordered: true, onRetry: 'pass' } })
  const rate = { limit: 120, per: '1s', burst: 40 } as const
  await holdfast.setQueue('bulk', { concurrency: 12, rate, maxDepth: 80, onFull: 'wait' })
  await holdfast.setQueue('push', { groups: { concurrency: 10, rate: { limit: 200, per: '1s', burst: 50 } } })
  await holdfast.setGroup('mail', 'm0', { concurrency: 5, weight: 3 })
}

/** What a job of the load says about flow control, and its own definition if it has one. */
export function flowOf(random: Random): { readonly options: EnqueueOptions; readonly job: GeneratedJob | null } {
  const luck = random.float()
  const among = (name: string, count: number) => `${name}${Math.floor(random.float() ** 1.5 * count)}`
  const maybe = (limit: string, share: number) => (random.float() < share ? [limit] : [])
  if (luck < 0.4) {
    const limits = [...maybe('shared', 0.15), ...maybe('rated', 0.1)]
    return { options: { queue: 'mail', group: among('m', MAIL_GROUPS), limits }, job: null }
  }
  if (luck < 0.6) {
    return { options: { queue: 'bill', group: among('b', ORDERED_GROUPS), limits: maybe('shared', 0.3) }, job: null }
  }
  if (luck < 0.8) {
    return { options: { queue: 'ship', group: among('s', ORDERED_GROUPS), limits: maybe('wide', 0.3) }, job: null }
  }
  if (luck < 0.87) return { options: { queue: 'bulk', limits: maybe('shared', 0.3), onFull: 'wait' }, job: null }
  if (luck < 0.93) return { options: { queue: 'mail', limits: ['dependency'] }, job: FLOW_JOBS.calling }
  if (luck < 0.98) return { options: { queue: 'push', group: among('p', 8) }, job: FLOW_JOBS.pushing }
  return { options: { queue: 'mail', group: among('m', MAIL_GROUPS), limits: ['rated'] }, job: FLOW_JOBS.told }
}

/** Lowers and raises limits, changes and pauses groups, holds a breaker, until the signal fires. Then all is as usual again. */
export async function operateFlow(holdfast: Holdfast, seed: number, signal: AbortSignal): Promise<void> {
  const random = seededRandom((seed * 2_654_435) >>> 0)
  while (!signal.aborted) {
    // The same faults meet it as all others. What was done is in the store's own records.
    await operateOnce(holdfast, random).catch(() => {})
    await sleep(EVERY_MS)
  }
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      await allowAgain(holdfast)
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(200)
    }
  }
}

async function operateOnce(holdfast: Holdfast, random: Random): Promise<void> {
  const luck = random.float()
  const number = Math.floor(random.float() * WATCHED)
  if (luck < 0.3) await holdfast.setLimit('shared', { concurrency: 2 + Math.floor(random.float() * 10) })
  else if (luck < 0.4) {
    const concurrency = 4 + Math.floor(random.float() * 16)
    const rate = { limit: 60 + Math.floor(random.float() * 120), per: '1s', burst: 40 } as const
    await holdfast.setQueue('bulk', { concurrency, rate, maxDepth: 80, onFull: 'wait' })
  } else if (luck < 0.55) {
    const concurrency = 1 + Math.floor(random.float() * 6)
    await holdfast.setGroup('mail', `m${number}`, random.float() < 0.3 ? null : { concurrency, weight: 1 + number })
  } else if (luck < 0.65)
    await holdfast.setQueue('mail', { groups: { concurrency: 1 + Math.floor(random.float() * 3) } })
  else if (luck < 0.95) {
    const [queue, group] = [['mail', 'm'] as const, ['bill', 'b'] as const, ['ship', 's'] as const][number % 3]!
    await holdfast.pauseGroup(queue, `${group}${number}`)
    await sleep(random.float() * PAUSE_MS)
    await holdfast.resumeGroup(queue, `${group}${number}`)
  } else {
    await holdfast.openBreaker('dependency')
    await sleep(random.float() * PAUSE_MS)
    await holdfast.releaseBreaker('dependency')
  }
}

async function allowAgain(holdfast: Holdfast): Promise<void> {
  await allowUsual(holdfast)
  await holdfast.releaseBreaker('dependency')
  for (let number = 0; number < WATCHED; number++) {
    await holdfast.resumeGroup('mail', `m${number}`)
    await holdfast.resumeGroup('bill', `b${number}`)
    await holdfast.resumeGroup('ship', `s${number}`)
    if (number > 0) await holdfast.setGroup('mail', `m${number}`, null)
  }
}

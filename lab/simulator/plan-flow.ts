// Flow control of a run: the limits, queues and groups it begins with, which jobs belong to them, and what operators change meanwhile.

import type { LimitSettings, QueueFlow, Rate } from '../../src/core/flow/settings.js'
import { NO_GROUP_SETTINGS, NO_LIMIT, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { Chance } from './chance.js'
import type { PlannedJob } from './plan-jobs.js'
import { QUEUES } from './queue-names.js'

const LIMITS = ['api', 'mail'] as const
const GROUPS = ['a', 'b', 'c'] as const

/** What holds from the first moment on. */
export interface PlannedFlow {
  readonly limits: readonly { readonly name: string; readonly settings: LimitSettings }[]
  readonly queues: readonly { readonly queue: string; readonly flow: QueueFlow }[]
  readonly acts: readonly PlannedFlowAct[]
  /** How a job belongs to it. The same job is given the same place each time. */
  readonly shares: {
    readonly grouped: number
    readonly limited: number
    readonly told: number
    readonly batched: number
  }
}

/** A change of what holds. */
export type PlannedFlowAct = { readonly atMs: number; readonly process: number } & (
  | { readonly act: 'set limit'; readonly name: string; readonly settings: LimitSettings }
  | { readonly act: 'set queue'; readonly queue: string; readonly flow: QueueFlow }
  | {
      readonly act: 'set group'
      readonly queue: string
      readonly group: string
      readonly concurrency: number
      readonly weight: number
    }
  | { readonly act: 'pause group'; readonly queue: string; readonly group: string; readonly forMs: number }
  | {
      readonly act: 'hold breaker'
      readonly name: string
      readonly forced: 'open' | 'closed'
      readonly forMs: number
    }
)

/** The share of runs with flow control. */
const FLOW_SHARE = 0.4

/** The flow control of a run; null for a run without. */
export function drawFlow(
  chance: Chance,
  { healMs, isSure }: { readonly healMs: number; readonly isSure: boolean },
): PlannedFlow | null {
  if (!chance.happens(FLOW_SHARE) && !isSure) return null
  const terms = { hasRates: chance.happens(0.5), hasBreakers: chance.happens(0.4), isOrdered: chance.happens(0.5) }
  const queues = QUEUES.filter(() => chance.happens(0.7)).map((queue) => ({ queue, flow: drawQueue(chance, terms) }))
  const count = chance.pick([0, 2, 6, 10])
  return {
    limits: LIMITS.map((name) => ({ name, settings: drawLimit(chance, terms) })),
    queues,
    acts: Array.from({ length: count }, () => drawAct(chance, terms, healMs)),
    shares: {
      grouped: chance.pick([0, 0.5, 0.9, 1]),
      limited: chance.pick([0, 0.4, 0.9]),
      told: chance.pick([0, 0, 0.15]),
      batched: chance.pick([0, 0, 0.25]),
    },
  }
}

interface Terms {
  readonly hasRates: boolean
  readonly hasBreakers: boolean
  readonly isOrdered: boolean
}

function drawRate(chance: Chance, { hasRates }: Terms): Rate | null {
  if (!hasRates || chance.happens(0.4)) return null
  return { limit: chance.whole(4, 20), perMs: 1_000, burst: chance.whole(1, 3), counts: 'starts' }
}

function drawLimit(chance: Chance, terms: Terms): LimitSettings {
  const breaker = {
    failures: 0.5,
    of: chance.whole(1, 3),
    withinMs: 5_000,
    cooldownMs: chance.whole(200, 900),
    probes: 1,
  }
  return {
    ...NO_LIMIT,
    concurrency: chance.pick([null, 1, 2, 4]),
    rate: drawRate(chance, terms),
    breaker: terms.hasBreakers && chance.happens(0.7) ? { ...breaker, probes: chance.whole(1, 2) } : null,
  }
}

function drawQueue(chance: Chance, terms: Terms): QueueFlow {
  const ordered = terms.isOrdered && chance.happens(0.6)
  return {
    ...NO_QUEUE_FLOW,
    concurrency: chance.pick([null, null, 1, 3]),
    rate: drawRate(chance, terms),
    groups: {
      ...NO_GROUP_SETTINGS,
      ordered,
      onRetry: ordered ? chance.pick(['wait', 'wait', 'pass'] as const) : 'wait',
      onDead: ordered && chance.happens(0.3) ? 'stop' : 'continue',
      concurrency: ordered ? null : chance.pick([null, 1, 1, 2]),
      rate: drawRate(chance, terms),
    },
  }
}

function drawAct(chance: Chance, terms: Terms, healMs: number): PlannedFlowAct {
  const when = { atMs: chance.between(300, healMs), process: chance.whole(0, 9) }
  const place = { queue: chance.pick(QUEUES), group: chance.pick(GROUPS) }
  const forMs = chance.between(200, 4_000)
  switch (chance.pick(['limit', 'limit', 'queue', 'queue', 'group', 'pause', 'pause', 'breaker'] as const)) {
    case 'limit':
      return { ...when, act: 'set limit', name: chance.pick(LIMITS), settings: drawLimit(chance, terms) }
    case 'queue':
      return { ...when, act: 'set queue', queue: place.queue, flow: drawQueue(chance, terms) }
    case 'group':
      return { ...when, act: 'set group', ...place, concurrency: chance.whole(1, 3), weight: chance.pick([1, 3]) }
    case 'pause':
      return { ...when, act: 'pause group', ...place, forMs }
    case 'breaker':
      return {
        ...when,
        act: 'hold breaker',
        name: chance.pick(LIMITS),
        forced: chance.pick(['open', 'open', 'closed']),
        forMs,
      }
  }
}

/** Gives a job its place in flow control. Its draws are its own, so that the jobs of a run are the same without it. */
export function placeInFlow(chance: Chance, { shares }: PlannedFlow, job: PlannedJob): PlannedJob {
  const mayChange = job.kind === 'quick' || job.kind === 'slow' || job.kind === 'flaky'
  const group = chance.happens(shares.grouped) ? chance.pick(GROUPS) : null
  const limits = chance.happens(shares.limited) ? chance.pick([['api'], ['mail'], ['api', 'mail']] as const) : []
  const [isTold, isBatched] = [chance.happens(shares.told), chance.happens(shares.batched)]
  const kind = !mayChange ? job.kind : isTold ? 'told' : isBatched ? 'batched' : job.kind
  return { ...job, kind, flow: { group, limits } }
}

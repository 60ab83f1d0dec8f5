// The calls of a run: which jobs are enqueued and when, how their handlers behave, and what operators do.

import type { Duration } from '../../src/core/duration.js'
import type { RetryOptions } from '../../src/core/retry.js'
import type { Chance } from './chance.js'
import { type PlannedFlow, placeInFlow } from './plan-flow.js'
import { QUEUES } from './queue-names.js'

/** How a handler behaves. */
export type Kind =
  | ('instant' | 'quick' | 'slow' | 'long' | 'flaky' | 'failing' | 'dropping' | 'snoozing' | 'later')
  | ('transactional' | 'outliving' | 'stuck' | 'poison' | 'blocking' | 'tick' | 'told' | 'batched')

/** Jobs that cost leases: they kill their process, block it, or hold a transaction open for too long. */
export type Harmful = 'poison' | 'blocking' | 'outliving'

/** A job's payload: its name in the run and what its handler does. */
export interface Payload {
  readonly key: string
  readonly effect: 'in transaction' | 'outside' | 'none'
  /** How long its handler works. */
  readonly ms: number
  /** How often it fails, snoozes or asks for later before it succeeds. */
  readonly times: number
}

export interface PlannedJob {
  readonly kind: Kind
  readonly payload: Payload
  readonly queue: string
  readonly priority: number
  readonly maxAttempts: number
  readonly retry: RetryOptions
  readonly timeout: Duration | null
  readonly delayMs: number | null
  readonly maxAgeMs: number | null
  readonly idempotencyKey: string | { readonly key: string; readonly for: number } | null
  readonly onParentDead: 'cancel' | 'run'
  /** Its group and limits, in a run with flow control. */
  readonly flow?: { readonly group: string | null; readonly limits: readonly string[] }
}

/** One call at one time. */
export type PlannedAct =
  | {
      readonly act: 'enqueue'
      readonly atMs: number
      /** The process that does it; if it is down, the next one. */
      readonly process: number
      readonly jobs: readonly PlannedJob[]
      readonly isTogether: boolean
      /** Comes after the jobs, once they have been accepted. */
      readonly child: PlannedJob | null
    }
  | {
      readonly act: 'cancel' | 'requeue' | 'discard' | 'update'
      readonly atMs: number
      readonly process: number
      /** Chooses one of the existing jobs, from 0 up to 1. */
      readonly which: number
      readonly priority: number
    }
  | {
      readonly act: 'pause'
      readonly atMs: number
      readonly process: number
      readonly queue: string
      readonly forMs: number
    }

interface ActTerms {
  readonly healMs: number
  readonly leaseMs: number
  readonly harmful: readonly Harmful[]
  /** Whether the store's clock is set back. Then a key may be freed before its time comes again. */
  readonly goesBack: boolean
  /** Null in a run without flow control. */
  readonly flow: PlannedFlow | null
}

/** The acts of a run. */
export function drawActs(chance: Chance, terms: ActTerms): PlannedAct[] {
  const usual: readonly Kind[] = [
    ...(['instant', 'quick', 'quick', 'quick', 'quick', 'slow', 'slow', 'long', 'flaky', 'flaky'] as const),
    ...(['failing', 'dropping', 'snoozing', 'later', 'transactional', 'transactional', 'stuck'] as const),
  ]
  // Each run has only some kinds, so that rare combinations become common.
  const kinds = usual.filter(() => chance.happens(0.6))
  const drawer = new JobDrawer(chance, terms, kinds.length === 0 ? ['quick'] : kinds)
  const acts: PlannedAct[] = []
  const count = chance.whole(2, 10)
  for (let index = 0; index < count; index++) acts.push(drawEnqueue(chance, drawer, terms))
  for (const kind of terms.harmful) {
    const atMs = chance.between(0, terms.healMs * 0.6)
    const jobs = [drawer.draw(kind)]
    acts.push({ ...plainEnqueue(chance, atMs), jobs, isTogether: false, child: null })
    if (kind === 'poison') acts.push(drawCompany(chance.fork('company'), drawer, { atMs, queue: jobs[0]!.queue }))
  }
  const operations = chance.pick([0, 0, 3, 10])
  for (let index = 0; index < operations; index++) acts.push(drawOperation(chance, terms))
  return acts
}

/** Jobs beside one that kills its process: the same process holds them again and again. */
function drawCompany(chance: Chance, drawer: JobDrawer, { atMs, queue }: { atMs: number; queue: string }): PlannedAct {
  const jobs = Array.from({ length: chance.pick([0, 1, 4, 8]) }, () => ({
    ...drawer.draw('quick'),
    ...{ queue, priority: 0, delayMs: null, maxAttempts: 5 },
  }))
  return { ...plainEnqueue(chance, atMs), jobs, isTogether: false, child: null }
}

function plainEnqueue(chance: Chance, atMs: number): { act: 'enqueue'; atMs: number; process: number } {
  return { act: 'enqueue', atMs, process: chance.whole(0, 9) }
}

function drawEnqueue(chance: Chance, drawer: JobDrawer, { healMs }: ActTerms): PlannedAct {
  const jobs = Array.from({ length: chance.pick([1, 1, 1, 2, 3, 6]) }, () => drawer.draw())
  return {
    ...plainEnqueue(chance, chance.between(0, healMs * 0.9)),
    jobs,
    isTogether: chance.happens(0.2),
    child: chance.happens(0.2) ? drawer.draw() : null,
  }
}

function drawOperation(chance: Chance, { healMs }: ActTerms): PlannedAct {
  const atMs = chance.between(500, healMs)
  const process = chance.whole(0, 9)
  const act = chance.pick(['cancel', 'cancel', 'requeue', 'requeue', 'discard', 'update', 'pause'] as const)
  if (act === 'pause') return { act, atMs, process, queue: chance.pick(QUEUES), forMs: chance.between(200, 6_000) }
  return { act, atMs, process, which: chance.float(), priority: chance.whole(-2, 2) }
}

class JobDrawer {
  readonly #chance: Chance
  readonly #terms: ActTerms
  readonly #kinds: readonly Kind[]
  readonly #hasKeys: boolean
  readonly #hasPriorities: boolean
  readonly #ofFlow: Chance
  #count = 0

  constructor(chance: Chance, terms: ActTerms, kinds: readonly Kind[]) {
    this.#chance = chance
    this.#terms = terms
    this.#kinds = kinds
    this.#hasKeys = chance.happens(0.5)
    this.#hasPriorities = chance.happens(0.5)
    this.#ofFlow = chance.fork('flow')
  }

  draw(kind: Kind = this.#chance.pick(this.#kinds)): PlannedJob {
    const job = this.#drawPlain(kind)
    const { flow } = this.#terms
    return flow === null ? job : placeInFlow(this.#ofFlow, flow, job)
  }

  #drawPlain(kind: Kind): PlannedJob {
    const chance = this.#chance
    const payload = this.#drawPayload(kind)
    return {
      kind,
      payload,
      queue: chance.pick(QUEUES),
      priority: this.#hasPriorities ? chance.pick([-1, 0, 0, 5]) : 0,
      maxAttempts: kind === 'stuck' ? 2 : kind === 'outliving' ? 5 : chance.whole(1, 5),
      retry: {
        backoff: chance.pick(['exponential', 'linear', 'fixed'] as const),
        base: chance.whole(50, 800),
        cap: 2_000,
        jitter: chance.happens(0.5),
      },
      timeout: kind === 'stuck' ? 1_000 : kind !== 'outliving' && chance.happens(0.1) ? chance.whole(500, 3_000) : null,
      delayMs: chance.happens(0.2) ? chance.whole(1, 4_000) : null,
      maxAgeMs: chance.happens(0.04) ? chance.whole(500, 5_000) : null,
      idempotencyKey: this.#hasKeys && chance.happens(0.4) ? this.#drawKey() : null,
      onParentDead: chance.pick(['cancel', 'run'] as const),
    }
  }

  #drawKey(): PlannedJob['idempotencyKey'] {
    const key = `same-${this.#chance.whole(0, 3)}`
    return !this.#terms.goesBack && this.#chance.happens(0.3) ? { key, for: this.#chance.whole(500, 6_000) } : key
  }

  #drawPayload(kind: Kind): Payload {
    const chance = this.#chance
    const { leaseMs } = this.#terms
    const ms = {
      slow: chance.between(300, 2_000),
      long: chance.between(1.2, 2.2) * leaseMs,
      blocking: chance.between(0.3, 2.2) * leaseMs,
      outliving: chance.between(1.2, 2.2) * leaseMs,
    }[kind as string]
    const hasNone = kind === 'instant' || kind === 'dropping' || kind === 'failing' || kind === 'poison'
    return {
      key: `k${this.#count++}`,
      effect: kind === 'transactional' ? 'in transaction' : hasNone ? 'none' : 'outside',
      ms: Math.round(ms ?? chance.between(1, 60)),
      times: chance.whole(1, 3),
    }
  }
}

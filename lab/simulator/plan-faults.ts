// The faults of a run and their times. All of them end before the run heals.

import type { Chance } from './chance.js'

const KINDS = {
  /** The process dies without warning and is restarted later. */
  crash: [200, 3_000],
  /** SIGSTOP, then SIGCONT. */
  stop: [100, 9_000],
  /** Nothing gets through between the process and the store. */
  cut: [100, 6_000],
  /** A share of requests, or of answers, is lost for all processes. */
  'lost requests': [500, 5_000],
  'lost answers': [500, 5_000],
  /** A share of legs takes up to seconds, so calls overtake each other. */
  slow: [500, 5_000],
  /** The store is down for all processes. */
  down: [100, 6_000],
  /** The store's clock is set forward, or back. */
  'clock forward': [0, 0],
  'clock back': [0, 0],
  /** An orderly stop and a new start. It is not a fault, and nothing may be lost by it. */
  deploy: [100, 2_000],
} as const

export type FaultKind = keyof typeof KINDS

export interface PlannedFault {
  readonly index: number
  readonly kind: FaultKind
  readonly atMs: number
  readonly forMs: number
  /** The process it strikes, or `all`. */
  readonly target: string
  /** How bad: a share, or milliseconds for clocks. */
  readonly degree: number
}

interface FaultTerms {
  readonly names: readonly string[]
  readonly healMs: number
  readonly leaseMs: number
  readonly isFaultless: boolean
  readonly schedules: number
}

/** True for ordinary operation: no lease may expire because of it. */
export function isOrdinary(kind: FaultKind): boolean {
  return kind === 'deploy'
}

/** The faults of a run, in the order of time. */
export function drawFaults(chance: Chance, terms: FaultTerms): PlannedFault[] {
  const { isFaultless, schedules } = terms
  const kinds = (Object.keys(KINDS) as FaultKind[])
    .filter((kind) => isOrdinary(kind) || (!isFaultless && chance.happens(0.35)))
    // When the clock is set back, a tick that was due is no longer due, so it is undefined which ticks should fire.
    .filter((kind) => kind !== 'clock back' || schedules === 0)
    .filter((kind) => kind !== 'deploy' || chance.happens(isFaultless ? 0.8 : 0.3))
  const drawn = kinds.flatMap((kind) => Array.from({ length: chance.whole(1, 3) }, () => drawOne(chance, kind, terms)))
  return drawn.sort((a, b) => a.atMs - b.atMs).map((fault, index) => ({ ...fault, index }))
}

function drawOne(chance: Chance, kind: FaultKind, { names, healMs }: FaultTerms): Omit<PlannedFault, 'index'> {
  const [least, most] = KINDS[kind]
  const atMs = chance.between(500, healMs - 500)
  const isOfOne = kind === 'crash' || kind === 'stop' || kind === 'cut' || kind === 'deploy'
  return {
    kind,
    atMs,
    forMs: Math.min(chance.between(least, most), healMs - atMs),
    target: isOfOne ? chance.pick(names) : 'all',
    degree: degreeOf(chance, kind),
  }
}

function degreeOf(chance: Chance, kind: FaultKind): number {
  if (kind === 'clock forward') return chance.pick([chance.between(100, 6_000), chance.between(10_000, 90_000)])
  if (kind === 'clock back') return chance.between(-8_000, -100)
  return chance.pick([0.05, 0.3, 0.9])
}

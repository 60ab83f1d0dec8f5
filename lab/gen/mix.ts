// A generated load: one job for each number in the sequence, as a pure function of the seed. Two runs with one seed enqueue the
// same jobs with the same durations and failures, whatever the machine does.

import { seededRandom } from '../../src/testing/seeded-random.js'

/** The kinds of jobs, each a job type of its own. */
export const KINDS = ['fast', 'slow', 'flapping', 'poison', 'long'] as const

export type Kind = (typeof KINDS)[number]

/** How a job's effect is applied, if the run has tables of effects. */
type Effect = 'in transaction' | 'outside' | 'none'

export interface Mix {
  /** How many of all jobs are of each kind; they need not sum up to one. */
  readonly shares: Readonly<Record<Kind, number>>
  /** How long handlers of each kind run, from and to, evenly drawn. */
  readonly durationsMs: Readonly<Record<Kind, readonly [number, number]>>
  /** How often a flapping job fails before it succeeds, at most. */
  readonly failuresMax: number
  /** Shares of jobs with an effect of each sort; the rest has none. */
  readonly effects: Readonly<Record<Exclude<Effect, 'none'>, number>>
}

/** 70 % fast, 20 % slow, 5 % failing at first, 5 % failing always; jobs longer than the lease among the slow. */
export const MIX_DEFAULT: Mix = {
  shares: { fast: 0.7, slow: 0.195, flapping: 0.05, poison: 0.05, long: 0.005 },
  durationsMs: { fast: [1, 5], slow: [200, 2_000], flapping: [1, 20], poison: [1, 20], long: [35_000, 45_000] },
  failuresMax: 3,
  effects: { 'in transaction': 0, outside: 0 },
}

/** What every generated job carries. */
export interface GeneratedPayload {
  readonly seq: number
  readonly kind: Kind
  /** Unique in the run. */
  readonly key: string
  readonly ms: number
  /** Attempts that fail before one succeeds; null fails always. */
  readonly failures: number | null
  readonly effect: Effect
}

/** The job with this number. */
export function jobAt(seed: number, seq: number, mix: Mix = MIX_DEFAULT): GeneratedPayload {
  const random = seededRandom((Math.imul(seed, 0x9e3779b1) ^ Math.imul(seq + 1, 0x85ebca6b)) >>> 0)
  const kind = pick(KINDS, mix.shares, random.float())
  const [fromMs, toMs] = mix.durationsMs[kind]
  const ms = Math.round(fromMs + random.float() * (toMs - fromMs))
  const failures = kind === 'poison' ? null : kind === 'flapping' ? 1 + Math.floor(random.float() * mix.failuresMax) : 0
  const luck = random.float()
  const inside = mix.effects['in transaction']
  const effect = luck < inside ? 'in transaction' : luck < inside + mix.effects.outside ? 'outside' : 'none'
  return { seq, kind, key: `${seed}-${seq}`, ms, failures, effect }
}

function pick(kinds: readonly Kind[], shares: Mix['shares'], luck: number): Kind {
  let left = luck * kinds.reduce((sum, kind) => sum + shares[kind], 0)
  for (const kind of kinds) {
    left -= shares[kind]
    if (left < 0) return kind
  }
  return kinds[0]!
}

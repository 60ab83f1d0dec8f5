// The plan of a run's faults: a pure function of its settings. Each target has its own lane, in which one fault follows the other;
// lanes overlap.

import { seededRandom } from '../../src/testing/seeded-random.js'
import { ROLE_SETTINGS } from './postgres/roles.js'
import { type ChaosSettings, FAULT_KINDS, type FaultKind, REDIS_KINDS, SWITCHES } from './settings.js'

export interface PlannedFault {
  readonly index: number
  readonly kind: FaultKind
  /** worker-1 …, producer-1 …, server, load, or a target that only its kind uses. */
  readonly target: string
  /** Milliseconds from the beginning of the run before which it does not start. */
  readonly atMs: number
  /** How long it lasts, for kinds that last. */
  readonly ms: number
  /** A random number from 0 up to 1, for other choices. */
  readonly luck: number
}

const ON_SERVER: readonly FaultKind[] = [
  'terminate backends',
  'kill backend',
  'stop server',
  'lose notifications',
  'lock tables',
  'disk full',
  'clock ahead',
  'clock back',
  'demoted for a while',
  ...SWITCHES,
  ...REDIS_KINDS,
]
/** Faults of a link. */
const ON_LINK: readonly FaultKind[] = [
  ...(['cut by reset', 'cut by end', 'refuse connections', 'half-open link', 'slow link'] as const),
  ...(['lose answer to claim', 'lose answer to settle', 'lose answer to commit'] as const),
]
const ON_LOAD: readonly FaultKind[] = [
  ...(['dependency away', 'poison burst', 'killing payload', 'stuck handler', 'transaction outlives lease'] as const),
  ...(['exiting handler', 'leaking handler', 'spinning handler'] as const),
]
/** Faults of the server from which processes must recover quickly: lateness because of them counts. */
const PASSED_OVER: readonly FaultKind[] = ['terminate backends', 'lose notifications', 'kill clients', 'replica away']
const WARM_UP_MS = 3_000

/** The faults of a run, by the time they start. */
export function planFaults(
  settings: Pick<
    ChaosSettings,
    'seed' | 'workers' | 'pooled' | 'unlinked' | 'producers' | 'seconds' | 'leaseMs' | 'faults'
  >,
): PlannedFault[] {
  const random = seededRandom(settings.seed)
  const planned: Omit<PlannedFault, 'index'>[] = []
  for (const kind of FAULT_KINDS) {
    const count = settings.faults[kind] ?? 0
    for (let number = 0; number < count; number++) {
      const target = targetOf(kind, number, settings, random.float())
      const atMs = Math.round(WARM_UP_MS + random.float() * (settings.seconds * 1_000 - WARM_UP_MS))
      planned.push({ kind, target, atMs, ms: lengthOf(kind, settings.leaseMs, random.float()), luck: random.float() })
    }
  }
  planned.sort((a, b) => a.atMs - b.atMs)
  return planned.map((fault, index) => ({ index, ...fault }))
}

function targetOf(
  kind: FaultKind,
  number: number,
  { workers, pooled, unlinked, producers }: Pick<ChaosSettings, 'workers' | 'pooled' | 'unlinked' | 'producers'>,
  luck: number,
): string {
  if (ON_SERVER.includes(kind)) return 'server'
  if (ON_LOAD.includes(kind)) return 'load'
  if (kind === 'stranger holds key' || kind === 'late commits under snapshot') return kind
  // In turn with the faults of the servers: an administrator does one thing after the other.
  if (kind in ROLE_SETTINGS) return 'server'
  if (kind === 'lose answer to enqueue') return `producer-${1 + (number % producers)}`
  // A deploy goes through the workers one after the other. Producers' links break too.
  if (kind === 'deploy') return `worker-${1 + (number % workers)}`
  const isLink =
    kind === 'cut by reset' || kind === 'cut by end' || kind === 'refuse connections' || kind === 'half-open link'
  if (isLink && luck < 0.25) return `producer-${1 + (number % producers)}`
  // Behind a pooler statements have no names by which a link could recognise them.
  const isNamed = kind === 'lose answer to claim' || kind === 'lose answer to settle'
  const first = Math.max(isNamed ? pooled : 0, ON_LINK.includes(kind) ? unlinked : 0)
  return `worker-${1 + first + Math.floor(luck * (workers - first))}`
}

/** Which process can't be expected to take jobs while the fault lasts: one, all, or null for none. */
export function disabledBy({ kind, target }: PlannedFault): string | null {
  if (target === 'server') return PASSED_OVER.includes(kind) || kind in ROLE_SETTINGS ? null : 'all'
  return target.startsWith('worker-') ? target : null
}

function lengthOf(kind: FaultKind, leaseMs: number, luck: number): number {
  const between = (fromMs: number, toMs: number) => Math.round(fromMs + luck * (toMs - fromMs))
  switch (kind) {
    case 'pause beyond lease':
    case 'half-open link':
    case 'block event loop':
      return between(leaseMs * 1.5, leaseMs * 2)
    case 'pause within lease':
      return between(leaseMs * 0.1, leaseMs * 0.4)
    case 'refuse connections':
    case 'slow link':
    case 'lock tables':
    case 'stall server':
    case 'pause clients':
    case 'memory full':
      return between(400, 1_200)
    case 'replica away':
    case 'replication cut':
      return between(500, 1_000)
    case 'stop server':
      return between(0, 1_000)
    case 'disk full':
      return between(500, 1_500)
    case 'clock back':
      return between(leaseMs, leaseMs * 1.5)
    case 'dependency away':
      return between(1_000, 3_000)
    case 'demoted for a while':
      return between(4_000, 6_000)
    default:
      return kind in ROLE_SETTINGS ? between(2_500, 4_500) : 0
  }
}

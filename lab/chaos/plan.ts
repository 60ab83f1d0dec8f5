// The plan of a run's faults: a pure function of its settings. Each target has a lane of its own, in which one fault comes after the
// other; lanes overlap.

import { seededRandom } from '../../src/testing/seeded-random.js'
import { type ChaosSettings, FAULT_KINDS, type FaultKind } from './settings.js'

export interface PlannedFault {
  readonly index: number
  readonly kind: FaultKind
  /** worker-1 …, producer-1 …, server, or load. */
  readonly target: string
  /** Milliseconds from the beginning of the run before which it does not start. */
  readonly atMs: number
  /** How long it lasts, for kinds that last. */
  readonly ms: number
  /** A number of its own from 0 up to 1, for what else there is to choose. */
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
]
const ON_LOAD: readonly FaultKind[] = ['dependency away', 'poison burst', 'killing payload', 'stuck handler']
const WARM_UP_MS = 3_000

/** The faults of a run, by the time they start. */
export function planFaults(
  settings: Pick<ChaosSettings, 'seed' | 'workers' | 'producers' | 'seconds' | 'leaseMs' | 'faults'>,
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
  { workers, producers }: Pick<ChaosSettings, 'workers' | 'producers'>,
  luck: number,
): string {
  if (ON_SERVER.includes(kind)) return 'server'
  if (ON_LOAD.includes(kind)) return 'load'
  if (kind === 'lose answer to enqueue') return `producer-${1 + (number % producers)}`
  // A deploy goes through the workers one after the other; producers' links break as well.
  if (kind === 'deploy') return `worker-${1 + (number % workers)}`
  const isLink =
    kind === 'cut by reset' || kind === 'cut by end' || kind === 'refuse connections' || kind === 'half-open link'
  if (isLink && luck < 0.25) return `producer-${1 + (number % producers)}`
  return `worker-${1 + Math.floor(luck * workers)}`
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
      return between(400, 1_200)
    case 'stop server':
      return between(0, 1_000)
    case 'disk full':
      return between(500, 1_500)
    case 'clock back':
      return between(leaseMs, leaseMs * 1.5)
    case 'dependency away':
      return between(1_000, 3_000)
    default:
      return 0
  }
}

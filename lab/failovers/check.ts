// What a failover must not do, checked over what was acknowledged and what was run. Pure.

import type { AcceptedLine, RunLine } from './lines.js'

/** Where the store says that a job is. */
export type Whereabouts = 'finished' | 'dead' | 'waiting' | 'missing'

export interface RoundFacts {
  /** What living producers were told. */
  readonly accepted: readonly AcceptedLine[]
  /** What producers were told that were killed in this round. */
  readonly acceptedByKilled: readonly AcceptedLine[]
  readonly began: readonly RunLine[]
  readonly succeeded: readonly RunLine[]
  readonly whereabouts: ReadonlyMap<string, Whereabouts>
  /** The window that the product names, and the most jobs that may be missing in it; null when it names none. */
  readonly named: NamedWindow | null
}

export interface NamedWindow {
  readonly fromMs: number
  readonly untilMs: number
  readonly jobsMax: number
}

export interface RoundFindings {
  /** Acknowledged jobs of living producers that did not end. */
  readonly lost: readonly string[]
  /** Jobs that ran twice in one attempt, or again after they had succeeded. */
  readonly twice: readonly string[]
  /** Ticks of schedules that became two jobs. */
  readonly ticksTwice: readonly string[]
  /** Jobs that died: the load has none that may. */
  readonly dead: readonly string[]
  /** Acknowledged jobs of killed producers that are not there. */
  readonly missing: readonly string[]
  /** Those of them outside the named window. */
  readonly outside: readonly string[]
  /** Whether the named number covers them. */
  readonly isNumberEnough: boolean
}

/** Compares what was promised with what happened. */
export function checkRound(facts: RoundFacts): RoundFindings {
  const { accepted, acceptedByKilled, began, succeeded, whereabouts, named } = facts
  const isEnded = (id: string) => whereabouts.get(id) === 'finished' || whereabouts.get(id) === 'dead'
  const ran = new Set(succeeded.map(({ id }) => id))
  // A job that ran was not lost, even when its facts are.
  const missing = acceptedByKilled.filter(({ id }) => !isEnded(id) && !ran.has(id))
  const isCovered = ({ atMs }: AcceptedLine) => named !== null && atMs >= named.fromMs && atMs <= named.untilMs
  return {
    lost: idsOf(accepted.filter(({ id }) => !isEnded(id))),
    twice: [
      ...new Set([...repeated(began, ({ id, attempt }) => `${id} ${attempt}`), ...afterSuccess(began, succeeded)]),
    ],
    ticksTwice: repeated(uniqueJobs(began.filter(({ tick }) => tick !== null)), ({ tick }) => tick!),
    dead: [...whereabouts].filter(([, where]) => where === 'dead').map(([id]) => id),
    missing: idsOf(missing),
    outside: idsOf(missing.filter((line) => !isCovered(line))),
    isNumberEnough: missing.length <= (named?.jobsMax ?? 0),
  }
}

function idsOf(lines: readonly { readonly id: string }[]): readonly string[] {
  return [...new Set(lines.map(({ id }) => id))]
}

/** The names that occur more than once, up to their first blank. */
function repeated(lines: readonly RunLine[], nameOf: (line: RunLine) => string): readonly string[] {
  const counts = new Map<string, number>()
  for (const line of lines) counts.set(nameOf(line), (counts.get(nameOf(line)) ?? 0) + 1)
  return [...counts].filter(([, count]) => count > 1).map(([name]) => name.split(' ')[0]!)
}

function uniqueJobs(lines: readonly RunLine[]): readonly RunLine[] {
  return [...new Map(lines.map((line) => [line.id, line])).values()]
}

/** Jobs with a run that began after another run of theirs had succeeded. */
function afterSuccess(began: readonly RunLine[], succeeded: readonly RunLine[]): readonly string[] {
  const attempts = new Map<string, number>()
  for (const { id, attempt } of succeeded) attempts.set(id, Math.min(attempt, attempts.get(id) ?? attempt))
  return began.filter(({ id, attempt }) => attempt > (attempts.get(id) ?? attempt)).map(({ id }) => id)
}

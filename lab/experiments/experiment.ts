// An experiment: a committed configuration in two sizes, a run, and a result that compares each promise with what was seen.

import type { GrowthRow } from '../bench/growth/measure.js'
import type { Column } from '../bench/table.js'
import type { Figure } from '../plot.js'
import type { Evidence } from './evidence.js'
import type { Place } from './place.js'

/** One line of the verdict. */
export interface Verdict {
  /** A promise that is broken fails the run. An aim is a speed or a time: it is reported, never a failure. */
  readonly kind: 'promise' | 'aim'
  readonly about: string
  readonly expected: string
  readonly seen: string
  readonly holds: boolean
}

export interface ExperimentResult {
  readonly columns: readonly Column<GrowthRow>[]
  readonly rows: readonly GrowthRow[]
  readonly verdicts: readonly Verdict[]
  /** What a reader of the figures should know. */
  readonly notes: readonly string[]
  /** By the name of the file each is written to. */
  readonly figures: Readonly<Record<string, Figure>>
  /** Samples over time, for the document alone. */
  readonly samples: readonly object[]
  /** By the part of the run it was collected in. */
  readonly evidence: Readonly<Record<string, Evidence>>
}

/** What the command line may change of a configuration. */
export interface Wishes {
  readonly minutes: number | null
  readonly rate: number | null
  readonly processes: number | null
  readonly slots: number | null
  /** How many failovers. */
  readonly failovers: number | null
  /** Only with one kind of servers. */
  readonly servers: string | null
  /** Only in one way. */
  readonly way: string | null
}

export interface ExperimentContext<Config> {
  readonly place: Place
  readonly config: Config
  readonly seed: number
  /** Samples of the document that this run adds to. */
  readonly earlier: readonly object[]
}

interface Spec<Config extends object> {
  /** Its question, in one line. */
  readonly about: string
  /** How long the long form takes, about. */
  readonly longTakes: string
  /** The short form: shows in seconds that the experiment works and the promises hold. */
  readonly short: Config
  readonly long: Config
  /** True of one that starts servers of its own; then the place is only there for its version. Default false. */
  readonly hasOwnServers?: boolean
  /** True of one whose long form may be run in pieces, each added to the document of those before. Default false. */
  readonly canAdd?: boolean
  /** What the command line may change. Default: nothing. */
  readonly takes?: readonly (keyof Wishes)[]
  /** Absent where it takes nothing. */
  adjust?(config: Config, wishes: Wishes): Config
  run(context: ExperimentContext<Config>): Promise<ExperimentResult>
}

export interface Experiment {
  readonly about: string
  readonly longTakes: string
  readonly takes: readonly (keyof Wishes)[]
  readonly hasOwnServers: boolean
  readonly canAdd: boolean
  configure(form: Form, wishes: Wishes): Configured
}

type Form = 'short' | 'long'

/** An experiment with its configuration. */
interface Configured {
  readonly config: object
  run(place: Place, seed: number, earlier: readonly object[]): Promise<ExperimentResult>
}

/** An experiment from its parts. The type of its configuration is not visible outside. */
export function defineExperiment<Config extends object>(spec: Spec<Config>): Experiment {
  return {
    about: spec.about,
    longTakes: spec.longTakes,
    takes: spec.takes ?? [],
    hasOwnServers: spec.hasOwnServers === true,
    canAdd: spec.canAdd === true,
    configure(form, wishes) {
      const config = spec.adjust?.(spec[form], wishes) ?? spec[form]
      return { config, run: (place, seed, earlier) => spec.run({ place, config, seed, earlier }) }
    },
  }
}

/** The verdict on something that must be zero. */
export function expectNone(about: string, count: number): Verdict {
  return { kind: 'promise', about, expected: 'none', seen: count === 0 ? 'none' : String(count), holds: count === 0 }
}

/** The verdict on something that must be true. */
export function expectThat(about: string, expected: string, seen: string, holds: boolean): Verdict {
  return { kind: 'promise', about, expected, seen, holds }
}

/** The verdict on a time that should stay below a limit: an aim. */
export function aimBelow(about: string, limitMs: number, seenMs: number | null): Verdict {
  const seen = seenMs === null ? 'nothing measured' : `${seenMs.toFixed(1)} ms`
  return { kind: 'aim', about, expected: `below ${limitMs} ms`, seen, holds: seenMs !== null && seenMs < limitMs }
}

// Holdfast over every other contender, round by round: medians over the rounds don't show the worst of them.

import { CONTENDERS } from './contenders/all.js'
import type { Result } from './run.js'
import { median } from './statistics.js'
import type { Table } from './table.js'

/** Holdfast on each store, and whether it is compared with a contender: on Redis with those on Redis. */
const OURS: Readonly<Record<string, (contender: string) => boolean>> = {
  holdfast: () => true,
  'holdfast-redis': (contender) => CONTENDERS[contender]?.note.store === 'redis',
}

/** One figure of a measure: Holdfast's over another contender's in the same round. */
export interface Ratio {
  readonly measure: string
  readonly figure: 'jobs/s' | 'server µs' | 'p50 ms' | 'p99 ms' | 'waiting B' | 'finished B'
  readonly of: string
  readonly contender: string
  /** Rounds in which both were measured. */
  readonly rounds: number
  readonly least: number
  readonly middle: number
  readonly most: number
}

const FIGURES: Readonly<Record<Ratio['figure'], (result: Result) => number | undefined>> = {
  'jobs/s': ({ jobs, seconds }) => jobs / seconds,
  'server µs': ({ serverCpuUs, jobs }) => serverCpuUs / jobs,
  'p50 ms': ({ p50 }) => p50,
  'p99 ms': ({ p99 }) => p99,
  'waiting B': ({ waitingBytes }) => waitingBytes,
  'finished B': ({ finishedBytes }) => finishedBytes,
}

/** The ratios of every measure, in the order of the results. Of times and bytes, less than 1 means that Holdfast is better. */
export function ratiosOf(results: readonly Result[]): readonly Ratio[] {
  return Object.keys(OURS).flatMap((name) => ratiosFor(name, results))
}

function ratiosFor(name: string, results: readonly Result[]): readonly Ratio[] {
  const ours = results.filter(({ contender }) => contender === name)
  const measures = [...new Set(results.map(({ measure }) => measure))]
  const all = [...new Set(results.map(({ contender }) => contender))]
  const others = all.filter((contender) => contender !== name && OURS[name]!(contender))
  return measures.flatMap((measure) =>
    others.flatMap((contender) => {
      const theirs = results.filter((result) => result.measure === measure && result.contender === contender)
      return figuresOf(measure).flatMap((figure) => {
        const read = FIGURES[figure]
        const values = theirs.flatMap((their) => {
          const our = ours.find((result) => result.measure === measure && result.round === their.round)
          const [one, other] = [our === undefined ? undefined : read(our), read(their)]
          return one === undefined || other === undefined || other === 0 ? [] : [one / other]
        })
        if (values.length === 0) return []
        const range = { least: Math.min(...values), middle: median(values), most: Math.max(...values) }
        return [{ measure, figure, of: name, contender, rounds: values.length, ...range }]
      })
    }),
  )
}

/** How many jobs a second a measure of latency sends is its own choice. */
function figuresOf(measure: string): readonly Ratio['figure'][] {
  if (measure === 'memory') return ['waiting B', 'finished B']
  return measure.startsWith('enqueue to start') ? ['p50 ms', 'p99 ms'] : ['jobs/s', 'server µs', 'p50 ms', 'p99 ms']
}

/** The table for people. */
export function ratioTable(ratios: readonly Ratio[]): Table<Ratio> {
  return {
    columns: [
      { title: 'measure', read: ({ measure }) => measure },
      { title: 'figure', read: ({ figure }) => figure },
      { title: 'of', read: ({ of }) => of },
      { title: 'over', read: ({ contender }) => contender },
      { title: 'rounds', read: ({ rounds }) => rounds },
      { title: 'least', read: ({ least }) => least, digits: 2 },
      { title: 'median', read: ({ middle }) => middle, digits: 2 },
      { title: 'most', read: ({ most }) => most, digits: 2 },
    ],
    rows: ratios,
  }
}

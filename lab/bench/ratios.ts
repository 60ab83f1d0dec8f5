// Holdfast over every other contender, round by round: medians over the rounds don't show the worst of them.

import type { Result } from './run.js'
import { median } from './statistics.js'
import type { Table } from './table.js'

const OURS = 'holdfast'

/** One figure of a measure: Holdfast's over another contender's in the same round. */
export interface Ratio {
  readonly measure: string
  readonly figure: 'jobs/s' | 'p50 ms' | 'p99 ms'
  readonly contender: string
  /** Rounds in which both were measured. */
  readonly rounds: number
  readonly least: number
  readonly middle: number
  readonly most: number
}

const FIGURES: Readonly<Record<Ratio['figure'], (result: Result) => number | undefined>> = {
  'jobs/s': ({ jobs, seconds }) => jobs / seconds,
  'p50 ms': ({ p50 }) => p50,
  'p99 ms': ({ p99 }) => p99,
}

/** The ratios of every measure, in the order of the results. Of times, less than 1 means that Holdfast is faster. */
export function ratiosOf(results: readonly Result[]): readonly Ratio[] {
  const ours = results.filter(({ contender }) => contender === OURS)
  const measures = [...new Set(results.map(({ measure }) => measure))]
  const others = [...new Set(results.map(({ contender }) => contender))].filter((name) => name !== OURS)
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
        return [{ measure, figure, contender, rounds: values.length, ...range }]
      })
    }),
  )
}

/** How many jobs a second a measure of latency sends is its own choice. */
function figuresOf(measure: string): readonly Ratio['figure'][] {
  return measure.startsWith('enqueue to start') ? ['p50 ms', 'p99 ms'] : ['jobs/s', 'p50 ms', 'p99 ms']
}

/** The table for people. */
export function ratioTable(ratios: readonly Ratio[]): Table<Ratio> {
  return {
    columns: [
      { title: 'measure', read: ({ measure }) => measure },
      { title: 'figure', read: ({ figure }) => figure },
      { title: 'Holdfast over', read: ({ contender }) => contender },
      { title: 'rounds', read: ({ rounds }) => rounds },
      { title: 'least', read: ({ least }) => least, digits: 2 },
      { title: 'median', read: ({ middle }) => middle, digits: 2 },
      { title: 'most', read: ({ most }) => most, digits: 2 },
    ],
    rows: ratios,
  }
}

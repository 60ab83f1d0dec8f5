// The four charts of the whole system or of one queue: throughput, depth, age, failures.

import { type ReactNode, useMemo } from 'react'
import { useRights } from '../api/answers.js'
import { useResource } from '../api/resource.js'
import type { AuditPage, SeriesPoint } from '../api/types.js'
import { withQuery } from '../links.js'
import { rateText, shortText } from '../numbers.js'
import { type Observable, useObservable } from '../observable.js'
import { Failed } from '../parts/empty.js'
import { Segments } from '../parts/segments.js'
import { storedChoice } from '../stored.js'
import { durationText } from '../time/format.js'
import { Chart } from './chart.js'
import type { Mark } from './options.js'
import {
  ageLines,
  COUNT_STEPS,
  depthLines,
  failureLines,
  RANGES,
  RATE_STEPS,
  type Range,
  throughputLines,
  timesOf,
} from './shape.js'

const chosenRange: Observable<Range['value']> = storedChoice<Range['value']>('range', ['1h', '15m', '6h', '24h', '3d'])

const RATES = { valueText: (value: number) => `${rateText(value)}/s`, axisText: rateText, steps: RATE_STEPS }
/** Marks on an axis of seconds: whole minutes and hours, not multiples of a hundred seconds. */
const AGE_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800,
]

const age = (value: number) => (value === 0 ? '0s' : durationText(value * 1_000))

export function RangeSwitch(): ReactNode {
  return (
    <Segments label="How far back" choices={RANGES} value={useObservable(chosenRange)} onChange={chosenRange.set} />
  )
}

export function ChartPanel({ queue }: { readonly queue: string | null }): ReactNode {
  const chosen = useObservable(chosenRange)
  const range = RANGES.find(({ value }) => value === chosen) ?? RANGES[1]
  const series = useResource<{ readonly points: readonly SeriesPoint[] }>(
    withQuery('v1/series', { queue, since: range.value, step: range.step }),
    { everyMs: Math.max(10, range.stepS / 2) * 1_000 },
  )
  const points = series.value?.points ?? null
  const charts = useMemo(() => {
    const known = points ?? []
    return {
      times: timesOf(known),
      throughput: throughputLines(known, range.stepS),
      depth: depthLines(known),
      age: ageLines(known),
      failures: failureLines(known, range.stepS),
    }
  }, [points, range])
  const marks = useFailovers()
  if (points === null && series.error !== null) return <Failed error={series.error} onRetry={series.refresh} />
  // Not the name alone: the chart keeps groups in a plain object, which a queue named `constructor` would break.
  const shared = { times: charts.times, group: queue === null ? 'all' : `queue ${queue}`, marks }
  return (
    <div className="charts" aria-busy={points === null}>
      <Chart title="Throughput" lines={charts.throughput} {...RATES} {...shared} />
      <Chart title="Depth" lines={charts.depth} isStacked valueText={shortText} steps={COUNT_STEPS} {...shared} />
      <Chart title="Oldest ready job" lines={charts.age} valueText={age} steps={AGE_STEPS} {...shared} />
      <Chart title="Failures" lines={charts.failures} {...RATES} {...shared} />
    </div>
  )
}

const FAILOVERS_EVERY_MS = 60_000
const FAILOVERS_MAX = 50

/** When the store changed hands: what looks like a gap or a peak there has that reason. */
function useFailovers(): readonly Mark[] {
  const { allQueues } = useRights()
  const path = withQuery('v1/audit', { action: 'timeline_changed', limit: FAILOVERS_MAX })
  const lines = useResource<AuditPage>(allQueues ? path : null, { everyMs: FAILOVERS_EVERY_MS }).value
  return useMemo(
    () =>
      (lines?.entries ?? []).map(({ at, target }) => ({
        at: Date.parse(at) / 1_000,
        label: `timeline ${target ?? ''}`.trim(),
      })),
    [lines],
  )
}

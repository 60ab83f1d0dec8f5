// From the points of a series to the lines of a chart. Pure: the painting is in chart.tsx.

import type { SeriesPoint } from '../api/types.js'
import { DEPTH_STATES } from '../totals.js'

/** One line: its name, the colour it takes from the style sheet, and a value for each point, null where none is known. */
export interface Line {
  readonly label: string
  readonly colour: string
  readonly values: readonly (number | null)[]
}

/** How much of the past is shown, and how finely. A series has at most 500 points. */
export const RANGES = [
  { value: '15m', text: '15m', step: '10s', stepS: 10 },
  { value: '1h', text: '1h', step: '10s', stepS: 10 },
  { value: '6h', text: '6h', step: '1m', stepS: 60 },
  { value: '24h', text: '24h', step: '5m', stepS: 300 },
  { value: '3d', text: '3d', step: '10m', stepS: 600 },
] as const

export type Range = (typeof RANGES)[number]

/** Seconds since 1970, the form the chart takes. */
export function timesOf(points: readonly SeriesPoint[]): readonly number[] {
  return points.map(({ at }) => Date.parse(at) / 1_000)
}

export function throughputLines(points: readonly SeriesPoint[], stepS: number): readonly Line[] {
  const rate = ratesOf(points, stepS)
  return [
    { label: 'succeeded', colour: '--state-succeeded', values: rate('succeeded') },
    { label: 'enqueued', colour: '--state-scheduled', values: rate('enqueued') },
  ]
}

export function failureLines(points: readonly SeriesPoint[], stepS: number): readonly Line[] {
  const rate = ratesOf(points, stepS)
  return [
    { label: 'failed attempts', colour: '--state-retrying', values: rate('failed') },
    { label: 'dead', colour: '--state-dead', values: rate('dead') },
  ]
}

type Counted = 'succeeded' | 'enqueued' | 'failed' | 'dead'

/** The current step has no rate yet: each time it would look as if the rate had dropped to zero. */
function ratesOf(points: readonly SeriesPoint[], stepS: number): (name: Counted) => readonly (number | null)[] {
  return (name) => points.map((point, index) => (index === points.length - 1 ? null : point[name] / stepS))
}

export function depthLines(points: readonly SeriesPoint[]): readonly Line[] {
  return DEPTH_STATES.map((state) => ({
    label: state,
    colour: `--state-${state}`,
    values: points.map(({ depth }) => depth?.[state] ?? null),
  }))
}

export function ageLines(points: readonly SeriesPoint[]): readonly Line[] {
  return [
    { label: 'oldest ready', colour: '--state-ready', values: points.map(({ depth }) => depth?.oldestAgeS ?? null) },
  ]
}

/** Each line on top of those before it; a point unknown in one is unknown in all above. */
export function stackOf(lines: readonly Line[]): readonly (readonly (number | null)[])[] {
  let below: readonly (number | null)[] | null = null
  return lines.map(({ values }) => {
    const under = below
    const sum = values.map((value, index) => {
      const floor = under === null ? 0 : (under[index] ?? null)
      return value === null || floor === null ? null : value + floor
    })
    below = sum
    return sum
  })
}

/** What a stacked chart paints: the lines that are not empty, at their height, the topmost first. Lines of the same height cover each
 *  other, so without this the line of an empty state could cover that of a state with jobs. */
export function layersOf(lines: readonly Line[]): readonly Line[] {
  const heights = stackOf(lines)
  const layers = lines
    .map((line, index) => ({ ...line, values: heights[index]! }))
    .filter((_layer, index) => peakOf(lines[index]!) > 0)
    .reverse()
  // If every line is empty, one of them is drawn at zero, so that the chart is not blank.
  return layers.length > 0 ? layers : lines.slice(0, 1)
}

const POWERS = Array.from({ length: 10 }, (_, power) => 10 ** power)

/** Distances of the marks on an axis of counts: whole, because there are no half jobs and "0, 1, 1" says nothing. */
export const COUNT_STEPS: readonly number[] = POWERS.flatMap((power) => [power, 2 * power, 5 * power])

/** Distances of the marks on an axis of rates: not finer than rates are written. */
export const RATE_STEPS: readonly number[] = [0.1, 0.2, 0.5, ...COUNT_STEPS]

/** The last known value of a line. */
export function latestOf({ values }: Line): number | null {
  return values.findLast((value) => value !== null) ?? null
}

/** The highest value of a line. */
export function peakOf({ values }: Line): number {
  return values.reduce<number>((peak, value) => Math.max(peak, value ?? 0), 0)
}

/** A mark on the time axis: seconds only where the marks are that close, the day where they are far apart. */
export function axisTimeText(atS: number, stepS: number, isUtc: boolean): string {
  const date = new Date(atS * 1_000)
  const [month, day, hour, minute, second] = isUtc
    ? [date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()]
  const two = (value: number) => String(value).padStart(2, '0')
  if (stepS >= 86_400 || (hour === 0 && minute === 0 && stepS >= 3_600)) return `${day} ${MONTHS[month]}`
  return `${two(hour)}:${two(minute)}${stepS < 60 ? `:${two(second)}` : ''}`
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const

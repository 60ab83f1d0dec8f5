// One chart with its title and its legend; the legend shows the values under the cursor, else the latest.

import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import uPlot from 'uplot'
import { useObservable } from '../observable.js'
import { shade } from '../theme.js'
import { timeMode } from '../time/clock.js'
import { absoluteText } from '../time/format.js'
import { type Mark, optionsOf } from './options.js'
import { type Line, latestOf, layersOf, peakOf } from './shape.js'

export interface ChartProps {
  readonly title: string
  /** Seconds since 1970, one for each value of each line. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
  readonly isStacked?: boolean
  readonly valueText: (value: number) => string
  /** Beside the axis; as `valueText` when left out. */
  readonly axisText?: (value: number) => string
  readonly steps?: readonly number[]
  readonly group: string
  /** Lines from top to bottom. Default: none. */
  readonly marks?: readonly Mark[]
}

const NO_MARKS: readonly Mark[] = []
const HEIGHT = 176

export function Chart(props: ChartProps): ReactNode {
  const {
    title,
    times,
    lines,
    isStacked = false,
    valueText,
    axisText = valueText,
    steps = null,
    group,
    marks = NO_MARKS,
  } = props
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const [index, setIndex] = useState<number | null>(null)
  const shown = useMemo(() => lines.filter(({ label }) => !hidden.has(label)), [lines, hidden])
  const at = index === null ? undefined : times[index]
  const toggle = (label: string) => {
    const next = new Set(hidden)
    if (!next.delete(label)) next.add(label)
    // There is nothing to draw without lines, so the last chart stays.
    if (next.size < lines.length) setHidden(next)
  }
  return (
    <section className="surface chart" aria-label={title}>
      <header className="chart-head">
        <h2>{title}</h2>
        <ChartTime at={at} />
        <div className="legend">
          {lines.map((line) => {
            const value = index === null ? latestOf(line) : (line.values[index] ?? null)
            return (
              <button
                key={line.label}
                type="button"
                className="legend-entry"
                aria-pressed={!hidden.has(line.label)}
                title={lines.length > 1 ? `Show or hide ${line.label}` : line.label}
                onClick={() => toggle(line.label)}
              >
                <span className="legend-colour" style={{ backgroundColor: `var(${line.colour})` }} />
                {line.label}
                <span className="legend-value">{value === null ? '–' : valueText(value)}</span>
              </button>
            )
          })}
        </div>
      </header>
      {times.length === 0 ? (
        <div className="chart-empty">No data yet. It appears within ten seconds after a worker starts.</div>
      ) : (
        <Canvas
          label={describe(title, lines, valueText, marks)}
          times={times}
          lines={shown}
          isStacked={isStacked}
          axisText={axisText}
          steps={steps}
          group={group}
          marks={marks}
          onPoint={setIndex}
        />
      )}
    </section>
  )
}

function ChartTime({ at }: { readonly at: number | undefined }): ReactNode {
  const mode = useObservable(timeMode)
  if (at === undefined) return null
  return <span className="chart-time">{absoluteText(at * 1_000, Date.now(), mode === 'utc' ? 'UTC' : null)}</span>
}

/** What the picture says, for those who cannot see it. */
function describe(
  title: string,
  lines: readonly Line[],
  valueText: (value: number) => string,
  marks: readonly Mark[],
): string {
  const facts = lines.map((line) => {
    const latest = latestOf(line)
    return `${line.label} ${latest === null ? 'unknown' : valueText(latest)}, peak ${valueText(peakOf(line))}`
  })
  const marked = marks.map(({ at, label }) => `; ${label} at ${absoluteText(at * 1_000, Date.now(), null)}`)
  return `${title}: ${facts.join('; ')}${marked.join('')}`
}

interface CanvasProps extends Pick<ChartProps, 'times' | 'lines' | 'group'> {
  readonly marks: readonly Mark[]
  readonly label: string
  readonly isStacked: boolean
  readonly axisText: (value: number) => string
  readonly steps: readonly number[] | null
  readonly onPoint: (index: number | null) => void
}

function Canvas({ label, times, lines, isStacked, axisText, steps, group, marks, onPoint }: CanvasProps): ReactNode {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const shownMarks = useRef(marks)
  shownMarks.current = marks
  const currentShade = useObservable(shade)
  const isUtc = useObservable(timeMode) === 'utc'
  const painted = useMemo(() => (isStacked ? layersOf(lines) : lines), [lines, isStacked])
  const rows = useMemo(() => [times, ...painted.map(({ values }) => values)] as uPlot.AlignedData, [times, painted])
  const names = painted.map(({ label }) => label).join()

  // biome-ignore lint/correctness/useExhaustiveDependencies: painted anew for another look, not for other values
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const width = element.clientWidth
    const asked = { axisText, steps, onPoint, marks: () => shownMarks.current }
    const look = { lines: painted, isStacked, isUtc, width, height: HEIGHT, group, ...asked }
    const plot = new uPlot(optionsOf(look), rows, element)
    chart.current = plot
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height: HEIGHT })
    })
    watcher.observe(element)
    return () => {
      watcher.disconnect()
      plot.destroy()
      chart.current = null
    }
  }, [names, currentShade, isUtc, isStacked, group])

  useEffect(() => {
    chart.current?.setData(rows)
  }, [rows])

  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew for other marks
  useEffect(() => {
    // Without the argument it would set the scales anew, from those it does not have yet.
    chart.current?.redraw(false)
  }, [marks])

  return <div className="chart-canvas" ref={place} role="img" aria-label={label} />
}

// Draws figures as SVG: one x axis, one or more panels above each other, lines with points. The picture brings its own
// background, light or dark as its reader prefers, so that it can be read wherever it is shown.

import { type AxisScale, evenScale, linearScale, logScale, showTick } from './plot-axes.js'

export interface Figure {
  readonly title: string
  /** A sentence below the title: what was held the same. */
  readonly subtitle?: string
  readonly x: {
    readonly label: string
    readonly scale: 'linear' | 'log' | 'even'
    /** Where the ticks of a log axis stand. Default: at powers of ten. */
    readonly ticks?: readonly number[]
  }
  /** From top to bottom. */
  readonly panels: readonly Panel[]
  /** Moments or values worth a line from top to bottom. */
  readonly marks?: readonly { readonly x: number; readonly label: string }[]
}

interface Panel {
  /** What is on its y axis, with the unit. */
  readonly label: string
  /** Default 'linear', which begins at 0. */
  readonly scale?: 'linear' | 'log'
  readonly series: readonly Series[]
}

interface Series {
  /** Shown in a legend when a panel has several. */
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

const WIDTH = 760
const LEFT = 64
const RIGHT = 24
const PLOT_WIDTH = WIDTH - LEFT - RIGHT
const HEAD = 58
const HEAD_WITH_SUBTITLE = 76
const PANEL_LABEL = 30
const FOOT = 50
const GAP = 22
// More points than this are a curve, and dots on it would hide it.
const DOTS_MAX = 40

// Colours that people with colour blindness can tell apart, legible on white and on near-black.
const COLOURS = ['#2f81f7', '#db6d28', '#2da44e', '#a371f7', '#d4a72c', '#e5534b']

const STYLE = `
  text { font-family: system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 12px; fill: #59636e }
  .title { font-size: 16px; font-weight: 600; fill: #1f2328 }
  .label { font-weight: 600; fill: #1f2328 }
  .paper { fill: #ffffff }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .axis { stroke: #818b98; stroke-width: 1 }
  .mark { stroke: #818b98; stroke-width: 1; stroke-dasharray: 4 3 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .label { fill: #f0f6fc }
    .paper { fill: #0d1117 }
    .grid { stroke: #2a313c }
    .axis, .mark { stroke: #656c76 }
  }
`

/** The SVG of a figure. Points that are not finite are left out. */
export function drawFigure(figure: Figure): string {
  const panels = figure.panels.map(withFinitePoints)
  const head = figure.subtitle === undefined ? HEAD : HEAD_WITH_SUBTITLE
  const panelHeight = panels.length === 1 ? 250 : panels.length === 2 ? 170 : 120
  const step = PANEL_LABEL + panelHeight + GAP
  const height = head + panels.length * step - GAP + FOOT
  const xs = panels.flatMap(({ series }) => series.flatMap(({ points }) => points.map(([x]) => x)))
  const x = xScale(figure.x, xs)
  const parts = panels.map((panel, index) => {
    const top = head + index * step + PANEL_LABEL
    const isLast = index === panels.length - 1
    return drawPanel(panel, { x, top, height: panelHeight, marks: figure.marks ?? [], isFirst: index === 0, isLast })
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">`,
    `<title>${escapeText(figure.title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="paper" width="${WIDTH}" height="${height}" rx="6"/>`,
    `<text class="title" x="20" y="32">${escapeText(figure.title)}</text>`,
    figure.subtitle === undefined ? '' : `<text x="20" y="52">${escapeText(figure.subtitle)}</text>`,
    ...parts,
    `<text x="${LEFT + PLOT_WIDTH / 2}" y="${height - 14}" text-anchor="middle">${escapeText(figure.x.label)}</text>`,
    '</svg>\n',
  ]
    .filter((part) => part !== '')
    .join('\n')
}

function withFinitePoints(panel: Panel): Panel {
  const series = panel.series.map(({ name, points }) => ({
    name,
    points: points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)),
  }))
  return { ...panel, series }
}

function xScale({ scale, ticks }: Figure['x'], values: readonly number[]): AxisScale {
  if (scale === 'log') return logScale(values, ticks)
  return scale === 'even' ? evenScale(values) : linearScale(values, { fitsEnd: true })
}

interface Frame {
  readonly x: AxisScale
  readonly top: number
  readonly height: number
  readonly marks: NonNullable<Figure['marks']>
  readonly isFirst: boolean
  readonly isLast: boolean
}

function drawPanel(panel: Panel, frame: Frame): string {
  const { x, top, height } = frame
  const values = panel.series.flatMap(({ points }) => points.map(([, value]) => value))
  const y = panel.scale === 'log' ? logScale(values) : linearScale(values)
  const across = (value: number) => round(LEFT + inset(x) + x.place(value) * (PLOT_WIDTH - 2 * inset(x)))
  const up = (value: number) => round(top + height - y.place(value) * height)
  return [
    `<text class="label" x="20" y="${top - 14}">${escapeText(panel.label)}</text>`,
    ...y.ticks.map((tick) => {
      const at = up(tick)
      return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}"/><text x="${LEFT - 8}" y="${at + 4}" text-anchor="end">${showTick(tick)}</text>`
    }),
    `<line class="axis" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${top + height}" y2="${top + height}"/>`,
    ...(frame.isLast ? x.ticks.map((tick) => drawXTick(across(tick), top + height, showTick(tick))) : []),
    ...frame.marks.map(({ x: value, label }) => drawMark(across(value), frame, label)),
    ...panel.series.map(({ points }, index) =>
      drawSeries(
        points.map(([px, py]) => [across(px), up(py)]),
        COLOURS[index % COLOURS.length]!,
      ),
    ),
    ...(panel.series.length > 1 ? [drawLegend(panel.series, top - 14)] : []),
  ].join('\n')
}

// A few chosen values get a margin at the edges; time fills its axis.
function inset({ kind }: AxisScale): number {
  return kind === 'linear' ? 0 : 36
}

function drawXTick(at: number, bottom: number, text: string): string {
  return `<line class="axis" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 5}"/><text x="${at}" y="${bottom + 19}" text-anchor="middle">${text}</text>`
}

function drawMark(at: number, { top, height, isFirst }: Frame, label: string): string {
  const line = `<line class="mark" x1="${at}" x2="${at}" y1="${top}" y2="${top + height}"/>`
  if (!isFirst) return line
  const isRight = at > LEFT + PLOT_WIDTH * 0.75
  const text = `<text x="${isRight ? at - 5 : at + 5}" y="${top + 12}" text-anchor="${isRight ? 'end' : 'start'}">${escapeText(label)}</text>`
  return line + text
}

function drawSeries(points: readonly (readonly [number, number])[], colour: string): string {
  const path = points.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x} ${y}`).join('')
  const line = points.length < 2 ? '' : `<path class="line" stroke="${colour}" d="${path}"/>`
  if (points.length > DOTS_MAX) return line
  return line + points.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="4" fill="${colour}"/>`).join('')
}

/** Names to the right above the panel, each after a dot of its colour. */
function drawLegend(series: readonly Series[], y: number): string {
  let right = WIDTH - RIGHT
  const parts: string[] = []
  for (let index = series.length - 1; index >= 0; index--) {
    const { name } = series[index]!
    // Nothing here can measure text; at 12 px a letter is about this wide.
    const width = name.length * 6 + 16
    right -= width
    const colour = COLOURS[index % COLOURS.length]!
    parts.push(
      `<circle cx="${round(right + 4)}" cy="${y - 4}" r="4" fill="${colour}"/><text x="${round(right + 12)}" y="${y}">${escapeText(name)}</text>`,
    )
    right -= 10
  }
  return parts.join('')
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function escapeText(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

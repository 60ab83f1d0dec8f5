// How our charts look to uPlot: quiet lines, no legend of its own, one cursor for all charts of a group.

import uPlot from 'uplot'
import { colourOf, faded } from './colours.js'
import { axisTimeText, type Line } from './shape.js'

export interface ChartSettings {
  readonly lines: readonly Line[]
  readonly isStacked: boolean
  readonly isUtc: boolean
  readonly width: number
  readonly height: number
  /** Charts of one group move their cursors together. */
  readonly group: string
  /** A value as it is written beside the axis. */
  readonly axisText: (value: number) => string
  /** The distances marks on the axis may have; null leaves them to the chart. */
  readonly steps: readonly number[] | null
  readonly onPoint: (index: number | null) => void
  /** Moments worth a line from top to bottom, asked for at each drawing. */
  readonly marks: () => readonly Mark[]
}

/** A moment in seconds since 1970, and what happened. */
export interface Mark {
  readonly at: number
  readonly label: string
}

const FONT = '11px Inter, ui-sans-serif, system-ui, sans-serif'

export function optionsOf(settings: ChartSettings): uPlot.Options {
  const { lines, isStacked, isUtc, width, height, group, axisText, steps, onPoint, marks } = settings
  const ink = colourOf('--ink-3')
  const grid = { stroke: colourOf('--line'), width: 1 }
  const colours = lines.map(({ colour }) => colourOf(colour))
  return {
    width,
    height,
    padding: [10, 18, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: group, setSeries: false },
      drag: { x: false, y: false, setScale: false },
      y: false,
      points: { size: 7, width: 2, fill: (u, index) => strokeOf(u, index), stroke: () => colourOf('--sheet') },
    },
    scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, topOf(max, steps?.[0] ?? 1)] } },
    axes: [
      {
        stroke: ink,
        font: FONT,
        size: 26,
        gap: 6,
        space: 70,
        grid: { show: false },
        ticks: { show: false },
        values: (_u, splits, _axis, _space, step) => splits.map((at) => axisTimeText(at, step, isUtc)),
      },
      {
        stroke: ink,
        font: FONT,
        // The longest mark is an age, such as "1m 30s".
        size: 54,
        gap: 8,
        space: 34,
        grid,
        ticks: { show: false },
        values: (_u, splits) => splits.map((value) => axisText(value)),
        ...(steps === null ? {} : { incrs: [...steps] }),
      },
    ],
    series: [{}, ...lines.map((_line, index) => seriesOf(colours[index]!, fillOf(index)))],
    // In a stacked chart each layer is filled down to the one below it, and the lowest down to zero.
    bands: isStacked
      ? colours
          .slice(0, -1)
          .map((colour, index) => ({ series: [index + 1, index + 2] as const, fill: faded(colour, 0.28) }))
      : [],
    hooks: { setCursor: [(u) => onPoint(u.cursor.idx ?? null)], draw: [(u) => drawMarks(u, marks())] },
  } as uPlot.Options

  function fillOf(index: number): uPlot.Series['fill'] {
    if (isStacked) return index === lines.length - 1 ? faded(colours[index]!, 0.28) : undefined
    // Where lines may cross, only the first is filled: two fills on top of each other would make a third colour.
    return index === 0 ? fadeDown(colours[index]!) : undefined
  }
}

/** A dashed line with its name at the top, on the side that has room for it. */
function drawMarks(u: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = u
  const ratio = window.devicePixelRatio
  ctx.save()
  ctx.strokeStyle = colourOf('--ink-3')
  ctx.fillStyle = colourOf('--ink-2')
  ctx.lineWidth = ratio
  ctx.font = `${11 * ratio}px Inter, ui-sans-serif, system-ui, sans-serif`
  ctx.textBaseline = 'top'
  for (const { at, label } of marks) {
    // In the middle of a pixel, so that a line one pixel wide is not spread over two.
    const x = Math.floor(u.valToPos(at, 'x', true)) + (ratio % 2) / 2
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.setLineDash([4 * ratio, 3 * ratio])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    const isLeft = x > bbox.left + bbox.width / 2
    ctx.textAlign = isLeft ? 'right' : 'left'
    ctx.fillText(label, x + (isLeft ? -4 : 4) * ratio, bbox.top)
  }
  ctx.restore()
}

function seriesOf(colour: string, fill: uPlot.Series['fill']): uPlot.Series {
  return {
    stroke: colour,
    width: 1.5,
    pxAlign: 0,
    ...(fill === undefined ? {} : { fill }),
    points: { show: false },
    paths: uPlot.paths.linear?.() ?? null,
  } as uPlot.Series
}

function fadeDown(colour: string): (u: uPlot) => CanvasGradient {
  return (u) => {
    const gradient = u.ctx.createLinearGradient(0, u.bbox.top, 0, u.bbox.top + u.bbox.height)
    gradient.addColorStop(0, faded(colour, 0.22))
    gradient.addColorStop(1, faded(colour, 0.02))
    return gradient
  }
}

function strokeOf(u: uPlot, index: number): string {
  const stroke = u.series[index]?.stroke
  return typeof stroke === 'function' ? String(stroke(u, index)) : String(stroke)
}

/** Some space above the highest point. An empty chart still has a scale with a mark on it. */
function topOf(max: number | null, least: number): number {
  return Math.max((max ?? 0) * 1.08, least * 1.08)
}

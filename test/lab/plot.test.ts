// Figures: the places of ticks, and what is drawn.

import { describe, expect, test } from 'vitest'
import { drawFigure, type Figure } from '../../lab/plot.js'
import { evenScale, linearScale, logScale, niceStep, showTick } from '../../lab/plot-axes.js'

describe('a linear axis', () => {
  test('has round ticks from 0 to above the largest value', () => {
    expect(linearScale([31_400, 12_000]).ticks).toEqual([0, 10_000, 20_000, 30_000, 40_000])
    expect(linearScale([0.3]).ticks).toEqual([0, 0.1, 0.2, 0.3])
  })

  test('ends at the largest value where time is on it', () => {
    const { ticks, place } = linearScale([0, 345], { fitsEnd: true })

    expect(ticks).toEqual([0, 100, 200, 300])
    expect(place(345)).toBe(1)
  })

  test('reaches below 0 for values below it', () => {
    expect(linearScale([-3, 10]).ticks).toEqual([-5, 0, 5, 10])
  })

  test.each([[[]], [[0, 0]], [[Number.NaN]]])('of %j has more than one tick and finite places', (values) => {
    const { ticks, place } = linearScale(values)

    expect(ticks.length).toBeGreaterThan(1)
    expect(place(0)).toBe(0)
  })

  test.each([
    [0.7, 1],
    [1, 1],
    [1.1, 2],
    [2.2, 2.5],
    [3, 5],
    [60, 100],
    [0.021, 0.025],
  ])('a step of at least %d is %d', (least, step) => {
    expect(niceStep(least)).toBe(step)
  })
})

describe('a logarithmic axis', () => {
  test('has its ticks at powers of ten, and equal factors are equally far apart', () => {
    const { ticks, place } = logScale([3, 40_000])

    expect(ticks).toEqual([1, 10, 100, 1_000, 10_000, 100_000])
    expect(place(1)).toBe(0)
    expect(place(100_000)).toBe(1)
    expect(place(1_000) - place(100)).toBeCloseTo(place(100) - place(10))
  })

  test('that is short has ticks between the powers', () => {
    expect(logScale([2, 60]).ticks).toEqual([1, 2, 5, 10, 20, 50, 100])
  })

  test('with ticks of its own begins and ends at the values', () => {
    const { ticks, place } = logScale([1_000, 5_000_000], [1_000, 100_000, 5_000_000])

    expect(ticks).toEqual([1_000, 100_000, 5_000_000])
    expect(place(1_000)).toBe(0)
    expect(place(5_000_000)).toBe(1)
  })

  test('puts what is not above 0 at its start', () => {
    expect(logScale([0, 10, 100]).place(0)).toBe(0)
    expect(logScale([]).place(1)).toBe(0)
  })
})

test('an even axis has each value once, at equal distances', () => {
  const { ticks, place } = evenScale([1_000_000, 0, 100_000, 0])

  expect(ticks).toEqual([0, 100_000, 1_000_000])
  expect(ticks.map(place)).toEqual([0, 0.5, 1])
  expect(evenScale([7]).place(7)).toBe(0.5)
})

test.each([
  [0, '0'],
  [0.25, '0.25'],
  [950, '950'],
  [1_500, '1.5k'],
  [100_000, '100k'],
  [5_000_000, '5M'],
  [2.5e9, '2.5G'],
  [-2_000, '-2k'],
  [0.0001, '1e-4'],
])('the tick at %d says %s', (value, text) => {
  expect(showTick(value)).toBe(text)
})

describe('a figure', () => {
  const figure: Figure = {
    title: 'Speed & "cost" <of a claim>',
    x: { label: 'jobs', scale: 'log', ticks: [1_000, 1_000_000] },
    marks: [{ x: 10_000, label: 'here' }],
    panels: [
      {
        label: 'jobs/s',
        series: [
          {
            name: 'one',
            points: [
              [1_000, 5],
              [1_000_000, 6],
            ],
          },
          {
            name: 'two',
            points: [
              [1_000, 7],
              [1_000_000, Number.NaN],
            ],
          },
        ],
      },
      { label: 'ms', series: [{ name: 'only', points: [[1_000, 1]] }] },
    ],
  }

  test('is well-formed: its text is escaped, and nothing in it is not a number', () => {
    const svg = drawFigure(figure)

    expect(svg).toContain('Speed &#38; &#34;cost&#34; &#60;of a claim&#62;')
    expect(svg).not.toMatch(/NaN|undefined|Infinity/)
    expect(svg.match(/<svg/g)).toHaveLength(1)
    expect(svg.trimEnd().endsWith('</svg>')).toBe(true)
  })

  test('has a legend only where a panel has several lines', () => {
    const svg = drawFigure(figure)

    expect(svg).toContain('>one</text>')
    expect(svg).toContain('>two</text>')
    expect(svg).not.toContain('>only</text>')
  })

  test('draws a line for two points and a dot for each, and names a mark once', () => {
    const svg = drawFigure(figure)

    expect(svg.match(/<path class="line"/g)).toHaveLength(1)
    expect(svg.match(/r="4"/g)).toHaveLength(4 + 2)
    expect(svg.match(/>here<\/text>/g)).toHaveLength(1)
  })

  test('of many points is a curve without dots', () => {
    const points = Array.from({ length: 100 }, (_, index) => [index, index] as const)

    const svg = drawFigure({
      title: 'Many',
      x: { label: 's', scale: 'linear' },
      panels: [{ label: 'n', series: [{ name: 'n', points }] }],
    })

    expect(svg).not.toContain('<circle')
  })

  test('without any point is drawn anyway', () => {
    const svg = drawFigure({
      title: 'Nothing',
      x: { label: 's', scale: 'even' },
      panels: [{ label: 'n', series: [{ name: 'n', points: [] }] }],
    })

    expect(svg).not.toMatch(/NaN|Infinity/)
  })
})

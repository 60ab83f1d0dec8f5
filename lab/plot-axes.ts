// The ticks of an axis, their labels, and the position of a value between its ends.

export interface AxisScale {
  readonly kind: 'linear' | 'log' | 'even'
  readonly ticks: readonly number[]
  /** Where a value lies, from 0 at the beginning of the axis to 1 at its end. */
  place(value: number): number
}

const TICKS_WANTED = 5

/** An axis from 0, or from the smallest value where that is below 0, to a round number above the largest. */
export function linearScale(values: readonly number[], options: { readonly fitsEnd?: boolean } = {}): AxisScale {
  const finite = values.filter(Number.isFinite)
  const low = Math.min(0, ...finite)
  const high = Math.max(...finite, low)
  const step = niceStep((high - low || 1) / TICKS_WANTED)
  const from = Math.floor(low / step) * step
  // A time axis ends at the last value; a quantity gets room up to the next round number.
  const to = options.fitsEnd && high > low ? high : Math.max(from + step, Math.ceil(high / step - 1e-9) * step)
  const ticks: number[] = []
  for (let n = 0; from + n * step <= to + step * 1e-6; n++) ticks.push(clean(from + n * step))
  return { kind: 'linear', ticks, place: (value) => (value - from) / (to - from) }
}

/** The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least))
  const factor = [1, 2, 2.5, 5, 10].find((candidate) => candidate * power >= least * (1 - 1e-9))!
  return clean(factor * power)
}

/** An axis on which equal distances are equal factors. Values that are not above 0 are drawn at its start. */
export function logScale(values: readonly number[], ticks?: readonly number[]): AxisScale {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value))
  const low = positive.length === 0 ? 1 : Math.min(...positive)
  const high = positive.length === 0 ? 10 : Math.max(...positive)
  const isGiven = ticks !== undefined
  const from = Math.log10(isGiven ? low : 10 ** Math.floor(Math.log10(low) + 1e-9))
  const end = Math.log10(isGiven ? high : 10 ** Math.ceil(Math.log10(high) - 1e-9))
  const to = end > from ? end : from + 1
  return {
    kind: 'log',
    ticks: ticks ?? decades(from, to),
    place: (value) => (value > 0 ? Math.max(0, (Math.log10(value) - from) / (to - from)) : 0),
  }
}

function decades(from: number, to: number): number[] {
  const ticks: number[] = []
  const isShort = to - from <= 2
  for (let exponent = Math.round(from); exponent <= Math.round(to); exponent++) {
    for (const factor of isShort ? [1, 2, 5] : [1]) {
      const tick = clean(factor * 10 ** exponent)
      if (Math.log10(tick) <= to + 1e-9) ticks.push(tick)
    }
  }
  return ticks
}

/** An axis on which the values stand at equal distances, whatever lies between them; for the few that were chosen, 0 among them. */
export function evenScale(values: readonly number[]): AxisScale {
  const ticks = [...new Set(values)].sort((a, b) => a - b)
  return {
    kind: 'even',
    ticks,
    place: (value) => (ticks.length < 2 ? 0.5 : ticks.indexOf(value) / (ticks.length - 1)),
  }
}

/** A number as it stands at a tick: short, 1,500 as 1.5k, 5000000 as 5M. */
export function showTick(value: number): string {
  const size = Math.abs(value)
  const text = (amount: number) => String(Math.round(amount * 100) / 100)
  if (size >= 1e9) return `${text(value / 1e9)}G`
  if (size >= 1e6) return `${text(value / 1e6)}M`
  if (size >= 1e3) return `${text(value / 1e3)}k`
  if (size >= 0.01 || size === 0) return text(value)
  return value.toExponential(0)
}

/** Without what binary fractions leave behind: 0.30000000000000004 is 0.3. */
function clean(value: number): number {
  return Number(value.toPrecision(12))
}

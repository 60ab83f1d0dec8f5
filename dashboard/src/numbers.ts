// Numbers as people read them at a glance.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

/** 1,234,567 */
export function wholeText(value: number): string {
  return whole.format(value)
}

/** 950, 12.3k, 4.1M: at most four characters and a unit. */
export function shortText(value: number): string {
  const size = Math.abs(value)
  if (size < 10_000) return whole.format(value)
  const [divisor, unit] = size < 999_500 ? [1e3, 'k'] : size < 999_500_000 ? [1e6, 'M'] : [1e9, 'B']
  const scaled = value / divisor
  return `${Math.abs(scaled) < 99.95 ? trimZero(scaled.toFixed(1)) : Math.round(scaled)}${unit}`
}

/** A count that may be an estimate: 1,284 or ~1.2M. */
export function countText(count: number, isExact: boolean): string {
  return isExact ? wholeText(count) : `~${shortText(count)}`
}

/** Per second: 0, 0.3, 12, 1.4k. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0'
  if (Math.abs(perSecond) < 0.05) return '<0.1'
  if (Math.abs(perSecond) < 10) return trimZero(perSecond.toFixed(1))
  return shortText(Math.round(perSecond))
}

/** 1.5 KB, 340 B. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  if (bytes < 1_000_000) return `${trimZero((bytes / 1_000).toFixed(1))} KB`
  return `${trimZero((bytes / 1_000_000).toFixed(1))} MB`
}

/** "1 job", "1,284 jobs". */
export function countOf(count: number, noun: string, isExact: boolean = true): string {
  return `${countText(count, isExact)} ${noun}${count === 1 ? '' : 's'}`
}

/** The share of the whole, from 0 to 1, also when there is no whole. */
export function shareOf(part: number, total: number): number {
  return total <= 0 ? 0 : Math.min(1, Math.max(0, part / total))
}

function trimZero(text: string): string {
  return text.replace(/\.0$/, '')
}

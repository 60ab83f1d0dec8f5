// Durations as they are typed into forms: '250ms', '30s', '5m', '2h', '7d'.

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const

/** The shortest way to write it that loses nothing. */
export function writeDuration(ms: number): string {
  if (ms === 0) return '0s'
  const [unit, size] = UNITS.find(([, candidate]) => ms % candidate === 0) ?? UNITS[4]
  return `${ms / size}${unit}`
}

/** Milliseconds of what was typed, or null when it is not a duration. */
export function readDuration(text: string): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h|d)$/.exec(text.trim())
  if (match === null) return null
  const size = UNITS.find(([unit]) => unit === match[2])?.[1] ?? 1
  return Math.round(Number(match[1]) * size)
}

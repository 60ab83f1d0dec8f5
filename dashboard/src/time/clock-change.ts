// The next clock change of a time zone. A schedule may do something unexpected then.

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** A change of a zone's distance from UTC. */
export interface ClockChange {
  readonly atMs: number
  /** Minutes the clocks are put forward; negative when they are put back. */
  readonly minutes: number
}

/** Minutes a zone is ahead of UTC at a time; 0 for a zone the browser does not know. */
export function offsetMinutes(zone: string, atMs: number): number {
  const format = formatOf(zone)
  if (format === null) return 0
  const name = format.formatToParts(new Date(atMs)).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const match = /GMT([+-])(\d{1,2})(?::(\d{2}))?/.exec(name)
  if (match === null) return 0
  const minutes = Number(match[2]) * 60 + Number(match[3] ?? 0)
  return match[1] === '-' ? -minutes : minutes
}

/** The first change after `fromMs` within `days`, to the minute, or null when the clocks stay as they are. */
export function nextClockChange(zone: string, fromMs: number, days: number): ClockChange | null {
  const before = offsetMinutes(zone, fromMs)
  for (let day = 1; day <= days; day++) {
    const dayEnd = fromMs + day * DAY
    const after = offsetMinutes(zone, dayEnd)
    if (after !== before) return { atMs: findChange(zone, dayEnd - DAY, dayEnd), minutes: after - before }
  }
  return null
}

function findChange(zone: string, fromMs: number, toMs: number): number {
  const before = offsetMinutes(zone, fromMs)
  let low = fromMs
  let high = toMs
  while (high - low > 60_000) {
    const middle = Math.floor((low + high) / 2)
    if (offsetMinutes(zone, middle) === before) low = middle
    else high = middle
  }
  return Math.floor(high / 60_000) * 60_000
}

const formats = new Map<string, Intl.DateTimeFormat | null>()

function formatOf(zone: string): Intl.DateTimeFormat | null {
  const known = formats.get(zone)
  if (known !== undefined) return known
  let format: Intl.DateTimeFormat | null = null
  try {
    format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' })
  } catch {
    // A zone of a newer database than the browser's: without its rules there is nothing to say about it.
  }
  formats.set(zone, format)
  return format
}

// Times and lengths of time as people read them.

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** How times are shown all over the page. */
export type TimeMode = 'relative' | 'local' | 'utc'

/** 840ms, 12s, 4m 05s, 3h 12m, 2d 4h. */
export function durationText(ms: number): string {
  const size = Math.max(0, ms)
  if (size < SECOND) return `${Math.round(size)}ms`
  if (size < 10 * SECOND) return `${trimZero((size / SECOND).toFixed(1))}s`
  if (size < MINUTE) return `${Math.floor(size / SECOND)}s`
  if (size < HOUR) return pair(size, MINUTE, 'm', SECOND, 's')
  if (size < DAY) return pair(size, HOUR, 'h', MINUTE, 'm')
  return pair(size, DAY, 'd', HOUR, 'h')
}

function pair(size: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const count = Math.floor(size / large)
  const rest = Math.floor((size % large) / small)
  return rest === 0 ? `${count}${largeUnit}` : `${count}${largeUnit} ${rest}${smallUnit}`
}

/** "12s ago", "in 4m", "now". Coarse on purpose: it is read at a glance and must not flicker. */
export function relativeText(atMs: number, nowMs: number): string {
  const distance = atMs - nowMs
  const size = Math.abs(distance)
  if (size < 1_500) return 'now'
  const text = coarse(size)
  return distance < 0 ? `${text} ago` : `in ${text}`
}

function coarse(size: number): string {
  if (size < MINUTE) return `${Math.floor(size / SECOND)}s`
  if (size < HOUR) return `${Math.floor(size / MINUTE)}m`
  if (size < 2 * DAY) return `${Math.floor(size / HOUR)}h`
  if (size < 60 * DAY) return `${Math.floor(size / DAY)}d`
  if (size < 730 * DAY) return `${Math.floor(size / (30.44 * DAY))}mo`
  return `${Math.floor(size / (365.25 * DAY))}y`
}

/** "14:03:22" today, "12 Nov 14:03:22" this year, "12 Nov 2024 14:03" otherwise, in a zone (null: the reader's own). */
export function absoluteText(atMs: number, nowMs: number, zone: string | null): string {
  const at = partsIn(atMs, zone)
  const now = partsIn(nowMs, zone)
  const clock = `${at.hour}:${at.minute}:${at.second}`
  if (at.year === now.year && at.month === now.month && at.day === now.day) return clock
  if (at.year === now.year) return `${at.day} ${at.month} ${clock}`
  return `${at.day} ${at.month} ${at.year} ${at.hour}:${at.minute}`
}

/** The whole time with its zone, for titles: "Sat 12 Nov 2025, 14:03:22.118 GMT+1". */
export function fullText(atMs: number, zone: string | null): string {
  const { weekday, day, month, year, hour, minute, second, name } = partsIn(atMs, zone)
  const ms = String(((atMs % SECOND) + SECOND) % SECOND).padStart(3, '0')
  return `${weekday} ${day} ${month} ${year}, ${hour}:${minute}:${second}.${ms} ${name}`
}

/** A run of a schedule: "Sun 16 Nov, 09:00" and, when its seconds matter, ":30". */
export function runText(atMs: number, zone: string | null): string {
  const { weekday, day, month, hour, minute, second } = partsIn(atMs, zone)
  return `${weekday} ${day} ${month}, ${hour}:${minute}${second === '00' ? '' : `:${second}`}`
}

interface Parts {
  readonly weekday: string
  readonly year: string
  readonly month: string
  readonly day: string
  readonly hour: string
  readonly minute: string
  readonly second: string
  readonly name: string
}

const formats = new Map<string, Intl.DateTimeFormat>()

function partsIn(atMs: number, zone: string | null): Parts {
  const parts = Object.fromEntries(
    formatOf(zone)
      .formatToParts(new Date(atMs))
      .map(({ type, value }) => [type, value]),
  )
  const { weekday = '', year = '', month = '', day = '', hour = '', minute = '', second = '' } = parts
  return { weekday, year, month, day, hour, minute, second, name: parts.timeZoneName ?? '' }
}

function formatOf(zone: string | null): Intl.DateTimeFormat {
  const key = zone ?? ''
  const known = formats.get(key)
  if (known !== undefined) return known
  const format = new Intl.DateTimeFormat('en-GB', {
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'short',
    ...(zone === null ? {} : { timeZone: zone }),
  })
  // Zones come from schedules, whose number is bounded by the store; names that repeat are made once.
  formats.set(key, format)
  return format
}

function trimZero(text: string): string {
  return text.replace(/\.0$/, '')
}

// Times and durations for people.

/** A duration in the unit that keeps it short: 12 ms, 1.4 s, 3 min, 2.5 h, 4 d. */
export function spanText(ms: number): string {
  if (ms < 1) return 'under 1 ms'
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 120_000) return `${short(ms / 1_000)} s`
  if (ms < 7_200_000) return `${short(ms / 60_000)} min`
  if (ms < 172_800_000) return `${short(ms / 3_600_000)} h`
  return `${short(ms / 86_400_000)} d`
}

function short(value: number): string {
  return String(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))
}

/** The local time of day: 19:30:12. */
export function clockText(date: Date): string {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':')
}

/** A time in a table: relative for people, absolute for programs. */
export function whenText(date: Date | null, { isShort }: { readonly isShort: boolean }): string {
  if (date === null) return '-'
  if (!isShort) return date.toISOString()
  const ms = date.getTime() - Date.now()
  if (Math.abs(ms) < 1_000) return 'now'
  return ms > 0 ? `in ${spanText(ms)}` : `${spanText(-ms)} ago`
}

/** A time for people: absolute and relative. */
export function momentText(date: Date, nowMs: number = Date.now()): string {
  const ms = date.getTime() - nowMs
  if (Math.abs(ms) < 1) return `${date.toISOString()}  (now)`
  return `${date.toISOString()}  (${ms > 0 ? `in ${spanText(ms)}` : `${spanText(-ms)} ago`})`
}

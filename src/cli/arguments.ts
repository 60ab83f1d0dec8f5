// Reading what was typed into the values the library takes. What cannot be read is a mistake in usage, told at once.

import { InvalidArgumentError } from 'commander'
import { type Duration, durationMs } from '../core/duration.js'

/** A whole number; the library checks its bounds. */
export function wholeNumber(text: string): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}

/** A duration such as 250ms, 30s, 5m; a bare number is milliseconds. */
export function duration(text: string): Duration {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : text
  try {
    return durationMs(value, { name: 'it' })
  } catch {
    throw new InvalidArgumentError('It must be a duration such as 250ms, 30s, 5m, 2h, 7d, or a number of milliseconds.')
  }
}

const POLL_MS_MIN = 250
const POLL_MS_MAX = 3_600_000

/** How often to look: a duration that neither floods the store nor sleeps for ever. */
export function pollEvery(text: string): Duration {
  const ms = Number(duration(text))
  if (ms >= POLL_MS_MIN && ms <= POLL_MS_MAX) return ms
  throw new InvalidArgumentError('It must be from 250ms to 1h.')
}

/** A duration, or `unlimited` as null. */
export function durationOrUnlimited(text: string): Duration | null {
  return text === 'unlimited' ? null : duration(text)
}

/** Names separated by commas. */
export function names(text: string): readonly string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/** Collects an option that may be given several times. */
export function gather(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text]
}

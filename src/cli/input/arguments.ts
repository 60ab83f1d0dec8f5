// Reads typed arguments into the values the library takes. A value that cannot be read is a usage error.

import { InvalidArgumentError, Option } from 'commander'
import { type Duration, durationMs } from '../../core/duration.js'

/** A whole number. The library checks its range. */
export function wholeNumber(text: string): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}

/** A duration such as 250ms, 30s, 5m. A bare number is milliseconds. */
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

/** --every: how often to poll, with limits so that it neither loads the store nor seems to hang. */
export function everyOption(): Option {
  return new Option('--every <duration>', 'how often to poll the store, 250ms to 1h')
    .default(1_000, '1s')
    .argParser((text) => {
      const ms = Number(duration(text))
      if (ms >= POLL_MS_MIN && ms <= POLL_MS_MAX) return ms
      throw new InvalidArgumentError('It must be from 250ms to 1h.')
    })
}

/** What means no limit. Not null, which commander replaces with an empty text when a parser returns it. */
const UNLIMITED = 'unlimited'
export type DurationOrUnlimited = Duration | typeof UNLIMITED

/** A duration, or `unlimited`. */
export function durationOrUnlimited(text: string): DurationOrUnlimited {
  return text === UNLIMITED ? UNLIMITED : duration(text)
}

/** The same as the library takes it: null for no limit, undefined for an option that was not given. */
export function limitOf<Given extends DurationOrUnlimited | undefined>(
  given: Given,
): Exclude<Given, 'unlimited'> | null {
  return given === UNLIMITED ? null : (given as Exclude<Given, 'unlimited'>)
}

/** Names separated by commas. */
export function names(text: string): readonly string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/** Collects an option that may be given several times. */
export function collect(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text]
}

/** Names of an option that may be given several times, each with commas. */
export function collectNames(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, ...names(text)]
}
